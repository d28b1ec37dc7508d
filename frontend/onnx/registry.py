"""The ONNX front end's converter table and the context its converters work in.

A value of the graph is an atom (a tensor), or a *shape value*: a tuple of dim expressions that
stands for an int64 tensor made of sizes (Shape, Gather of it, Concat of those ...). Shape values
are computed here, so that a Reshape to ``Concat(Shape(x)[0], [784])`` keeps its symbolic dim; small
int64 constants join them where a converter asks for sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from ...graphir.builder import BlockBuilder, call_op
from ...graphir.expr import Atom, Constant, ShapeExpr, Var, constant
from ...graphir.literal import readable
from ...graphir.op import type_of
from ...graphir.type import ShapeType, TensorType
from ...support.dtype import DType
from ...support.errors import FrontendError
from ...tensorir.expr import Expr, IntImm, as_expr
from ..registry import ConverterRegistry

REGISTRY = ConverterRegistry("onnx")
converts = REGISTRY.converts

DTYPES: dict[int, DType] = {
    TensorProto.DOUBLE: DType("float64"),
    TensorProto.FLOAT: DType("float32"),
    TensorProto.FLOAT16: DType("float16"),
    TensorProto.BFLOAT16: DType("bfloat16"),
    TensorProto.INT64: DType("int64"),
    TensorProto.INT32: DType("int32"),
    TensorProto.INT16: DType("int16"),
    TensorProto.INT8: DType("int8"),
    TensorProto.UINT64: DType("uint64"),
    TensorProto.UINT32: DType("uint32"),
    TensorProto.UINT16: DType("uint16"),
    TensorProto.UINT8: DType("uint8"),
    TensorProto.BOOL: DType("bool"),
}
MOST_SIZES = 64
"""An int64 constant with more elements than this is data, never a list of sizes."""


@dataclass(frozen=True)
class ShapeValue:
    """An int64 tensor made of sizes: a vector of dims, or one dim where ``scalar``."""

    dims: tuple[Expr, ...]
    scalar: bool = False


Value: TypeAlias = Atom | ShapeValue


def node_name(node: NodeProto) -> str:
    """How errors name a node."""
    if node.name:
        return f"node {node.name!r} ({node.op_type})"
    made = next((o for o in node.output if o), "nothing")
    return f"the {node.op_type} that makes {made!r}"


def import_dtype(kind: int, where: str) -> DType:
    """The dtype of ours; raises FrontendError for strings, complex, 8-bit float and 4-bit ones."""
    try:
        return DTYPES[kind]
    except KeyError:
        known = TensorProto.DataType.values()
        name = TensorProto.DataType.Name(kind) if kind in known else f"number {kind}"
        raise FrontendError(
            f"{where}: dtype {name} cannot be imported; known are {', '.join(DTYPES.values())}."
        ) from None


def values_of(tensor: TensorProto, where: str, base_dir: str = "") -> tuple[np.ndarray, DType]:
    """The values of an initializer or attribute tensor (bfloat16 as bits) and their dtype; external
    data is read from ``base_dir`` only.

    Raises FrontendError for unknown dtypes, and data that is missing, outside, or of a wrong size.
    """
    dtype = import_dtype(tensor.data_type, where)
    if tensor.data_location == TensorProto.EXTERNAL:
        _check_external(tensor, where, base_dir)
    try:
        array = np.asarray(numpy_helper.to_array(tensor, base_dir))
    except Exception as error:  # ValueError, OSError, and what onnx's own checks raise
        raise FrontendError(f"{where}: the tensor's data cannot be read: {error}") from error
    if dtype != "bfloat16":
        return array, dtype
    if array.dtype.itemsize == 4:  # onnx before 1.17 widens bfloat16 to float32
        return (array.view(np.uint32) >> 16).astype(np.uint16), dtype
    return array.view(np.uint16), dtype


def _check_external(tensor: TensorProto, where: str, base_dir: str) -> None:
    """External data must lie inside the model's folder, symbolic links resolved."""
    if not base_dir:
        raise FrontendError(
            f"{where} keeps its data in another file; pass the model's path instead of its "
            "contents."
        )
    location = next((e.value for e in tensor.external_data if e.key == "location"), "")
    folder = Path(base_dir).resolve()
    path = (folder / location).resolve()
    if not path.is_relative_to(folder):
        raise FrontendError(
            f"{where}: its data file {location!r} lies outside of the model's folder, where "
            "burnish does not read. Save the model with its data beside it."
        )
    if not path.is_file():
        raise FrontendError(f"{where}: its data file {location!r} is missing in {folder}.")


class Context:
    """Values of the graph by name, and the builder operators are emitted with."""

    def __init__(self, builder: BlockBuilder, opset: int, base_dir: str = "") -> None:
        self.builder = builder
        self.opset = opset
        self.base_dir = base_dir
        self.values: dict[str, Value] = {}
        self.used: frozenset[str] = frozenset()
        """Names that some node or output of the graph reads."""

    # -- operands -----------------------------------------------------------------------------
    def lookup(self, name: str, reader: str) -> Value:
        """The value called ``name``; FrontendError where no node before made it."""
        try:
            return self.values[name]
        except KeyError:
            raise FrontendError(
                f"{reader} reads {name!r}, which is no input, no initializer and no result of a "
                "node before it."
            ) from None

    def raw(self, node: NodeProto, index: int) -> Value | None:
        """One input, or None where it is absent."""
        if index >= len(node.input) or not node.input[index]:
            return None
        return self.lookup(node.input[index], node_name(node))

    def inputs(self, node: NodeProto) -> list[Value]:
        """The inputs of a variadic node."""
        return [self.lookup(name, node_name(node)) for name in node.input if name]

    def required(self, node: NodeProto, index: int) -> Value:
        """An input that must be there."""
        value = self.raw(node, index)
        if value is None:
            raise FrontendError(f"{node_name(node)}: input {index} is missing.")
        return value

    def operand(self, node: NodeProto, index: int) -> Atom:
        """A tensor operand that must be there; static shape values become constants."""
        return self.tensor(self.required(node, index), node_name(node))

    def tensor(self, value: Value, where: str) -> Atom:
        """A value as a tensor; FrontendError for sizes that are symbolic."""
        if not isinstance(value, ShapeValue):
            return value
        sizes = [d.value for d in value.dims if isinstance(d, IntImm)]
        if len(sizes) != len(value.dims):
            raise FrontendError(
                f"{where}: a symbolic size is used as tensor data, which cannot be imported; make "
                "the dim static, or pass the number as an input."
            )
        return constant(np.array(sizes[0] if value.scalar else sizes, np.int64))

    def sizes(self, value: Value | None) -> ShapeValue | None:
        """A value as sizes where it can be: a shape value, or a small int64 constant of rank 0 or
        1."""
        if isinstance(value, ShapeValue):
            return value
        if not isinstance(value, Constant) or value.type.dtype != "int64":
            return None
        if len(value.shape) > 1 or math.prod(value.shape) > MOST_SIZES:
            return None
        return self.known_sizes(value)

    def known_sizes(self, value: Constant) -> ShapeValue:
        """A constant of integers as sizes."""
        dims = tuple([IntImm(int(v)) for v in self.array(value).reshape(-1)])
        return ShapeValue(dims, not value.shape)

    def all_sizes(self, values: Sequence[Value | None]) -> list[ShapeValue] | None:
        """All values as sizes, or None where one is data."""
        found = [self.sizes(v) for v in values]
        known = [s for s in found if s is not None]
        return known if found and len(known) == len(found) else None

    def shape_value(self, node: NodeProto, index: int) -> ShapeValue:
        """An input that must be sizes."""
        value = self.required(node, index)
        found = self.sizes(value)
        if found is None and isinstance(value, Constant) and value.type.dtype.is_integer:
            found = self.known_sizes(value)
        if found is None:
            raise FrontendError(
                f"{node_name(node)}: input {index} ({node.input[index]!r}) is a shape computed "
                "from data, which cannot be compiled."
            )
        return found

    def ints(self, node: NodeProto, index: int) -> list[int] | None:
        """An input that must be a constant list of integers (axes, starts ...); None where
        absent."""
        if self.raw(node, index) is None:
            return None
        dims = self.shape_value(node, index).dims
        sizes = [d.value for d in dims if isinstance(d, IntImm)]
        if len(sizes) != len(dims):
            raise FrontendError(
                f"{node_name(node)}: input {index} ({node.input[index]!r}) must be constant, and "
                "depends on a symbolic size."
            )
        return sizes

    def number(self, node: NodeProto, index: int) -> float | int | bool | None:
        """An input that must be a constant scalar; None where absent."""
        value = self.raw(node, index)
        if value is None:
            return None
        value = self.tensor(value, node_name(node))
        if not isinstance(value, Constant) or math.prod(value.shape) != 1:
            raise FrontendError(
                f"{node_name(node)}: input {index} ({node.input[index]!r}) must be a constant "
                "scalar."
            )
        return readable(self.array(value), value.type.dtype).item()  # type: ignore[no-any-return]

    def array(self, constant: Constant) -> np.ndarray:
        """The values of a constant (bfloat16 as uint16)."""
        return self.builder.weights.array(constant)

    def type(self, atom: Atom) -> TensorType:
        kind = type_of(atom)
        assert isinstance(kind, TensorType)
        return kind

    def only_first(self, node: NodeProto) -> None:
        """Raise where a result other than the first is read by somebody."""
        for name in node.output[1:]:
            if name and name in self.used:
                raise FrontendError(
                    f"{node_name(node)}: its result {name!r} is used, which cannot be imported."
                )

    # -- results ------------------------------------------------------------------------------
    def op(self, name: str, *args: Atom, **attrs: Any) -> Var:
        """Emit an operator call."""
        return self.builder.emit(call_op(name, *args, **attrs))

    def cast(self, atom: Atom, dtype: DType) -> Atom:
        """The value in another dtype; itself where it has it."""
        return atom if self.type(atom).dtype is dtype else self.op("astype", atom, dtype=str(dtype))

    def shape(self, dims: Sequence[Expr | int]) -> ShapeExpr:
        values = tuple([as_expr(d) for d in dims])
        return ShapeExpr(values, ShapeType(values))

    def reshape(self, x: Atom, dims: Sequence[Expr | int]) -> Var:
        """``x`` under another shape; a dim of -1 is resolved here."""
        kind = type_of(call_op("reshape", x, self.shape(dims)))
        assert isinstance(kind, TensorType)
        return self.op("reshape", x, self.shape(kind.shape))

    def scalar(self, value: float, dtype: DType) -> Atom:
        """A number as a scalar of ``dtype``."""
        if dtype == "bfloat16":
            return self.cast(constant(value, "float32"), dtype)
        return constant(value, dtype)


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """A node's attribute as a Python value (strings decoded), or ``default``."""
    for a in node.attribute:
        if a.name == name:
            value = helper.get_attribute_value(a)
            return value.decode() if isinstance(value, bytes) else value
    return default


__all__ = ["REGISTRY", "Context", "ShapeValue", "Value", "attribute", "converts"]

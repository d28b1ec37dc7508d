"""The ONNX front end's converter table and the context its converters work in.

A value of the graph is an atom (a tensor), or a *shape value*: a tuple of dim expressions that stands
for an int64 tensor made of sizes (Shape, Gather of it, Concat of those ...). Shape values are computed
here, so that a Reshape to ``Concat(Shape(x)[0], [784])`` keeps its symbolic dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from ...graphir.builder import BlockBuilder, call_op
from ...graphir.expr import Atom, Constant, ShapeExpr, Var, constant
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


@dataclass(frozen=True)
class ShapeValue:
    """An int64 tensor made of sizes: a vector of dims, or one dim where ``scalar``."""

    dims: tuple[Expr, ...]
    scalar: bool = False


Value: TypeAlias = Atom | ShapeValue


def node_name(node: NodeProto) -> str:
    """How errors name a node."""
    return f"node {node.name!r} ({node.op_type})" if node.name else f"the {node.op_type} that makes {node.output[0]!r}"


def import_dtype(kind: int, where: str) -> DType:
    """The dtype of ours; raises FrontendError for strings, complex and others."""
    try:
        return DTYPES[kind]
    except KeyError:
        name = TensorProto.DataType.Name(kind)
        raise FrontendError(f"{where}: dtype {name} cannot be imported; known are {', '.join(DTYPES.values())}.") from None


def tensor_constant(tensor: TensorProto, where: str, base_dir: str = "") -> Constant:
    """An initializer or attribute tensor as a constant."""
    dtype = import_dtype(tensor.data_type, where)
    try:
        array = numpy_helper.to_array(tensor, base_dir)
    except (ValueError, TypeError, OSError, onnx.checker.ValidationError) as error:
        raise FrontendError(f"{where}: the tensor's data cannot be read: {error}") from error
    if dtype == "bfloat16":
        return constant(np.asarray(array).view(np.uint16), "bfloat16")
    return constant(array, dtype)


class Context:
    """Values of the graph by name, and the builder operators are emitted with."""

    def __init__(self, builder: BlockBuilder, opset: int) -> None:
        self.builder = builder
        self.opset = opset
        self.values: dict[str, Value] = {}
        self.base_dir = ""

    # -- operands -----------------------------------------------------------------------------------
    def inputs(self, node: NodeProto) -> list[Value | None]:
        """A node's inputs; None for optional ones left out."""
        return [self.values[name] if name else None for name in node.input]

    def raw(self, node: NodeProto, index: int) -> Value | None:
        """One input, or None where it is absent."""
        return self.values[node.input[index]] if index < len(node.input) and node.input[index] else None

    def operand(self, node: NodeProto, index: int) -> Atom:
        """A tensor operand that must be there; static shape values become constants."""
        value = self.raw(node, index)
        if value is None:
            raise FrontendError(f"{node_name(node)}: input {index} is missing.")
        return self.tensor(value, node)

    def tensor(self, value: Value, node: NodeProto) -> Atom:
        """A value as a tensor; FrontendError for sizes that are symbolic."""
        if not isinstance(value, ShapeValue):
            return value
        sizes = [d.value for d in value.dims if isinstance(d, IntImm)]
        if len(sizes) != len(value.dims):
            raise FrontendError(
                f"{node_name(node)}: a symbolic size is used as tensor data; make the dim static, or pass it as an input."
            )
        return constant(np.array(sizes[0] if value.scalar else sizes, np.int64))

    def shape_value(self, value: Value | None, node: NodeProto) -> ShapeValue:
        """A value as sizes: a shape value, or a constant integer tensor."""
        if isinstance(value, ShapeValue):
            return value
        if isinstance(value, Constant) and value.type.dtype.is_integer and value.data.ndim <= 1:
            dims = tuple([as_expr(int(v)) for v in value.data.reshape(-1)])
            return ShapeValue(dims, value.data.ndim == 0)
        raise FrontendError(f"{node_name(node)}: the shape is computed from data, which cannot be compiled.")

    def ints(self, node: NodeProto, index: int) -> list[int] | None:
        """An input that must be a constant list of integers (axes, starts ...)."""
        value = self.raw(node, index)
        if value is None:
            return None
        dims = self.shape_value(value, node).dims
        sizes = [d.value for d in dims if isinstance(d, IntImm)]
        if len(sizes) != len(dims):
            raise FrontendError(f"{node_name(node)}: input {index} ({node.input[index]!r}) must be constant.")
        return sizes

    def number(self, node: NodeProto, index: int) -> float | None:
        """An input that must be a constant scalar."""
        value = self.raw(node, index)
        if value is None:
            return None
        if not isinstance(value, Constant) or value.data.size != 1:
            raise FrontendError(f"{node_name(node)}: input {index} ({node.input[index]!r}) must be a constant scalar.")
        return float(value.data.reshape(()))

    def type(self, atom: Atom) -> TensorType:
        kind = type_of(atom)
        assert isinstance(kind, TensorType)
        return kind

    # -- results --------------------------------------------------------------------------------------
    def op(self, name: str, *args: Atom, **attrs: Any) -> Var:
        return self.builder.emit(call_op(name, *args, **attrs))

    def shape(self, dims: Sequence[Expr | int]) -> ShapeExpr:
        values = tuple([as_expr(d) for d in dims])
        return ShapeExpr(values, ShapeType(values))

    def reshape(self, x: Atom, dims: Sequence[Expr | int]) -> Var:
        return self.op("reshape", x, self.shape(dims))

    def scalar(self, value: float, dtype: DType) -> Atom:
        return constant(value, dtype)


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """A node's attribute as a Python value (strings decoded), or ``default``."""
    for a in node.attribute:
        if a.name == name:
            value = helper.get_attribute_value(a)
            return value.decode() if isinstance(value, bytes) else value
    return default

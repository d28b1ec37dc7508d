"""The ONNX front end's converter table and the context its converters work in.

A value of the graph is an atom (a tensor), or a *shape value*: a tuple of dim expressions that
stands for an int64 tensor made of sizes (Shape, Gather of it, Concat of those ...). Shape values
are computed here, so that a Reshape to ``Concat(Shape(x)[0], [784])`` keeps its symbolic dim; small
int64 constants join them where a converter asks for sizes. A sequence is a list of values, an
absent optional is ``None``, and a tensor of numbers narrower than ours is ``Narrow``.

What a converter must know, and what is data, it *asks* for: ``Context.known``.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import FunctionProto, NodeProto, SparseTensorProto, TensorProto, helper, numpy_helper

from ...graphir.builder import BlockBuilder, call_op
from ...graphir.dim import KnownDims, fold_dim, is_nonnegative, static_shape
from ...graphir.expr import (
    Atom,
    Call,
    Constant,
    Function,
    ShapeExpr,
    TupleGetItem,
    Var,
    constant,
)
from ...graphir.op import tensor_type_of, type_of
from ...graphir.text.literal import readable
from ...graphir.type import TensorType
from ...graphir.value_numbers import ValueNumbers
from ...support.dtype import DType
from ...support.errors import FrontendError, TypeInferenceError
from ...support.node import walk
from ...support.writer import NameTable
from ...tensorir.expr import BinaryOp, Expr, IntImm, as_expr, maximum
from ...tensorir.expr import Var as DimVar
from .. import sizes_as_data
from ..imported import LOOK_UPS
from ..registry import ConverterRegistry
from .narrow import NARROW, NarrowKind, to_stored

if TYPE_CHECKING:
    from .fallback import Fallback

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
DEEPEST = 32
"""Graphs and functions inside of one another; more is a damaged model."""
MOST_ELEMENTS = 1 << 28
"""Of a constant that does not stand in the file element by element."""
MOST_RESULTS = 1 << 38
"""Elements of a tensor; more is refused before anything of it is made."""
MOST_SIZES = 64
"""An int64 constant with more elements than this is data, never a list of sizes."""


@dataclass(frozen=True)
class ShapeValue:
    """An int64 tensor made of sizes: a vector of dims, or one dim where ``scalar``."""

    dims: tuple[Expr, ...]
    scalar: bool = False


@dataclass(frozen=True)
class Narrow:
    """A tensor of a dtype that is none of ours, in memory of one that is (``narrow.py``)."""

    stored: Atom
    number: int
    """Of the dtype in ONNX."""

    @property
    def kind(self) -> NarrowKind:
        return NARROW[self.number]


Align: TypeAlias = "Callable[[Context, str, Sequence[Atom], TypeInferenceError], list[Atom] | None]"
Value: TypeAlias = "Atom | ShapeValue | Narrow | list[Value] | None"


class NeedsValueError(Exception):
    """The import stops here: it cannot go on without the value of ``atom``. Never leaves it."""

    def __init__(self, atom: Atom, reason: str) -> None:
        super().__init__(reason)
        self.atom = atom
        self.reason = reason


def parts_array(parts: Sequence[object]) -> np.ndarray:
    """A vector of parts."""
    array = np.empty(len(parts), object)
    array[:] = parts
    return array


def node_name(node: NodeProto) -> str:
    """How errors name a node."""
    if node.name:
        return f"node {node.name!r} ({node.op_type})"
    made = next((o for o in node.output if o), "nothing")
    return f"the {node.op_type} that makes {made!r}"


def import_dtype(kind: int, where: str) -> DType:
    """The dtype of ours; raises FrontendError for strings and complex numbers. Narrow dtypes have
    the one they are stored in."""
    try:
        return NARROW[kind].stored if kind in NARROW else DTYPES[kind]
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
        path = _check_external(tensor, where, base_dir)
        if tensor.data_type not in NARROW:
            return _mapped(tensor, dtype, path, where), dtype
    try:
        array = np.asarray(numpy_helper.to_array(tensor, base_dir))
    except Exception as error:  # ValueError, OSError, and what onnx's own checks raise
        raise FrontendError(f"{where}: the tensor's data cannot be read: {error}") from error
    if tensor.data_type in NARROW:
        return to_stored(array), dtype
    if dtype != "bfloat16":
        return array, dtype
    if array.dtype.itemsize == 4:  # onnx before 1.17 widens bfloat16 to float32
        return (array.view(np.uint32) >> 16).astype(np.uint16), dtype
    return array.view(np.uint16), dtype


def densified(sparse: SparseTensorProto, where: str) -> tuple[np.ndarray, DType]:
    """A sparse tensor with its zeros. Raises FrontendError for indices outside, and for more
    elements than a constant may have."""
    values, dtype = values_of(sparse.values, where)
    indices, _ = values_of(sparse.indices, where)
    shape = tuple(sparse.dims)
    if math.prod(shape) > MOST_ELEMENTS:
        raise FrontendError(f"{where}: a sparse tensor of shape {shape} is too large.")
    dense = np.zeros(math.prod(shape), values.dtype)
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
    dense[flat] = values
    return dense.reshape(shape), dtype


def _check_external(tensor: TensorProto, where: str, base_dir: str) -> Path:
    """The file of external data, which must lie inside the model's folder, symbolic links
    resolved."""
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
    return path


def _mapped(tensor: TensorProto, dtype: DType, path: Path, where: str) -> np.ndarray:
    """A part of a file as an array, which is not read before somebody reads it."""
    entries = {e.key: e.value for e in tensor.external_data}
    shape = tuple(tensor.dims)
    held = np.dtype("uint16" if dtype == "bfloat16" else str(dtype))
    size = math.prod(shape) * held.itemsize
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
    except ValueError as error:
        raise FrontendError(f"{where}: the place of its data is no number: {error}.") from error
    room = path.stat().st_size - offset
    if min((*shape, offset)) < 0 or length != size or size > room:
        raise FrontendError(
            f"{where}: the tensor's data cannot be read: {shape} {dtype} takes {size} bytes; its "
            f"file states {length}, and has {room} from {offset} on."
        )
    if not size:
        return np.zeros(shape, held)
    return np.memmap(path, held, "r", offset, shape)


class Context:
    """Values of the graph by name, and the builder operators are emitted with."""

    def __init__(
        self,
        builder: BlockBuilder,
        opsets: Mapping[str, int],
        base_dir: str = "",
        functions: Mapping[tuple[str, str, str], FunctionProto] | None = None,
        answers: Sequence[np.ndarray] | None = None,
    ) -> None:
        self.builder = builder
        self.opsets = opsets
        self.base_dir = base_dir
        self.functions = functions or {}
        self.values: ChainMap[str, Value] = ChainMap()
        self.used: frozenset[str] = frozenset()
        """Names that some node or output of the graph reads."""
        self.depth = 0
        """Of the graph or function that is read, inside of others."""
        self.count = 0
        """Nodes converted so far; those of a loop's body count each time."""
        self.dim_names = NameTable()
        """Those of all named sizes."""
        self.binds_sizes = True
        """Sizes that data tell are bound to names; otherwise they are asked for."""
        self.numbers = ValueNumbers(builder.lookup_binding)
        self.sizes_of_data: dict[int, DimVar] = {}
        """Named sizes, by the number of what tells them."""
        self.binds_shapes = False
        """Some of them are of the inputs' shapes alone."""
        self.may_ask_types = False
        """The shapes of the inputs are not all known, and may be asked for."""
        self.counts: dict[Hashable, Atom] = {}
        """Sizes that are scalars already, where the import is."""
        self.place = ""
        """What the model's own node that is read makes."""
        self.where = ""
        """How errors name that node."""
        self.look_ups: dict[str, str] = {}
        """That of each look-up at places of data, by its variable."""
        self.functions_made: dict[str, Function] = {}
        """Functions of the module beside ``main``: the loops of its program."""
        self.function_names = NameTable(["main"])
        self.sizes_there = KnownDims()
        """Those of tensors made so far that are no names."""
        self.at_most: Mapping[str, int] = {}
        """Bounds of named sizes of the inputs, by their names."""
        self.parts: dict[Var, np.ndarray] = {}
        """Of small tensors joined of sizes and of data: the sizes, and scalars of the data."""
        self.is_attempt = False
        """Nothing is asked for: what needs a value that is data cannot be imported here."""
        self.fallback: Fallback | None = None
        """Takes the nodes that cannot be compiled, where the user wants that."""
        self.align: Align | None = None
        """Gives operands whose sizes are not proved equal one size."""
        self._answers = answers
        self._known: dict[Var, Constant] = {}

    @property
    def opset(self) -> int:
        """The version of the operators of the default domain."""
        return self.opsets.get("", self.opsets.get("ai.onnx", 0))

    @contextmanager
    def scope(
        self,
        values: Mapping[str, Value],
        used: frozenset[str],
        opsets: Mapping[str, int] | None = None,
    ) -> Iterator[None]:
        """Names of a graph inside of this one, which sees those around it; or, with ``opsets``, of
        a function, which does not. Raises FrontendError where they are nested too deeply."""
        outer = self.values, self.used, self.opsets
        if self.depth >= DEEPEST:
            raise FrontendError(f"graphs and functions are nested more than {DEEPEST} deep.")
        around = ChainMap[str, Value]() if opsets is not None else self.values
        self.values, self.used = around.new_child(dict(values)), used
        self.opsets = self.opsets if opsets is None else opsets
        self.depth += 1
        try:
            yield
        finally:
            self.values, self.used, self.opsets = outer
            self.depth -= 1

    # -- what must be known -------------------------------------------------------------------
    def known(self, value: Value, node: NodeProto, index: int, why: str = "") -> Constant:
        """The value of an input as a constant: it decides about sizes, or about what runs; ``why``
        no program can be made for all values.

        Where it is data, the import stops with this as its question; asked again with the answer,
        it goes on. Raises FrontendError where nobody answers.
        """
        atom = self.tensor(value, node_name(node))
        if isinstance(atom, Constant):
            return atom
        reason = f"{node_name(node)}: input {index} ({node.input[index]!r})"
        if why:
            reason = f"{reason}; no one program is for all its values, because: {why}"
        if self.may_ask_types and not self.reads_data(atom):
            raise FrontendError(f"{reason} must be known, and is computed of symbolic sizes.")
        if self.is_attempt and atom not in self._known:
            raise NeedsValueError(atom, reason)
        if self._answers is None:
            raise FrontendError(
                f"{reason} decides about sizes and is computed from data; burnish.compile reads it "
                "from the inputs of a call."
            )
        assert isinstance(atom, Var)
        if atom not in self._known:
            if len(self._known) == len(self._answers):
                raise NeedsValueError(atom, reason)
            answer = self._answers[len(self._known)]
            self._known[atom] = constant(answer, self.type(atom).dtype)
        return self._known[atom]

    def reads_data(self, atom: Atom) -> bool:
        """Whether a value is computed from elements of an input, and not of shapes alone."""
        waiting, seen = [atom], set[Atom]()
        while waiting:
            top = waiting.pop()
            if not isinstance(top, Var) or top in seen:
                continue
            seen.add(top)
            value = self.builder.lookup_binding(top)
            if not isinstance(value, (Call, TupleGetItem, Var, Constant)):
                return True
            waiting += [n for n in walk(value) if isinstance(n, Var)]
        return False

    def answered(self, value: Value) -> Value:
        """A value, or the constant that an answer says it is."""
        return self._known.get(value, value) if isinstance(value, Var) else value

    def is_data(self, value: Value) -> bool:
        """Whether a value is a tensor that no constant is known for."""
        return isinstance(value, Var) and value not in self._known

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
        """A value as a tensor, symbolic sizes counted when the model runs; FrontendError for what
        is none."""
        if isinstance(value, Narrow):
            raise FrontendError(
                f"{where}: numbers of dtype {value.kind.name} are imported for Cast, "
                "QuantizeLinear, DequantizeLinear and what moves elements."
            )
        if value is None or isinstance(value, list):
            found = "an absent optional" if value is None else "a sequence"
            raise FrontendError(f"{where}: expected a tensor, found {found}.")
        if not isinstance(value, ShapeValue):
            return value
        sizes = [d.value for d in value.dims if isinstance(d, IntImm)]
        if len(sizes) == len(value.dims):
            return constant(np.array(sizes[0] if value.scalar else sizes, np.int64))
        counts = [sizes_as_data.counted(self, d, self.counts) for d in value.dims]
        if value.scalar:
            return counts[0]
        made = self.op("concat", *[self.op("expand_dims", c, axis=0) for c in counts], axis=0)
        self.parts[made] = parts_array(value.dims)
        return made

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
        sizes = self.sizes(value)
        if sizes is not None:
            return sizes
        known = self.known(value, node, index)
        if not known.type.dtype.is_integer:
            raise FrontendError(
                f"{node_name(node)}: input {index} ({node.input[index]!r}) has dtype "
                f"{known.type.dtype}; expected integers."
            )
        return self.known_sizes(known)

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

    def number(self, node: NodeProto, index: int, why: str = "") -> float | int | bool | None:
        """An input that must be a constant scalar (``why``: as in ``known``); None where absent."""
        value = self.raw(node, index)
        if value is None:
            return None
        value = self.known(value, node, index, why)
        if math.prod(value.shape) != 1:
            raise FrontendError(
                f"{node_name(node)}: input {index} ({node.input[index]!r}) has {value.shape} "
                "elements; expected one number."
            )
        return readable(self.array(value), value.type.dtype).item()

    def array(self, constant: Constant) -> np.ndarray:
        """The values of a constant (bfloat16 as uint16)."""
        return self.builder.weights.array(constant)

    def type(self, atom: Atom) -> TensorType:
        return tensor_type_of(atom)

    def reads_others(self, node: NodeProto) -> bool:
        """Whether a result other than the first is read by somebody."""
        return any(name and name in self.used for name in node.output[1:])

    def only_first(self, node: NodeProto) -> None:
        """Raise where a result other than the first is read by somebody."""
        for name in node.output[1:]:
            if name and name in self.used:
                raise FrontendError(
                    f"{node_name(node)}: its result {name!r} is used, which cannot be imported."
                )

    def dtype_number(self, value: Value) -> int:
        """The number by which ONNX knows a value's dtype."""
        if isinstance(value, Narrow):
            return value.number
        dtype = self.type(self.tensor(value, "its operand")).dtype
        return next(number for number, d in DTYPES.items() if d is dtype)

    # -- results ------------------------------------------------------------------------------
    def op(self, name: str, *args: Atom, **attrs: Any) -> Var:
        """Emit an operator call. Raises FrontendError for a result beyond all memory."""
        try:
            call = call_op(name, *args, **attrs)
            type_of(call)
        except TypeInferenceError as error:
            fitted = self.align(self, name, args, error) if self.align else None
            if fitted is None:
                raise
            return self.op(name, *fitted, **attrs)
        made = self.builder.emit(call)
        if name in LOOK_UPS:
            self.look_ups[made.name] = self.place
        if not self.is_attempt:
            for dim in self.type(made).shape:
                if isinstance(dim, BinaryOp):
                    self.sizes_there.add(dim)
        size = static_shape(self.type(made).shape)
        if size is not None and math.prod(size) > MOST_RESULTS:
            raise FrontendError(
                f"{name} makes a tensor of shape {size}, which no memory holds; the model is "
                "damaged, or its sizes are not what they should be."
            )
        return made

    def is_size(self, dim: Expr) -> bool:
        """Whether a dim is at least 0 in each call: for all sizes, or because a tensor has it,
        without which the call is refused."""
        return is_nonnegative(dim) or dim in self.sizes_there

    def size_or_none(self, dim: Expr) -> Expr:
        """A dim, or 0 where it is negative."""
        dim = fold_dim(dim)
        return dim if self.is_size(dim) else fold_dim(maximum(dim, 0))

    def cast(self, atom: Atom, dtype: DType) -> Atom:
        """The value in another dtype; itself where it has it."""
        return atom if self.type(atom).dtype is dtype else self.op("astype", atom, dtype=str(dtype))

    def shape(self, dims: Sequence[Expr | int]) -> ShapeExpr:
        return ShapeExpr(tuple([as_expr(d) for d in dims]))

    def reshape(self, x: Atom, dims: Sequence[Expr | int]) -> Var:
        """``x`` under another shape; a dim of -1 is resolved here."""
        kind = tensor_type_of(call_op("reshape", x, self.shape(dims)))
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

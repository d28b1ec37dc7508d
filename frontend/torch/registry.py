"""The torch front end's converter table and the context its converters work in.

A converter sees one fx node and emits operators for it through the Context, which holds the values
of the nodes before. It never looks at the builder's past.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.fx import GraphModule, Node

from ...graphir.builder import BlockBuilder, call_op
from ...graphir.dim import static_shape
from ...graphir.expr import Atom, Constant, Function, ShapeExpr, Var, constant
from ...graphir.op import tensor_type_of
from ...graphir.type import TensorType
from ...graphir.value_numbers import ValueNumbers
from ...graphir.weights import Source, sample_of
from ...support.aligned import aligned_copy
from ...support.dtype import DType
from ...support.errors import FrontendError, InternalError
from ...support.writer import NameTable
from ...tensorir.expr import Expr, IntImm
from ...tensorir.expr import Var as DimVar
from .. import sizes_as_data
from ..imported import LOOK_UPS, IndexRange
from ..registry import ConverterRegistry
from .symbolic_numbers import scalar_of
from .symbols import SymbolTable

if TYPE_CHECKING:
    from .fallback import Fallback

REGISTRY = ConverterRegistry("torch")
SHARED = 4096
"""Bytes from which on a weight is shared with the tensor, not copied."""
converts = REGISTRY.converts

DTYPES: dict[torch.dtype, DType] = {
    torch.float64: DType("float64"),
    torch.float32: DType("float32"),
    torch.float16: DType("float16"),
    torch.bfloat16: DType("bfloat16"),
    torch.int64: DType("int64"),
    torch.int32: DType("int32"),
    torch.int16: DType("int16"),
    torch.int8: DType("int8"),
    torch.uint64: DType("uint64"),
    torch.uint32: DType("uint32"),
    torch.uint16: DType("uint16"),
    torch.uint8: DType("uint8"),
    torch.bool: DType("bool"),
}
INDEX = DType("int64")
REAL = {
    torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64,
}  # fmt: skip
"""Complex dtypes by that of either part."""
_TORCH = f"{Path(torch.__file__).parent}/"
_NOT_THE_MODEL = (_TORCH, f"{Path(__file__).parent}/", "/sympy/", "<string>", "<eval", "<frozen")
"""What is in the names of files that no line of a model stands in: torch, which reckons with sympy,
what it writes itself, and we."""
_IN_FRONT = f"{Path(__file__).parent}/"


def operator_name(node: Node) -> str:
    """The name a node's operator is registered by: ``aten.add.Tensor``, ``operator.getitem``."""
    target = node.target
    if isinstance(target, str) or not hasattr(target, "__module__"):
        return str(target)
    if isinstance(target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)):
        return str(target)
    return f"{target.__module__.lstrip('_')}.{target.__name__}"


def location(node: Node) -> str:
    """The line of the user's Python source that a node came from, or the node's name.

    That is the innermost frame outside of torch itself.
    """
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    frames = [i for i, line in enumerate(lines) if line.startswith('File "')]
    others = (_TORCH, _IN_FRONT, 'File "<eval_with_key>')
    own = [i for i in frames if not any(x in lines[i] for x in others)]
    own = own or [i for i in frames if _IN_FRONT not in lines[i]]
    if not own:
        return f"node {node.name!r}"
    i = own[-1]
    place = lines[i].split(", in ")[0].removeprefix('File "').replace('", line ', ":")
    code = lines[i + 1] if i + 1 < len(lines) and i + 1 not in frames else ""
    return f"{place}: {code}" if code else place


def raised_at(error: BaseException) -> str:
    """`` at`` and the line of the user's Python source that an error came from: the innermost
    frame outside of torch and of this front end. Nothing, where there is none."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not any(x in frame.filename for x in _NOT_THE_MODEL)
    ]
    if not own:
        return ""
    code = f": {own[-1].line}" if own[-1].line else ""
    return f" at {own[-1].filename}:{own[-1].lineno}{code}"


def line_of(node: Node) -> str:
    """``file.py:12`` of the user's source; where all is torch's, the submodule, ``3 (Linear)``."""
    place = location(node).partition(": ")[0]
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    if _TORCH not in place or not modules or not modules[-1][0]:
        return place
    path, kind = modules[-1]
    return f"{path} ({str(kind).rpartition('.')[2]})"


def import_dtype(dtype: torch.dtype, where: str) -> DType:
    """The dtype of ours; raises FrontendError for complex, quantised and 8-bit float ones."""
    try:
        return DTYPES[dtype]
    except KeyError:
        known = ", ".join(DTYPES.values())
        raise FrontendError(
            f"{where}: dtype {dtype} cannot be imported; known are {known}."
        ) from None


def values_of(tensor: torch.Tensor, where: str) -> tuple[np.ndarray, DType]:
    """The values of a torch tensor (bfloat16 as bits) and their dtype; ``where`` names it in
    errors. They share the tensor's memory where that is in row-major order."""
    dtype = import_dtype(tensor.dtype, where)
    if tensor.device.type == "meta":
        raise FrontendError(
            f"{where} is on the meta device and holds no values; load them before compiling."
        )
    if tensor.layout is not torch.strided:
        raise FrontendError(f"{where} has the layout {tensor.layout}; call .to_dense() first.")
    dense = tensor.detach().cpu().resolve_neg().contiguous()
    return (dense.view(torch.uint16) if dtype == "bfloat16" else dense).numpy(), dtype


def _no_graphs(graph: GraphModule, operands: Sequence[Any]) -> list[Any]:
    raise InternalError("an operator that holds a graph was converted outside of an import")


class Context:
    """Values of the nodes converted so far, and the builder they are emitted with."""

    def __init__(self, builder: BlockBuilder, symbols: SymbolTable) -> None:
        self.builder = builder
        self.symbols = symbols
        self.values: dict[str, Any] = {}
        """Node name to an atom, a dim expression (SymInt nodes), a number, or a list of them."""
        self.node: Node | None = None
        """The node being converted."""
        self.numbers = ValueNumbers(builder.lookup_binding)
        self.sizes: dict[int, DimVar] = {}
        """Dims that were read out of data, by the number of what they were read from."""
        self.read: dict[str, Atom] = {}
        """Numbers that were read out of data and are no sizes, by torch's symbol."""
        self.sizes_in_shapes: set[str] = set()
        """torch's symbols that stand in the shape of any tensor."""
        self.asserted: set[str] = set()
        """torch's symbols of numbers out of data that are not by construction what the program
        asserts of them."""
        self.checks: list[DimVar] = []
        """A dim for each thing that is asserted when the model runs: 0, where it holds."""
        self.fallback: Fallback | None = None
        """What runs operators without a converter, where that is wanted."""
        self.run_graph: Callable[[GraphModule, Sequence[Any]], list[Any]] = _no_graphs
        """Converts a graph that an operator holds, on values for its inputs; gives its results."""
        self.functions_made: dict[str, Function] = {}
        """Functions of the module beside main: loops."""
        self.function_names = NameTable(["main"])
        self.look_ups: dict[str, Node] = {}
        """The node that each look-up at places of data is of, by its variable."""
        self.index_ranges: dict[str, IndexRange] = {}
        """Calls whose operands torch refuses some values of, by their variables."""

    # -- operands -----------------------------------------------------------------------------
    def value(self, argument: Any) -> Any:
        """What a node's argument stands for: nodes become their values, lists are entered."""
        if isinstance(argument, Node):
            return self.values[argument.name]
        if isinstance(argument, (list, tuple)):
            return [self.value(a) for a in argument]
        return argument

    def operand(self, argument: Any, dtype: DType | None = None) -> Atom:
        """A tensor operand, cast to ``dtype`` where it differs; a Python number becomes a scalar
        constant of ``dtype``."""
        value = self.value(argument)
        if isinstance(value, (bool, int, float)) and dtype is not None:
            return self.scalar(value, dtype)
        if isinstance(value, Expr):
            return self.cast(self.counted(value), dtype or DType("int64"))
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            made = scalar_of(self, value)
            return made if dtype is None else self.cast(made, dtype)
        if not isinstance(value, (Var, Constant)):
            raise InternalError(f"{self.place}: {value!r} where a tensor operand was expected")
        return value if dtype is None else self.cast(value, dtype)

    def scalar(self, value: float, dtype: DType) -> Constant:
        """A Python number as a scalar; integers wrap as torch's do. Half floats round twice,
        through float32, as torch's do."""
        if dtype.is_bool:
            return constant(bool(value), dtype)
        if dtype.is_integer:
            return constant(np.array(int(value)).astype(dtype.to_numpy()), dtype)
        if dtype == "bfloat16":
            return constant(*values_of(torch.tensor(value, dtype=torch.bfloat16), repr(value)))
        return constant(value, dtype)

    def weight(self, name: str, tensor: torch.Tensor, where: str) -> Constant:
        """A tensor that the model holds, under its name there; large ones are shared."""
        array, dtype = values_of(tensor, where)
        if array.nbytes < SHARED:
            return self.builder.weights.add(name, aligned_copy(array), dtype)
        source = Source(lambda: array, sample_of(array))
        return self.builder.weights.add(name, array, dtype, source)

    def array(self, constant: Constant) -> np.ndarray:
        """The values of a constant (bfloat16 as uint16)."""
        return self.builder.weights.array(constant)

    @property
    def place(self) -> str:
        """The node being converted, for errors: its operator and where it stands."""
        if self.node is None:
            return "the model's outputs"
        return f"{operator_name(self.node)} at {location(self.node)}"

    def type(self, atom: Atom) -> TensorType:
        return tensor_type_of(atom)

    def shape(self, sizes: Sequence[Any]) -> ShapeExpr:
        """Sizes (ints, SymInts, nodes) as a shape value."""
        return ShapeExpr(tuple([self.dim(s) for s in sizes]))

    def dim(self, size: Any) -> Expr:
        """One size as an expression."""
        value = self.value(size)
        return value if isinstance(value, Expr) else self.symbols.convert(value)

    def positions(self, size: Expr) -> Atom:
        """The tensor 0, 1, ... of ``size`` int64; symbolic ones are counted when the model runs."""
        return sizes_as_data.positions(self, size)

    def counted(self, size: Expr) -> Atom:
        """A size as a scalar int64: of each symbol the number of ones in a tensor of its size."""
        return sizes_as_data.counted(self, size)

    def below_diagonal(self, rows: Expr, columns: Expr, diagonal: int | Atom = 0) -> Atom:
        """A mask of (rows, columns): true on a diagonal and below. That of an Atom, a scalar of
        int64, is known when the model runs."""
        sizes = static_shape((rows, columns))
        if isinstance(diagonal, int):
            if sizes is not None:
                return constant(np.tri(sizes[0], sizes[1], diagonal) > 0)
            diagonal = self.scalar(diagonal, INDEX)
        row = self.op("add", self.positions(rows), diagonal)
        return self.op(
            "greater_equal", self.op("expand_dims", row, axis=1), self.positions(columns)
        )

    def static(self, argument: Any, what: str) -> Any:
        """An argument that must be a plain Python value."""
        value = self.value(argument)
        if isinstance(value, (Var, Expr, torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise FrontendError(f"{self.place}: {what} must be a constant.")
        return value

    def refuse(self, reason: str) -> FrontendError:
        """The error that says why the node at hand cannot be imported."""
        return FrontendError(f"{self.place}: {reason}")

    # -- results ------------------------------------------------------------------------------
    def op(self, name: str, *args: Atom, **attrs: Any) -> Var:
        """Emit an operator call."""
        made = self.builder.emit(call_op(name, *args, **attrs), "lv")
        if name in LOOK_UPS and self.node is not None:
            self.look_ups[made.name] = self.node
        return made

    def cast(self, atom: Atom, dtype: DType) -> Atom:
        """The value in another dtype; itself where it has it."""
        return atom if self.type(atom).dtype is dtype else self.op("astype", atom, dtype=str(dtype))

    def result_type(self, node: Node, index: int | None = None) -> TensorType:
        """The type torch gave a node (or one of its results): its shape and dtype."""
        fake = node.meta["val"] if index is None else node.meta["val"][index]
        return self.tensor_type(fake, location(node))

    def tensor_type(self, fake: torch.Tensor, where: str) -> TensorType:
        """The type of a tensor of torch; a complex one is of real numbers, with a last axis of
        2."""
        dtype = import_dtype(REAL.get(fake.dtype, fake.dtype), where)
        sizes = [self.symbols.convert(s) for s in fake.shape]
        return TensorType(tuple([*sizes, IntImm(2)] if fake.dtype in REAL else sizes), dtype)

    def reshape(self, x: Atom, sizes: Sequence[Any]) -> Var:
        """``x`` under another shape."""
        return self.op("reshape", x, self.shape(sizes))

    def shape_of(self, kind: TensorType) -> ShapeExpr:
        return ShapeExpr(kind.shape)

    def reshaped(self, atom: Atom, kind: TensorType) -> Var:
        """``atom`` under the shape of ``kind``."""
        return self.op("reshape", atom, self.shape_of(kind))

    def empty(self, kind: TensorType) -> Atom:
        """A tensor without elements, whatever operator it is of."""
        return self.broadcast(self.scalar(0, kind.dtype), kind)

    def broadcast(self, atom: Atom, kind: TensorType) -> Atom:
        """``atom`` stretched to the shape of ``kind``; a scalar that is to stay one is itself."""
        if not kind.shape and not self.type(atom).shape:
            return atom
        return self.op("broadcast_to", atom, self.shape_of(kind))


def arguments(node: Node) -> Mapping[str, Any]:
    """A node's arguments by the operator's parameter names, defaults filled in."""
    target = node.target
    assert isinstance(target, torch._ops.OpOverload)
    bound: dict[str, Any] = {}
    for i, parameter in enumerate(target._schema.arguments):
        if i < len(node.args):
            bound[parameter.name] = node.args[i]
        elif parameter.name in node.kwargs:
            bound[parameter.name] = node.kwargs[parameter.name]
        elif parameter.has_default_value():
            bound[parameter.name] = parameter.default_value
    return bound


def base_name(node: Node) -> str:
    """The operator's name without namespace and overload: ``add`` of ``aten.add.Tensor``."""
    return operator_name(node).split(".")[1]


def integers(value: Any) -> tuple[int, ...]:
    """An axes argument (None, an int, a list of ints) as a tuple."""
    if value is None:
        return ()
    return (int(value),) if isinstance(value, int) else tuple([int(v) for v in value])


__all__ = [
    "DTYPES", "REGISTRY", "Context", "arguments", "base_name", "converts",
    "import_dtype", "integers", "location", "operator_name", "raised_at",
    "values_of",
]  # fmt: skip

"""Tensors and the definitions that connect them: the graph that compute programs build.

A ``Tensor`` is a Buffer that knows its definition (none for a placeholder). Definitions refer to
each other by loading from Tensors, so a result tensor is the root of a graph. Nothing of it ever
stands in a PrimFunc: ``create_prim_func`` puts plain Buffers and fresh Vars in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

from ...support.dtype import DType
from ...support.errors import ComputeError
from ...support.node import Node, node, walk
from ..buffer import Buffer, Range
from ..expr import INDEX, BufferLoad, Expr, ExprLike, IntImm, Reduce, Var, as_expr, cast
from ..stmt import IterVar


@node
class ReduceAxis(Var):
    """A variable of a compute definition that runs over ``dom`` and is reduced away."""

    name: str
    dtype: DType = INDEX
    dom: Range = Range(IntImm(0, INDEX), IntImm(1, INDEX))

    @property
    def var(self) -> Var:
        """The axis itself, which is a variable."""
        return self


@node
class TupleReduce(Expr):
    """Value number ``index`` of a reduction by a reducer of the user's, over one or several values.

    ``reducer`` is a ``reducers.CommReducer``. Like a Reduce, it stands only at the outside of a
    definition, and never in a PrimFunc.
    """

    reducer: Any
    sources: tuple[Expr, ...]
    axes: tuple[Any, ...]
    identities: tuple[Expr, ...]
    index: int
    dtype: DType


class ComputeOp:
    """A definition: ``bodies`` are its elements at ``axis``, one for each output.

    ``axis`` are the spatial axes, one a dimension; ``reduce_axis`` those of the reduction, if it is
    one; ``attrs`` become the block's annotations.
    """

    __slots__ = ("attrs", "axis", "bodies", "name", "outputs", "tag")

    def __init__(
        self,
        name: str,
        axis: tuple[IterVar, ...],
        bodies: tuple[Expr, ...],
        attrs: tuple[tuple[str, Any], ...],
        tag: str,
    ) -> None:
        self.name, self.axis, self.bodies, self.attrs, self.tag = name, axis, bodies, attrs, tag
        self.outputs: tuple[Tensor, ...] = ()

    def __repr__(self) -> str:
        return f"ComputeOp({self.name!r})"

    @property
    def body(self) -> Expr:
        """The first body: all of it, where there is one output."""
        return self.bodies[0]

    @property
    def num_outputs(self) -> int:
        """How many tensors the definition gives."""
        return len(self.bodies)

    @property
    def reduce_axis(self) -> tuple[ReduceAxis, ...]:
        body = self.bodies[0]
        return body.axes if isinstance(body, (Reduce, TupleReduce)) else ()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that the definition loads from, each once, in order of first appearance."""
        seen: dict[int, Tensor] = {}
        for body in self.bodies:
            for n in walk(body):
                if isinstance(n, BufferLoad) and isinstance(n.buffer, Tensor):
                    seen.setdefault(id(n.buffer), n.buffer)
        return tuple(seen.values())

    @property
    def input_tensors(self) -> list[Tensor]:
        """``inputs`` as a list, the name that TVM's programs use."""
        return list(self.inputs)

    def output(self, index: int = 0) -> Tensor:
        """The tensor defined; of several, the one with this number."""
        if not 0 <= index < len(self.outputs):
            count = len(self.outputs)
            found = "one output, 0" if count == 1 else f"{count} outputs, from 0 to {count - 1}"
            raise ComputeError(f"The definition of {self.name!r} has {found}; asked for {index}.")
        return self.outputs[index]


@node
class Tensor(Buffer):
    """A buffer of a compute definition; ``op`` is None for a placeholder, ``value_index`` its place
    among the outputs of ``op``. ``A[i, j]`` loads from it; fewer indices give a TensorSlice.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    scope: str = "global"
    strides: tuple[Expr, ...] = ()
    elem_offset: Expr = IntImm(0, INDEX)
    alignment: int = 0
    op: ComputeOp | None = None
    value_index: int = 0

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> BufferLoad:
        items = indices if isinstance(indices, tuple) else (indices,)
        if 0 < len(items) < len(self.shape):
            return TensorSlice(self, items)  # type: ignore[return-value]  # no element yet
        return self(*items)

    def __iter__(self) -> NoReturn:
        # Python would ask for A[0], A[1] and so on without end.
        raise ComputeError(
            f"The tensor {self.name!r} is a definition, which no Python loop runs through; write "
            "te.compute(shape, lambda i: ...), and te.sum(..., axis=k) for a sum."
        )

    def __call__(self, *indices: ExprLike) -> BufferLoad:
        """``A(i, j)`` is ``A[i, j]``, so that ``lambda *i: A(*i)`` takes any number of axes."""
        if len(indices) != len(self.shape):
            raise ComputeError(
                f"The tensor {self.name!r} has {len(self.shape)} dimensions; it is indexed with "
                f"{len(indices)}."
            )
        return BufferLoad(self, tuple([_index(i, self.name) for i in indices]))

    def __repr__(self) -> str:
        return f"Tensor({self.name!r})"


class TensorSlice:
    """A tensor with its first indices given: ``A[i]`` of a matrix, of which ``A[i][j]`` is an
    element. It is no expression: a definition computes elements."""

    __slots__ = ("indices", "tensor")

    def __init__(self, tensor: Tensor, indices: tuple[ExprLike, ...]) -> None:
        self.tensor, self.indices = tensor, indices

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> BufferLoad:
        items = indices if isinstance(indices, tuple) else (indices,)
        return self.tensor[(*self.indices, *items)]

    def __iter__(self) -> NoReturn:
        self.tensor.__iter__()

    @property
    def dtype(self) -> DType:
        """That of the tensor's elements."""
        return self.tensor.dtype

    def _refuse(self, *_: object) -> NoReturn:
        raise ComputeError(
            f"The tensor {self.tensor.name!r} has {self.tensor.ndim} dimensions; it is indexed "
            f"with {len(self.indices)}."
        )

    __index__ = __float__ = __neg__ = __add__ = __radd__ = __sub__ = __rsub__ = _refuse
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse

    def __repr__(self) -> str:
        return f"{self.tensor!r}[{len(self.indices)} of {self.tensor.ndim} indices]"


def _index(i: ExprLike | IterVar, name: str) -> Expr:
    """An index as an int64 expression: loads and parameters of narrower integers are widened."""
    e = as_expr(i.var if isinstance(i, IterVar) else i)
    if not e.dtype.is_integer:
        raise ComputeError(f"An index of {name!r} must be an integer; found {e.dtype}.")
    return cast(e, INDEX)


ShapeLike: TypeAlias = "Sequence[ExprLike] | ExprLike"


def as_shape(shape: ShapeLike) -> tuple[Expr, ...]:
    """A shape as int64 expressions; one number or expression stands for one dimension. Raises
    ComputeError for a dimension given as text or as a float."""
    alone = isinstance(shape, (Expr, int, float, str))
    dims: list[Any] = [shape] if alone else list(shape)  # type: ignore[arg-type]
    for d in dims:
        if isinstance(d, (str, float)):
            hint = f" A dimension of any size is te.var({d!r})." if isinstance(d, str) else ""
            raise ComputeError(
                f"Expected an integer or an expression for each dimension; found {d!r}.{hint}"
            )
    return tuple([cast(as_expr(d), INDEX) for d in dims])


def var(name: str = "n", dtype: str = "int64") -> Var:
    """A symbolic dimension, or a scalar parameter of the function to be made."""
    return Var(name, DType(dtype))


def placeholder(shape: ShapeLike, dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """An input of ``shape``."""
    return Tensor(name, as_shape(shape), DType(dtype))


def reduce_axis(dom: tuple[ExprLike, ExprLike], name: str = "rv") -> ReduceAxis:
    """An axis over ``lo <= value < hi`` for ``sum``, ``max``, ``min``, ``prod`` and reducers of
    ``comm_reducer``."""
    low, high = cast(as_expr(dom[0]), INDEX), cast(as_expr(dom[1]), INDEX)
    return ReduceAxis(name, INDEX, Range(low, high - low))


def is_reduction_expr(n: Node) -> bool:
    """Whether a node is a reduction, which stands only at the outside of a definition."""
    return isinstance(n, (Reduce, TupleReduce))

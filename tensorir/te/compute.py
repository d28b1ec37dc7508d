"""``compute(shape, fn)`` says what each element of a tensor, or of several, is.

It calls the function once with a variable an axis, checks what comes back, and keeps it as a
ComputeOp; ``create_prim_func`` writes the loops and blocks. Nothing is scheduled here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, overload

from ...support.errors import ComputeError
from ...support.node import walk
from ..buffer import Range
from ..expr import DEFINED_AXES, Expr, ExprLike, IntImm, Reduce, Var, as_expr
from ..stmt import IterVar
from .create_prim_func import create_prim_func as create_prim_func
from .reducers import COMBINERS as COMBINERS
from .reducers import comm_reducer as comm_reducer
from .reducers import max as max
from .reducers import min as min
from .reducers import prod as prod
from .reducers import sum as sum
from .share_values import share_values
from .tensor import ComputeOp as ComputeOp
from .tensor import ReduceAxis as ReduceAxis
from .tensor import ShapeLike as ShapeLike
from .tensor import Tensor as Tensor
from .tensor import TensorSlice as TensorSlice
from .tensor import TupleReduce, is_reduction_expr
from .tensor import as_shape as as_shape
from .tensor import placeholder as placeholder
from .tensor import reduce_axis as reduce_axis
from .tensor import var as var

_TAG: ContextVar[str] = ContextVar("tag", default="")


@contextmanager
def tag_scope(tag: str) -> Iterator[None]:
    """``with te.tag_scope("injective"):`` gives each definition made inside of it this tag, which
    says nothing to the compiler; ``tensor.op.tag`` reads it. Raises ComputeError inside of another
    one, and a definition that has a tag of its own raises it too."""
    if _TAG.get():
        raise ComputeError(f"tag_scope({tag!r}) stands inside of tag_scope({_TAG.get()!r}).")
    before = _TAG.set(tag)
    try:
        yield
    finally:
        _TAG.reset(before)


@overload
def compute(
    shape: ShapeLike,
    fcompute: Callable[..., ExprLike],
    name: str | None = ...,
    tag: str = ...,
    attrs: Mapping[str, Any] | None = ...,
) -> Tensor: ...


@overload
def compute(
    shape: ShapeLike,
    fcompute: Callable[..., Sequence[ExprLike]],
    name: str | None = ...,
    tag: str = ...,
    attrs: Mapping[str, Any] | None = ...,
) -> tuple[Tensor, ...]: ...


def compute(
    shape: ShapeLike,
    fcompute: Callable[..., ExprLike | Sequence[ExprLike]],
    name: str | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """The tensor whose element at ``i, j, ...`` is ``fcompute(i, j, ...)``.

    ``fcompute`` gets one int64 Var per dimension, named after its parameters (``i0, i1, ...`` for
    ``*indices``), and returns a scalar expression or a reduction. Where it returns a tuple, compute
    gives a tuple of tensors of this shape: the outputs of one definition, computed together. Raises
    ComputeError where it takes another number of axes, or hides a reduction inside an expression.
    """
    dims = as_shape(shape)
    names = _axis_names(fcompute, len(dims))
    axis = tuple(
        [IterVar(Var(n), Range(IntImm(0), d), "spatial") for n, d in zip(names, dims, strict=True)]
    )
    token = DEFINED_AXES.set(DEFINED_AXES.get() | {id(a.var) for a in axis})
    try:
        given = fcompute(*[a.var for a in axis])
    finally:
        DEFINED_AXES.reset(token)
    parts: Any = given if isinstance(given, (tuple, list)) else [given]
    bodies = tuple([_shared(as_expr(part)) for part in parts])
    title = name or "compute"
    _check_bodies(title, bodies)
    around = _TAG.get()
    if tag and around:
        raise ComputeError(f"{title!r} has the tag {tag!r} inside of tag_scope({around!r}).")
    op = ComputeOp(title, axis, bodies, tuple((attrs or {}).items()), tag or around)
    _check_axes(op)
    op.outputs = tuple(
        [
            Tensor(
                title if len(bodies) == 1 else f"{title}_v{i}", dims, b.dtype, op=op, value_index=i
            )
            for i, b in enumerate(bodies)
        ]
    )
    return op.outputs if len(bodies) > 1 else op.outputs[0]


def _axis_names(fcompute: Callable[..., Any], ndim: int) -> list[str]:
    names: list[str] = []
    for p in inspect.signature(fcompute).parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            return names + [f"i{d}" for d in range(len(names), ndim)]
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    if len(names) != ndim:
        raise ComputeError(
            f"The shape has {ndim} dimensions, but the function takes {len(names)} axes."
        )
    return names


def _shared(body: Expr) -> Expr:
    """Reductions share what they reduce when they are made."""
    return body if is_reduction_expr(body) else share_values(body)


def _check_bodies(name: str, bodies: tuple[Expr, ...]) -> None:
    if not bodies:
        raise ComputeError(f"The definition of {name!r} gives an empty tuple; it has no output.")
    for body in bodies:
        match body:
            case Reduce():
                inner = [body.source, body.identity]
            case TupleReduce():
                inner = [*body.sources, *body.identities]
            case _:
                inner = [body]
        if any(is_reduction_expr(n) for part in inner for n in walk(part)):
            raise ComputeError(
                f"The definition of {name!r} uses a reduction inside an expression; a "
                "reduction must be a compute of its own, which the expression then reads."
            )
    if not any(is_reduction_expr(b) for b in bodies):
        return
    first = bodies[0]
    if isinstance(first, TupleReduce):
        whole = len(first.sources) == len(bodies) and all(
            isinstance(b, TupleReduce) and b.sources is first.sources and b.index == i
            for i, b in enumerate(bodies)
        )
        if not whole:
            raise ComputeError(
                f"The definition of {name!r} must give the {len(first.sources)} values of the "
                f"reduction {first.reducer.name!r}, all of them, in their order and nothing else."
            )
    elif len(bodies) > 1:
        raise ComputeError(
            f"The definition of {name!r} has several outputs and a reduction among them; reduce "
            "over a tuple with one comm_reducer, or make each reduction a compute of its own."
        )


def _check_axes(op: ComputeOp) -> None:
    reduced = {id(a) for a in op.reduce_axis}
    for n in (n for body in op.bodies for n in walk(body)):
        if isinstance(n, ReduceAxis) and id(n) not in reduced:
            raise ComputeError(
                f"The definition of {op.name!r} uses the reduce axis {n.name!r} but does not "
                "reduce over it; name it in axis=[...] of a sum, max, min or prod."
            )

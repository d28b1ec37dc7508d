"""Tensor expressions: ``compute(shape, fn)`` says what each element is; ``create_prim_func`` writes
the loops and blocks.

A ``Tensor`` is a Buffer that knows its definition (none for a placeholder). Definitions refer to
each other by loading from Tensors, so a result tensor is the root of a graph. ``create_prim_func``
walks that graph once and gives each definition one block, in dependency order; its output holds
only plain Buffers and fresh Vars, never a Tensor, a ReduceAxis or a Reduce. Nothing is scheduled
here.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ..support.dtype import DType
from ..support.errors import ComputeError
from ..support.node import node, walk
from .arith import infer_regions
from .buffer import Buffer, Range
from .expr import (
    INDEX,
    BufferLoad,
    Expr,
    ExprLike,
    IntImm,
    Let,
    Reduce,
    Var,
    add,
    as_expr,
    cast,
    const,
    max_value,
    maximum,
    min_value,
    minimum,
    mul,
)
from .function import PrimFunc
from .stmt import Block, BlockRealize, BufferStore, For, IterVar, Stmt, seq
from .visitor import Mutator


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


class ComputeOp:
    """A definition: ``body`` is the element at ``axis``, an Expr or a Reduce.

    ``axis`` are the spatial axes, one a dimension; ``reduce_axis`` those of the Reduce; ``attrs``
    become the block's annotations.
    """

    __slots__ = ("attrs", "axis", "body", "name", "result", "tag")

    def __init__(
        self,
        name: str,
        axis: tuple[IterVar, ...],
        body: Expr,
        attrs: tuple[tuple[str, Any], ...],
        tag: str,
    ) -> None:
        self.name, self.axis, self.body, self.attrs, self.tag = name, axis, body, attrs, tag
        self.result: Tensor | None = None

    @property
    def reduce_axis(self) -> tuple[ReduceAxis, ...]:
        return self.body.axes if isinstance(self.body, Reduce) else ()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that the definition loads from, each once, in order of first appearance."""
        loads = [n.buffer for n in walk(self.body) if isinstance(n, BufferLoad)]
        seen = {id(b): b for b in loads if isinstance(b, Tensor)}
        return tuple(seen.values())

    def output(self, index: int = 0) -> Tensor:
        """The tensor defined."""
        if index != 0 or self.result is None:
            raise ComputeError(
                f"The definition of {self.name!r} has one output, 0; asked for {index}."
            )
        return self.result


@node
class Tensor(Buffer):
    """A buffer of a compute definition; ``op`` is None for a placeholder. ``A[i, j]`` loads from
    it.
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    scope: str = "global"
    strides: tuple[Expr, ...] = ()
    elem_offset: Expr = IntImm(0, INDEX)
    alignment: int = 0
    op: ComputeOp | None = None

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> BufferLoad:
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise ComputeError(
                f"The tensor {self.name!r} has {len(self.shape)} dimensions; it is indexed with "
                f"{len(items)}."
            )
        return BufferLoad(self, tuple([as_expr(i) for i in items]))


ShapeLike: TypeAlias = "Sequence[ExprLike] | ExprLike"


def as_shape(shape: ShapeLike) -> tuple[Expr, ...]:
    """A shape as int64 expressions; one number or expression stands for one dimension."""
    dims = [shape] if isinstance(shape, (Expr, int)) else list(shape)  # type: ignore[arg-type]
    return tuple([cast(as_expr(d), INDEX) for d in dims])


def var(name: str = "n", dtype: str = "int64") -> Var:
    """A symbolic dimension, or a scalar parameter of the function to be made."""
    return Var(name, DType(dtype))


def placeholder(shape: ShapeLike, dtype: str = "float32", name: str = "placeholder") -> Tensor:
    """An input of ``shape``."""
    return Tensor(name, as_shape(shape), DType(dtype))


def reduce_axis(dom: tuple[ExprLike, ExprLike], name: str = "rv") -> ReduceAxis:
    """An axis over ``lo <= value < hi`` for ``sum``, ``max``, ``min`` and ``prod``."""
    low, high = cast(as_expr(dom[0]), INDEX), cast(as_expr(dom[1]), INDEX)
    return ReduceAxis(name, INDEX, Range(low, high - low))


def compute(
    shape: ShapeLike,
    fcompute: Callable[..., ExprLike],
    name: str | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor:
    """The tensor whose element at ``i, j, ...`` is ``fcompute(i, j, ...)``.

    ``fcompute`` gets one int64 Var per dimension, named after its parameters (``i0, i1, ...`` for
    ``*indices``), and returns a scalar expression or a reduction. Raises ComputeError where it
    takes another number of axes, or hides a reduction inside an expression.
    """
    dims = as_shape(shape)
    names = _axis_names(fcompute, len(dims))
    axis = tuple(
        [IterVar(Var(n), Range(IntImm(0), d), "spatial") for n, d in zip(names, dims, strict=True)]
    )
    body = as_expr(fcompute(*[a.var for a in axis]))
    inner = [body.source, body.identity] if isinstance(body, Reduce) else [body]
    for part in inner:
        if any(isinstance(n, Reduce) for n in walk(part)):
            raise ComputeError(
                f"The definition of {name or 'compute'!r} uses a reduction inside an expression; a "
                "reduction must be a compute of its own, which the expression then reads."
            )
    op = ComputeOp(name or "compute", axis, body, tuple((attrs or {}).items()), tag)
    _check_axes(op)
    result = Tensor(op.name, dims, body.dtype, op=op)
    op.result = result
    return result


def _axis_names(fcompute: Callable[..., ExprLike], ndim: int) -> list[str]:
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


def _check_axes(op: ComputeOp) -> None:
    reduced = {id(a) for a in op.reduce_axis}
    for n in walk(op.body):
        if isinstance(n, ReduceAxis) and id(n) not in reduced:
            raise ComputeError(
                f"The definition of {op.name!r} uses the reduce axis {n.name!r} but does not "
                "reduce over it; name it in axis=[...] of a sum, max, min or prod."
            )


# -- reductions ----------------------------------------------------------------------------------
AxisLike: TypeAlias = "ReduceAxis | Sequence[ReduceAxis]"


def _reduce(combiner: str, expr: Expr, axis: AxisLike, identity: Callable[[DType], Expr]) -> Expr:
    axes = (axis,) if isinstance(axis, ReduceAxis) else tuple(axis)
    for a in axes:
        if not isinstance(a, ReduceAxis):
            raise ComputeError(
                f"{combiner}: expected axes made by reduce_axis, found {type(a).__name__}."
            )
    if not axes:
        return expr
    return Reduce(combiner, expr, axes, identity(expr.dtype))


def sum(expr: Expr, axis: AxisLike) -> Expr:
    """The sum of ``expr`` over reduce axes, from 0."""
    return _reduce("sum", expr, axis, lambda dtype: const(0, dtype))


def prod(expr: Expr, axis: AxisLike) -> Expr:
    """The product of ``expr`` over reduce axes, from 1."""
    return _reduce("prod", expr, axis, lambda dtype: const(1, dtype))


def max(expr: ExprLike, axis: AxisLike | ExprLike) -> Expr:
    """The maximum of ``expr`` over reduce axes, from minus infinity (or the smallest integer); with
    a second value instead of axes, the larger of the two.
    """
    if not _is_axes(axis):
        return maximum(expr, axis)  # type: ignore[arg-type]
    return _reduce("max", as_expr(expr), axis, min_value)  # type: ignore[arg-type]


def min(expr: ExprLike, axis: AxisLike | ExprLike) -> Expr:
    """The minimum of ``expr`` over reduce axes, from infinity (or the largest integer); with a
    second value instead of axes, the smaller of the two.
    """
    if not _is_axes(axis):
        return minimum(expr, axis)  # type: ignore[arg-type]
    return _reduce("min", as_expr(expr), axis, max_value)  # type: ignore[arg-type]


def _is_axes(axis: object) -> bool:
    return isinstance(axis, (ReduceAxis, list, tuple))


COMBINERS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "sum": add,
    "prod": mul,
    "max": maximum,
    "min": minimum,
}
"""How a reduction combines what it has with the next term."""


# -- definitions to blocks -----------------------------------------------------------------------
class _Instantiate(Mutator):
    """Replaces axes by a block's iter vars and Tensors by the function's buffers.

    Lets are renamed: a definition may be instantiated several times, and a Var is bound once.
    """

    def __init__(self, variables: dict[int, Expr], buffers: Mapping[int, Buffer]) -> None:
        self.variables, self.buffers = variables, buffers

    def visit_Var(self, n: Var) -> Expr:  # noqa: N802
        return self.variables.get(id(n), n)

    def visit_ReduceAxis(self, n: ReduceAxis) -> Expr:  # noqa: N802
        return self.variables[id(n)]

    def visit_Tensor(self, n: Tensor) -> Buffer:  # noqa: N802
        return self.buffers[id(n)]

    def visit_Let(self, n: Let) -> Expr:  # noqa: N802
        value = self.visit(n.value)
        fresh = Var(n.var.name, n.var.dtype)
        self.variables[id(n.var)] = fresh
        return Let(fresh, value, self.visit(n.body))


class _Names:
    """Names that are each given out once."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def unique(self, hint: str) -> str:
        name, number = hint, 0
        while name in self.taken:
            number += 1
            name = f"{hint}_{number}"
        self.taken.add(name)
        return name


def create_prim_func(args: Sequence[Tensor | Var], name: str = "main") -> PrimFunc:
    """A PrimFunc with ``args`` as parameters, in this order: inputs, outputs, scalars, mixed at
    will.

    Every definition that the given tensors need becomes one block below the root block, in
    dependency order; tensors that are not parameters are allocated by the root. Raises ComputeError
    where a placeholder is needed but not among ``args``, or ``args`` repeats one.
    """
    if len({id(a) for a in args}) != len(args):
        raise ComputeError("create_prim_func got the same argument twice.")
    order = _dependency_order([a for a in args if isinstance(a, Tensor)])
    buffer_names, block_names = _Names(), _Names()
    block_names.unique("root")
    for a in args:
        if isinstance(a, Var):
            buffer_names.unique(a.name)
    buffers: dict[int, Buffer] = {}
    params = [a if isinstance(a, Var) else _plain_buffer(a, buffers, buffer_names) for a in args]
    allocated: list[Buffer] = []
    for t in order:
        if id(t) in buffers:
            continue
        if t.op is None:
            known = ", ".join(repr(a.name) for a in args)
            raise ComputeError(
                f"The placeholder {t.name!r} is read, but it is not among the arguments of "
                f"create_prim_func ({known})."
            )
        allocated.append(_plain_buffer(t, buffers, buffer_names))
    nests = [_build_block(t.op, buffers, block_names) for t in order if t.op is not None]
    if not nests:
        raise ComputeError("create_prim_func got placeholders alone; there is nothing to compute.")
    root = Block("root", (), (), (), seq(*nests), alloc_buffers=tuple(allocated))
    body = BlockRealize((), const(True, "bool"), root)
    return PrimFunc(tuple(params), body, (("tir.noalias", True),), name)


def _dependency_order(roots: Iterable[Tensor]) -> list[Tensor]:
    """Every tensor the roots need, each after those it reads."""
    order: list[Tensor] = []
    done: set[int] = set()
    stack: list[tuple[Tensor, bool]] = [(t, False) for t in reversed(list(roots))]
    while stack:
        t, ready = stack.pop()
        if ready:
            order.append(t)
        elif id(t) not in done:
            done.add(id(t))
            stack.append((t, True))
            inputs = t.op.inputs if t.op is not None else ()
            stack.extend([(i, False) for i in reversed(inputs)])
    return order


def _plain_buffer(t: Tensor, buffers: dict[int, Buffer], names: _Names) -> Buffer:
    made = Buffer(
        names.unique(t.name), t.shape, t.dtype, t.scope, t.strides, t.elem_offset, t.alignment
    )
    buffers[id(t)] = made
    return made


def _build_block(op: ComputeOp, buffers: Mapping[int, Buffer], block_names: _Names) -> Stmt:
    """The loop nest of one definition: spatial loops outside, reduce loops inside, one block."""
    axes: list[tuple[Var, Range, str]] = [(a.var, a.dom, "spatial") for a in op.axis]
    axes += [(a, a.dom, "reduce") for a in op.reduce_axis]
    names = _Names()
    loops = [Var(names.unique(v.name)) for v, _, _ in axes]
    iter_vars = [
        IterVar(Var(f"v_{loop.name}"), dom, kind)
        for loop, (_, dom, kind) in zip(loops, axes, strict=True)
    ]
    variables: dict[int, Expr] = {
        id(v): it.var for (v, _, _), it in zip(axes, iter_vars, strict=True)
    }
    assert op.result is not None
    target = buffers[id(op.result)]
    indices = tuple([it.var for it in iter_vars[: len(op.axis)]])
    instantiate = _Instantiate(variables, buffers)
    init: Stmt | None = None
    if isinstance(op.body, Reduce):
        init = BufferStore(target, op.body.identity, indices)
        source = instantiate.visit(op.body.source)
        value = COMBINERS[op.body.combiner](BufferLoad(target, indices), source)
    else:
        value = instantiate.visit(op.body)
    body = BufferStore(target, value, indices)
    reads, writes = infer_regions(body, init, iter_vars)
    name = block_names.unique(op.name)
    block = Block(name, tuple(iter_vars), reads, writes, body, init, annotations=op.attrs)
    stmt: Stmt = BlockRealize(tuple(loops), const(True, "bool"), block)
    for loop, it in builtins.reversed(list(zip(loops, iter_vars, strict=True))):
        stmt = For(loop, it.dom.min, it.dom.extent, "serial", stmt)
    return stmt

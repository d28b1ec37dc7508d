"""Definitions taken apart for a schedule: cached copies, and reductions in two steps.

Each function gives new definitions of the same tensors, and never changes one: what a schedule
redefines, it redefines for itself. The definition that keeps its tensors keeps its axes too, so
that ``C.op.axis`` goes on naming the loops of ``s[C]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...support.node import replace
from ..buffer import Range
from ..expr import BufferLoad, Call, Expr, IntImm, Reduce, Var, all_of, const, max_value, min_value
from ..stmt import IterVar
from ..te.tensor import ComputeOp, ReduceAxis, Tensor, TupleReduce
from ..visitor import Mutator, substitute


class _Loads(Mutator):
    """Loads of one tensor become loads of another."""

    def __init__(self, old: Tensor, new: Tensor) -> None:
        self.old, self.new = old, new

    def visit_Tensor(self, n: Tensor) -> Tensor:  # noqa: N802
        return self.new if n is self.old else n


def _define(
    op: ComputeOp, axis: tuple[IterVar, ...], bodies: Sequence[Expr], outputs: tuple[Tensor, ...]
) -> ComputeOp:
    made = ComputeOp(op.name, axis, tuple(bodies), op.attrs, op.tag)
    made.outputs = outputs
    return made


def fresh_axes(axis: Sequence[IterVar]) -> tuple[tuple[IterVar, ...], dict[Var, Expr]]:
    """Copies of axes, and the new variables by the old ones."""
    made = tuple([IterVar(Var(a.var.name), a.dom, a.kind) for a in axis])
    return made, {a.var: b.var for a, b in zip(axis, made, strict=True)}


def cached_write(op: ComputeOp, scope: str) -> tuple[ComputeOp, ComputeOp]:
    """The definition over tensors in ``scope``, and the one that copies them to the old tensors."""
    axis, change = fresh_axes(op.axis)
    bodies = _substituted(op.bodies, change)
    cache = ComputeOp(f"{op.name}.{scope}", axis, bodies, op.attrs, op.tag)
    cache.outputs = tuple(
        [
            Tensor(f"{t.name}.{scope}", t.shape, t.dtype, scope, op=cache, value_index=i)
            for i, t in enumerate(op.outputs)
        ]
    )
    indices = tuple([a.var for a in op.axis])
    copies = [BufferLoad(t, indices) for t in cache.outputs]
    return cache, _define(op, op.axis, copies, op.outputs)


def cached_read(
    tensor: Tensor, scope: str, readers: Sequence[ComputeOp]
) -> tuple[ComputeOp, list[ComputeOp]]:
    """The definition of a copy of ``tensor`` in ``scope``, and the readers, reading the copy."""
    axis = tuple(
        [IterVar(Var(f"ax{i}"), Range(IntImm(0), d), "spatial") for i, d in enumerate(tensor.shape)]
    )
    body = BufferLoad(tensor, tuple([a.var for a in axis]))
    name = f"{tensor.name}.{scope}"
    cache = ComputeOp(name, axis, (body,), (), "")
    cache.outputs = (Tensor(name, tensor.shape, tensor.dtype, scope, op=cache),)
    loads = _Loads(tensor, cache.outputs[0])
    changed = [_define(r, r.axis, _visited(r.bodies, loads), r.outputs) for r in readers]
    return cache, changed


def _substituted(bodies: Sequence[Expr], change: Mapping[Var, Expr]) -> tuple[Expr, ...]:
    new = [substitute(b, change) for b in bodies]
    return _joined(new)


def _visited(bodies: Sequence[Expr], rewrite: Mutator) -> tuple[Expr, ...]:
    return _joined([rewrite.visit(b) for b in bodies])


def _joined(bodies: Sequence[Expr]) -> tuple[Expr, ...]:
    """Bodies of one tuple reduction, sharing their sources as they did before a rewrite."""
    first = bodies[0]
    if not isinstance(first, TupleReduce):
        return tuple(bodies)
    return tuple(
        [
            replace(b, sources=first.sources, identities=first.identities)
            if isinstance(b, TupleReduce)
            else b
            for b in bodies
        ]
    )


# -- rfactor ---------------------------------------------------------------------------------------
@dataclass(slots=True)
class ReducePart:
    """A loop over part of a reduction; ``var`` stands for it in values and conditions."""

    var: Var
    extent: Expr


class _Replace(Mutator):
    """Variables become expressions, axes of the reduction included."""

    def __init__(self, change: Mapping[Var, Expr]) -> None:
        self.change = change

    def visit_Var(self, n: Var) -> Expr:  # noqa: N802
        return self.change.get(n, n)

    def visit_ReduceAxis(self, n: ReduceAxis) -> Expr:  # noqa: N802
        return self.change.get(n, n)


def factored(
    op: ComputeOp,
    part: ReducePart,
    rest: Sequence[ReducePart],
    values: Mapping[ReduceAxis, Expr],
    conditions: Sequence[Expr],
    factor_axis: int,
) -> tuple[ComputeOp, ComputeOp]:
    """A reduction in two: partial results for each value of ``part``, and their reduction.

    ``values`` gives each reduce axis in terms of the parts; ``conditions`` say which of the parts'
    values there are.
    """
    axis, change = fresh_axes(op.axis)
    spatial = IterVar(Var(part.var.name), Range(IntImm(0), part.extent), "spatial")
    reduced = [ReduceAxis(r.var.name, dom=Range(IntImm(0), r.extent)) for r in rest]
    change[part.var] = spatial.var
    change |= {r.var: a for r, a in zip(rest, reduced, strict=True)}
    of_parts = _Replace(dict(change))
    for old, value in values.items():
        change[old] = of_parts.visit(value)
    rewrite = _Replace(change)
    first = op.bodies[0]
    sources, starts = _terms(first)
    neutral = _neutral(first)
    guard = all_of([rewrite.visit(c) for c in conditions])
    terms: list[Expr] = [rewrite.visit(source) for source in sources]
    if conditions:
        pairs = zip(terms, neutral, strict=True)
        terms = [Call("if_then_else", (guard, t, n), t.dtype) for t, n in pairs]
    partial_axis = (*axis[:factor_axis], spatial, *axis[factor_axis:])
    partial = ComputeOp(
        f"{op.name}.rf", partial_axis, _reduction(first, terms, reduced, neutral), op.attrs, op.tag
    )
    shape = tuple([a.dom.extent for a in partial_axis])
    partial.outputs = tuple(
        [
            Tensor(f"{t.name}.rf", shape, t.dtype, op=partial, value_index=i)
            for i, t in enumerate(op.outputs)
        ]
    )
    again = ReduceAxis(f"{part.var.name}.v", dom=Range(IntImm(0), part.extent))
    own = [a.var for a in op.axis]
    indices = (*own[:factor_axis], again, *own[factor_axis:])
    loads = [BufferLoad(t, indices) for t in partial.outputs]
    return partial, _define(op, op.axis, _reduction(first, loads, [again], starts), op.outputs)


def _terms(body: Expr) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """What a reduction reduces, and what it starts from."""
    if isinstance(body, TupleReduce):
        return body.sources, body.identities
    assert isinstance(body, Reduce)
    return (body.source,), (body.identity,)


def _neutral(body: Expr) -> tuple[Expr, ...]:
    """What leaves a result as it is; a reduction with ``init`` starts from something else."""
    if isinstance(body, TupleReduce):
        return body.identities
    assert isinstance(body, Reduce)
    match body.combiner:
        case "max":
            return (min_value(body.dtype),)
        case "min":
            return (max_value(body.dtype),)
        case _:
            return (const(1 if body.combiner == "prod" else 0, body.dtype),)


def _reduction(
    like: Expr, terms: Sequence[Expr], axes: Sequence[ReduceAxis], starts: tuple[Expr, ...]
) -> tuple[Expr, ...]:
    """The reduction of other terms over other axes; the terms alone where there are no axes."""
    if not axes:
        return tuple(terms)
    if isinstance(like, TupleReduce):
        sources = tuple(terms)
        return tuple(
            [
                TupleReduce(like.reducer, sources, tuple(axes), starts, i, t.dtype)
                for i, t in enumerate(sources)
            ]
        )
    assert isinstance(like, Reduce)
    return (Reduce(like.combiner, terms[0], tuple(axes), starts[0]),)

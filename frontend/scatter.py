"""Scatters along one axis, as both front ends emit them: the dims behind the axis as one.

    scatter(x[31, 32, 32, 5], axis=0)   ->   scatter(x[31, 5120], axis=0), reshaped

A kernel takes a run of the last dim after the other: the longer they are, the more of a cache line
each of them uses. Views of memory in order cost nothing.
"""

from __future__ import annotations

from ..graphir.dim import dim_equal, product
from ..graphir.expr import Atom, ShapeExpr, Var
from ..graphir.type import TensorType
from ..tensorir.expr import Expr
from .integer_division import Emitter


def scatter_elements(
    context: Emitter, x: Atom, places: Atom, updates: Atom, *, axis: int, reduction: str
) -> Var:
    """``x`` with ``updates`` at ``places`` along ``axis``; operands as the operator takes them."""
    kind, own = context.type(x), context.type(places)
    axis %= max(kind.ndim, 1)
    behind = axis + 1

    def is_whole(a: TensorType) -> bool:
        pairs = zip(a.shape[behind:], kind.shape[behind:], strict=True)
        return a.ndim == kind.ndim and all(dim_equal(p, q) for p, q in pairs)

    given = context.type(updates)
    operands = [own] if not given.ndim else [own, given]
    if kind.ndim - behind < 2 or not all(a.ndim == kind.ndim and is_whole(a) for a in operands):
        return _emit(context, x, places, updates, axis, reduction)

    def merged(atom: Atom) -> Atom:
        shape = context.type(atom).shape
        return _reshaped(context, atom, (*shape[:behind], product(shape[behind:])))

    flat = updates if not given.ndim else merged(updates)
    result = _emit(context, merged(x), merged(places), flat, axis, reduction)
    return _reshaped(context, result, kind.shape)


def _emit(context: Emitter, x: Atom, places: Atom, updates: Atom, axis: int, reduction: str) -> Var:
    return context.op("scatter_elements", x, places, updates, axis=axis, reduction=reduction)


def _reshaped(context: Emitter, atom: Atom, shape: tuple[Expr, ...]) -> Var:
    return context.op("reshape", atom, ShapeExpr(shape))


__all__ = ["scatter_elements"]

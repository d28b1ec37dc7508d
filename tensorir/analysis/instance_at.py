"""The instance of a block that has a given place at its indices: ``X[vi * 8 + vj]`` for vj below 8
has the place ``p`` in the instance ``vi = p // 8, vj = p % 8``.

The inverse of the indices is an index map's; that it is one is proved again here, over the domains
of the axes. A place that no instance has is one where the conditions do not hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...support.errors import LayoutError
from ..arith import IndexMap
from ..expr import EQ, GE, LT, Expr, Var, add, sub
from ..stmt import Block
from ..visitor import substitute
from .affine import Bounds


@dataclass(frozen=True, slots=True)
class Instance:
    """The values of a block's axes, and when they are those of an instance."""

    axes: Mapping[Var, Expr]
    conditions: tuple[Expr, ...]


def instance_at(
    block: Block, indices: Sequence[Expr], place: Sequence[Expr], bounds: Bounds
) -> Instance | None:
    """The one instance of the block for which the ``indices`` are the ``place``.

    ``bounds`` are those of the variables of the place; conditions that follow from them are left
    out. None where two instances may have one place.
    """
    offsets = {it.var: Var(it.var.name) for it in block.iter_vars}
    moved = {it.var: add(offsets[it.var], it.dom.min) for it in block.iter_vars}
    moved_indices = [substitute(i, moved) for i in indices]
    starts = [bounds.linear(i).const for i in moved_indices]
    outputs = [bounds.simplify(sub(i, c)) for i, c in zip(moved_indices, starts, strict=True)]
    try:
        back, _ = IndexMap(tuple(offsets.values()), tuple(outputs)).padded_inverse(
            [it.dom.extent for it in block.iter_vars]
        )
    except LayoutError:
        return None

    def at(where: Sequence[Expr]) -> dict[Var, Expr]:
        begins = [sub(p, c) for p, c in zip(where, starts, strict=True)]
        change = dict(zip(back.inputs, begins, strict=True))
        return {
            it.var: add(substitute(value, change), it.dom.min)
            for it, value in zip(block.iter_vars, back.outputs, strict=True)
        }

    own = Bounds({it.var: it.dom for it in block.iter_vars})
    if not all(own.proves_equal(value, axis) for axis, value in at(indices).items()):
        return None
    axes = {axis: bounds.simplify(value) for axis, value in at(place).items()}
    wanted: list[Expr] = []
    for it in block.iter_vars:
        wanted.append(GE(axes[it.var], it.dom.min))
        wanted.append(LT(axes[it.var], add(it.dom.min, it.dom.extent)))
    wanted += [EQ(substitute(i, axes), p) for i, p in zip(indices, place, strict=True)]
    return Instance(axes, tuple([c for c in wanted if not bounds.proves(c)]))

"""The axes of a block that its indices are made of, as digits: ``X[vi * 8 + vj]`` for vj below 8.

Where each dimension of a buffer is read with digits of its own, and these reach all of it, an
element belongs to one instance of the block, and the axes are quotients and remainders of its
place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..arith.simplify import Simplifier
from ..expr import Expr, IntImm, Var, floordiv, floormod, is_const
from ..stmt import Block


def digit_axes(
    block: Block, indices: Sequence[Expr], shape: Sequence[Expr], place: Sequence[Expr]
) -> Mapping[Var, Expr] | None:
    """The axes of the instance that has ``place`` at these indices, of a buffer of this shape.

    None unless each axis is a digit of one index, the sizes are constants, and the indices take
    each element of the buffer once.
    """
    sizes = {
        it.var: it.dom.extent.value
        for it in block.iter_vars
        if is_const(it.dom.min, 0) and isinstance(it.dom.extent, IntImm)
    }
    found: dict[Var, Expr] = {}
    for index, dim, at in zip(indices, shape, place, strict=True):
        form = Simplifier().linear(index)
        if form.const or not isinstance(dim, IntImm):
            return None
        weight = 1
        for axis, factor in sorted(form.terms.items(), key=lambda term: term[1]):
            if not isinstance(axis, Var) or axis not in sizes or axis in found or factor != weight:
                return None
            quotient = at if weight == 1 else floordiv(at, weight)
            weight *= sizes[axis]
            found[axis] = quotient if weight == dim.value else floormod(quotient, sizes[axis])
        if weight != dim.value:
            return None
    return found if found.keys() == {it.var for it in block.iter_vars} else None

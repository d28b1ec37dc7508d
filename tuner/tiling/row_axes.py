"""Which axes of a row are one, so that vectors run through them.

    for i in 7: for j in 6:  A[i, j]       ->    for ij in 42:  A[ij]
    for i in 7: for j in 3:  A[i, 2 * j]   ->    for ij in 21:  A[2 * ij]         (rows of 6)
    for i in 7: for j in 3:  A[i, j]       ->    for ij in 21:  A[ij // 3, ij % 3]

Of the last kind, rows of which few elements are reduced, vectors are to hold whole turns: then each
finds its lanes at the same places of the rows around it, which are constants of a shuffle.
"""

from __future__ import annotations

from ...support.node import walk
from ...support.target import Target
from ...tensorir.arith.linear import offset_of, same_extent
from ...tensorir.expr import IntImm, Mul, Var
from ..workload import is_reduction, static_extent
from .lanes import lanes_of
from .nests import Access, Nest, accesses

SHORT = 8
"""Terms of a sum that are not worth vectors."""
NEAR_ROWS = 16
"""Elements from one row to the next up to which a vector is made of those around it."""
FEWEST_VECTORS = 2
"""Vectors of rows that are worth keeping whole turns in."""


def is_one_axis(nest: Nest) -> bool:
    """Whether the rest axes are the last dimensions, in order and whole, of all they index."""
    variables = [nest.block.iter_vars[i].var for i in nest.rest]
    extents = [nest.block.iter_vars[i].dom.extent for i in nest.rest]
    count = len(variables)
    if not all(isinstance(e, IntImm) for e in extents[1:]):
        return False
    for a in accesses(nest.block):
        used = [i for i in a.indices if any(i is v for v in variables)]
        if not used:
            if any(n is v for i in a.indices for n in walk(i) for v in variables):
                return False
            continue
        last, shape = a.indices[-count:], a.buffer.shape[-count:]
        if len(used) != count or len(last) != count or a.buffer.strides:
            return False
        if not all(i is v for i, v in zip(last, variables, strict=True)):
            return False
        if not all(same_extent(s, e) for s, e in zip(shape[1:], extents[1:], strict=True)):
            return False
    return True


def goes_in_steps(nest: Nest) -> bool:
    """Whether the rest axes run through all they index in equal steps, the next element of an axis
    following the last of the axes behind it (``a[:, ::2]``)."""
    axes = [nest.block.iter_vars[i] for i in nest.rest]
    extents = [axis.dom.extent for axis in axes]
    steps = [[_step(a, axis.var) for axis in axes] for a in accesses(nest.block)]
    return all(
        isinstance(e, IntImm) and None not in (outer, inner) and outer == (inner or 0) * e.value
        for found in steps
        for outer, inner, e in zip(found[:-1], found[1:], extents[1:], strict=True)
    )


def turns_of(nest: Nest, target: Target) -> int:
    """The extent of the last axis where the axis before it is one with it all the same, in vectors
    that hold whole turns of it: where few elements of each row are reduced (``a[:, :3]``), each
    vector finds them at the same places of the rows. 1 where it is not."""
    if len(nest.rest) < 2 or not is_reduction(nest.block):
        return 1
    if is_one_axis(nest) or goes_in_steps(nest):
        return 1
    before, last = (nest.block.iter_vars[i] for i in nest.rest[-2:])
    rows, columns = (static_extent(nest.block, i) for i in nest.rest[-2:])
    if columns is None or rows is None or not 1 < columns < SHORT:
        return 1
    steps = [[_step(a, axis.var) for axis in (before, last)] for a in accesses(nest.block)]
    if any(n is None or n > NEAR_ROWS for found in steps for n in found):
        return 1
    return columns if rows >= FEWEST_VECTORS * lanes_of(target, nest.block) else 1


def _step(access: Access, var: Var) -> int | None:
    """The elements from one iteration of an axis to the next; None where that is no constant."""
    total = 0
    for index, stride in zip(access.indices, access.buffer.all_strides, strict=True):
        if not any(n is var for n in walk(index)):
            continue
        place, factor = offset_of(index)[0], 1
        if isinstance(place, Mul) and isinstance(place.b, IntImm):
            factor = place.b.value
            place = place.a
        if place is not var or not isinstance(stride, IntImm):
            return None
        total += factor * stride.value
    return total

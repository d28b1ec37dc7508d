"""What blocks touch in other iterations of some loops: whether these may run in another order.

Two proofs are tried for each pair of blocks and buffer:

- by ranges: in some dimension the box that one touches at m ends before the box that the other
  touches at any later m' begins (m' is m + 1 + a number >= 0 in the loop where they differ first);
- by ownership: one block writes other elements in every iteration, and what the other touches at m
  lies in what the one writes at m.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ..buffer import Buffer, BufferRegion, Range
from ..expr import Expr, IntImm, Var, add, is_const, sub
from ..stmt import Block, For
from ..text.printer import print_region
from ..visitor import substitute
from .affine import Bounds, loop_bounds, undetermined
from .block_kinds import binding_map
from .nested_blocks import Nested
from .region_cover import Box, apart, contains, covers_domain, touched


@dataclass(frozen=True, slots=True)
class Touch:
    """A region of a block, and the box that one iteration of the merged loops touches."""

    block: Nested
    region: BufferRegion
    written: bool
    box: Box


def box_text(buffer: Buffer, box: Box) -> str:
    """A box of a buffer in a message."""
    ranges = [Range(s, e) for s, e in zip(box.starts, box.extents, strict=True)]
    return print_region(BufferRegion(buffer, tuple(ranges)))


@dataclass(frozen=True, slots=True)
class _Iteration:
    """Another iteration of the merged loops: their variables there, and all ranges."""

    values: dict[Var, Expr]
    bounds: Bounds

    def separates(self, there: Box, here: Box) -> bool:
        """Whether one box in that iteration and another in this one have nothing in common."""
        starts = [substitute(s, self.values) for s in there.starts]
        extents = [substitute(e, self.values) for e in there.extents]
        return apart(Box(starts, extents, there.exact), here, self.bounds)


class LoopOrder:
    """Loops whose iterations are to run in another order, and those around them."""

    def __init__(self, outer: Sequence[For], merged: Sequence[For]) -> None:
        self.merged = merged
        self.fixed = [*outer, *merged]
        self._touches: dict[int, tuple[Nested, list[Touch]]] = {}
        self.later: list[tuple[_Iteration, _Iteration]] = []
        """For each loop in which a later iteration may be the first to differ: what is known of it
        where its distance counts, and where its range does."""
        for d, loop in enumerate(merged):
            steps = [Var(f"{other.var.name}_later") for other in merged[d:]]
            values: dict[Var, Expr] = {
                other.var: step for other, step in zip(merged[d:], steps, strict=True)
            }
            ranges = {
                step: Range(IntImm(0), other.extent)
                for other, step in zip(merged[d:], steps, strict=True)
            }
            bounds = loop_bounds(self.fixed)
            self.later.append(
                (
                    _Iteration(
                        values | {loop.var: add(add(loop.var, 1), steps[0])},
                        bounds | Bounds(ranges | {steps[0]: Range(IntImm(0), sub(loop.extent, 1))}),
                    ),
                    _Iteration(values, bounds | Bounds(ranges)),
                )
            )

    def touches(self, n: Nested) -> list[Touch]:
        """What a block touches in one iteration; it is compared with many others."""
        known = self._touches.get(id(n))
        if known is None:
            known = self._touches[id(n)] = (n, self._found(n))
        return known[1]

    def _found(self, n: Nested) -> list[Touch]:
        bounds = loop_bounds([*self.fixed, *n.loops])
        sides = ((n.block.reads, False), (n.block.writes, True))
        return [
            Touch(n, r, written, touched(r, n, n.loops, bounds))
            for regions, written in sides
            for r in regions
        ]

    def are_apart(self, later: Touch, now: Touch) -> bool:
        """Whether what one touches in any later iteration, the other does not touch now."""
        if all(any(i.separates(later.box, now.box) for i in ways) for ways in self.later):
            return True
        return self.owns(later, now) or self.owns(now, later)

    def owns(self, owner: Touch, other: Touch) -> bool:
        """Whether ``owner`` touches all that ``other`` does in an iteration, and each element in
        one iteration alone."""
        n = owner.block
        bounds = loop_bounds([*self.fixed, *n.loops])
        if not owner.written or not owner.box.exact or not covers_domain(n, bounds):
            return False
        at = binding_map(n.realize)
        indices = [substitute(r.min, at) for r in owner.region.region]
        if not all(is_const(r.extent, 1) for r in owner.region.region):
            return False
        free = undetermined(indices, bounds)
        if free is None or any(loop.var in free for loop in self.merged):
            return False
        known = bounds | loop_bounds(other.block.loops)
        return contains(owner.box, other.box, known, owner.region.buffer.shape)


def overwrites(n: Nested, loops: Sequence[For], buffers: Collection[Buffer]) -> bool:
    """Whether a block may write the same elements of one of the buffers in several iterations of
    some of its loops, so that after these loops only the last values are left."""
    if all(w.buffer not in buffers for w in n.block.writes):
        return False
    order = LoopOrder([], loops)
    inner = Nested(n.realize, [x for x in n.loops if x not in loops], n.conditions)
    return any(
        w.written and w.region.buffer in buffers and not order.are_apart(w, w)
        for w in order.touches(inner)
    )


def rewritten_input(
    block: Block, left: Sequence[For], others: Sequence[Nested]
) -> tuple[Nested, For] | None:
    """One of the other blocks that writes what this one reads anew in iterations of a loop that it
    is to leave, and that loop: outside of it only the last values are there."""
    reads = {r.buffer for r in block.reads}
    for n in others:
        shared = [x for x in left if any(x is loop for loop in n.loops)]
        if n.block is not block and shared and overwrites(n, shared, reads):
            return n, shared[0]
    return None

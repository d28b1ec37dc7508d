"""Sums in blocks: the terms of a long sum are added up in blocks, and then the blocks.

    for b                                    blocks of steps, in order
      P = 0                                  registers
      for the steps of a block
        P[tile] += X[...] * W[...]
      S[tile] += P[tile]                     the first cache

A sum of K terms, one after the other, has errors that grow with K (in the mean with its square
root), because each addition rounds the sum of all before it. In blocks of L they grow with L + K /
L. Which blocks there are depends on shapes alone: same bits for any number of threads. See Higham,
"The Accuracy of Floating Point Summation" (1993).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...tensorir.schedule import LoopRV, Schedule
from .lanes import write_out

LONGEST = 192
"""Terms that are added up one after the other: about what other libraries add in a block, and so
many that putting the sum of a block away takes one or two hundredths of the time."""
LONGER = 288
"""Terms that may be where fewer would make blocks of less than ``SHORTEST``, or of two lengths."""
SHORTEST = 48


@dataclass(frozen=True)
class Blocks:
    """Of the loops over a sum's terms those before ``loop`` run over blocks, and so do ``parts``
    parts of that one; a block has ``steps`` terms at most."""

    loop: int
    parts: int
    steps: int


def plan_blocks_of_steps(extents: Sequence[int | None], unroll: int = 1) -> Blocks | None:
    """The blocks of a sum over nested loops of these extents, in their order; None where one block
    is all. ``unroll`` steps of the last loop are written out, and divide a block where they can.

    Longer sums than ``LONGEST`` squared have as many blocks as a block has terms. Sums of symbolic
    length are not cut.
    """
    known = [e for e in extents if e is not None]
    total = math.prod(known)
    longest = max(LONGEST, math.isqrt(total))
    longer = longest * LONGER // LONGEST
    if len(known) < len(extents) or total <= longest:
        return None
    last = len(known) - 1
    below = [math.prod(known[loop + 1 :]) for loop in range(len(known))]
    equal = [
        Blocks(loop, parts, extent // parts * below[loop])
        for loop, extent in enumerate(known)
        for parts in range(1, extent + 1)
        if extent % parts == 0
    ]
    best = max([b for b in equal if b.steps <= longest], key=lambda b: _score(b, known, unroll))
    if best.steps >= SHORTEST:
        return best
    best = min([b for b in equal if b.steps > longest], key=lambda b: b.steps)
    if best.steps <= longer:
        return best if best.steps < total else None
    loop = next(i for i in range(last + 1) if below[i] <= longest)
    parts = math.ceil(known[loop] / (longest // below[loop]))
    return Blocks(loop, parts, math.ceil(known[loop] / parts) * below[loop])


def _score(blocks: Blocks, extents: Sequence[int], unroll: int) -> tuple[bool, int]:
    """Blocks that the unrolled steps divide, and long ones, are best."""
    last = len(extents) - 1
    whole = blocks.loop < last or extents[last] // blocks.parts % unroll == 0
    return whole and blocks.steps >= SHORTEST, blocks.steps


def cut_blocks(
    sch: Schedule, loops: Sequence[LoopRV], blocks: Blocks | None
) -> tuple[list[LoopRV], list[LoopRV]]:
    """Cut the loops of a sum: those over blocks, and those over the steps of a block."""
    if blocks is None:
        return [], list(loops)
    outer, loop, inner = loops[: blocks.loop], loops[blocks.loop], loops[blocks.loop + 1 :]
    if blocks.parts == 1:
        return list(outer), [loop, *inner]
    parts, steps = sch.split(loop, [blocks.parts, None])
    return [*outer, parts], [steps, *inner]


def sum_in_blocks(sch: Schedule, product: str, blocks: LoopRV) -> str:
    """Add up the terms of each iteration of the loop ``blocks`` by themselves, in registers; gives
    the block that does, whose loops are those of ``product`` before, up to a new loop over blocks.

    The spatial loops below ``blocks`` are a tile, the last of them its lanes. ``product`` keeps the
    sums of blocks, which leave and enter registers in vectors.
    """
    outer = _depth_of(sch, product, blocks)
    partial = sch.rfactor(blocks, 0)
    sch.set_scope(partial, 0, "register")
    place, *tile, lane = sch.get_loops(product)[outer:]
    write_out(sch, tile, lane)
    merged = sch.merge(sch.get_loops(partial)[outer], place)
    sch.decompose_reduction(product, merged)
    return partial.name


def _depth_of(sch: Schedule, block: str, loop: LoopRV) -> int:
    """The number of a block's loops around ``loop``."""
    return next(i for i, own in enumerate(sch.get_loops(block)) if own.var is loop.var)

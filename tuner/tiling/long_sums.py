"""Long sums of floats are added in blocks.

A sum that takes its terms one after another has an error that grows with their number. The loop
over the terms of a long one is annotated (``sum_block``), and lowering gives each ``TERMS`` of them
a partial sum and each ``TERMS`` of these another. The lanes of vectors are partial sums already, so
that rows of some thousands of elements are short. The blocks depend on extents alone.
"""

from __future__ import annotations

import math

from ...tensorir.expr import Add, BufferLoad, IntImm, is_const
from ...tensorir.lowering.block_sums import SUM_BLOCK
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block, BufferStore
from ..workload import block_named

TERMS = 16
"""Terms of a block, as many as PyTorch has in the smallest. Adding up the blocks costs a sixteenth
of the sum, which waits for memory or for its loads anyway."""


def block_long_sum(sch: Schedule, name: str, loops: list[LoopRV], together: int = 1) -> None:
    """Have a block's sum added in blocks where ``loops``, those over its terms from the outermost
    on, have many iterations or symbolically many; each iteration has so many terms ``together``."""
    if not loops or not _adds_floats(block_named(sch.func, name)):
        return
    extents = [sch.get(loop).extent for loop in loops]
    known = [e.value for e in extents if isinstance(e, IntImm)]
    if len(known) < len(extents) or math.prod(known) * together > 2 * TERMS:
        outermost = next(n for n, e in enumerate(extents) if not is_const(e, 1))
        sch.annotate(loops[outermost], SUM_BLOCK, TERMS)


def _adds_floats(block: Block) -> bool:
    """Whether a block adds to what it writes."""
    store = block.body
    if not isinstance(store, BufferStore) or not store.buffer.dtype.is_float:
        return False
    value = store.value
    parts = (value.a, value.b) if isinstance(value, Add) else ()
    return any(isinstance(x, BufferLoad) and x.buffer is store.buffer for x in parts)

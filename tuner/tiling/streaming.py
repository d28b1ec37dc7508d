"""Results that are larger than the caches go past them.

A store into a line that no cache holds reads the line first; where the function's result is
larger than the last cache, nobody finds it there later. Stores past the caches (``non_temporal``)
save that read, a third of what a copy moves. They are of whole lines: narrow vectors are stored
several at a time (``vectors_of_line``).
"""

from __future__ import annotations

from ...support.abi import LINE_BYTES
from ...support.node import walk
from ...support.target import Target
from ...tensorir.buffer import Buffer
from ...tensorir.expr import BufferLoad
from ...tensorir.function import PrimFunc
from ...tensorir.lowering.lower_blocks import NON_TEMPORAL
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block, BlockRealize, BufferStore
from ..workload import blocks_in_order, buffer_bytes


def stream_results(sch: Schedule, target: Target) -> None:
    """Annotate the blocks that write a parameter which is larger than the last cache (if its size
    is known) and which the function does not read."""
    streamed = _streamed(sch.func, target)
    for block in blocks_in_order(sch.func) if streamed else ():
        stored = {id(n.buffer) for n in walk(block.body) if isinstance(n, BufferStore)}
        holds_blocks = any(isinstance(n, BlockRealize) for n in walk(block.body))
        if stored and stored <= streamed and not holds_blocks:
            sch.annotate(block.name, NON_TEMPORAL, 1)


def vectors_of_line(func: PrimFunc, block: Block, lanes: int, target: Target) -> int:
    """Vectors that fill a cache line, where the block's results go past the caches; else 1."""
    written = block.writes[0].buffer
    if id(written) not in _streamed(func, target):
        return 1
    return max(1, LINE_BYTES // (lanes * written.dtype.itemsize))


def _streamed(func: PrimFunc, target: Target) -> set[int]:
    large = {
        id(p)
        for p in func.params
        if isinstance(p, Buffer) and 0 < target.l3_bytes < (buffer_bytes(p) or 0)
    }
    if not large:
        return large
    return large - {id(n.buffer) for n in walk(func.body) if isinstance(n, BufferLoad)}

"""Results that are larger than the caches go past them.

A store into a line that no cache holds reads the line first; where the function's result is
larger than the last cache, nobody finds it there later. Stores past the caches (``non_temporal``)
save that read, a third of what a copy moves.
"""

from __future__ import annotations

from ...support.node import walk
from ...support.target import Target
from ...tensorir.buffer import Buffer
from ...tensorir.expr import BufferLoad, IntImm
from ...tensorir.lowering.lower_blocks import NON_TEMPORAL
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import BlockRealize, BufferStore
from ..workload import blocks_in_order


def stream_results(sch: Schedule, target: Target) -> None:
    """Annotate the blocks that write a parameter which is larger than the last cache and which the
    function does not read."""
    func = sch.func
    read = {id(n.buffer) for n in walk(func.body) if isinstance(n, BufferLoad)}
    params = {
        id(p)
        for p in func.params
        if isinstance(p, Buffer) and id(p) not in read and _bytes(p) > target.l3_bytes
    }
    for block in blocks_in_order(func) if params else ():
        stored = {id(n.buffer) for n in walk(block.body) if isinstance(n, BufferStore)}
        holds_blocks = any(isinstance(n, BlockRealize) for n in walk(block.body))
        if stored & params and not holds_blocks:
            sch.annotate(block.name, NON_TEMPORAL, 1)


def _bytes(buffer: Buffer) -> int:
    """The size of a buffer, 0 where it is symbolic."""
    size = buffer.dtype.itemsize
    for n in buffer.shape:
        size *= n.value if isinstance(n, IntImm) else 0
    return size

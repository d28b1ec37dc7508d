"""Inlining: every elementwise intermediate into its consumer, so that a fused function becomes one loop
nest a reduction, with its epilogue."""

from __future__ import annotations

from ...support.errors import ScheduleError
from ...tensorir.schedule import Schedule
from ..workload import blocks_in_order, is_spatial


def inline_elementwise(sch: Schedule) -> None:
    """Inline spatial blocks that write intermediates, producers first; one that the primitive refuses
    (read through a reduction's init, an output) stays a block."""
    outputs = {id(b) for b in sch.func.written}
    for block in blocks_in_order(sch.func):
        if not is_spatial(block) or any(id(w.buffer) in outputs for w in block.writes):
            continue
        try:
            sch.compute_inline(block.name)
        except ScheduleError:
            continue

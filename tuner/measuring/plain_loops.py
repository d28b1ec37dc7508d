"""The unscheduled function, as it is run to know what it computes.

A definition of a large product walks down the columns of an operand in its innermost loop, a page a
step, and takes a minute where all candidates together take less. So a long reduction gets its last
spatial axis innermost: one reorder and one decompose_reduction, both proved legal on the spot. No
tile, no vector, no copy: what the candidates are compared with shares nothing with how they are
made. Whatever the primitives refuse stays as it was written.
"""

from __future__ import annotations

import math

from ...support.errors import ScheduleError
from ...tensorir.expr import IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block
from ..workload import blocks_in_order, is_reduction

LONG = 1 << 24
"""Iterations of a reduction block from which on its loops are put in order."""


def plain_loops(func: PrimFunc) -> PrimFunc:
    """``func`` with the loops of its long reductions in order; the same object where none is."""
    long = [b.name for b in blocks_in_order(func) if is_reduction(b) and _iterations(b) >= LONG]
    if not long:
        return func
    sch = Schedule(func, seed=0)
    for name in long:
        trial = sch.copy()
        try:
            loops = trial.get_loops(name)
            kinds = [v.kind for v in trial.get(trial.get_block(name)).iter_vars]
            spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "spatial"]
            reduce = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "reduce"]
            if not spatial:
                continue
            trial.reorder(*spatial[:-1], *reduce, spatial[-1])
            trial.decompose_reduction(name, reduce[0])
        except (ScheduleError, ValueError):  # loops that are not the axes, one for one
            continue
        sch.become(trial)
    return sch.func


def _iterations(block: Block) -> int:
    extents = [v.dom.extent for v in block.iter_vars]
    return math.prod([e.value for e in extents if isinstance(e, IntImm)])

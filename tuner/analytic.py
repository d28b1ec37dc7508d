"""The analytic schedule: the design space's rules with every decision taken from the target's data.

Untuned code is scheduled by this, and it is the first member of every tuning population.
"""

from __future__ import annotations

from ..support.errors import ScheduleError
from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import Schedule
from .chooser import Chooser
from .rules.dot import fits, schedule_dot
from .rules.elementwise import schedule_elementwise
from .rules.matmul import match, schedule_matmul
from .rules.reduction import schedule_reduction
from .workload import blocks_in_order, is_empty, is_reduction


def apply_rules(sch: Schedule, target: Target, chooser: Chooser) -> None:
    """Apply the rule that fits the schedule's function."""
    func = sch.func
    if is_empty(func):
        return
    matmul = match(func)
    if matmul is not None and fits(func, matmul, max(1, target.vector_bits // matmul.x.dtype.bits)):
        schedule_dot(sch, target, chooser, matmul)
    elif matmul is not None:
        schedule_matmul(sch, target, chooser)
    elif any(is_reduction(b) for b in blocks_in_order(func)):
        schedule_reduction(sch, target, chooser)
    else:
        schedule_elementwise(sch, target, chooser)


def schedule_analytically(func: PrimFunc, target: Target) -> PrimFunc:
    """``func`` with the analytic schedule, marked ``is_scheduled``."""
    sch = Schedule(func, seed=0)
    apply_rules(sch, target, Chooser(analytic=True))
    return sch.func


__all__ = ["ScheduleError", "apply_rules", "schedule_analytically"]

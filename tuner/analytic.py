"""The analytic schedule: the design space's rules with every decision taken from the target's data.

Untuned code is scheduled by this, and it is the first member of every tuning population.
"""

from __future__ import annotations

from ..support.config import flag
from ..support.errors import RuleMismatchError, ScheduleError
from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import Schedule
from .cost.slowdown import slowdown
from .rules.registry import RULES
from .schedule_log import (
    FAR_OFF,
    KernelSchedule,
    Reasons,
    defect_of,
    reason_of,
    steps_given_up,
    write_down,
)
from .tiling.streaming import stream_results
from .workload import is_empty


def apply_rules(sch: Schedule, target: Target, *, sampled: bool = False) -> str | None:
    """Apply the first rule that fits the schedule's function, with the analytic decisions or with
    ``sampled`` ones; its name, None where none did.

    Where nobody searches, a schedule that seems FAR_OFF what the function needs at least is not the
    last word: the rules after it are tried too, and what seems fastest is taken. A rule that fails
    by a mistake of its own gives way like one that refuses. What was decided is written down
    (``schedule_log``).
    """
    func = sch.func
    if is_empty(func):
        write_down(KernelSchedule(func.name, "empty"))
        return None
    refusals: list[tuple[str, str]] = []
    parts = ""
    best: tuple[float, str, Schedule, Reasons] | None = None
    for rule in RULES:
        trial = sch.copy()
        try:
            with steps_given_up() as steps:
                trial.apply_rule(rule.name, target, None if sampled else {})
        except RuleMismatchError as mismatch:
            parts = mismatch.parts
            continue
        except ScheduleError as refusal:
            refusals.append((rule.name, reason_of(refusal)))
            continue
        except Exception as defect:  # a mistake in a rule must not stop a compilation
            if flag("BURNISH_RAISE_DEFECTS"):
                raise
            refusals.append((rule.name, defect_of(defect)))
            continue
        stream_results(trial, target)
        slower = 1.0 if sampled else slowdown(func, trial.func, target)
        if best is None or slower < best[0]:
            best = (slower, rule.name, trial, tuple(steps))
        if slower <= FAR_OFF:
            break
    if best is None:
        others = f"for functions of other kinds than one with {parts}"
        write_down(KernelSchedule(func.name, None, (*refusals, ("all others", others))))
        return None
    slower, name, trial, given_up = best
    sch.become(trial)
    estimate = None if sampled else slower
    write_down(KernelSchedule(func.name, name, tuple(refusals), estimate, given_up))
    return name


def schedule_analytically(func: PrimFunc, target: Target) -> PrimFunc:
    """``func`` with the analytic schedule, marked ``is_scheduled``."""
    sch = Schedule(func, seed=0)
    apply_rules(sch, target)
    return sch.func

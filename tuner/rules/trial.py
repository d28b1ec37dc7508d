"""Trials: a rule that turns out not to fit leaves the schedule as it was."""

from __future__ import annotations

from collections.abc import Callable

from ...support.errors import ScheduleError
from ...tensorir.schedule import Schedule


def attempt(sch: Schedule, apply: Callable[[Schedule], object]) -> bool:
    """Apply a rule to a copy of the schedule and keep the result; False (and nothing changed) where
    a primitive refuses."""
    trial = sch.copy()
    try:
        apply(trial)
    except ScheduleError:
        return False
    sch.become(trial)
    return True

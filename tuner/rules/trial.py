"""Trials: a rule that turns out not to fit leaves the schedule as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from ...support.errors import ScheduleError
from ...tensorir.schedule import Schedule

P = ParamSpec("P")


def attempt(
    sch: Schedule,
    rule: Callable[Concatenate[Schedule, P], object],
    *args: P.args,
    **kwargs: P.kwargs,
) -> bool:
    """Apply a rule to a copy of the schedule and keep the result; False (and nothing changed) where
    a primitive refuses."""
    return refusal_of(sch, rule, *args, **kwargs) is None


def refusal_of(
    sch: Schedule,
    rule: Callable[Concatenate[Schedule, P], object],
    *args: P.args,
    **kwargs: P.kwargs,
) -> ScheduleError | None:
    """The same; what the primitive said, None where none refused."""
    trial = sch.copy()
    try:
        rule(trial, *args, **kwargs)
    except ScheduleError as error:
        return error
    sch.become(trial)
    return None

"""Trials: a rule that turns out not to fit leaves the schedule as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec

from ...support.errors import ScheduleError
from ...tensorir.schedule import Schedule
from ..schedule_log import give_up

P = ParamSpec("P")


def attempt(
    sch: Schedule,
    rule: Callable[Concatenate[Schedule, P], object],
    *args: P.args,
    **kwargs: P.kwargs,
) -> bool:
    """Apply a rule to a copy of the schedule and keep the result; False (and nothing changed) where
    a primitive refuses, which the log has with its reason (``schedule_log``)."""
    trial = sch.copy()
    try:
        rule(trial, *args, **kwargs)
    except ScheduleError as error:
        give_up(rule.__name__.lstrip("_"), error)
        return False
    sch.become(trial)
    return True

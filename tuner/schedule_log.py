"""What was decided about schedules: which rule scheduled a function, which refused it before that.

A rule that does not fit gives way to the next, which may be slower by far. So that this is seen,
``apply_rules`` writes down what it did, and who compiles collects it:

    with recorded() as log:
        schedule(func, target)
    log[-1].rule, log[-1].refusals
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ..support.errors import ScheduleError

FAR_OFF = 10.0
"""Slowdown from which on a schedule is not left alone."""
LONGEST = 200
"""Characters of a reason that are kept."""


Reasons: TypeAlias = tuple[tuple[str, str], ...]
"""What was refused, a rule or a step of one, and why."""


@dataclass(frozen=True)
class KernelSchedule:
    """How a function got its schedule.

    ``rule`` is the one that scheduled it (None: none did, and it runs as it was written; ``empty``:
    some axis has no iterations, and there is nothing to schedule);
    ``refusals`` are the rules before that and why they refused, ``given_up`` the steps that the
    rule tried and did without, and why these were refused; ``slowdown`` is how many times its
    estimated time is that of its arithmetic and its bytes alone, None where that is not known.
    """

    kernel: str
    rule: str | None
    refusals: Reasons = ()
    slowdown: float | None = None
    given_up: Reasons = ()
    is_recorded: bool = False
    """Whether a tuning record says so; ``rule`` is then the one that its trace runs."""

    @property
    def is_far_off(self) -> bool:
        """Whether the schedule is known to be slow."""
        return self.slowdown is not None and self.slowdown > FAR_OFF

    @property
    def origin(self) -> str:
        """The rule in words, and whether it comes from records."""
        return f"{self.rule or 'none'}{' from records' if self.is_recorded else ''}"

    def __str__(self) -> str:
        refused = [f"{rule} refused ({reason})" for rule, reason in self.refusals]
        refused += [f"without {step} ({reason})" for step, reason in self.given_up]
        return f"{self.kernel}: {self.rule or 'no rule'}" + "".join([f"; {r}" for r in refused])


_log: ContextVar[list[KernelSchedule] | None] = ContextVar("schedule_log", default=None)


_steps: ContextVar[list[tuple[str, str]] | None] = ContextVar("steps_given_up", default=None)


@contextmanager
def steps_given_up() -> Iterator[list[tuple[str, str]]]:
    """The steps that are given up inside, with the reasons, each once."""
    found: list[tuple[str, str]] = []
    token = _steps.set(found)
    try:
        yield found
    finally:
        _steps.reset(token)


def give_up(step: str, error: ScheduleError) -> None:
    """Note that a rule does without a step, where a primitive refuses it."""
    steps = _steps.get()
    entry = (step, reason_of(error))
    if steps is not None and entry not in steps:
        steps.append(entry)


@contextmanager
def recorded() -> Iterator[list[KernelSchedule]]:
    """What is scheduled inside, in this thread, in order."""
    found: list[KernelSchedule] = []
    token = _log.set(found)
    try:
        yield found
    finally:
        _log.reset(token)


def write_down(schedule: KernelSchedule) -> None:
    """Add to the log of who collects, if anybody does."""
    log = _log.get()
    if log is not None:
        log.append(schedule)


def reason_of(error: ScheduleError) -> str:
    """Why a primitive refused, in one line, without the program."""
    return _line(f"{error.primitive}: {error.found}")


def defect_of(error: Exception) -> str:
    """What went wrong inside a rule, and where, in one line."""
    *_, frame = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return _line(f"a defect of the compiler, {type(error).__name__} at {place}: {error}")


def _line(text: str) -> str:
    reason = " ".join(text.split())
    return reason if len(reason) <= LONGEST else reason[: LONGEST - 3] + "..."

"""model.tune: tune the kernels of a compiled model, and keep the new schedules where it wins.

The search itself is ``tuner.session``; here are the budget's division and the verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..support.errors import TuningError
from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tuner.analytic import schedule_analytically
from ..tuner.database import TuningDatabase
from ..tuner.session import TuningProgress, tune_task
from ..tuner.task import TuneTask
from ..tuner.worker_pool import WorkerPool
from .stages import ScheduleChoice
from .timing import Timing
from .transform import best_or_none


@dataclass
class TuneResult:
    """What a ``model.tune`` did: one progress a task, and the model's time before and after (None
    where the best schedules are those the model has)."""

    tasks: list[TuningProgress] = field(default_factory=list)
    before: Timing | None = None
    after: Timing | None = None
    kept: bool = False
    """Whether the tuned schedules are in use: they are where they made the model faster."""

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if self.before is None or self.after is None:
            return "no schedule was found that is better than the present ones"
        gain = self.before.minimum / self.after.minimum
        if self.kept:
            return f"the tuned model is {gain:.2f} times as fast; it is in use"
        return (
            f"the tuned model is {gain:.2f} times as fast, which is no gain; "
            "the old one stays in use"
        )


def scheduled_by(database: TuningDatabase) -> ScheduleChoice:
    """The best record of a database where there is one, else the analytic schedule."""

    def choose(func: PrimFunc, target: Target) -> PrimFunc:
        return best_or_none(func, target, database) or schedule_analytically(func, target)

    return choose


def tune_tasks(
    tasks: Sequence[TuneTask],
    database: TuningDatabase,
    *,
    trials: int | None,
    minutes: float | None,
    on_progress: Callable[[int, str], None] | None = None,
) -> list[TuningProgress]:
    """Tune tasks one after another, the most work (FLOP times calls) first; the budget is divided
    by their work, and what one leaves over goes to the next.

    Raises TuningError for a budget that is none.
    """
    _check_budget(trials, minutes)
    deadline = time.monotonic() + minutes * 60 if minutes is not None else None
    left = trials if trials is not None else 1 << 30
    ranked = sorted(tasks, key=_work, reverse=True)
    results: list[TuningProgress] = []
    finished = 0
    with WorkerPool(1, limit=60.0) as pool:
        for i, task in enumerate(ranked):
            share = _work(task) / sum([_work(t) for t in ranked[i:]])
            end = deadline
            if deadline is not None:
                end = time.monotonic() + (deadline - time.monotonic()) * share
            progress = tune_task(
                task,
                database,
                max_trials=min(left, max(1, round(left * share))),
                trials_per_iter=16,
                executor=pool,
                deadline=end,
                on_progress=_reporter(on_progress, finished),
            )
            finished += progress.done + progress.failed
            left -= progress.done + progress.failed
            results.append(progress)
    return results


def _check_budget(trials: int | None, minutes: float | None) -> None:
    if trials is not None and trials < 1:
        raise TuningError(f"trials={trials}: expected at least 1.")
    if minutes is not None and minutes <= 0:
        raise TuningError(f"minutes={minutes}: expected more than 0.")


def _work(task: TuneTask) -> float:
    return max(task.flop * task.weight, 1.0)


def _reporter(
    on_progress: Callable[[int, str], None] | None, finished: int
) -> Callable[[TuningProgress], None] | None:
    """``on_progress`` of a task, in terms of all tasks: how many candidates, and a line of text."""
    if on_progress is None:
        return None

    def report(p: TuningProgress) -> None:
        best = f"{p.best * 1e6:.2f} us" if p.best is not None else "none yet"
        on_progress(finished + p.done + p.failed, f"{p.task.name}: best {best}")

    return report

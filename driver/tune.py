"""model.tune: tune the kernels of a compiled model, and keep the new schedules where it wins.

The search itself is ``tuner.session``; here are the budget's division and the verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
    """What a ``model.tune`` did: one progress a task, and the model's time before and after."""

    tasks: list[TuningProgress] = field(default_factory=list)
    before: Timing | None = None
    after: Timing | None = None
    kept: bool = False
    """Whether the tuned schedules are in use: they are where they made the model faster."""

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if self.before is None or self.after is None:
            return "nothing to compare"
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
    """Tune tasks one after another; the budget is divided by their work (FLOP times calls)."""
    deadline = time.monotonic() + minutes * 60 if minutes is not None else None
    total = trials if trials is not None else 1 << 30
    work = [max(t.flop * t.weight, 1.0) for t in tasks]
    results: list[TuningProgress] = []
    finished = 0
    with WorkerPool(1, limit=60.0) as pool:
        for i, task in enumerate(tasks):
            share = work[i] / sum(work[i:])
            budget = (
                max(1, round((total - finished) * share))
                if i + 1 < len(tasks)
                else total - finished
            )
            end = deadline
            if deadline is not None:
                end = time.monotonic() + (deadline - time.monotonic()) * share
            base = finished

            def report(p: TuningProgress, base: int = base) -> None:
                if on_progress is not None:
                    best = f"{p.best * 1e6:.2f} us" if p.best is not None else "none yet"
                    on_progress(base + p.done + p.failed, f"{p.task.name}: best {best}")

            progress = tune_task(
                task,
                database,
                max_trials=budget,
                trials_per_iter=16,
                executor=pool,
                deadline=end,
                on_progress=report,
            )
            finished += progress.done + progress.failed
            results.append(progress)
    return results

"""The final heat: the fastest candidates of a task are timed once more, in turns.

Of many times that a search has seen, the smallest is also the luckiest: one candidate was timed
while the builders slept, another while they filled the caches. So before a result is used, those
that lead run again with nothing beside them:

    leaders = the analytic choice, and the best few records
    R times: each of the leaders, in turns ──> their new times replace the old ones
    a record that leads now without having run in the heat joins it, and so on

What is at the top of the database then has been compared with the analytic choice under the same
conditions, but where more than ``MOST`` would have to run. Times of other records stay as they are.
"""

from __future__ import annotations

import time
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...support.errors import BuildError, MeasureTimeout, ScheduleError, WorkerFailed
from ...tensorir.schedule import Schedule
from ...tensorir.text.printer import print_func
from ..best_record import kept_text
from ..candidate import make_candidate
from ..measuring.measure import build_candidate, run_candidate
from ..measuring.pipeline import Pipeline, Pools
from ..records.database import TuningDatabase, TuningRecord
from ..task import TuneTask
from .space import analytic_choices

ROUNDS = 5
SECONDS = 0.02
"""A candidate is run for so long in each round."""
LEADERS = 3
MOST = 6
"""Candidates that take part, beside the analytic one."""


def final_heat(
    task: TuneTask, database: TuningDatabase, pools: Pools, *, deadline: float | None = None
) -> int:
    """Time the leading records of a task in turns, and record the new times; how many took part.

    Nothing is done where the analytic choice leads, or is not recorded. A candidate that fails now
    has the reason in its record in place of its times; one whose worker died or failed does not
    take part. At the ``deadline`` (of ``time.monotonic``) the heat ends, in the middle of a job
    too, and what was not timed anew keeps its old times. Raises TuningError for an executor that is
    of no use.
    """
    if deadline is not None and time.monotonic() >= deadline:
        return 0
    records = _measured(task, database)
    analytic = _analytic(task)
    if len(records) < 2 or analytic not in records:
        return 0
    if min(records.values(), key=_best).candidate == analytic:
        return 0
    with TemporaryDirectory(prefix="burnish-heat-") as folder, suppress(TimeoutError):
        heat = _Heat(task, database, pools, str(Path(folder) / "reference.npz"), deadline)
        leaders = sorted(records.values(), key=_best)[:LEADERS]
        heat.enter([records[analytic], *[r for r in leaders if r.candidate != analytic]])
        while True:
            for record in heat.run():
                database.add(record)
            leader = min(_measured(task, database).values(), key=_best)
            if leader.candidate in heat.entered or len(heat.entered) > MOST or heat.is_over():
                return len(heat.entered)
            heat.enter([leader])
    return 0


def _measured(task: TuneTask, database: TuningDatabase) -> dict[str, TuningRecord]:
    known = database.records(task.workload, task.target_key)
    return {r.candidate: r for r in known if r.best is not None}


def _best(record: TuningRecord) -> float:
    assert record.best is not None
    return record.best


def _analytic(task: TuneTask) -> str:
    """The candidate that the built-in rules choose without tuning; empty where there is none."""
    for choose in analytic_choices(task.stripped, task.target):
        sch = Schedule(task.stripped, seed=0)
        try:
            choose(sch)
        except ScheduleError:  # a search has none here either
            continue
        return make_candidate(sch).hash
    return ""


class _Heat:
    """Candidates that are built, and their times in this heat."""

    def __init__(
        self,
        task: TuneTask,
        database: TuningDatabase,
        pools: Pools,
        reference: str,
        deadline: float | None,
    ) -> None:
        self.task, self.database = task, database
        self.pools, self.deadline = pools, deadline
        self.text = print_func(task.stripped)
        self.reference = reference
        pipeline = Pipeline(pools, self.text, str(task.target), reference, SECONDS, task.sizes)
        self._answer(pipeline.make_reference())
        self.entered: dict[str, TuningRecord] = {}
        self._built: dict[str, dict[str, Any]] = {}
        self._times: dict[str, list[float]] = {}

    def is_over(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline

    def _answer(self, job: Future[Any]) -> Any:
        """A job's result; TimeoutError where the deadline passes first."""
        left = None if self.deadline is None else max(0.0, self.deadline - time.monotonic())
        try:
            return job.result(left)
        except TimeoutError:
            job.cancel()
            raise

    def _text_of(self, record: TuningRecord) -> str:
        """The text that a record's trace speaks of, whose blocks may have other names than those of
        the function that is tuned now; that one's where the database has it no more."""
        kept = kept_text(self.database, record, self.task)
        return self.text if isinstance(kept, str) else print_func(kept)

    def enter(self, records: list[TuningRecord]) -> None:
        """Build candidates; one that does not build any more is out at once."""
        builder: Executor = self.pools.builder or self.pools.runner
        jobs = [
            builder.submit(
                build_candidate,
                text=self._text_of(record),
                trace=record.trace,
                candidate=record.candidate,
                target=str(self.task.target),
            )
            for record in records
        ]
        for record, job in zip(records, jobs, strict=True):
            self.entered[record.candidate] = record
            try:
                answer = self._answer(job)
            except WorkerFailed:  # it was built once: something else stops the builder
                continue
            except (BuildError, MeasureTimeout) as error:
                self.entered[record.candidate] = replace(record, seconds=(), error=str(error))
            else:
                self._built[record.candidate] = answer["built"]

    def run(self) -> list[TuningRecord]:
        """All that are in the heat, in turns; their records with the times of this heat."""
        self._times.clear()
        for _ in range(ROUNDS):
            for candidate in list(self._built):
                if self.is_over():
                    break
                self._time(candidate)
        for candidate, times in self._times.items():
            if times:
                # Made now: it stands before the record that it comes from, wherever both are known.
                self.entered[candidate] = replace(
                    self.entered[candidate], seconds=tuple(times), error="", created=0.0
                )
        return list(self.entered.values())

    def _time(self, candidate: str) -> None:
        job = self.pools.runner.submit(
            run_candidate,
            text=self.text,
            built=self._built[candidate],
            target=str(self.task.target),
            reference=self.reference,
            seconds=SECONDS,
            sizes=self.task.sizes,
        )
        try:
            answer = self._answer(job)
        except WorkerFailed:  # it ran before: something else may stop the runner
            del self._built[candidate]
            self._times[candidate] = []
        except (BuildError, MeasureTimeout) as error:
            del self._built[candidate]
            self._times[candidate] = []
            self.entered[candidate] = replace(self.entered[candidate], seconds=(), error=str(error))
        else:
            self._times.setdefault(candidate, []).extend(answer["seconds"])

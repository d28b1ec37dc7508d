"""The final heat: who leads by luck does not lead afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from typing import Any

import pytest

from burnish.support.errors import BuildError, WorkerDied
from burnish.support.target import Target
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import matmul, record, tiled
from burnish.tuner.candidate import make_candidate
from burnish.tuner.measuring.measure import replay
from burnish.tuner.measuring.pipeline import Pools, local_pools
from burnish.tuner.records.database import TuningDatabase, TuningRecord
from burnish.tuner.search.final_heat import MOST, final_heat
from burnish.tuner.search.space import analytic_choices
from burnish.tuner.session import tune_task
from burnish.tuner.task import TuneTask


class Stopwatch(Executor):
    """Builds anything, and has each candidate's time in a table; an error there is raised."""

    def __init__(self, times: dict[str, Any]) -> None:
        self.times, self.runs, self.jobs = times, [""] * 0, 0

    def submit(self, fn: Callable[..., Any], /, *_: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        answer: Any = None
        self.jobs += 1
        if fn.__name__ == "build_candidate":
            answer = {"built": {"name": options["candidate"]}, "seconds": 0.0}
        elif fn.__name__ == "run_candidate":
            name = options["built"]["name"]
            self.runs.append(name)
            answer = self.times[name]
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result({"seconds": [answer]} if isinstance(answer, float) else answer)
        return future


@pytest.fixture
def task() -> TuneTask:
    return TuneTask("main", matmul(16), Target("native -threads=1"))


@pytest.fixture
def analytic(task: TuneTask) -> str:
    sch = Schedule(task.stripped, seed=0)
    analytic_choices(task.stripped, task.target)[0](sch)
    return make_candidate(sch).hash


def database_of(task: TuneTask, times: dict[str, float]) -> TuningDatabase:
    database = TuningDatabase()
    source = database.add_workload(task.workload, task.name, "", task.flop)
    for name, seconds in times.items():
        database.add(
            TuningRecord(task.workload, task.target_key, name, source, "[]", seconds=(seconds,))
        )
    return database


def best(database: TuningDatabase, task: TuneTask) -> tuple[str, float | None]:
    record = database.best(task.workload, task.target_key)
    assert record is not None
    return record.candidate, record.best


def test_the_lucky_one_falls_back(task: TuneTask, analytic: str) -> None:
    watch = Stopwatch({analytic: 10.0, "lucky": 12.0, "fast": 8.0, "fourth": 11.0})
    seen = {analytic: 10.5, "lucky": 5.0, "fast": 7.0, "fourth": 9.0}
    with database_of(task, seen) as database:
        assert final_heat(task, database, Pools(watch)) == 4
        assert best(database, task) == ("fast", 8.0)
        assert {r.candidate: r.best for r in database.records()}["lucky"] == 12.0
    # In turns, the analytic choice among them.
    assert set(watch.runs[:4]) == set(seen)
    assert watch.runs[:4] == watch.runs[4:8]


def test_whoever_leads_afterwards_has_taken_part(task: TuneTask, analytic: str) -> None:
    names = [f"n{i}" for i in range(8)]
    watch = Stopwatch({analytic: 10.0} | dict.fromkeys(names, 11.0))
    seen = {analytic: 10.0} | {name: 1.0 + i for i, name in enumerate(names)}
    with database_of(task, seen) as database:
        assert final_heat(task, database, Pools(watch)) == MOST + 1
    assert len(set(watch.runs)) == MOST + 1


@pytest.mark.parametrize("seen", [{}, {"other": 1.0}, {"other": 3.0, "analytic": 2.0}])
def test_nothing_to_decide(task: TuneTask, analytic: str, seen: dict[str, float]) -> None:
    watch = Stopwatch({})
    records = {analytic if k == "analytic" else k: v for k, v in seen.items()}
    with database_of(task, records) as database:
        assert final_heat(task, database, Pools(watch)) == 0
    assert watch.runs == []


def test_one_that_fails_now_is_out(task: TuneTask, analytic: str) -> None:
    watch = Stopwatch({analytic: 10.0, "wrong": BuildError("it differs"), "fast": 8.0})
    with database_of(task, {analytic: 10.0, "wrong": 5.0, "fast": 7.0}) as database:
        final_heat(task, database, Pools(watch))
        assert best(database, task) == ("fast", 8.0)
        (failed,) = [r for r in database.records() if r.candidate == "wrong"]
        assert (failed.best, failed.error) == (None, "it differs")


def test_a_builder_that_dies_takes_no_record_along(task: TuneTask, analytic: str) -> None:
    class Dying(Stopwatch):
        def submit(self, fn: Callable[..., Any], /, *_: Any, **options: Any) -> Future[Any]:
            if fn.__name__ == "build_candidate" and options["candidate"] == "fast":
                future: Future[Any] = Future()
                future.set_exception(WorkerDied("killed"))
                return future
            return super().submit(fn, **options)

    with database_of(task, {analytic: 10.0, "fast": 7.0}) as database:
        final_heat(task, database, Pools(Dying({analytic: 10.0})))
        assert best(database, task) == ("fast", 7.0)


def test_the_deadline_leaves_the_records_alone(task: TuneTask, analytic: str) -> None:
    watch = Stopwatch({analytic: 10.0, "fast": 8.0})
    with database_of(task, {analytic: 10.5, "fast": 7.0}) as database:
        assert final_heat(task, database, Pools(watch), deadline=time.monotonic() - 1) == 0
        assert best(database, task) == ("fast", 7.0)
    assert watch.jobs == 0


def test_a_job_that_does_not_end_does_not_outlast_the_deadline(
    task: TuneTask, analytic: str
) -> None:
    class Stuck(Stopwatch):
        def submit(self, fn: Callable[..., Any], /, *_: Any, **options: Any) -> Future[Any]:
            return Future() if fn.__name__ == "run_candidate" else super().submit(fn, **options)

    with database_of(task, {analytic: 10.5, "fast": 7.0}) as database:
        deadline = time.monotonic() + 0.2
        assert final_heat(task, database, Pools(Stuck({})), deadline=deadline) == 0
        assert best(database, task) == ("fast", 7.0)


def test_a_runner_that_dies_takes_no_record_along(task: TuneTask, analytic: str) -> None:
    watch = Stopwatch({analytic: 10.0, "fast": WorkerDied("killed")})
    with database_of(task, {analytic: 10.0, "fast": 7.0}) as database:
        final_heat(task, database, Pools(watch))
        assert best(database, task) == ("fast", 7.0)


def test_records_are_built_on_the_text_that_they_were_made_with(
    task: TuneTask, analytic: str
) -> None:
    """Their traces speak of its blocks; the function tuned now may name its own otherwise."""

    class Building(Stopwatch):
        def submit(self, fn: Callable[..., Any], /, *_: Any, **options: Any) -> Future[Any]:
            if fn.__name__ == "build_candidate":
                replay(options["text"], options["trace"], options["candidate"])
            return super().submit(fn, **options)

    renamed = matmul(16, names="XYZ")
    with TuningDatabase() as database:
        made = record(database, renamed, lambda sch: tiled(sch, "Z"), 7.0)
        choose = analytic_choices(task.stripped, task.target)[0]
        assert record(database, task.func, choose, 10.0).hash == analytic
        watch = Building({analytic: 10.0, made.hash: 8.0})
        assert final_heat(task, database, Pools(watch)) == 2
        assert best(database, task) == (made.hash, 8.0)


@pytest.mark.tuning
def test_workers_of_this_machine(task: TuneTask, analytic: str) -> None:
    with TuningDatabase() as database, ExitStack() as stack:
        pools = local_pools(task.target, stack)
        options: dict[str, Any] = {"seconds": 0.0, "seed": 0}
        options |= {"executor": pools.runner, "builder": pools.builder}
        tune_task(task, database, max_trials=1, **options)
        tune_task(task, database, max_trials=3, space=tiled, **options)
        known = {r.candidate: r for r in database.records()}
        assert analytic in known
        # However slow the analytic choice seemed, it is timed anew.
        slow = known[analytic]
        database.add(
            TuningRecord(
                slow.workload, slow.target, slow.candidate, slow.source, slow.trace, seconds=(9.0,)
            )
        )
        assert final_heat(task, database, pools) == 4
        times = {r.candidate: r.best for r in database.records()}
        assert set(times) == set(known)
        assert all(t is not None and t < 1.0 for t in times.values())

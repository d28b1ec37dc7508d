"""Proposing, building and timing at once: the order of things, and how a session ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from burnish.support.errors import TuningError
from burnish.support.target import Target
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import InlineExecutor, matmul, tiled
from burnish.tuner import session
from burnish.tuner.candidate import Candidate
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.search.evolution import EvolutionarySearch
from burnish.tuner.search.search import RandomSearch
from burnish.tuner.session import TuningProgress, tune_task
from burnish.tuner.task import TuneTask

TASK = TuneTask("main", matmul(16), Target("native -threads=1"))


def tune(database: TuningDatabase, **options: Any) -> TuningProgress:
    settings: dict[str, Any] = {"max_trials": 8, "trials_per_iter": 4, "space": tiled, "seed": 0}
    settings |= {"seconds": 0.0, "executor": InlineExecutor(), "builder": InlineExecutor()}
    return tune_task(TASK, database, **settings | options)


def jobs(executor: InlineExecutor) -> list[str]:
    return [c["job"] for c in executor.calls]


def test_every_candidate_is_built_and_run_once() -> None:
    runner, builder = InlineExecutor(), InlineExecutor()
    with TuningDatabase() as db:
        progress = tune(db, executor=runner, builder=builder, max_trials=7)
        assert (progress.done, progress.failed, len(db)) == (7, 0, 7)
    assert jobs(runner) == ["save_reference", *["run_candidate"] * 7]
    assert jobs(builder) == ["build_candidate"] * 7
    assert progress.times.build > 0
    assert progress.times.run > 0
    assert progress.propose_seconds > 0


def test_a_builder_wants_a_runner() -> None:
    with TuningDatabase() as db, pytest.raises(TuningError, match="pass both, or none"):
        tune(db, executor=None)


def test_a_batch_knows_the_answers_up_to_the_one_before_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[tuple[str, int]] = []

    class Told(EvolutionarySearch):
        def propose(self, count: int, **options: Any) -> list[Candidate]:
            steps.append(("propose", count))
            return super().propose(count, **options)

        def observe(self, results: Sequence[tuple[str, float | None]]) -> None:
            steps.append(("observe", len(results)))
            super().observe(results)

    monkeypatch.setattr("burnish.tuner.search.strategies.EvolutionarySearch", Told)
    with TuningDatabase() as db:
        tune(db, max_trials=9)
    # Batches are half of trials_per_iter; the last two answers are learned from at the end.
    two, one = ("propose", 2), ("propose", 1)
    known = ("observe", 2)
    assert steps == [two, two, known, two, known, two, known, one, known, ("observe", 1)]


def test_the_same_seed_measures_the_same_candidates_however_long_they_take() -> None:
    def found(executor: Executor) -> list[str]:
        with TuningDatabase() as db:
            tune(db, executor=executor, strategy="random")
            return sorted(r.candidate for r in db.records())

    assert found(InlineExecutor()) == found(Delayed())


class Delayed(InlineExecutor):
    """Answers some time later, from another thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        answer: Future[Any] = Future()

        def run() -> None:
            time.sleep(0.002 * (len(self.calls) % 5))
            try:
                result = fn(*args, **kwargs)
            except Exception as error:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        self.calls.append({"job": fn.__name__})
        threading.Thread(target=run).start()
        return answer


def test_answers_are_recorded_while_the_next_batch_is_proposed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()
    seen: list[int] = []

    class Waiting(RandomSearch):
        def propose(self, count: int, **options: Any) -> list[Candidate]:
            if self.seen:  # the second batch: it is done when the first is recorded
                assert go_on.wait(30)
            return super().propose(count, **options)

    def hear(progress: TuningProgress) -> None:
        seen.append(progress.done)
        if progress.done == 2:
            go_on.set()

    monkeypatch.setattr("burnish.tuner.search.strategies.RandomSearch", Waiting)
    with TuningDatabase() as db:
        tune(db, max_trials=4, strategy="random", on_progress=hear)
    assert seen == [1, 2, 3, 4]


def test_an_exhausted_space_ends_the_session() -> None:
    def few(sch: Schedule) -> None:
        sch.split(sch.get_loops("C")[0], sch.sample_perfect_tile(sch.get_loops("C")[0], 2, 4))

    with TuningDatabase() as db:
        assert tune(db, space=few, max_trials=50, strategy="random").done == 3


def test_mistakes_of_a_space_function_are_not_hidden() -> None:
    def mistaken(_: Schedule) -> None:
        raise ZeroDivisionError("mine")

    with TuningDatabase() as db, pytest.raises(ZeroDivisionError, match="mine"):
        tune(db, space=mistaken)


class Broken(InlineExecutor):
    """After some jobs, an error of the machinery for each."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if len(self.calls) < self.after:
            return super().submit(fn, *args, **kwargs)
        future: Future[Any] = Future()
        future.set_exception(OSError("network"))
        return future


@pytest.mark.parametrize("who", ["executor", "builder"])
def test_machinery_that_fails_ends_the_session_and_keeps_the_records(who: str) -> None:
    with TuningDatabase() as db:
        with pytest.raises(OSError, match="network"):
            tune(db, **{who: Broken(3)})
        assert len(db) == (2 if who == "executor" else 3)
        assert all(not r.error for r in db.records())


def test_a_workload_that_does_not_run_is_an_error() -> None:
    class NoReference(InlineExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(TuningError("out of disk"))
            return future

    with TuningDatabase() as db:
        with pytest.raises(TuningError, match="does not run even unscheduled: out of disk"):
            tune(db, executor=NoReference())
        assert len(db) == 0


def test_an_interrupt_loses_nothing_that_was_recorded() -> None:
    def interrupt(progress: TuningProgress) -> None:
        if progress.done == 3:
            raise KeyboardInterrupt

    with TuningDatabase() as db:
        with pytest.raises(KeyboardInterrupt):
            tune(db, on_progress=interrupt)
        assert len(db) == 3


class Never(Executor):
    """Answers the first jobs at once and the others never."""

    def __init__(self, quick: int) -> None:
        self.left, self.pending = quick, list[Future[Any]]()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.left -= 1
        if self.left >= 0:
            return InlineExecutor().submit(fn, *args, **kwargs)
        self.pending.append(Future())
        return self.pending[-1]


@pytest.mark.parametrize(("who", "quick"), [("executor", 0), ("executor", 2), ("builder", 0)])
def test_a_deadline_ends_a_session_in_the_middle(who: str, quick: int) -> None:
    for seconds in (1, 5, 25, 125):
        silent = Never(quick)
        with TuningDatabase() as db:
            progress = tune(db, **{who: silent}, deadline=time.monotonic() + seconds)
            assert progress.done <= 2
            assert len(db) == progress.done
        if silent.pending:  # else the machine was too slow to come so far
            break
    assert silent.pending
    assert all(f.cancelled() for f in silent.pending)


def test_by_default_both_are_processes_here(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    local = session.local_pools

    def pools(*args: Any) -> Any:
        made = local(*args)
        asked.append("split" if made.builder is not None else "one")
        return made

    monkeypatch.setattr(session, "local_pools", pools)
    with TuningDatabase() as db:
        assert tune(db, executor=None, builder=None, max_trials=3).done == 3
    assert len(asked) == 1

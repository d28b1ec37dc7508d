"""Sessions: what is measured, recorded and offered; faults, interrupts, deadlines and resumption.

Most sessions measure in this process, which is quick; those about crashes share one real worker
pool.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from burnish import te
from burnish.support.errors import TuningError
from burnish.support.target import Target
from burnish.support.worker_pool import WorkerPool
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import InlineExecutor, is_gone, matmul, tiled, unbuildable, wrong
from burnish.tuner import session
from burnish.tuner.cost.cost_model import LearnedModel
from burnish.tuner.measuring import measure, pipeline
from burnish.tuner.measuring.reference import make_reference
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.session import TuningProgress, database_path, default_seed, tune_task
from burnish.tuner.task import TuneTask

TASK = TuneTask("main", matmul(16), Target("native -threads=1"))


def tune(database: TuningDatabase, task: TuneTask = TASK, **options: Any) -> TuningProgress:
    settings: dict[str, Any] = {"max_trials": 3, "space": tiled, "seed": 0, "seconds": 0.0}
    settings["executor"] = InlineExecutor()
    return tune_task(task, database, **settings | options)


def measured(executor: InlineExecutor) -> list[str]:
    return [str(c["candidate"]) for c in executor.calls if c["job"] == "measure_candidate"]


# -- what is measured ----------------------------------
def test_a_false_leader_is_set_aside_before_the_search() -> None:
    """Its time would be the one to beat, and its candidate would count as measured."""
    with TuningDatabase() as db:
        tune(db)
        leader = db.best(TASK.workload, TASK.target_key)
        assert leader is not None
        db.add(replace(leader, trace="[]", seconds=(1e-12,)))
        with pytest.warns(UserWarning, match="was set aside: its trace makes another function"):
            progress = tune(db, max_trials=1)
        assert progress.best is not None
        assert progress.best > 1e-12


def test_a_session_measures_and_records() -> None:
    with TuningDatabase() as db:
        reports: list[tuple[int, float | None]] = []
        progress = tune(db, on_progress=lambda p: reports.append((p.done, p.best)))
        records = db.records(TASK.workload, TASK.target_key)
        assert (progress.done, progress.failed, progress.left) == (3, 0, 0)
        assert [done for done, _ in reports] == [1, 2, 3]
        times = [r.best for r in records if r.best is not None]
        assert progress.best == min(times) == reports[-1][1]
        assert [best for _, best in progress.history] == sorted(
            {min(times[: i + 1]) for i in range(3)}, reverse=True
        )
        assert progress.gflops == pytest.approx(2 * 16**3 / min(times) / 1e9)
        assert db.workloads() == {TASK.workload: "main"}
        assert all(len(r.seconds) == 3 and not r.error for r in records)


def test_the_same_seed_and_records_measure_the_same_candidates() -> None:
    def run(seed: int, **options: Any) -> list[str]:
        executor = InlineExecutor()
        with TuningDatabase() as db:
            tune(db, seed=seed, executor=executor, **options)
        return measured(executor)

    assert run(5) == run(5)
    assert run(5) != run(6)
    # Batches do not matter to a search that does not look at what was measured.
    drawn = run(5, strategy="random")
    assert drawn == run(5, strategy="random", trials_per_iter=2)


def test_the_evolutionary_search_is_told_what_was_measured() -> None:
    model = LearnedModel(enough=2)
    with TuningDatabase() as db:
        tune(db, model=model, max_trials=4, trials_per_iter=2)
        (name,) = model.groups
        assert name == f"{TASK.workload} {TASK.target_key}"
        measured = [r.best for r in db.records()]
        assert sorted(model.groups[name][1]) == sorted(measured)  # type: ignore[type-var]
        assert model.is_trained
        # A later session is taught by the records, and measures none of them again.
        other = LearnedModel(enough=2)
        tune(db, model=other, max_trials=2)
        assert sorted(other.groups[name][1]) == sorted([r.best for r in db.records()])  # type: ignore[type-var]
        assert len(db) == 6


@pytest.mark.parametrize("strategy", ["random", "replay_trace", "evolutionary"])
def test_each_strategy_measures(strategy: str) -> None:
    with TuningDatabase() as db:
        assert tune(db, strategy=strategy).done == 3


def test_an_unknown_strategy_is_refused_before_any_work() -> None:
    refused(TASK, "no search strategy 'genetic'", strategy="genetic")
    refused(TASK, "no cost model 'neural'", model="neural")


def test_the_analytic_choice_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Schedule] = []
    monkeypatch.setattr(session, "default_space", lambda *_: [tiled])
    monkeypatch.setattr(session, "analytic_choices", lambda *_: [called.append])
    with TuningDatabase() as db:
        tune(db, space=None, analytic_first=False)
    assert called == []


def test_the_seed_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BURNISH_SEED", raising=False)
    assert default_seed() == 0
    monkeypatch.setenv("BURNISH_SEED", "12")
    assert default_seed() == 12


def test_a_resumed_session_measures_no_candidate_again(tmp_path: Path) -> None:
    executors = InlineExecutor(), InlineExecutor()
    for executor in executors:
        with TuningDatabase(tmp_path / "records.db") as db:
            progress = tune(db, executor=executor)
            best = db.best(TASK.workload, TASK.target_key)
            assert best is not None
            assert progress.best == best.best
    first, second = map(measured, executors)
    assert len({*first, *second}) == 6


def test_records_of_other_names_count(tmp_path: Path) -> None:
    other = TuneTask("other", matmul(16, names="XYZ", func_name="other"), TASK.target)
    first, second = InlineExecutor(), InlineExecutor()
    with TuningDatabase() as db:
        tune(db, executor=first)
        tune(db, other, executor=second, space=lambda sch: tiled(sch, "Z"))
        assert not set(measured(first)) & set(measured(second))
        assert len({r.source for r in db.records(TASK.workload)}) == 2


def test_an_exhausted_space_ends_the_session() -> None:
    with TuningDatabase() as db:

        def only(sch: Schedule) -> None:
            sch.vectorize(sch.get_loops("C")[1])

        executor = InlineExecutor()
        assert tune(db, space=[only], executor=executor, max_trials=50).done == 1
        again = InlineExecutor()
        assert tune(db, space=[only], executor=again).done == 0
        assert again.calls == []


def test_the_built_in_space_begins_with_the_analytic_choice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def analytic(sch: Schedule) -> None:
        sch.vectorize(sch.get_loops("C")[1])

    monkeypatch.setattr(session, "default_space", lambda *_: [tiled])
    monkeypatch.setattr(session, "analytic_choices", lambda *_: [analytic])
    executor = InlineExecutor()
    with TuningDatabase() as db:
        assert tune(db, space=None, executor=executor).done == 3
        traces = [str(c["trace"]) for c in executor.calls[1:]]
        assert ["sample_perfect_tile" in t for t in traces] == [False, True, True]
        monkeypatch.setattr(session, "default_space", lambda *_: [])
        with pytest.raises(TuningError, match="design space has nothing for 'main'"):
            tune(db, space=None)


# -- what is wrong is never offered ----------------------------------
def test_wrong_candidates_are_recorded_and_never_the_best() -> None:
    with TuningDatabase() as db:
        progress = tune(db, space=wrong)
        assert (progress.done, progress.failed, progress.best) == (0, 3, None)
        assert all(r.error.startswith("wrong result: ") for r in db.records())
        assert db.best(TASK.workload, TASK.target_key) is None
        assert tune(db, space=[wrong, tiled], max_trials=6).done > 0
        best = db.best(TASK.workload, TASK.target_key)
        assert best is not None
        assert "cache_write" not in best.trace


def test_candidates_that_do_not_build_are_recorded_with_the_reason() -> None:
    with TuningDatabase() as db:
        assert tune(db, space=unbuildable).failed == 3
        assert all("CodegenError" in r.error for r in db.records())


def test_another_reference_makes_every_candidate_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def other_arguments(*args: Any) -> Any:
        known = make_reference(*args)
        for x in (*known.expected, *known.nudged):
            x.data[...] += 1
        return known

    monkeypatch.setattr(measure, "make_reference", other_arguments)
    measure._references.cache_clear()
    with TuningDatabase() as db:
        assert tune(db).failed == 3
    measure._references.cache_clear()


# -- what is not the candidates' fault ----------------------------------
def refused(task: TuneTask, reason: str, **options: Any) -> None:
    executor = InlineExecutor()
    with TuningDatabase() as db, pytest.raises(TuningError, match=reason):
        tune(db, task, executor=executor, **options)
    assert executor.calls == []


def test_functions_that_cannot_be_tuned_are_refused_before_any_work() -> None:
    called: list[Schedule] = []
    symbolic = matmul(te.var("n"))
    refused(TuneTask("main", symbolic, TASK.target), "symbolic sizes", space=called.append)
    other = TuneTask("main", matmul(16), Target("llvm -mcpu=neoverse-n1"))
    refused(other, "another machine", space=called.append)
    assert called == []


@pytest.mark.parametrize("space", [[], 3, [tiled, "split"], "tiled"])
def test_a_space_that_is_none(space: object) -> None:
    refused(TASK, "space= takes a function on a Schedule", space=space)


def test_a_batch_has_candidates() -> None:
    refused(TASK, "trials_per_iter is at least 1; found 0", trials_per_iter=0)


def test_without_trials_nothing_is_measured() -> None:
    executor = InlineExecutor()
    with TuningDatabase() as db:
        assert tune(db, max_trials=0, executor=executor).done == 0
    assert executor.calls == []


def test_a_space_that_never_applies() -> None:
    refused(TASK, "applies to no state", space=lambda sch: sch.get_block("nothing"))


class Broken(Executor):
    """Runs nothing: each job fails with an error of the machinery."""

    def __init__(self, error: Exception, after: int = 0) -> None:
        self.error, self.left = error, after

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.left -= 1
        if self.left >= 0:
            return InlineExecutor().submit(fn, *args, **kwargs)
        future: Future[Any] = Future()
        future.set_exception(self.error)
        return future


def test_a_workload_that_does_not_run_is_an_error_and_no_record() -> None:
    with TuningDatabase() as db:
        with pytest.raises(TuningError, match="'main' does not run even unscheduled: out of disk"):
            tune(db, executor=Broken(TuningError("out of disk")))
        assert len(db) == 0


def test_machinery_that_fails_is_an_error_and_no_record() -> None:
    with TuningDatabase() as db:
        with pytest.raises(TuningError, match="no worker"):
            tune(db, executor=Broken(TuningError("no worker"), after=2))
        with pytest.raises(OSError, match="network"):
            tune(db, executor=Broken(OSError("network"), after=2))
        assert [r.error for r in db.records()] == ["", ""]


# -- interrupts and deadlines ----------------------------------
def test_an_interrupt_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    def interrupt(progress: TuningProgress) -> None:
        if progress.done == 2:
            raise KeyboardInterrupt

    path = tmp_path / "records.db"
    with TuningDatabase(path) as db, pytest.raises(KeyboardInterrupt):
        tune(db, max_trials=10, on_progress=interrupt)
    executor = InlineExecutor()
    with TuningDatabase(path) as db:
        known = {r.candidate for r in db.records()}
        assert len(known) == 2
        tune(db, executor=executor)
        assert not known & set(measured(executor))
        assert len(db) == 5


def test_a_deadline_that_has_passed_measures_nothing() -> None:
    executor = InlineExecutor()
    with TuningDatabase() as db:
        assert tune(db, executor=executor, deadline=time.monotonic()).done == 0
    assert executor.calls == []


class Slow(Executor):
    """Answers the first jobs at once and the others never."""

    def __init__(self, quick: int) -> None:
        self.left = quick
        self.pending: list[Future[Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.left -= 1
        if self.left >= 0:
            return InlineExecutor().submit(fn, *args, **kwargs)
        self.pending.append(Future())
        return self.pending[-1]


@pytest.mark.parametrize(("quick", "done"), [(0, 0), (3, 2)])
def test_a_deadline_ends_a_session_in_the_middle(quick: int, done: int) -> None:
    for seconds in (1, 5, 25, 125):
        executor = Slow(quick)
        with TuningDatabase() as db:
            deadline = time.monotonic() + seconds
            progress = tune(db, executor=executor, max_trials=4, deadline=deadline)
            assert progress.done <= done
            assert len(db) == progress.done
        if executor.pending:  # else the machine was too slow to come so far
            break
    assert executor.pending
    assert all(f.cancelled() for f in executor.pending)


# -- real workers ----------------------------------
@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1, limit=60) as pool:
        yield pool


class Faulty(Executor):
    """A real pool that runs something else in place of some of the candidates."""

    def __init__(self, pool: WorkerPool, faults: dict[int, tuple[float, str, Any]]) -> None:
        self.pool, self.faults, self.count = pool, faults, 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if fn is not measure.measure_candidate:
            return self.pool.submit(fn, *args, **kwargs)
        fault = self.faults.get(self.count)
        self.count += 1
        if fault is None:
            return self.pool.submit(fn, *args, **kwargs)
        limit, job, argument = fault
        return self.pool.submit_within(limit, job, argument)


def test_candidates_that_crash_hang_or_exit_cost_themselves_alone(pool: WorkerPool) -> None:
    faults = {
        0: (60.0, "ctypes:string_at", 0),
        1: (0.5, "time:sleep", 1000),
        3: (60.0, "os:_exit", 5),
    }
    with TuningDatabase() as db:
        progress = tune(db, executor=Faulty(pool, faults), max_trials=5)
        assert (progress.done, progress.failed) == (2, 3)
        assert [r.error for r in db.records()] == [
            "the worker died (signal SIGSEGV)",
            "no answer within 0.5 s",
            "",
            "the worker died (exit code 5)",
            "",
        ]
        best = db.best(TASK.workload, TASK.target_key)
        assert best is not None
        assert not best.error


def test_a_session_leaves_no_worker_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[WorkerPool] = []

    class Known(WorkerPool):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            pools.append(self)

    monkeypatch.setattr(pipeline, "WorkerPool", Known)
    monkeypatch.setattr(session, "local_pools", partial(pipeline.local_pools, runner_class=Known))
    pids: list[int] = []

    def interrupt(_: TuningProgress) -> None:
        pids.extend(w.process.pid for pool in pools for w in pool._state.workers)
        raise KeyboardInterrupt

    with TuningDatabase() as db:
        with pytest.raises(KeyboardInterrupt):
            tune(db, executor=None, on_progress=interrupt)
        assert len(db) == 1
    assert len(pids) == len(pools) >= 1
    assert all(is_gone(pid) for pid in pids)


def test_the_database_path() -> None:
    assert database_path(None) is None
    assert database_path("dir") == Path("dir/records.db")


def test_sampled_factors_reach_the_width_of_the_targets_vectors() -> None:
    target = Target("llvm -mcpu=skylake-avx512")
    asked: list[int] = []

    def space(sch: Schedule) -> None:
        asked.append(sch.innermost_factor)

    (widened,), _ = session._space_functions(space, TuneTask("main", TASK.func, target))
    sch = Schedule(TASK.func, seed=0)
    assert sch.innermost_factor == 16
    widened(sch)
    assert asked == [64]

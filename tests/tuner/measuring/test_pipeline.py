"""A candidate's way through builder and runner: order, cancelling, deaths, and who waits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from burnish.support.errors import BuildError, TuningError, WorkerDied
from burnish.support.host import resolve
from burnish.support.target import Target
from burnish.support.worker_pool import WorkerPool
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.printer import print_func
from burnish.tests.tuner.programs import InlineExecutor, is_gone, matmul, tiled
from burnish.tuner.candidate import Candidate, make_candidate
from burnish.tuner.measuring import pipeline
from burnish.tuner.measuring.cpus import CpuPlan
from burnish.tuner.measuring.pipeline import Pipeline, Pools, local_pools


class ByHand(Executor):
    """Jobs are answered by the test."""

    def __init__(self) -> None:
        self.jobs: list[tuple[str, dict[str, Any], Future[Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs.append((fn.__name__, kwargs, Future()))
        return self.jobs[-1][2]

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.jobs]


CANDIDATE = Candidate(matmul(4), "[]", "hash")


def by_hand() -> tuple[Pipeline, ByHand, ByHand]:
    runner, builder = ByHand(), ByHand()
    made = Pipeline(Pools(runner, builder), "text", "target", "reference", 0.0)
    made.make_reference()
    return made, runner, builder


def test_a_candidate_is_built_and_then_run() -> None:
    made, runner, builder = by_hand()
    answer = made.measure(CANDIDATE)
    assert (runner.names, builder.names) == (["save_reference"], ["build_candidate"])
    builder.jobs[0][2].set_result({"built": {"image": "x"}, "seconds": 2.0})
    # Nothing runs before there is something to compare with.
    assert runner.names == ["save_reference"]
    runner.jobs[0][2].set_result(None)
    assert runner.names == ["save_reference", "run_candidate"]
    assert runner.jobs[1][1]["built"] == {"image": "x"}
    runner.jobs[1][2].set_result({"seconds": [1.0], "run_seconds": 3.0})
    assert answer.result() == {"seconds": [1.0], "run_seconds": 3.0, "build_seconds": 2.0}
    assert (made.times.build, made.times.run) == (2.0, 3.0)


def test_builders_go_ahead_of_the_runner() -> None:
    made, runner, builder = by_hand()
    runner.jobs[0][2].set_result(None)
    answers = [made.measure(CANDIDATE) for _ in range(3)]
    for _, _, job in builder.jobs:
        job.set_result({"built": {}, "seconds": 0.0})
    assert runner.names[1:] == ["run_candidate"] * 3
    assert not any(a.done() for a in answers)


def test_what_fails_on_the_way_is_the_answer() -> None:
    made, runner, builder = by_hand()
    runner.jobs[0][2].set_result(None)
    one, two = made.measure(CANDIDATE), made.measure(CANDIDATE)
    builder.jobs[0][2].set_exception(BuildError("no code"))
    with pytest.raises(BuildError, match="no code"):
        one.result()
    builder.jobs[1][2].set_result({"built": {}, "seconds": 0.0})
    runner.jobs[1][2].set_exception(WorkerDied("crashed"))
    with pytest.raises(WorkerDied, match="crashed"):
        two.result()
    assert len(builder.jobs) == 2


def test_a_build_whose_worker_died_is_tried_once_more() -> None:
    made, _, builder = by_hand()
    answer = made.measure(CANDIDATE)
    builder.jobs[0][2].set_exception(WorkerDied("killed"))
    assert not answer.done()
    builder.jobs[1][2].set_exception(WorkerDied("killed again"))
    with pytest.raises(WorkerDied, match="killed again"):
        answer.result()
    assert len(builder.jobs) == 2


def test_what_is_cancelled_goes_no_further() -> None:
    made, runner, builder = by_hand()
    runner.jobs[0][2].set_result(None)
    one, two = made.measure(CANDIDATE), made.measure(CANDIDATE)
    one.cancel()
    builder.jobs[0][2].set_result({"built": {}, "seconds": 0.0})
    assert runner.names == ["save_reference"]
    made.cancel()
    assert builder.jobs[1][2].cancelled()
    assert two.cancelled()


def test_without_a_reference_nothing_runs() -> None:
    made, runner, builder = by_hand()
    answer = made.measure(CANDIDATE)
    builder.jobs[0][2].set_result({"built": {}, "seconds": 0.0})
    runner.jobs[0][2].set_exception(BuildError("no reference"))
    assert answer.cancelled()
    assert runner.names == ["save_reference"]


def test_a_pool_that_was_shut_down_is_the_answer() -> None:
    made, runner, builder = by_hand()
    runner.jobs[0][2].set_result(None)
    answer = made.measure(CANDIDATE)
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    made.pools = Pools(closed, builder)
    builder.jobs[0][2].set_result({"built": {}, "seconds": 0.0})
    with pytest.raises(RuntimeError, match="shutdown"):
        answer.result()


class Sharing(Pools):
    """Pools whose runner may build."""

    runner_builds = True


def sharing() -> tuple[Pipeline, ByHand, ByHand]:
    made, runner, builder = by_hand()
    made.pools = Sharing(runner, builder)
    return made, runner, builder


def test_a_runner_with_nothing_to_time_builds() -> None:
    made, runner, builder = sharing()
    builder_has = made.measure(CANDIDATE)
    assert builder.jobs[0][2].set_running_or_notify_cancel()
    taken, waits = made.measure(CANDIDATE), made.measure(CANDIDATE)
    assert runner.names == ["save_reference"]
    runner.jobs[0][2].set_result(None)
    # One that no builder has begun with; the runner is busy then.
    assert runner.names == ["save_reference", "measure_candidate"]
    assert [job.cancelled() for _, _, job in builder.jobs] == [False, True, False]
    assert not taken.cancelled()
    builder.jobs[0][2].set_result({"built": {}, "seconds": 0.0})
    assert runner.names[2:] == ["run_candidate"]
    runner.jobs[1][2].set_result({"seconds": [1.0], "build_seconds": 2.0, "run_seconds": 3.0})
    assert taken.result()["seconds"] == [1.0]
    assert (made.times.build, made.times.run) == (2.0, 3.0)
    assert len(runner.jobs) == 3
    runner.jobs[2][2].set_result({"seconds": [4.0], "run_seconds": 1.0})
    assert builder_has.result()["seconds"] == [4.0]
    assert runner.names[3:] == ["measure_candidate"]
    runner.jobs[3][2].set_exception(BuildError("no code"))
    with pytest.raises(BuildError, match="no code"):
        waits.result()


def test_a_runner_that_dies_of_what_it_took_over_leaves_it_to_a_builder() -> None:
    made, runner, builder = sharing()
    runner.jobs[0][2].set_result(None)
    answer = made.measure(CANDIDATE)
    assert runner.names[1:] == ["measure_candidate"]
    runner.jobs[1][2].set_exception(WorkerDied("crashed"))
    # The runner is free again, and does not take it a second time.
    assert builder.jobs[1][2].set_running_or_notify_cancel()
    builder.jobs[1][2].set_exception(WorkerDied("crashed again"))
    with pytest.raises(WorkerDied, match="again"):
        answer.result()


def test_what_the_runner_took_over_can_be_cancelled() -> None:
    made, runner, _ = sharing()
    runner.jobs[0][2].set_result(None)
    answer = made.measure(CANDIDATE)
    made.cancel()
    assert runner.jobs[1][2].cancelled()
    assert answer.cancelled()


def real_pipeline(folder: Any, pools: Pools) -> tuple[Pipeline, Candidate]:
    sch = Schedule(matmul(16), seed=1)
    tiled(sch)
    reference = str(folder / "r.npz")
    text, target = print_func(matmul(16)), "native -threads=1"
    made = Pipeline(pools, text, target, reference, 0.0)
    made.make_reference()
    return made, make_candidate(sch)


@pytest.mark.parametrize("is_split", [False, True])
def test_two_jobs_measure_what_one_does(is_split: bool, tmp_path: Any) -> None:
    runner = InlineExecutor()
    made, candidate = real_pipeline(tmp_path, Pools(runner, InlineExecutor() if is_split else None))
    answer = made.measure(candidate).result()
    assert len(answer["seconds"]) == 3
    assert made.times.build == answer["build_seconds"] > 0
    assert made.times.run == answer["run_seconds"] > 0
    assert [c["job"] for c in runner.calls][1:] == [
        "run_candidate" if is_split else "measure_candidate"
    ]


def test_local_pools_keep_off_each_others_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    target = resolve(Target("native -threads=1"))
    monkeypatch.setattr(pipeline, "plan_cpus", lambda _: CpuPlan((3,), (0, 1), 2))
    with ExitStack() as stack:
        pools = local_pools(target, stack)
        assert isinstance(pools.runner, WorkerPool)
        assert isinstance(pools.builder, WorkerPool)
        assert (pools.runner.cpus, pools.builder.cpus) == ((3,), (0, 1))
        assert (pools.runner.workers, pools.builder.workers) == (1, 2)
        assert pools.quiet_cpus == (0, 1)
    with pytest.raises(TuningError, match="shut down"):
        pools.runner.submit("os:getpid")
    monkeypatch.setattr(pipeline, "plan_cpus", lambda _: None)
    with ExitStack() as stack:
        pools = local_pools(target, stack)
        assert pools.builder is None
        assert pools.quiet_cpus == ()


def test_pools_can_be_started_before_there_is_work() -> None:
    with WorkerPool(1) as pool:
        Pools(pool).start()
        pid = pool.submit("os:getpid").result()
    assert is_gone(pid)

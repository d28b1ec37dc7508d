"""A cluster of two machines, which are processes here: one is killed in the middle, and nothing is
lost."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from burnish.support.errors import TuningError, WorkerDied
from burnish.support.target import Target
from burnish.tests.cluster import running_machines, running_scheduler
from burnish.tests.tuner.programs import is_gone, matmul, tiled
from burnish.tuner.measuring import remote
from burnish.tuner.measuring.remote import BUILDER, Cluster, RemoteExecutor, runner_tag, worker_tags
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.session import TuningProgress, tune_task
from burnish.tuner.task import TuneTask


def test_tags_say_what_a_machine_can_do() -> None:
    assert worker_tags(3, 1, "zen5") == {BUILDER: 3.0, "burnish-runner-zen5": 1.0}
    assert worker_tags(2, 0, "zen5") == {BUILDER: 2.0}
    with pytest.raises(TuningError, match="builds or times at least one"):
        worker_tags(0, 0)


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(TuningError, match=r"pip install 'burnish\[distributed\]'"):
        Cluster("tcp://127.0.0.1:1")


class KilledWorker(Exception):
    """As dask's, by its name."""


class FakeFuture:
    def __init__(self, result: Any) -> None:
        self._result, self.was_cancelled = result, False

    def add_done_callback(self, then: Any) -> None:
        then(self)

    def cancelled(self) -> bool:
        return False

    def result(self) -> Any:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def cancel(self) -> None:
        self.was_cancelled = True


class FakeClient:
    def __init__(self, result: Any) -> None:
        self.result, self.calls = result, []

    def submit(self, fn: Any, *args: Any, **options: Any) -> FakeFuture:
        self.calls.append((fn, args, options))
        return FakeFuture(self.result)


def test_a_job_goes_to_machines_with_the_tag() -> None:
    client = FakeClient(3)
    executor = RemoteExecutor(client, "tag", 2, 7.0)
    assert executor.submit("operator:add", a=1).result() == 3
    fn, args, options = client.calls[0]
    assert fn is remote.run_job
    assert args == ("tag", 2, 7.0, "operator:add", {"a": 1})
    assert options == {"pure": False, "resources": {"tag": 1}}
    with pytest.raises(TuningError, match="keyword arguments"):
        executor.submit("operator:add", 1, 2)


def test_a_job_that_kills_machine_after_machine_is_its_own_fault() -> None:
    executor = RemoteExecutor(FakeClient(KilledWorker("run_job")), "tag", 1, 7.0)
    answer: Future[Any] = executor.submit("os:abort")
    with pytest.raises(WorkerDied, match="one machine after the other"):
        answer.result()


def test_jobs_run_in_a_pool_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_pools", {})
    try:
        one = remote.run_job("tag", 1, 30.0, "os:getpid", {})
        assert one != os.getpid()
        assert remote.run_job("tag", 1, 30.0, "os:getpid", {}) == one
        with pytest.raises(WorkerDied):
            remote.run_job("tag", 1, 30.0, "os:abort", {})
    finally:
        for pool in remote._pools.values():
            pool.kill()


# -- a real cluster --------------------------------------------------------------------------------
@pytest.fixture
def scheduler() -> Iterator[str]:
    pytest.importorskip("distributed")
    with running_scheduler() as address:
        yield address


@pytest.mark.tuning
@pytest.mark.slow
def test_a_machine_that_is_killed_takes_nothing_along(scheduler: str) -> None:
    task = TuneTask("main", matmul(16), Target("native -threads=1"))
    killed: list[int] = []

    with running_machines(scheduler, 2) as machines:

        def kill_one(progress: TuningProgress) -> None:
            if progress.done == 3 and not killed:
                killed.append(machines[0].pid)
                machines[0].send_signal(signal.SIGKILL)

        with Cluster(scheduler) as cluster, TuningDatabase() as database:
            assert cluster.tags() == {BUILDER: 2.0, runner_tag(task.target.cpu): 2.0}
            progress = tune_task(
                task,
                database,
                max_trials=12,
                trials_per_iter=6,
                space=tiled,
                seed=0,
                seconds=0.0,
                executor=cluster.runner,
                builder=cluster.builder,
                on_progress=kill_one,
            )
            assert killed
            assert (progress.done, progress.failed) == (12, 0)
            assert len({r.candidate for r in database.records()}) == 12
            deadline = time.monotonic() + 120
            while cluster.tags().get(BUILDER) != 1.0:
                assert time.monotonic() < deadline
                time.sleep(0.2)
    assert is_gone(killed[0])


@pytest.mark.slow
def test_a_cluster_without_machines_says_what_is_missing(scheduler: str) -> None:
    with pytest.raises(TuningError, match=r"No machine at .* has the tag burnish-builder or"):
        Cluster(scheduler, cpu="zen5")

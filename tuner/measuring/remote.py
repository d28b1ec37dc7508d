"""Builders and runners on other machines, through dask.distributed.

    scheduler        dask scheduler                                  (one, anywhere)
    each machine     burnish worker --connect tcp://host:8786        (its tags say what it can do)
    the search       with Cluster("tcp://host:8786") as cluster:
                         tune_task(..., executor=cluster.runner, builder=cluster.builder)

A machine's tags are dask's resources: ``burnish-builder``, as many builds as it takes at once, and
``burnish-runner-CPU``, one, for the CPU it is. A candidate is timed where the target's CPU is, and
built anywhere. On each machine the jobs run in a WorkerPool of its own, so that a candidate that
crashes or hangs costs itself alone there too. A machine that goes away gives its jobs to another:
dask runs them again.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError
from contextlib import suppress
from types import ModuleType, TracebackType
from typing import Any

from ...support.errors import TuningError, WorkerDied
from ...support.host import native_target
from ...support.worker_pool import WorkerPool, job_name
from .pipeline import BUILD_LIMIT, CANDIDATE_LIMIT, REFERENCE_LIMIT

BUILDER = "burnish-builder"
CONNECT_SECONDS = 20.0
_REFERENCE = "save_reference"

_pools: dict[str, WorkerPool] = {}
_pools_lock = threading.Lock()


def runner_tag(cpu: str) -> str:
    """The resource of a machine that times candidates for a CPU."""
    return f"burnish-runner-{cpu}"


def import_distributed() -> ModuleType:
    """dask.distributed; TuningError where it is not installed."""
    try:
        return importlib.import_module("distributed")
    except ImportError as error:
        raise TuningError(
            "Tuning on other machines needs dask.distributed: pip install 'burnish[distributed]'."
        ) from error


def worker_tags(builders: int, runners: int, cpu: str | None = None) -> dict[str, float]:
    """The resources of a machine that takes so many builds, and timings, at once."""
    if builders < 0 or runners < 0 or builders + runners == 0:
        raise TuningError(
            f"builders={builders}, runners={runners}: a worker builds or times at least one "
            "candidate."
        )
    tags = {BUILDER: float(builders), runner_tag(cpu or native_target().cpu): float(runners)}
    return {tag: count for tag, count in tags.items() if count}


def run_job(tag: str, workers: int, limit: float, job: str, kwargs: dict[str, Any]) -> Any:
    """Run a job in this machine's pool for a tag; what a dask worker is asked to do."""
    with _pools_lock:
        if tag not in _pools:
            _pools[tag] = WorkerPool(workers, limit=limit)
        pool = _pools[tag]
    return pool.submit_within(limit, job, **kwargs).result()


class RemoteExecutor(Executor):
    """Runs importable functions of keyword arguments on the machines of a dask client that have a
    tag."""

    def __init__(self, client: Any, tag: str, workers: int, limit: float) -> None:
        self.client, self.tag, self.workers, self.limit = client, tag, workers, limit

    def submit(self, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if args:
            raise TuningError("Jobs for other machines take keyword arguments only.")
        name = job_name(fn)
        limit = REFERENCE_LIMIT if name.endswith(f":{_REFERENCE}") else self.limit
        remote = self.client.submit(
            run_job,
            self.tag,
            self.workers,
            limit,
            name,
            kwargs,
            pure=False,
            resources={self.tag: 1},
        )
        answer: Future[Any] = Future()
        remote.add_done_callback(lambda done: _pass_on(done, answer))

        def cancelled(future: Future[Any]) -> None:
            if future.cancelled():
                with suppress(Exception):  # the cluster may be gone
                    remote.cancel()

        answer.add_done_callback(cancelled)
        return answer


def _pass_on(remote: Any, answer: Future[Any]) -> None:
    """What a dask future says, to a future of ours. A job that took several machines along is the
    candidate's fault."""
    with suppress(InvalidStateError):
        if remote.cancelled():
            answer.cancel()
            return
        try:
            result = remote.result()
        except CancelledError:
            answer.cancel()
        except Exception as error:
            if type(error).__name__ == "KilledWorker":
                error = WorkerDied(f"it took one machine after the other along: {error}")
            answer.set_exception(error)
        else:
            answer.set_result(result)


class Cluster:
    """The machines at a dask scheduler's address: ``builder`` and ``runner`` are executors for
    ``tune_task``.

    Raises TuningError where dask is not installed, no scheduler answers, or no machine there builds
    or times for the CPU ``cpu`` (this machine's, by default).
    """

    def __init__(self, address: str, *, cpu: str | None = None) -> None:
        distributed = import_distributed()
        self.address = address
        self._tag = runner_tag(cpu or native_target().cpu)
        try:
            self.client = distributed.Client(
                address, timeout=CONNECT_SECONDS, set_as_default=False, name="burnish"
            )
        except (OSError, ValueError) as error:
            raise TuningError(
                f"No dask scheduler answers at {address!r}: {error}. Start one with `dask "
                "scheduler`, and machines with `burnish worker --connect ADDRESS`."
            ) from error
        try:
            self._verify()
        except TuningError:
            self.client.close()
            raise
        self.builder = RemoteExecutor(self.client, BUILDER, self._most(BUILDER), BUILD_LIMIT)
        self.runner = RemoteExecutor(self.client, self._tag, 1, CANDIDATE_LIMIT)

    def tags(self) -> dict[str, float]:
        """The tags of all machines, added up."""
        total: dict[str, float] = {}
        for machine in self._machines():
            for tag, count in machine.items():
                total[tag] = total.get(tag, 0.0) + count
        return total

    def close(self) -> None:
        """Leave the cluster; its machines go on."""
        self.client.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _machines(self) -> list[dict[str, float]]:
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [dict(w.get("resources", {})) for w in workers.values()]

    def _most(self, tag: str) -> int:
        return max(1, *[int(m.get(tag, 0)) for m in self._machines()])

    def _verify(self) -> None:
        tags = self.tags()
        missing = [tag for tag in (BUILDER, self._tag) if not tags.get(tag)]
        if missing:
            known = ", ".join(sorted(tags)) or "none"
            raise TuningError(
                f"No machine at {self.address} has the tag {' or '.join(missing)}; the tags there "
                f"are: {known}. Start one with `burnish worker --connect {self.address}`."
            )


__all__ = [
    "BUILDER",
    "Cluster",
    "RemoteExecutor",
    "import_distributed",
    "run_job",
    "runner_tag",
    "worker_tags",
]

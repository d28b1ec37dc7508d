"""Builders and runners: a candidate's way from its trace to its times.

    candidates ──> builder 1 ──┐
               ──> builder 2 ──┼─ built ──> runner ──> times, or why there are none
               ──> ...       ──┘

While the runner times one candidate the builders compile the next ones, on other cores (``cpus``).
Either side is any ``concurrent.futures.Executor`` that runs importable functions on what JSON has:
pools of processes here, or of other machines. Without builders one job does both.

A runner of this machine that has nothing to time while candidates wait to be built takes one of
them from the builders and does both: neither side is idle while the other has a queue, and still
one candidate at a time is timed, with nothing else in its process.

A builder that dies takes no candidate with it: the job goes to another once more, and only a second
death counts as the candidate's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, InvalidStateError
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ...support.errors import TuningError, WorkerDied
from ...support.target import Target
from ...support.worker_pool import WorkerPool
from ..candidate import Candidate
from ..task import Sizes
from .cpus import plan_cpus
from .measure import build_candidate, get_ready, measure_candidate, run_candidate, save_reference

BUILD_LIMIT = 60.0
"""Seconds a candidate may take to build."""
CANDIDATE_LIMIT = 60.0
"""Seconds a candidate may take to check and time, and to build where one job does both."""
REFERENCE_LIMIT = 900.0
"""Seconds the unscheduled function may take; it is run twice."""
_BUILDS = 2
"""Workers that a candidate may die in before that is its own fault."""


@dataclass(frozen=True)
class Pools:
    """Where candidates are run and built; without a builder the runner does both."""

    runner: Executor
    builder: Executor | None = None

    @property
    def quiet_cpus(self) -> tuple[int, ...]:
        """The CPUs where whoever works beside a runner of this machine does not disturb it; none
        where it does not matter."""
        return self.builder.cpus if isinstance(self.builder, WorkerPool) else ()

    @property
    def runner_builds(self) -> bool:
        """Whether the runner may build, where it would have nothing to do."""
        return isinstance(self.runner, WorkerPool) and isinstance(self.builder, WorkerPool)

    def start(self) -> None:
        """Have the worker processes start now, and not with their first jobs."""
        for pool in (self.runner, self.builder):
            if isinstance(pool, WorkerPool):
                for _ in range(pool.workers):
                    pool.submit(get_ready)


def local_pools(
    target: Target, stack: ExitStack, runner_class: type[WorkerPool] = WorkerPool
) -> Pools:
    """Worker processes of this machine, killed with the ``stack``. One worker times: what two
    measured at once would be wrong."""
    plan = plan_cpus(target.threads or target.cores)
    runner = runner_class(1, limit=CANDIDATE_LIMIT, cpus=plan.runner if plan else ())
    stack.callback(runner.kill)
    if plan is None:
        return Pools(runner)
    builder = WorkerPool(plan.count, limit=BUILD_LIMIT, cpus=plan.builders)
    stack.callback(builder.kill)
    return Pools(runner, builder)


@dataclass
class PipelineTimes:
    """Seconds that candidates were built and run for, all together."""

    build: float = 0.0
    run: float = 0.0


@dataclass
class Pipeline:
    """Measures candidates of one workload. ``text`` is the workload, ``reference`` the file where
    its results are kept, ``sizes`` what its symbolic sizes are measured at; see ``measure`` for the
    rest."""

    pools: Pools
    text: str
    target: str
    reference: str
    seconds: float
    sizes: Sizes = ()
    times: PipelineTimes = field(default_factory=PipelineTimes)
    _reference: Future[Any] | None = field(default=None, repr=False)
    _open: set[Future[Any]] = field(default_factory=set, repr=False)
    _unbuilt: dict[Future[Any], tuple[Future[Any], Candidate]] = field(
        default_factory=dict, repr=False
    )
    """Builds that are not done, in order, with the answer and the candidate."""
    _taken: set[Future[Any]] = field(default_factory=set, repr=False)
    """Builds that the runner took over before they began."""
    _runs: int = 0
    """Jobs of the runner that are not done."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def make_reference(self) -> Future[Any]:
        """Have the unscheduled function run, and its results kept; no candidate runs before it is
        there."""
        request: dict[str, Any] = {"text": self.text, "target": self.target, "seed": 0}
        request |= {"path": self.reference, "sizes": self.sizes}
        runner = self.pools.runner
        if isinstance(runner, WorkerPool):
            self._reference = runner.submit_within(REFERENCE_LIMIT, save_reference, **request)
        else:
            self._reference = runner.submit(save_reference, **request)
        self._reference.add_done_callback(lambda _: self._share())
        return self._reference

    def measure(self, candidate: Candidate) -> Future[Any]:
        """A candidate's answer to come: ``{"seconds": [...]}``, BuildError or MeasureTimeout.
        Cancelling it keeps the candidate from being built or run, if it is not yet."""
        if self.pools.builder is None:
            future = self._measure_at_once(candidate)
            future.add_done_callback(self._count)
            return future
        answer: Future[Any] = Future()
        self._build(answer, candidate, 1)
        self._share()
        return answer

    def _measure_at_once(self, candidate: Candidate) -> Future[Any]:
        """Have the runner do both."""
        return self.pools.runner.submit(
            measure_candidate,
            trace=candidate.trace,
            candidate=candidate.hash,
            reference=self.reference,
            seconds=self.seconds,
            sizes=self.sizes,
            text=self.text,
            target=self.target,
        )

    def cancel(self) -> None:
        """Drop what waits in either pool."""
        with self._lock:
            waiting = list(self._open)
        for future in waiting:
            future.cancel()

    def _build(self, answer: Future[Any], candidate: Candidate, number: int) -> None:
        assert self.pools.builder is not None

        def built(future: Future[Any]) -> None:
            with self._lock:
                self._unbuilt.pop(future, None)
                if future.cancelled() and future in self._taken:
                    self._taken.discard(future)
                    return
            if future.cancelled():
                answer.cancel()
                return
            error = future.exception()
            if isinstance(error, WorkerDied) and number < _BUILDS:
                self._submit(answer, lambda: self._build(answer, candidate, number + 1))
            elif error is not None:
                _fail(answer, error)
            else:
                self._when_known(lambda: self._run(answer, future.result()), answer)

        build = self.pools.builder.submit(
            build_candidate,
            text=self.text,
            trace=candidate.trace,
            candidate=candidate.hash,
            target=self.target,
        )
        if number == 1:  # what took a worker along stays with the builders
            with self._lock:
                self._unbuilt[build] = answer, candidate
        self._watch(build, built)

    def _share(self) -> None:
        """Give a runner with nothing to do a candidate that waits for a builder."""
        if not self.pools.runner_builds:
            return
        with self._lock:
            if self._runs or self._reference is None or not self._reference.done():
                return
            waiting = list(self._unbuilt.items())
            # A second thread that comes here meanwhile finds the runner taken.
            self._runs += 1
        for build, (answer, candidate) in waiting:
            with self._lock:
                self._taken.add(build)
            if build.cancel() and not answer.cancelled():
                self._submit(answer, partial(self._take_over, answer, candidate))
                break
            with self._lock:
                self._taken.discard(build)
        with self._lock:
            self._runs -= 1

    def _take_over(self, answer: Future[Any], candidate: Candidate) -> None:
        def measured(future: Future[Any]) -> None:
            if future.cancelled():
                answer.cancel()
                return
            error = future.exception()
            if isinstance(error, WorkerDied):
                # It may have died of the build: that is counted as anywhere.
                self._submit(answer, lambda: self._build(answer, candidate, _BUILDS))
            elif error is not None:
                _fail(answer, error)
            else:
                with suppress(InvalidStateError):
                    answer.set_result(future.result())
                self._count(answer)

        self._watch_run(self._measure_at_once(candidate), measured)

    def _run(self, answer: Future[Any], built: dict[str, Any]) -> None:
        def ran(future: Future[Any]) -> None:
            if future.cancelled():
                answer.cancel()
                return
            error = future.exception()
            if error is not None:
                _fail(answer, error)
                return
            times = {"build_seconds": built["seconds"], **future.result()}
            with suppress(InvalidStateError):
                answer.set_result(times)
            self._count(answer)

        run = self.pools.runner.submit(
            run_candidate,
            text=self.text,
            built=built["built"],
            target=self.target,
            reference=self.reference,
            seconds=self.seconds,
            sizes=self.sizes,
        )
        self._watch_run(run, ran)

    def _watch_run(self, future: Future[Any], then: Callable[[Future[Any]], None]) -> None:
        with self._lock:
            self._runs += 1

        def done(finished: Future[Any]) -> None:
            with self._lock:
                self._runs -= 1
            then(finished)
            if not finished.cancelled():
                self._share()

        self._watch(future, done)

    def _watch(self, future: Future[Any], then: Callable[[Future[Any]], None]) -> None:
        with self._lock:
            self._open.add(future)

        def done(_: Future[Any]) -> None:
            with self._lock:
                self._open.discard(future)
            then(future)

        future.add_done_callback(done)

    def _when_known(self, submit: Callable[[], None], answer: Future[Any]) -> None:
        """Go on once there is something to compare with."""

        def known(reference: Future[Any]) -> None:
            if reference.cancelled() or reference.exception() is not None:
                answer.cancel()  # the session ends with the reference's error
            else:
                self._submit(answer, submit)

        assert self._reference is not None
        self._reference.add_done_callback(known)

    def _submit(self, answer: Future[Any], submit: Callable[[], None]) -> None:
        """Submit the next job; a pool that was shut down meanwhile is the answer."""
        if answer.cancelled():
            return
        try:
            submit()
        except (TuningError, RuntimeError) as error:
            _fail(answer, error)

    def _count(self, future: Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        answer = future.result()
        with self._lock:
            self.times.build += answer.get("build_seconds", 0.0)
            self.times.run += answer.get("run_seconds", 0.0)


def _fail(answer: Future[Any], error: BaseException) -> None:
    with suppress(InvalidStateError):
        answer.set_exception(error)


__all__ = [
    "BUILD_LIMIT",
    "CANDIDATE_LIMIT",
    "REFERENCE_LIMIT",
    "Pipeline",
    "PipelineTimes",
    "Pools",
    "local_pools",
]

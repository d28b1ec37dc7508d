"""WorkerPool: a ``concurrent.futures.Executor`` over fresh interpreters that can be killed.

A worker (``support.worker``) reads one JSON job a line and answers one JSON line. It is never a
fork or a ``multiprocessing`` child of the user's process, so that scripts without a main guard,
notebooks and stdin work; it is told the parent's package folder and ``sys.path``, so that it runs
the same burnish wherever it starts. It lives in a session of its own: a job that outlives its
limit, or a worker that dies, costs that job alone; the worker is killed with all its children and
replaced.

A job's failure is BuildError (WorkerFailed where it raised what it does not raise on purpose,
WorkerDied where it took the worker along) or MeasureTimeout. A worker that does not even start is a
plain TuningError: it says nothing about the job. One that is killed by a signal while it starts (a
system short of memory) is started anew first.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import BuildError, MeasureTimeout, TuningError, WorkerDied, WorkerFailed

PACKAGE = __package__.split(".")[0]
BOOT = f"""
import importlib.util, json, os, sys
folder, path, cpus = json.loads(sys.argv.pop(1))
sys.path[:] = path
if cpus:
    os.sched_setaffinity(0, cpus)
place = importlib.util.spec_from_file_location(
    {PACKAGE!r}, folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules[{PACKAGE!r}] = importlib.util.module_from_spec(place)
place.loader.exec_module(sys.modules[{PACKAGE!r}])
from {PACKAGE}.support.worker import main
sys.exit(main())
"""
"""What a worker runs: it imports this very package from its folder, whatever the folder is called
and whether or not it is installed."""

START_LIMIT = 120.0
"""Seconds a worker may take to import the compiler, on a machine that is busy."""

START_TRIES = 3
"""How many workers in a row may be killed while they start, before that is an error."""

_ROOT = Path(__file__).resolve().parent.parent
_STDERR_BYTES = 2000
_DYING_SECONDS = 10.0


def worker_command(cpus: Sequence[int] = ()) -> list[str]:
    """The command line of a worker that stays on some CPUs (on any, where none are given); raises
    TuningError where the interpreter does not know itself."""
    if not sys.executable:
        raise TuningError(
            "This Python does not know its own executable (sys.executable is empty), so no worker "
            "can be started. Set sys.executable, or pass executor=."
        )
    path = [os.path.abspath(p) for p in sys.path if isinstance(p, str)]
    place = json.dumps([str(_ROOT), path, sorted(cpus)])
    # -P: a file of the current folder must not stand in for json or importlib.
    return [sys.executable, "-P", "-c", BOOT, place]


def job_name(fn: Callable[..., Any] | str) -> str:
    """``module:qualname`` of a function that a worker can import; TuningError for any other."""
    if isinstance(fn, str):
        return fn
    module, name = getattr(fn, "__module__", ""), getattr(fn, "__qualname__", "")
    if not module or module == "__main__" or not name or "<" in name:
        raise TuningError(
            f"A worker imports the functions it runs; {fn!r} cannot be imported. Put it in a "
            "module."
        )
    return f"{module}:{name}"


class _Worker:
    """One interpreter and the pipes to it. Its stderr goes to an unnamed file, for error
    messages."""

    def __init__(self, cpus: Sequence[int] = ()) -> None:
        command = worker_command(cpus)
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        # Appending lets us empty the file between jobs while the worker holds it open.
        fcntl.fcntl(self.stderr, fcntl.F_SETFL, os.O_APPEND)
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.stderr,
                start_new_session=True,
            )
        except OSError as error:
            self.stderr.close()
            raise TuningError(f"{sys.executable} cannot be started as a worker: {error}") from error
        self._buffer = b""
        self._is_killed = False

    def wait_ready(self) -> None:
        """Wait for the worker's greeting; TuningError with what it printed if none comes."""
        try:
            self._answer(START_LIMIT)
        except TuningError as error:
            raise TuningError(f"A worker process does not start: {error}") from error

    @property
    def was_killed_by_a_signal(self) -> bool:
        return not self._is_killed and (self.process.returncode or 0) < 0

    def ask(self, job: bytes, limit: float) -> dict[str, Any]:
        """Send a job, a line of JSON, and wait for its answer; MeasureTimeout, or BuildError if the
        worker died."""
        assert self.process.stdin is not None
        os.ftruncate(self.stderr.fileno(), 0)
        with contextlib.suppress(BrokenPipeError):  # the worker is dead: reading tells how it died
            self.process.stdin.write(job)
            self.process.stdin.flush()
        return self._answer(limit)

    def _answer(self, limit: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        deadline = time.monotonic() + limit
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise MeasureTimeout(f"no answer within {limit:g} s")
            data = os.read(descriptor, 1 << 16)
            if not data:
                raise WorkerDied(self._obituary())
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _obituary(self) -> str:
        """How the worker died, and the last of what it printed."""
        try:
            code = self.process.wait(_DYING_SECONDS)
        except subprocess.TimeoutExpired:
            return "the worker closed its output"
        died = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        size = os.fstat(self.stderr.fileno()).st_size
        last = os.pread(self.stderr.fileno(), _STDERR_BYTES, max(0, size - _STDERR_BYTES))
        text = last.decode(errors="replace").strip()
        return f"the worker died ({died})" + (f": {text}" if text else "")

    def kill(self) -> None:
        """Kill the worker and all it started. Any thread may call it, again and again."""
        if self._is_killed:
            return
        self._is_killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """``kill``, and give back the pipes; only by the thread that talks to the worker."""
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


@dataclass(frozen=True)
class _Job:
    future: Future[Any]
    line: bytes
    limit: float


@dataclass
class _State:
    """What the serving threads share with the pool, and must not keep the pool alive by."""

    jobs: queue.SimpleQueue[_Job | None]
    workers: set[_Worker]
    jobs_per_worker: int
    cpus: tuple[int, ...] = ()
    is_killed: bool = False


class WorkerPool(Executor):
    """``submit(fn, *args)`` runs an importable function on JSON-able arguments in a worker; so does
    ``submit("module:name", *args)``. The future's result is what the function returned, as JSON has
    it.

    ``limit`` is seconds a job. The future of a job that fails raises BuildError (with the
    function's error, or the signal that killed the worker) or MeasureTimeout, and the pool goes on;
    it raises a plain TuningError where no worker starts. A worker is replaced after
    ``jobs_per_worker`` jobs, so that the code of earlier jobs does not pile up. Workers start with
    their first jobs, and stay on the CPUs ``cpus`` where these are given.
    """

    def __init__(
        self,
        workers: int = 1,
        *,
        limit: float = 30.0,
        jobs_per_worker: int = 200,
        cpus: Collection[int] = (),
    ) -> None:
        if workers < 1:
            raise TuningError(f"A worker pool has at least 1 worker; found {workers}.")
        self.workers, self.limit, self.cpus = workers, limit, tuple(sorted(cpus))
        self._state = _State(queue.SimpleQueue(), set(), jobs_per_worker, self.cpus)
        self._is_shut = False
        self._finalizer = weakref.finalize(self, _kill, self._state, workers)
        self._threads = [
            threading.Thread(target=_serve, args=(self._state,), name="burnish-worker", daemon=True)
            for _ in range(workers)
        ]
        for t in self._threads:
            t.start()

    def submit(self, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a job; raises TuningError for a function that no worker can import."""
        return self.submit_within(self.limit, fn, *args, **kwargs)

    def submit_within(
        self, limit: float, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        """As ``submit``, with a limit of the job's own in seconds. Raises TypeError for arguments
        that JSON does not have."""
        if self._is_shut:
            raise TuningError("The worker pool is shut down; make another.")
        future: Future[Any] = Future()
        job = {"job": job_name(fn), "args": args, "kwargs": kwargs}
        self._state.jobs.put(_Job(future, json.dumps(job).encode() + b"\n", limit))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs and stop the workers after those queued; ``cancel_futures`` drops the
        jobs that were not started."""
        if not self._is_shut:
            self._is_shut = True
            if cancel_futures:
                _cancel(self._state)
            for _ in self._threads:
                self._state.jobs.put(None)
        if wait:
            for t in self._threads:
                t.join()

    def kill(self) -> None:
        """Stop at once: workers are killed; jobs that run or wait are cancelled or fail."""
        self._is_shut = True
        self._finalizer()
        for t in self._threads:
            t.join()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for the jobs, as executors do; after an error (an interrupt, say) stop at once."""
        if kind is None:
            self.shutdown()
        else:
            self.kill()


def _cancel(state: _State) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            job = state.jobs.get_nowait()
            if job is not None:
                job.future.cancel()


def _kill(state: _State, threads: int) -> None:
    state.is_killed = True
    _cancel(state)
    for worker in list(state.workers):
        worker.kill()
    for _ in range(threads):
        state.jobs.put(None)


def _serve(state: _State) -> None:
    """A serving thread: one worker at a time, and its replacements."""
    worker: _Worker | None = None
    done = 0
    try:
        while (job := state.jobs.get()) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            try:
                if worker is None or done >= state.jobs_per_worker:
                    _drop(state, worker)
                    worker, done = None, 0
                    worker = _start(state)
                done += 1
                answer = worker.ask(job.line, job.limit)
            except (TuningError, OSError, ValueError) as error:
                _drop(state, worker)
                worker = None
                killed = TuningError("The worker pool was killed.") if state.is_killed else None
                job.future.set_exception(killed or error)
                continue
            if "error" in answer:
                kind = WorkerFailed if answer["failed"] else BuildError
                job.future.set_exception(kind(answer["error"]))
            else:
                job.future.set_result(answer["result"])
    finally:
        _drop(state, worker)


def _start(state: _State) -> _Worker:
    for tries_left in reversed(range(START_TRIES)):
        worker = _Worker(state.cpus)
        state.workers.add(worker)
        try:
            if state.is_killed:  # kill() may have looked at the set before this worker was in it
                raise TuningError("The worker pool was killed.")
            worker.wait_ready()
            return worker
        except TuningError:
            is_mishap = worker.was_killed_by_a_signal and not state.is_killed
            _drop(state, worker)
            if not (is_mishap and tries_left):
                raise
        except BaseException:
            _drop(state, worker)
            raise
    raise AssertionError("the last try returns or raises")


def _drop(state: _State, worker: _Worker | None) -> None:
    if worker is not None:
        worker.close()
        state.workers.discard(worker)

"""WorkerPool: a ``concurrent.futures.Executor`` over fresh interpreters that can be killed.

A worker is ``python -m burnish worker``: it reads one JSON job a line and answers one JSON line. It is
never a fork or a ``multiprocessing`` child of the user's process, so that scripts without a main guard,
notebooks and stdin work. It runs in a session of its own; a job that outlives its limit, or a worker
that dies, costs that job alone: the worker is killed with all its children and replaced.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from ..support.errors import BuildError, MeasureTimeout, TuningError

JOBS: dict[str, str] = {"measure": "burnish.tuner.measure:measure_candidate"}
"""The functions a worker runs, by the name a job carries."""


class _Worker:
    """One interpreter and the pipes to it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "burnish", "worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._buffer = b""

    def ask(self, job: dict[str, Any], limit: float) -> dict[str, Any]:
        """Send a job, wait for its answer; MeasureTimeout or BuildError (the worker died) otherwise."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        except (BrokenPipeError, OSError) as error:
            raise BuildError(f"the worker is gone: {error}") from error
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
                code = self.process.wait()
                died = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
                raise BuildError(f"the worker died ({died})")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.process.wait()


class WorkerPool(Executor):
    """``submit("measure", request)`` runs a job of JOBS in a worker; its result is the job's answer.

    ``limit`` is seconds a job. A job that fails raises TuningError (MeasureTimeout, BuildError) from its
    future; the pool stays usable.
    """

    def __init__(self, workers: int = 1, *, limit: float = 30.0, jobs_per_worker: int = 200) -> None:
        self.limit = limit
        self._jobs_per_worker = jobs_per_worker
        self._queue: queue.SimpleQueue[tuple[Future[Any], dict[str, Any]] | None] = queue.SimpleQueue()
        self._closed = False
        self._running: set[_Worker] = set()
        self._finalizer = weakref.finalize(self, _kill_all, self._running)
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(workers)]
        for t in self._threads:
            t.start()

    def submit(self, fn: Callable[..., Any] | str, /, *args: Any, **kwargs: Any) -> Future[Any]:  # type: ignore[override]
        """Queue a job: its name in JOBS and one JSON-able request."""
        if self._closed:
            raise TuningError("the worker pool is shut down.")
        name = fn if isinstance(fn, str) else f"{fn.__module__}:{fn.__qualname__}"
        future: Future[Any] = Future()
        self._queue.put((future, {"job": name, "request": args[0] if args else kwargs}))
        return future

    def _serve(self) -> None:
        worker: _Worker | None = None
        done = 0
        while (item := self._queue.get()) is not None:
            future, job = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if worker is None or done >= self._jobs_per_worker:
                    self._drop(worker)
                    worker, done = _Worker(), 0
                    self._running.add(worker)
                answer = worker.ask(job, self.limit)
                done += 1
                if "error" in answer:
                    raise BuildError(answer["error"])
                future.set_result(answer["result"])
            except Exception as error:
                if not isinstance(error, BuildError) or worker is None or worker.process.poll() is not None:
                    self._drop(worker)
                    worker = None
                future.set_exception(error)
        self._drop(worker)

    def _drop(self, worker: _Worker | None) -> None:
        if worker is not None:
            worker.kill()
            self._running.discard(worker)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Stop the workers; jobs that were not started are cancelled with ``cancel_futures``."""
        self._closed = True
        if cancel_futures:
            with contextlib.suppress(queue.Empty):
                while (item := self._queue.get_nowait()) is not None:
                    item[0].cancel()
        for _ in self._threads:
            self._queue.put(None)
        if wait:
            for t in self._threads:
                t.join()


def _kill_all(workers: set[_Worker]) -> None:
    for worker in list(workers):
        worker.kill()


def serve_jobs(resolve: Callable[[str], Callable[[dict[str, Any]], Any]]) -> None:
    """The worker's loop: one JSON job a line from stdin, one JSON answer a line to stdout.

    Whatever a job prints goes to stderr, so that it cannot come between the answers.
    """
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer: dict[str, Any] = {"result": resolve(job["job"])(job["request"])}
        except Exception as error:  # a job's failure is its answer; the worker lives on
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer).encode() + b"\n")

"""A worker process: runs jobs for a WorkerPool, one at a time.

Jobs come as JSON lines on stdin, ``{"job": "module:name", "args": [...], "kwargs": {...}}``;
answers go as JSON lines to stdout, ``{"result": ...}`` or ``{"error": text, "failed": bool}``
(``failed`` says that the job did not raise this on purpose), after a first line that says the
worker is ready. A job is a function that is imported by name and takes and returns what JSON has.

The end of stdin means that nobody listens any more: the worker ends at once with all it started, in
the middle of a job or not. It knows nothing of candidates and schedules.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import resource
import signal
import sys
import threading
from collections.abc import Callable
from functools import reduce
from importlib import import_module
from typing import Any, BinaryIO

from .collector import MIDDLE, OLD, YOUNG
from .errors import TuningError, WorkerFailed


def main() -> int:
    """Serve until stdin ends.

    Jobs see an empty stdin, and what they print goes to stderr: they can neither take the next job
    for their own input nor write between the answers.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    jobs = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    serve(jobs, answers, at_end=_end)
    return 0


def serve(jobs: BinaryIO, answers: BinaryIO, *, at_end: Callable[[], None]) -> None:
    """Answer the jobs of a stream; ``at_end`` is called from another thread as soon as it ends."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in jobs:
            lines.put(line)
        at_end()
        lines.put(b"")

    # A thread of its own sees the stream end while a job runs: native code releases the lock.
    threading.Thread(target=read, name="burnish-jobs", daemon=True).start()
    answers.write(b'{"ready": true}\n')
    while line := lines.get():
        answers.write(answer(line) + b"\n")


def answer(line: bytes) -> bytes:
    """The answer to one job; whatever Exception it raises is its answer, and the worker lives
    on."""
    try:
        job = json.loads(line)
        result = resolve(job["job"])(*job["args"], **job["kwargs"])
        return json.dumps({"result": result}).encode()
    except TuningError as error:
        failed = isinstance(error, WorkerFailed)
        return json.dumps({"error": str(error), "failed": failed}).encode()
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}", "failed": True}).encode()


def resolve(job: str) -> Callable[..., Any]:
    """The function that ``module:name`` names; raises TuningError where there is none."""
    module, _, name = job.partition(":")
    try:
        found = reduce(getattr, name.split("."), import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise TuningError(f"The worker cannot import the job {job!r}: {error}") from error
    if not callable(found):
        raise TuningError(f"The job {job!r} is no function.")
    function: Callable[..., Any] = found
    return function


def _end() -> None:
    """End this process and, where it leads a process group, all that are in it."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())

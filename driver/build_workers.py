"""The process's build workers: fresh interpreters that emit kernels beside the process itself.

llvmlite lets one thread at a time into LLVM, and most of an emission is Python: threads gain
nothing, processes do. There is one pool, shared by all compilations. It starts with the first
compilation that has work for it, so that workers load LLVM while the graph passes run; its workers
end when nothing was compiled for ``IDLE_SECONDS``, and with the process in any case.
BURNISH_BUILD_JOBS bounds the processes that compile, this one included.

This file knows nothing of kernels: what a job is, ``driver.emit`` says.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ..support.config import flag
from ..support.host import cores
from ..support.target import Target
from ..support.worker_pool import WorkerPool
from ..vm.parallel import cpu_quota
from .emit import get_ready

IDLE_SECONDS = 20.0
"""Idle workers hold some memory; starting one takes less than half a second."""
JOB_SECONDS = 600.0
"""What one kernel may take. Beyond that the worker is taken to hang."""
MOST_JOBS = 8
"""Processes that compile where nobody says; few models have enough distinct kernels for more."""


def build_jobs() -> int:
    """The processes that compile: BURNISH_BUILD_JOBS, or the CPUs this process may use, up to
    ``MOST_JOBS``. Raises ConfigError for a flag that is no count."""
    asked: int | None = flag("BURNISH_BUILD_JOBS")
    if asked is not None:
        return asked
    quota = cpu_quota()
    limits = [cores(), MOST_JOBS, *([] if quota is None else [max(1, math.ceil(quota))])]
    return min(limits)


class BuildWorkers:
    """The pool, made when it is first held, and ended when nobody has held it for a while."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._pool: WorkerPool | None = None
        self._size = 0
        self._ready: set[str] = set()
        self._holders = 0
        self._timer: threading.Timer | None = None

    @property
    def is_running(self) -> bool:
        """Whether there are worker processes, or will be with the first job."""
        return self._pool is not None

    @contextmanager
    def held(self, workers: int, target: Target) -> Iterator[WorkerPool]:
        """A pool of at least ``workers`` workers, which begin to get ready for ``target`` now."""
        pool = self._hold(workers, target)
        try:
            yield pool
        finally:
            self._release()

    def _hold(self, workers: int, target: Target) -> WorkerPool:
        with self._lock:
            self._stop_timer()
            if self._pool is None or (self._size < workers and not self._holders):
                self._close()
                self._pool, self._size = WorkerPool(workers, limit=JOB_SECONDS), workers
            if str(target) not in self._ready:
                self._ready.add(str(target))
                for _ in range(self._size):
                    # A worker that cannot get ready says so again with its first kernel.
                    self._pool.submit(get_ready, str(target))
            self._holders += 1
            return self._pool

    def _release(self) -> None:
        with self._lock:
            self._holders -= 1
            if not self._holders and self._pool is not None:
                self._timer = threading.Timer(self._idle_seconds, self.close_idle)
                self._timer.daemon = True
                self._timer.name = "burnish-build-idle"
                self._timer.start()

    def close_idle(self) -> None:
        """End the workers, unless somebody holds them."""
        with self._lock:
            if not self._holders:
                self._stop_timer()
                self._close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        pool, self._pool = self._pool, None
        self._ready.clear()
        if pool is not None:
            pool.kill()

    def forget(self) -> None:
        """In a child after a fork: the workers are the parent's, and so are the threads that talk
        to them. They are neither used nor ended here."""
        pool = self._pool
        if pool is not None:
            pool._finalizer.detach()
            _FORGOTTEN.append(pool)
        self._reset()


_FORGOTTEN: list[WorkerPool] = []
"""Pools of a parent process; they hold pipes that must not be collected, let alone closed."""


workers = BuildWorkers()
"""The process's."""

os.register_at_fork(after_in_child=workers.forget)

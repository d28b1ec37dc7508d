"""The thread pool's handle: Runtime records that kernels reach the pool through.

The pool itself is object code that travels in each artifact (``tensorir.codegen.thread_pool``);
this file only knows the addresses of its functions. There is one pool a process, installed from the
first library that brings it; its workers are started by the first launch that wants them, up to the
largest number of threads asked for. All models share it: of two launches at once, the second runs
serially.

After a fork the child has no workers, so every record given out is pointed at a new pool, whose
threads start at the child's first launch. At exit the workers are joined before their code goes.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ..support.abi import ABI_VERSION
from ..support.config import flag
from ..support.errors import VMError
from .binding import Runtime, serial_runtime

CAPACITY = 1024
"""Threads the pool has room for; records cost a cache line each."""

CREATE, LAUNCH = "burnish_pool_create", "burnish_pool_launch"
DESTROY, ABI_SYMBOL = "burnish_pool_destroy", "burnish_pool_abi_version"


class Library(Protocol):
    """Loaded object code: ``address`` raises UnknownFunctionError for a symbol it lacks."""

    def address(self, symbol: str) -> int: ...


class _Pool:
    """The process's pool: the functions of the library it came from, and the records given out."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.launch = library.address(LAUNCH)
        self._create = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(library.address(CREATE))
        self._destroy = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address(DESTROY))
        self.records: dict[int, Runtime] = {}
        self.is_closed = False
        self.address = self._make()

    def _make(self) -> int:
        address: int | None = self._create(CAPACITY)
        if not address:
            raise VMError("There is no memory for the thread pool.")
        return address

    def record(self, threads: int) -> Runtime:
        """The record of this many threads, one for all who ask."""
        known = self.records.get(threads)
        if known is None:
            known = Runtime(ABI_VERSION, threads, self.launch, self.address, 0)
            self.records[threads] = known
        return known

    def renew(self) -> None:
        """In a forked child: forget the parent's pool, whose threads are not here."""
        self.address = self._make()
        for record in self.records.values():
            record.pool = self.address

    def close(self) -> None:
        """Join the workers, once. Records stay valid: launches run serially from now on."""
        if not self.is_closed:
            self.is_closed = True
            self._destroy(self.address)


_lock = threading.Lock()
_pool: _Pool | None = None


def install(library: Library) -> None:
    """Take the process's pool from a loaded library, unless there is one already.

    The library is kept for good. Raises UnknownFunctionError where it has no pool, VMError where
    its pool speaks another version of the kernel ABI.
    """
    global _pool
    version = ctypes.CFUNCTYPE(ctypes.c_int64)(library.address(ABI_SYMBOL))()
    if version != ABI_VERSION:
        raise VMError(
            f"Expected a thread pool of kernel ABI {ABI_VERSION}, found version {version}. "
            "Compile the model again with this version of burnish."
        )
    with _lock:
        if _pool is None:
            _pool = _Pool(library)
            # Before the interpreter drops the library, and the code under the workers' feet.
            atexit.register(_pool.close)


def is_installed() -> bool:
    """Whether ``pool`` can give records of more than one thread."""
    return _pool is not None


def pool(threads: int, bring: Callable[[], Library] | None = None) -> int:
    """Address of the process's Runtime record of ``threads`` threads; valid as long as the process.

    One thread is the serial record, which needs no pool. Where several are asked for and no pool is
    installed yet, it is taken from the library that ``bring`` gives. Raises VMError for a number
    out of range, and where no pool is installed and nobody brings one.
    """
    if not 1 <= threads <= CAPACITY:
        raise VMError(f"Expected 1 to {CAPACITY} threads, found {threads}.")
    if threads == 1:
        return serial_runtime()
    if bring is not None and not is_installed():
        install(bring())
    with _lock:
        if _pool is None:
            raise VMError(
                f"{threads} threads were asked for, but no loaded artifact brought a thread pool. "
                "Load one that does, or run with one thread."
            )
        return ctypes.addressof(_pool.record(threads))


def default_threads() -> int:
    """How many threads a model gets that does not say: the least of the CPUs this process may run
    on, its CPU quota (rounded up), BURNISH_NUM_THREADS and OMP_NUM_THREADS. Raises ConfigError for
    a flag that is no count."""
    limits = [len(os.sched_getaffinity(0)), CAPACITY]
    quota = cpu_quota()
    if quota is not None:
        limits.append(max(1, math.ceil(quota)))
    for name in ("BURNISH_NUM_THREADS", "OMP_NUM_THREADS"):
        count: int | None = flag(name)
        if count is not None:
            limits.append(count)
    return min(limits)


def cpu_quota(
    mounts: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")
) -> float | None:
    """CPUs' worth of time the control groups of this process grant (v1 and v2), or None for no
    limit.

    A group is bound by its ancestors too. Inside a container a group's path may lie outside of what
    is mounted; the mount's root is the container's own group then, and is always looked at.
    """
    quotas: list[float] = []
    for line in _read(membership).splitlines():
        fields = line.split(":", 2)
        if len(fields) != 3:
            continue
        number, controllers, path = fields
        if number == "0" and not controllers:
            quotas += _quotas(mounts, path, _quota_v2)
        elif "cpu" in controllers.split(","):
            root = next((r for r in (mounts / controllers, mounts / "cpu") if r.is_dir()), mounts)
            quotas += _quotas(root, path, _quota_v1)
    return min(quotas, default=None)


def _quotas(root: Path, path: str, read: _QuotaReader) -> list[float]:
    group = root / path.strip("/")
    groups = [g for g in (group, *group.parents) if g == root or root in g.parents]
    return [quota for g in groups if (quota := read(g)) is not None]


class _QuotaReader(Protocol):
    def __call__(self, group: Path, /) -> float | None: ...


def _quota_v2(group: Path) -> float | None:
    return _ratio(_read(group / "cpu.max").split())


def _quota_v1(group: Path) -> float | None:
    return _ratio([_read(group / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")])


def _ratio(fields: list[str]) -> float | None:
    """``quota period`` as CPUs; None for ``max``, ``-1`` and for what is no such pair."""
    if len(fields) != 2 or not all(f.isdigit() for f in fields) or int(fields[1]) == 0:
        return None
    return int(fields[0]) / int(fields[1]) or None


def _read(path: Path) -> str:
    """A file of the kernel's; empty where there is none or it may not be read."""
    try:
        return path.read_text()
    except OSError:
        return ""


def _after_fork() -> None:
    # The lock may have been held by a thread that is not here.
    global _lock
    _lock = threading.Lock()
    if _pool is not None:
        _pool.renew()


os.register_at_fork(after_in_child=_after_fork)


__all__ = [
    "CAPACITY",
    "cpu_quota",
    "default_threads",
    "install",
    "is_installed",
    "pool",
    "serial_runtime",
]

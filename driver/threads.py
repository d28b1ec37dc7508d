"""Threads of a call: how many, and the process's pool, made when a model first asks for several."""

from __future__ import annotations

from ..support.errors import ArgumentError
from ..support.host import native_target
from ..support.target import Target
from ..vm import parallel
from ..vm.native import NativeLibrary, load_objects


def check_threads(threads: int | None) -> None:
    """Raise ArgumentError for what is no number of threads."""
    if threads is None:
        return
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ArgumentError(f"threads={threads!r}: expected a whole number of at least 1.")


def thread_count(target: Target, threads: int | None) -> int:
    """The threads of a call: the least of ``threads``, the target's ``-threads``, and what the
    machine and the environment allow. Raises ArgumentError for ``threads`` below 1."""
    check_threads(threads)
    limits = [parallel.default_threads()]
    if threads is not None:
        limits.append(threads)
    if target.threads:
        limits.append(target.threads)
    return min(limits)


def runtime(threads: int) -> int:
    """Address of the Runtime record for a number of threads; the pool's object code is emitted and
    linked at the first request for more than one."""
    return parallel.pool(threads, _emitted_pool)


def _emitted_pool() -> NativeLibrary:
    from ..tensorir.codegen.thread_pool import emit_thread_pool

    return load_objects([emit_thread_pool(native_target())])

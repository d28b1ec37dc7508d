"""The process's thread pool, made when a model first asks for more than one thread."""

from __future__ import annotations

from ..tensorir.codegen.host import native_target
from ..tensorir.codegen.thread_pool import emit_thread_pool
from ..vm import parallel
from ..vm.native import load_objects


def runtime(threads: int) -> int:
    """Address of the Runtime record for a number of threads; the pool's object code is emitted and
    linked at the first request for more than one."""
    if threads > 1 and not parallel.is_installed():
        parallel.install(load_objects([emit_thread_pool(native_target())]))
    return parallel.pool(threads)

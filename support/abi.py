"""The kernel calling convention, defined once; codegen emits it and vm binds it.

    void kernel(void **args, const int64_t *dims, void *workspace, const Runtime *rt)

``args``       one pointer a parameter, outputs last, each aligned to its dtype (constants,
               workspace and intermediates to ``ALIGNMENT``).
``dims``       the values of the function's symbolic dimensions, in the order of
               ``PrimFunc.shape_vars`` (first appearance in the parameters' shapes).
``workspace``  ``shared_bytes + thread_bytes * threads`` bytes, aligned to ``ALIGNMENT``; the caller
               provides it. A kernel never calls malloc and keeps under ``STACK_LIMIT`` of stack.
``rt``         the runtime record below.

    struct Runtime { int64_t abi_version; int64_t threads; launch_t launch; void *pool; }
    typedef void (*body_t)(void *context, int64_t begin, int64_t end, int64_t thread);
    typedef void (*launch_t)(const Runtime *rt, body_t body, void *context,
                             int64_t extent, int64_t grain);

``launch`` splits ``[0, extent)`` into contiguous ranges of at least ``grain`` iterations, calls
``body`` on each with the index of the thread that runs it (0 .. threads-1), and returns when all
are done. With ``threads == 1`` a kernel calls the body itself and never launches.
"""

from __future__ import annotations

ABI_VERSION = 1
ALIGNMENT = 64
LINE_BYTES = 64
"""A cache line, on every CPU that kernels are made for."""
STACK_LIMIT = 16 * 1024

RUNTIME_FIELDS = ("abi_version", "threads", "launch", "pool")
"""Fields of the Runtime struct, each 8 bytes, in order."""

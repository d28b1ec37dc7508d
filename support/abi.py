"""The kernel calling convention, defined once; codegen emits it and vm binds it.

    void kernel(void **args, const int64_t *dims, void *workspace, const Runtime *rt)

``args``       one pointer a parameter, outputs last, each aligned to its dtype (constants,
               workspace and intermediates to ``ALIGNMENT``).
``dims``       the values of the function's symbolic dimensions, in the order of
               ``PrimFunc.shape_vars`` (first appearance in the parameters' shapes).
``workspace``  ``shared_bytes + thread_bytes * threads`` bytes, aligned to ``ALIGNMENT``; the caller
               provides it. A kernel never calls malloc and keeps under ``STACK_LIMIT`` of stack.
``rt``         the runtime record below.

    struct Runtime { int64_t abi_version; int64_t threads; launch_t launch; void *pool;
                     int64_t cancel; }
    typedef void (*body_t)(void *context, int64_t begin, int64_t end, int64_t thread);
    typedef void (*launch_t)(const Runtime *rt, body_t body, void *context,
                             int64_t extent, int64_t grain);

``launch`` splits ``[0, extent)`` into contiguous ranges of at least ``grain`` iterations, calls
``body`` on each with the index of the thread that runs it (0 .. threads-1), which may be any and
may run several, and returns when all are done. With ``threads == 1`` a kernel calls the body itself
and never launches.

``cancel`` is 0. A caller that changes it asks the kernel to return soon, with its outputs
undefined: a segment looks at it between its kernels, and a kernel that may run for long between
blocks of its outermost loops. How long that may be, each kernel says itself:

    int64_t kernel.work(const int64_t *dims)

is about how many vector operations it makes, at least one to three of which a core does in a
nanosecond.
"""

from __future__ import annotations

ABI_VERSION = 2
ALIGNMENT = 64
LINE_BYTES = 64
"""A cache line, on every CPU that kernels are made for."""
PAGE_BYTES = 4096
"""The smallest pages that CPUs have."""
STACK_LIMIT = 16 * 1024

RUNTIME_FIELDS = ("abi_version", "threads", "launch", "pool", "cancel")
"""Fields of the Runtime struct, each 8 bytes, in order."""

WORK_SUFFIX = ".work"
"""What the name of the function that tells a kernel's work ends in."""

POLLED_WORK = 100_000_000
"""Work between two looks at ``cancel``: some 20 ms of code that uses the machine well, half a
second of code that waits for memory at every step."""
LONG_WORK = 3 * POLLED_WORK
"""Work from which on a call is made so that Ctrl-C can end it."""
UNBOUNDED_WORK = 1 << 48
"""Work of a function that may run for ever, or for as long as its data say."""

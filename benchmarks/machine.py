"""What the machine can do at most, measured beside everything else: multiply-adds and copies."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import burnish
from burnish import te
from burnish.support.host import native_target


def llvm_name() -> str:
    """LLVM's name of the CPU, such as ``znver5``."""
    return native_target().cpu


def cpu_seconds(call: Callable[..., object], *arguments: object) -> float:
    """Seconds of a processor that a call takes, so that what else the machine does counts little.
    Of all threads of the process: a long call of ours is made by a helper, while the thread that
    asked for it waits."""
    start = time.process_time_ns()
    call(*arguments)
    return (time.process_time_ns() - start) / 1e9


def fma_peak(seconds: float = 0.5, depth: int = 200_000) -> float:
    """GFLOP/s of fused multiply-adds on registers, one thread: as many independent sums of vectors
    as the registers hold beside what is read, of operands that do not change."""
    target = native_target()
    lanes = target.vector_lanes("float32")
    rows, columns = (8 if target.instructions.holds(8 * 3 + 4) else 3, 3 * lanes)
    a, b = te.placeholder((rows,), name="A"), te.placeholder((columns,), name="B")
    rk = te.reduce_axis((0, depth), name="rk")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i] * b[j], axis=[rk]), name="C")
    sch = burnish.Schedule(te.create_prim_func([a, b, c]))
    i, j, k = sch.get_loops("C")
    outer, inner = sch.split(k, [None, 4])
    vector, lane = sch.split(j, [None, lanes])
    sch.reorder(outer, inner, i, vector, lane)
    copy = sch.cache_write("C", 0, "register")
    init = sch.decompose_reduction("C", outer)
    sch.unroll(inner)
    sch.split(sch.get_loops(copy)[-1], [None, lanes])
    for block in (init, sch.get_block("C_update"), copy):
        row, more, last = sch.get_loops(block)[-3:]
        sch.unroll(row)
        sch.unroll(more)
        sch.vectorize(last)
    function = burnish.build(sch.mod)["main"]
    x, y = np.zeros(rows, np.float32), np.zeros(columns, np.float32)
    out = np.zeros((rows, columns), np.float32)
    best = _best(lambda: function(x, y, out), seconds)
    return 2.0 * rows * columns * depth / best / 1e9


def copy_bandwidth(seconds: float = 0.5, megabytes: int = 64) -> float:
    """GB/s read and written by copying an array far larger than the caches, one thread."""
    x = np.ones(megabytes << 18, np.float32)
    y = np.empty_like(x)
    return 2.0 * x.nbytes / _best(lambda: np.copyto(y, x), seconds) / 1e9


def _best(function: object, seconds: float) -> float:
    assert callable(function)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best

"""The roofline: how fast a workload could be at best on this machine.

A call can be no faster than its arithmetic at the machine's peak, and no faster than its parameters
can be brought from the level of memory that holds them. Both rates are measured, once a process,
with kernels that do nothing else: products that stay in registers, and copies and sums of arrays
that fit each cache, whichever moves more. It says where tuning has headroom; it decides nothing
about what is correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np

from ...support.node import walk
from ...support.target import Target
from ...tensorir.expr import BufferLoad, IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block, BufferStore, For
from ...tensorir.text.parser import parse_func
from ...vm.tensor import array
from ...vm.timing import time_call
from ..task import TuneTask, count_flop, geometric_mean, narrow_operands
from ..tiling.tile_model import best_tile
from .measure import build_kernel

_MOST_ROWS, _VECTORS, _DEPTH = 12, 2, 192
_PRODUCTS = 64
_SUMS = 8
_ONCE = 1 << 20
"""Bytes that a call reads at least, so that its own time does not count."""
_REPEAT = 5
_MILLISECONDS = 2.0
_MOST_BYTES = 64 << 20
_PEAKS: dict[Target, Peaks] = {}
"""What was measured, by target."""


@dataclass(frozen=True)
class Peaks:
    """What a machine does at most: float32 operations a second, and for each level of memory its
    size and the bytes a second that are moved there, the smallest level first."""

    flops: float
    memory: tuple[tuple[int, float], ...]

    def bandwidth(self, footprint: float) -> float:
        """Bytes a second where so many bytes are used again and again."""
        for size, rate in self.memory:
            if footprint <= size:
                return rate
        return self.memory[-1][1]


def bytes_of(func: PrimFunc) -> float:
    """The bytes of a static function's parameters: what a call has to move at least. Of a table
    that it looks a few rows up in, these rows."""
    touched = _accesses(func)
    total = 0.0
    for p in func.buffers:
        extents = [d.value if isinstance(d, IntImm) else 0 for d in p.shape]
        total += min(prod(extents), touched.get(id(p), inf)) * p.dtype.bits / 8
    return total


def _accesses(func: PrimFunc) -> dict[int, float]:
    """The most elements that blocks read of each buffer, by its id: points times loads. Nothing is
    said of buffers of blocks with loops inside, or of sizes that are not known."""
    found: dict[int, float] = {}
    for block in walk(func.body):
        if not isinstance(block, Block) or not block.iter_vars:
            continue
        extents = [v.dom.extent for v in block.iter_vars]
        known = [e.value for e in extents if isinstance(e, IntImm)]
        inside = list(walk(block.body))
        is_plain = len(known) == len(extents) and not any(isinstance(n, For) for n in inside)
        points = float(prod(known)) if is_plain else inf
        for n in [*inside, *walk(block.init)] if block.init is not None else inside:
            if isinstance(n, (BufferLoad, BufferStore)):
                found[id(n.buffer)] = found.get(id(n.buffer), 0.0) + points
    return found


def roofline_seconds(task: TuneTask, peaks: Peaks) -> float:
    """The least time of a call; at several sizes the geometric mean."""
    flops = peaks.flops * times_float32(task.func, task.target)
    found = []
    for func in task.instances:
        moved = bytes_of(func)
        found.append(max(count_flop(func) / flops, moved / peaks.bandwidth(moved)))
    return geometric_mean(found)


def times_float32(func: PrimFunc, target: Target) -> float:
    """How many times float32's rate a function's operations may have: by the widest floats, and by
    what the CPU has for the narrow operands of its products."""
    widest = max([p.dtype.bits for p in func.buffers if p.dtype.is_float], default=32)
    return rate_of(widest, narrow_operands(func), target)


def rate_of(widest: int, operands: Sequence[str], target: Target) -> float:
    """``times_float32`` of a function whose widest floats have so many bits, and of its narrow
    ``operands``."""
    fastest = target.instructions.fastest(*operands)[1] if operands else 0.0
    return max(32 / max(32, widest), fastest)


def measure_peaks(target: Target, *, again: bool = False) -> Peaks:
    """The peaks of this machine for a target's vectors and threads; takes about a second, once. Of
    what is measured ``again`` the better counts: a machine that has other work has lower peaks."""
    known = _PEAKS.get(target)
    if known is None or again:
        found = _measured(target)
        _PEAKS[target] = found if known is None else _better(known, found)
    return _PEAKS[target]


def _better(a: Peaks, b: Peaks) -> Peaks:
    levels = zip(a.memory, b.memory, strict=True)
    memory = tuple([(size, max(rate, other)) for (size, rate), (_, other) in levels])
    return Peaks(max(a.flops, b.flops), memory)


def _measured(target: Target) -> Peaks:
    levels = [target.l1_bytes, target.l2_bytes, target.l3_bytes]
    sizes = [min(size, _MOST_BYTES) for size in levels if size] + [_MOST_BYTES * 2]
    # Half of a level: the other half is for what else it holds.
    rates = [(size, _rate(size // 2, target)) for size in sorted(set(sizes))]
    # A copy within the smallest level takes less than its call: it is at least as fast as further
    # out.
    rising = [(size, max(rate for _, rate in rates[i:])) for i, (size, _) in enumerate(rates)]
    return Peaks(product_rate(target), tuple(rising))


def _rate(size: int, target: Target) -> float:
    """Bytes a second of what moves most of them: copies, or reading alone, which most products do
    and which no write slows down."""
    threads = target.threads or target.cores
    return max(_copy_rate(size, target), read_rate(max(1, size // threads), threads, target))


def product_rate(target: Target) -> float:
    """Operations a second of products whose sums stay in registers, on every thread."""
    func, shapes = peak_product(target)
    seconds = time_on_ones(func, shapes, target)
    products, rows, columns = shapes[-1]
    return 2.0 * products * rows * _DEPTH * columns / seconds


def peak_product(target: Target) -> tuple[PrimFunc, list[tuple[int, ...]]]:
    """Products with as many rows as the target's registers hold sums of, and the shapes of the
    parameters, the result's last."""
    lanes = max(1, target.vector_bits // 32)
    threads, columns = target.threads or target.cores, _VECTORS * lanes
    tile = best_tile(columns, _MOST_ROWS, lanes, target.instructions, vectors=_VECTORS)
    products, rows = threads * _PRODUCTS, tile.rows
    sch = Schedule(parse_func(_product_text(products, rows, columns)), seed=0)
    out = sch.cache_write("z", 0, "register")
    p, u, v, k = sch.get_loops("z")
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(p, k0, k1, u, v)
    sch.reverse_compute_at(out, p)
    sch.unroll(k1)
    sch.decompose_reduction("z", k0)
    for block in ("z_init", "z_update", "z_register"):
        *_, u, v = sch.get_loops(block)
        v0, v1 = sch.split(v, [_VECTORS, lanes])
        sch.unroll(u)
        sch.unroll(v0)
        sch.vectorize(v1)
    if threads > 1:
        sch.parallel(sch.split(p, [threads, None])[0])
    return sch.func, [(_DEPTH, columns), (_DEPTH, rows), (products, rows, columns)]


def _product_text(products: int, rows: int, columns: int) -> str:
    return f"""
@T.prim_func
def peak(x: T.Buffer(({_DEPTH}, {columns}), "float32"), y: T.Buffer(({_DEPTH}, {rows}), "float32"),
         z: T.Buffer(({products}, {rows}, {columns}), "float32")):
    for p, u, v, k in T.grid({products}, {rows}, {columns}, {_DEPTH}):
        with T.block("z"):
            vp, vu, vv, vk = T.axis.remap("SSSR", [p, u, v, k])
            with T.init():
                z[vp, vu, vv] = T.float32(0)
            z[vp, vu, vv] = z[vp, vu, vv] + x[vk, vv] * y[vk, vu]
"""


def _copy_rate(size: int, target: Target) -> float:
    """Bytes a second, read and written, of copies of arrays of ``size`` bytes together."""
    lanes = max(1, target.vector_bits // 32)
    threads = target.threads or target.cores
    count = max(1, size // 8 // (lanes * threads)) * lanes * threads
    sch = Schedule(parse_func(_copy_text(count)), seed=0)
    (i,) = sch.get_loops("z")
    outer, _, inner = sch.split(i, [threads, None, lanes])
    sch.vectorize(inner)
    if threads > 1:
        sch.parallel(outer)
    return 8.0 * count / time_on_ones(sch.func, [(count,), (count,)], target)


def _copy_text(count: int) -> str:
    return f"""
@T.prim_func
def copy(x: T.Buffer(({count},), "float32"), z: T.Buffer(({count},), "float32")):
    for i in range({count}):
        with T.block("z"):
            vi = T.axis.spatial({count}, i)
            z[vi] = x[vi]
"""


def read_rate(size: int, threads: int, target: Target) -> float:
    """The bytes a second that ``threads`` threads read together, each of a block of ``size`` bytes.

        for p in threads:                       each has a block of x of its own
          for again, k:                         the block is read again and again
            z[p, v] += x[p, k, v]               v: registers that are sums of their own

    With so many sums nothing waits for an addition, and what is left is loads.
    """
    lanes = target.vector_lanes("float32")
    width = _SUMS * lanes
    depth = max(1, size // (4 * width))
    again = max(1, _ONCE // size)
    sch = Schedule(parse_func(_read_text(threads, again, depth, width)), seed=0)
    out = sch.cache_write("z", 0, "register")
    p, v, r, k = sch.get_loops("z")
    sch.reorder(p, r, k, v)
    sch.reverse_compute_at(out, p)
    sch.decompose_reduction("z", r)
    for block in ("z_init", "z_update", "z_register"):
        v0, v1 = sch.split(sch.get_loops(block)[-1], [_SUMS, lanes])
        sch.unroll(v0)
        sch.vectorize(v1)
    if threads > 1:
        sch.parallel(p)
    shapes = [(threads, depth, width), (threads, width)]
    return 4.0 * threads * again * depth * width / time_on_ones(sch.func, shapes, target)


def _read_text(threads: int, again: int, depth: int, width: int) -> str:
    return f"""
@T.prim_func
def read(x: T.Buffer(({threads}, {depth}, {width}), "float32"),
         z: T.Buffer(({threads}, {width}), "float32")):
    for p, v, r, k in T.grid({threads}, {width}, {again}, {depth}):
        with T.block("z"):
            vp, vv, vr, vk = T.axis.remap("SSRR", [p, v, r, k])
            with T.init():
                z[vp, vv] = T.float32(0)
            z[vp, vv] = z[vp, vv] + x[vp, vk, vv]
"""


def time_on_ones(func: PrimFunc, shapes: list[tuple[int, ...]], target: Target) -> float:
    """The best time of a call on arrays of ones."""
    arguments = [array(np.ones(s, np.float32)) for s in shapes]
    call = build_kernel(func, target).prepare(*arguments)
    return min(time_call(call, number=1, repeat=_REPEAT, min_repeat_ms=_MILLISECONDS).results)

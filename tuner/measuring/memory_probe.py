"""The probe of a machine's memory: what a core, and all cores at once, load in a cycle from each
level. Takes less than a second.

    for p in threads:                       each has a block of x of its own
      for again, k:                         the block is read again and again
        z[p, v] += x[p, k, v]               v: registers that are sums of their own

With so many sums nothing waits for an addition, and what is left is loads. A block is half as large
as the level that it is to be in, and several times as large as the one before; of memory, it is as
large as can be afforded: a cache that many cores share may hold a part of it, as it does of a
model's weights. A cycle is what the peak of multiply-adds says (``roofline.py``).
"""

from __future__ import annotations

from ...support.memory import Probe
from ...support.target import Target
from ...tensorir.schedule import Schedule
from ...tensorir.text.parser import parse_func
from .roofline import product_rate, time_on_ones

_SUMS = 8
_ONCE = 1 << 20
"""Bytes that a call reads at least, so that its own time does not count."""
_MOST_BYTES = 96 << 20


def probe_memory(target: Target) -> Probe:
    """The figures of this machine, which ``target`` is."""
    one = target.with_options(threads=1)
    lanes = target.vector_lanes("float32")
    clock = product_rate(one) / (2.0 * lanes * target.instructions.ports.fmas)
    sizes = _sizes(target)
    alone = [_bytes_a_second(size, 1, one) / clock for size in sizes]
    own = [max(size // target.cores, 2 * target.l2_bytes) for size in sizes[2:]]
    shared = [_bytes_a_second(size, target.cores, target) / clock for size in own]
    # What is farther away comes no faster: so much is noise.
    falling = [min(alone[: i + 1]) for i in range(len(alone))]
    return Probe(
        *(target.cpu, target.cores, float(f"{clock / 1e9:.2g}")),
        tuple([float(f"{rate:.2g}") for rate in falling]),
        (float(f"{max(shared):.2g}"), float(f"{shared[-1]:.2g}")),
    )


def _sizes(target: Target) -> list[int]:
    """The bytes that are in L1, in L2, in L3 and in memory."""
    l1, l2, l3 = target.l1_bytes, target.l2_bytes, target.l3_bytes
    third = min(max(l3 // 2, 2 * l2), 8 * l2)
    return [l1 // 2, max(l2 // 2, 2 * l1), third, max(min(2 * l3, _MOST_BYTES), 2 * third)]


def _bytes_a_second(size: int, threads: int, target: Target) -> float:
    """What ``threads`` threads read together, each of a block of ``size`` bytes."""
    lanes = target.vector_lanes("float32")
    width = _SUMS * lanes
    depth = max(1, size // (4 * width))
    again = max(1, _ONCE // size)
    sch = Schedule(parse_func(_text(threads, again, depth, width)), seed=0)
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


def _text(threads: int, again: int, depth: int, width: int) -> str:
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

"""The probe of a machine's memory: what a core, and all cores at once, load in a cycle from each
level (``read_rate``). Takes less than a second. A block is half as large as the level that it is to
be in, and several times as large as the one before; of memory, it is as
large as can be afforded: a cache that many cores share may hold a part of it, as it does of a
model's weights. A cycle is what the peak of multiply-adds says (``roofline.py``).
"""

from __future__ import annotations

from ...support.memory import Probe
from ...support.target import Target
from .roofline import product_rate, read_rate

_MOST_BYTES = 96 << 20


def probe_memory(target: Target) -> Probe:
    """The figures of this machine, which ``target`` is."""
    one = target.with_options(threads=1)
    lanes = target.vector_lanes("float32")
    clock = product_rate(one) / (2.0 * lanes * target.instructions.ports.fmas)
    sizes = _sizes(target)
    alone = [read_rate(size, 1, one) / clock for size in sizes]
    own = [max(size // target.cores, 2 * target.l2_bytes) for size in sizes[2:]]
    shared = [read_rate(size, target.cores, target) / clock for size in own]
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

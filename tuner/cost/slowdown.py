"""How far a schedule is from what its work needs at least, estimated from its loops in a moment.

Nothing is compiled or measured: per store, what its vectors and tiles let the core do a cycle, what
loads and stores they ask for, and how long sums wait for themselves, as in ``features``, whose
finer estimate ranks candidates. Good to a factor of two or so, which is enough to tell a kernel
that is fit from one that nobody scheduled: those are tens of times apart. Symbolic sizes are taken
to be SIZE.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...support.abi import PAGE_BYTES
from ...support.target import Target
from ...tensorir.expr import IntImm, Var
from ...tensorir.function import PrimFunc
from .features import LINE, OPERATION_WEIGHTS
from .nest_summary import OPERATIONS, AccessStructure, StoreStructure, summarize

SIZE = 192
"""What a symbolic size is taken to be."""
MISS = 5.0
"""Cycles for a line from beyond the first cache, of several at once."""
LEAST_CYCLES = 100_000.0
"""Below it a kernel is over before its schedule matters."""


def slowdown(func: PrimFunc, scheduled: PrimFunc, target: Target) -> float:
    """How many times the estimated time of a schedule is the least that the function needs; 1 where
    either is too short to matter."""
    cycles = cycles_of(scheduled, target)
    if cycles < LEAST_CYCLES:
        return 1.0
    return max(1.0, cycles / max(1.0, least_cycles(func, target)))


def least_cycles(func: PrimFunc, target: Target) -> float:
    """Cycles of one thread with all lanes busy, or those that the parameters take to be moved."""
    sizes = dict.fromkeys(func.shape_vars, SIZE)
    work, ports = 0.0, target.instructions.ports
    for store in _stores(func, sizes):
        # An operand may be converted once for all that use it.
        operations = max(1.0, store.operations - store.converted)
        work += store.total * operations / ports.fmas / store.widest(target)
    moved = 0.0
    for p in func.buffers:
        extents = [d.value if isinstance(d, IntImm) else SIZE for d in p.shape]
        moved += math.prod(extents) * p.dtype.bits / 8
    return max(work, moved / target.memory.bytes_a_cycle(moved))


def cycles_of(func: PrimFunc, target: Target) -> float:
    """Cycles of one thread."""
    sizes = dict.fromkeys(func.shape_vars, SIZE)
    return math.fsum([store.cycles(target) for store in _stores(func, sizes)])


def _stores(func: PrimFunc, sizes: dict[Var, int]) -> list[_Store]:
    summary = summarize(func, sizes)
    leaves, at, found = summary.leaves.tolist(), 0, []
    for structure in summary.structure:
        found.append(_Store(structure, leaves[at : at + structure.leaf_count]))
        at += structure.leaf_count
    return found


class _Store:
    """One store: the extents of its loops, and by how many elements of flat memory each moves each
    access."""

    def __init__(self, structure: StoreStructure, leaves: Sequence[int]) -> None:
        depth = len(structure.loops)
        self.kinds, self.accesses = structure.loops, structure.accesses
        self.extents = leaves[1 : 1 + depth]
        self.total = math.prod(self.extents)
        counts = dict(zip(OPERATIONS, structure.operations, strict=True))
        weights = dict(zip(OPERATIONS, OPERATION_WEIGHTS, strict=True))
        self.operations = max(1.0, sum([n * weights[name] for name, n in counts.items()]))
        self.converted = counts["cast"] * weights["cast"]
        self.strides: list[list[int]] = []
        at = 1 + depth
        for access in structure.accesses:
            rank = access.rank
            shape = leaves[at : at + rank]
            moves = leaves[at + rank : at + rank * (1 + depth)]
            steps = leaves[at + rank * (1 + depth) : at + rank * (1 + 2 * depth)]
            at += rank * (1 + 2 * depth)
            flat = [math.prod(shape[d + 1 :]) for d in range(rank)]
            self.strides.append(
                [
                    _stride(shape, flat, moves[i::depth], steps[i::depth])
                    if self.extents[i] > 1
                    else 0
                    for i in range(depth)
                ]
            )

    def widest(self, target: Target) -> float:
        """Lanes of a register."""
        size = max([a.item_bytes for a in self.accesses], default=4)
        return max(1.0, target.vector_bits / 8 / size)

    def cycles(self, target: Target) -> float:
        if not self.total:
            return 0.0
        vectors = [i for i, kind in enumerate(self.kinds) if kind == "vectorized"]
        width = math.prod([self.extents[i] for i in vectors])
        lanes = width / math.ceil(width / self.widest(target))
        level = len(self.kinds)
        while level and self.kinds[level - 1] in ("vectorized", "unrolled"):
            level -= 1
        steps = math.prod(self.extents[:level])
        ports = target.instructions.ports
        moving, latency, missed = 0.0, 0.0, 0.0
        for access, strides in zip(self.accesses, self.strides, strict=True):
            tile = zip(self.extents[level:], strides[level:], strict=True)
            elements = math.prod([n for n, s in tile if s])
            places: float = elements
            apart = [strides[i] for i in vectors]
            if all(s == 1 for s in apart) and apart:
                places /= lanes
            if not access.is_register:
                moving += steps * places * access.reads / ports.loads
                moving += steps * places * access.writes / ports.stores
                missed += steps * self._missed(access, strides, level, target)
            if self._waits(access, strides, level):
                latency = ports.latency * self.total / lanes / max(1.0, elements / lanes)
        compute = self.total / lanes * self.operations / ports.fmas
        return max(compute, moving, latency) + 2.0 * steps + MISS * missed

    def _missed(
        self, access: AccessStructure, strides: Sequence[int], level: int, target: Target
    ) -> float:
        """Lines that a step brings from beyond the first cache because it leaps through memory;
        what is read in order comes by itself."""
        turning = [i for i in range(level) if self.extents[i] > 1]
        leap = strides[turning[-1]] * access.item_bytes if turning else 0
        lanes = [s for s, kind in zip(strides, self.kinds, strict=True) if kind == "vectorized"]
        if leap < LINE or 1 in lanes:
            return 0.0
        lines, apart = 1.0, leap
        for n, s in zip(self.extents[level:], strides[level:], strict=True):
            lines *= max(1.0, n * min(1.0, s * access.item_bytes / LINE))
            if n > 1 and s * access.item_bytes >= LINE:
                apart = math.gcd(apart, s * access.item_bytes)
        # Lines a multiple of a way apart fall into one set.
        sets = PAGE_BYTES // math.gcd(apart, PAGE_BYTES)
        room = target.memory.ways * min(sets, PAGE_BYTES // int(LINE))
        return lines if lines * self.extents[turning[-1]] > room else 0.0

    def _waits(self, access: AccessStructure, strides: Sequence[int], level: int) -> bool:
        """Whether an iteration adds to what the one before has added to."""
        turning = [i for i in range(level) if self.extents[i] > 1]
        return bool(access.writes and access.reads and turning and not strides[turning[-1]])


def _stride(
    shape: Sequence[int], flat: Sequence[int], moves: Sequence[int], steps: Sequence[int]
) -> int:
    """The elements of flat memory between two steps of a loop that moves the index of each dim so
    often, and so far. Where it goes through all of a dim before it moves the one before, these are
    digits of one index, and the last one says it."""
    moved = [d for d, n in enumerate(moves) if n > 1]
    if len(moved) > 1 and moves[moved[-1]] == shape[moved[-1]]:
        moved = moved[-1:]
    return sum([abs(steps[d]) * flat[d] for d in moved])

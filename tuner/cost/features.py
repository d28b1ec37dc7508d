"""Features of scheduled programs for a cost model, for whole populations at once.

A population is one ``Structure`` and an array of leaves (``nest_summary``); every feature is a
NumPy expression over that array, so that a thousand candidates of a sketch cost little more than
one. Each store statement gives a row: operations by kind, what its vectorised, parallel and
unrolled loops are like, bytes, lines and reuse of each buffer, an arithmetic-intensity curve,
allocation, outer loops, and an estimate of its cycles. A program is its two dearest stores and the
sum over all. The set of features follows Ansor (Zheng et al., 2020). Counts are on a log2 scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...support.abi import LINE_BYTES, PAGE_BYTES
from ...support.instructions import Ports
from ...support.memory import Memory
from ...support.target import Target
from .nest_summary import (
    ACCESSES,
    OPERATIONS,
    AccessStructure,
    Ints,
    NestSummary,
    StoreLeaves,
    StoreStructure,
    Structure,
    split_leaves,
)

Floats = npt.NDArray[np.float64]

FEATURES_VERSION = 3
"""Raised whenever the meaning or order of a feature changes: a saved model is of one version."""
LINE = float(LINE_BYTES)
CURVE = 10
_KINDS = ("vectorized", "parallel", "unrolled")
_KIND_PARTS = ("loops", "product", "innermost", "depth")
_ACCESS_PARTS = (
    "reads", "writes", "is_register", "is_local", "bytes", "unique_bytes", "lines",
    "unique_lines", "is_reused", "reuse_iterations", "reuse_bytes", "reuse_count",
    "bytes_per_reuse", "unique_bytes_per_reuse", "lines_per_reuse", "stride",
)  # fmt: skip
_OUTER = ("iterations", "depth", "outer_product", "unroll_steps")
_EXTENTS = 10
"""Loops whose extents are features as they are, from the innermost outwards."""
_ALLOCATION = ("allocated", "allocated_bytes", "touched_bytes", "register_vectors")
_ESTIMATE = ("compute", "memory_operations", "latency", "overhead", "l1", "l2", "l3", "cycles")

STORE_FEATURES = (
    *OPERATIONS,
    *[f"{kind}_{part}" for kind in _KINDS for part in _KIND_PARTS],
    *[f"access{a}_{part}" for a in range(ACCESSES) for part in _ACCESS_PARTS],
    *[f"intensity{i}" for i in range(CURVE)],
    *_ALLOCATION,
    *_OUTER,
    *[f"extent{i}" for i in range(_EXTENTS)],
    *_ESTIMATE,
)
"""Features of one store."""
FEATURE_NAMES = (
    *[f"first_{name}" for name in STORE_FEATURES],
    *[f"second_{name}" for name in STORE_FEATURES],
    *[f"sum_{name}" for name in STORE_FEATURES],
    "stores",
)
"""Features of one program, in the order of the columns."""
CYCLES = FEATURE_NAMES.index("sum_cycles")
"""The column of the estimated cycles (log2) of a whole program."""

_WEIGHTS = dict.fromkeys(OPERATIONS, 1.0) | {
    "float_div": 8.0, "float_cheap_call": 2.0, "float_dear_call": 20.0, "int_divmod": 10.0,
    "cast": 1.0,
}  # fmt: skip
OPERATION_WEIGHTS = tuple(_WEIGHTS.values())
"""Cycles of each of OPERATIONS on one port."""
_CHUNK = 256
"""Rows worked on at once, so that the arrays stay in the cache."""


@dataclass(frozen=True)
class Machine:
    """What the features take from a target."""

    vector_bytes: int
    registers: int
    memory: Memory
    threads: int
    ports: Ports

    @classmethod
    def of(cls, target: Target) -> Machine:
        return cls(
            max(8, target.vector_bits // 8),
            max(8, target.vector_registers),
            target.memory,
            max(1, target.threads or target.cores),
            target.instructions.ports,
        )


def features_of(structure: Structure, leaves: Floats, machine: Machine) -> Floats:
    """[n, FEATURE_NAMES] of the n candidates whose leaves are the rows of ``leaves``."""
    return features_of_groups([(structure, leaves)], machine)


def features_of_programs(summaries: Sequence[NestSummary], machine: Machine) -> Floats:
    """[n, FEATURE_NAMES] of n programs of any structures."""
    groups = [(s.structure, s.leaves.astype(np.float64)[None]) for s in summaries]
    return features_of_groups(groups, machine)


def features_of_groups(groups: Sequence[tuple[Structure, Floats]], machine: Machine) -> Floats:
    """[n, FEATURE_NAMES] of candidates of several structures, each with an array of leaves, one
    group after another. Programs of one workload have most of their stores' structures in common:
    each is worked out once, for all groups together."""
    width = len(STORE_FEATURES)
    rows = [np.zeros((leaves.shape[0], len(structure), width)) for structure, leaves in groups]
    places: dict[StoreStructure, list[tuple[int, int, Floats]]] = {}
    for g, (structure, leaves) in enumerate(groups):
        at = 0
        for i, store in enumerate(structure):
            own = leaves[:, at : at + store.leaf_count]
            at += store.leaf_count
            places.setdefault(store, []).append((g, i, own))
    for store, parts in places.items():
        found = _features_of_store(store, np.concatenate([own for _, _, own in parts]), machine)
        at = 0
        for g, i, own in parts:
            rows[g][:, i] = found[at : at + len(own)]
            at += len(own)
    return np.concatenate([np.zeros((0, len(FEATURE_NAMES))), *[_of_program(r) for r in rows]])


def _features_of_store(store: StoreStructure, leaves: Floats, machine: Machine) -> Floats:
    """[n, STORE_FEATURES] of n stores of one structure."""
    found = [np.zeros((0, len(STORE_FEATURES)))]
    for i in range(0, leaves.shape[0], _CHUNK):
        (parts,) = split_leaves((store,), leaves[i : i + _CHUNK])
        found.append(_Store(store, parts, machine).features())
    return np.concatenate(found)


def _of_program(rows: Floats) -> Floats:
    """[n, FEATURE_NAMES] of the features of n programs' stores, [n, store, STORE_FEATURES]."""
    n, stores, width = rows.shape
    if not n or not stores:
        return np.zeros((n, len(FEATURE_NAMES)))
    order = np.argsort(-rows[:, :, -1], axis=1, kind="stable")
    at = np.arange(n)
    first = rows[at, order[:, 0]]
    second = rows[at, order[:, 1]] if stores > 1 else np.zeros((n, width))
    count = np.full((n, 1), float(stores))
    return np.concatenate([_log(first), _log(second), _log(rows.sum(axis=1)), count], axis=1)


def _log(x: Floats) -> Floats:
    return np.log2(1.0 + np.maximum(x, 0.0))


class _Store:
    """The features of one store, before logarithms; every array is [n] or [n, ...].

    Level i means the loops from i inwards: level 0 is the whole nest, level ``depth`` one
    iteration.
    """

    def __init__(self, store: StoreStructure, leaves: StoreLeaves, machine: Machine) -> None:
        self.store, self.leaves, self.machine = store, leaves, machine
        self.n: int = leaves.extents.shape[0]
        self.depth: int = len(store.loops)
        self.ones = np.ones(self.n)
        self.extents = leaves.extents
        self.inside = _suffix(self.extents, np.multiply, self.ones)
        """[n, level]: iterations of the loops of a level."""
        self.outside = self.inside[:, :1] / self.inside
        self.widths = [self._widths(a) for a in range(len(store.accesses))]
        self.unique = [self._unique(a) for a in range(len(store.accesses))]
        self.strides = [self._strides(a) for a in range(len(store.accesses))]
        self.crowded = [self._crowded_bytes(a) for a in range(len(store.accesses))]
        self.footprint = sum(
            (u * a.item_bytes for u, a in zip(self.unique, store.accesses, strict=True)),
            np.zeros((self.n, self.depth + 1)),
        )

    # -- how buffers are touched -------------------------------------------------------------------
    def _widths(self, a: int) -> Floats:
        """[n, axis, level]: how many values an index of the access takes."""
        counts, steps = self.leaves.counts[a], self.leaves.steps[a]
        rank = self.store.accesses[a].rank
        reach = (counts - 1.0) * np.abs(steps)
        span = np.concatenate([reach, np.zeros((self.n, rank, 1))], axis=2)
        span = np.cumsum(span[:, :, ::-1], axis=2)[:, :, ::-1] + 1.0
        # Indices that skip values: no more of them than iterations that move the index.
        moving = np.concatenate(
            [np.where(reach > 0, counts, 1.0), np.ones((self.n, rank, 1))], axis=2
        )
        many = np.cumprod(moving[:, :, ::-1], axis=2)[:, :, ::-1]
        return np.minimum(np.minimum(span, many), np.maximum(self.leaves.shapes[a], 1.0)[..., None])

    def _unique(self, a: int) -> Floats:
        """[n, level]: distinct elements touched."""
        if not self.store.accesses[a].rank:
            return np.ones((self.n, self.depth + 1))
        return np.asarray(self.widths[a].prod(axis=1))

    def _strides(self, a: int) -> Floats:
        """[n, loop]: elements of flat memory from one iteration of a loop to the next; 0 where a
        loop does not move the access (or runs once)."""
        rank = self.store.accesses[a].rank
        shape = self.leaves.shapes[a]
        flat = np.ones((self.n, rank))
        for d in range(rank - 2, -1, -1):
            flat[:, d] = flat[:, d + 1] * shape[:, d + 1]
        moves = np.where(self.leaves.counts[a] > 1, np.abs(self.leaves.steps[a]), 0.0)
        strides = (moves * flat[:, :, None]).sum(axis=1)
        return np.asarray(np.where(self.extents > 1, strides, 0.0))

    def _lines(self, a: int) -> Floats:
        """[n, level]: distinct cache lines, runs along the last axis counted as contiguous."""
        access = self.store.accesses[a]
        if not access.rank:
            return np.ones((self.n, self.depth + 1))
        widths = self.widths[a]
        last = np.maximum(1.0, widths[:, -1] * access.item_bytes / LINE)
        return np.asarray(widths[:, :-1].prod(axis=1) * last)

    # -- groups of features ------------------------------------------------------------------------
    def features(self) -> Floats:
        """[n, STORE_FEATURES]."""
        total = self.inside[:, 0]
        columns: list[Floats] = [total * c for c in self.store.operations]
        for kind in _KINDS:
            columns += self._annotation(kind)
        for a in range(ACCESSES):
            if a < len(self.store.accesses):
                columns += self._access(a)
            else:
                columns += [np.zeros(self.n)] * len(_ACCESS_PARTS)
        columns += self._intensity()
        columns += self._allocation()
        parallel = self._product_of("parallel")
        columns += [total, self.ones * self.depth, total / parallel, self.leaves.unroll]
        inwards = range(self.depth - 1, self.depth - 1 - _EXTENTS, -1)
        columns += [self.extents[:, i] if i >= 0 else np.zeros(self.n) for i in inwards]
        columns += self._estimate()
        return np.stack(columns, axis=1)

    def _of_kind(self, *kinds: str) -> list[int]:
        return [i for i, kind in enumerate(self.store.loops) if kind in kinds]

    def _product_of(self, *kinds: str) -> Floats:
        return np.asarray(self.extents[:, self._of_kind(*kinds)].prod(axis=1))

    def _annotation(self, kind: str) -> list[Floats]:
        loops = self._of_kind(kind)
        if not loops:
            return [np.zeros(self.n)] * len(_KIND_PARTS)
        return [
            self.ones * len(loops),
            self._product_of(kind),
            self.extents[:, loops[-1]],
            self.ones * (self.depth - loops[-1]),
        ]

    def _access(self, a: int) -> list[Floats]:
        access, unique, stride = self.store.accesses[a], self.unique[a], self.strides[a]
        size = float(access.item_bytes)
        lines = self._lines(a)
        total = self.inside[:, 0]
        # The innermost loop that repeats what was touched inside it.
        still = (stride == 0) & (self.extents > 1)
        is_reused = still.any(axis=1)
        at = np.where(is_reused, self._innermost(still), 0)
        rows = np.arange(self.n)
        inner = np.minimum(at + 1, self.depth)
        reuse = is_reused.astype(np.float64)
        count = reuse * (self.extents[rows, at] if self.depth else 1.0)
        moving = (stride > 0).any(axis=1)
        last = self._innermost(stride > 0)
        innermost = np.where(moving, stride[rows, last], 0.0) if self.depth else np.zeros(self.n)
        moved = total * size * (access.reads + access.writes)
        share = np.maximum(count, 1.0)
        return [
            self.ones * access.reads,
            self.ones * access.writes,
            self.ones * access.is_register,
            self.ones * access.is_local,
            moved,
            unique[:, 0] * size,
            total * np.minimum(1.0, np.maximum(innermost, 1.0) * size / LINE),
            lines[:, 0],
            reuse,
            reuse * self.inside[rows, inner],
            reuse * self.footprint[rows, inner],
            count,
            moved / share,
            unique[:, 0] * size / share,
            lines[:, 0] / share,
            innermost,
        ]

    def _innermost(self, loops: npt.NDArray[np.bool_]) -> Ints:
        """[n] of [n, loop]: the innermost loop that is marked; 0 where there are no loops."""
        if not self.depth:
            return np.zeros(self.n, dtype=np.int64)
        return np.asarray(self.depth - 1 - np.argmax(loops[:, ::-1], axis=1))

    def _operations(self) -> Floats:
        """[n]: weighted operations of one iteration."""
        per = sum(_WEIGHTS[k] * c for k, c in zip(OPERATIONS, self.store.operations, strict=True))
        # A product that is added up is one instruction.
        counts = dict(zip(OPERATIONS, self.store.operations, strict=True))
        per -= min(counts["float_add"], counts["float_mul"])
        return self.ones * per

    def _intensity(self) -> list[Floats]:
        """Operations a byte of the loops inside, at evenly spaced logarithms of iterations."""
        inside = np.log2(self.inside[:, ::-1])
        flops = sum(self.store.operations) or 1
        ratio = (self.inside * flops / np.maximum(self.footprint, 1.0))[:, ::-1]
        wanted = inside[:, -1:] * (np.arange(CURVE) / (CURVE - 1.0))
        value = np.repeat(ratio[:, :1], CURVE, axis=1)
        for level in range(self.depth):
            low, high = inside[:, level, None], inside[:, level + 1, None]
            share = np.clip((wanted - low) / np.maximum(high - low, 1e-9), 0.0, 1.0)
            rise = ratio[:, level + 1, None] - ratio[:, level, None]
            here = ratio[:, level, None] + share * rise
            value = np.where((wanted > low) & (high > low), here, value)
        return list(value.T)

    def _allocation(self) -> list[Floats]:
        written = self._written()
        if written is None:
            return [np.zeros(self.n)] * len(_ALLOCATION)
        access = self.store.accesses[written]
        local = float(access.is_local)
        size = self.leaves.shapes[written].prod(axis=1) * access.item_bytes
        vectors = self._vectors_in_tile(written) if access.is_register else np.zeros(self.n)
        touched = local * self.unique[written][:, 0] * access.item_bytes
        return [self.ones * local, local * size, touched, vectors]

    def _written(self) -> int | None:
        found = [i for i, a in enumerate(self.store.accesses) if a.writes]
        return found[0] if found else None

    # -- an estimate -------------------------------------------------------------------------------
    def _tile_level(self) -> int:
        """The level of the innermost loops that are all written out or vectorised: a register
        tile."""
        level = self.depth
        while level and self.store.loops[level - 1] in ("vectorized", "unrolled"):
            level -= 1
        return level

    def _lanes(self) -> Floats:
        """[n]: lanes in use; those beyond a register are further instructions."""
        size = max((a.item_bytes for a in self.store.accesses), default=4)
        most = max(1.0, self.machine.vector_bytes / size)
        if not self._of_kind("vectorized"):
            return self.ones
        lanes = self._product_of("vectorized")
        return lanes / np.ceil(lanes / most)

    def _vectors_in_tile(self, a: int) -> Floats:
        """[n]: registers that an access's elements of one register tile fill."""
        return np.ceil(self.unique[a][:, self._tile_level()] / self._lanes())

    def _estimate(self) -> list[Floats]:
        machine, level = self.machine, self._tile_level()
        total, lanes = self.inside[:, 0], self._lanes()
        instructions = total / lanes
        compute = instructions * self._operations() / machine.ports.fmas
        moved, moving, pressure = np.zeros(self.n), np.zeros(self.n), np.zeros(self.n)
        steps = self.outside[:, level]
        vector_loops = self._of_kind("vectorized")
        for a, access in enumerate(self.store.accesses):
            in_tile = self._vectors_in_tile(a)
            pressure = pressure + self._pressure(a, access, in_tile)
            if access.is_register:
                continue
            strides = self.strides[a][:, vector_loops]
            scattered = (strides > 1).any(axis=1)
            is_still = (strides == 0).all(axis=1)
            count = np.where(scattered | is_still, self.unique[a][:, level], in_tile)
            moved = moved + steps * count * (access.reads + access.writes)
            ports = access.reads / machine.ports.loads + access.writes / machine.ports.stores
            moving = moving + steps * count * ports
        latency = self._latency(instructions)
        overhead = self.outside[:, level] * 2.0
        spill = np.maximum(1.0, pressure / machine.registers)
        sizes = machine.memory.sizes
        traffic = [self._traffic(s, has_sets=i < 2) for i, s in enumerate(sizes)]
        threads = np.minimum(self._product_of("parallel"), machine.threads)
        cycles = np.maximum(np.maximum(compute, moving), latency) * spill + overhead
        cycles, slow = cycles / threads, self._waiting(traffic, threads)
        cycles = np.maximum(cycles, slow) + 0.25 * np.minimum(cycles, slow)
        return [compute, moved, latency, overhead, *traffic, cycles]

    def _waiting(self, traffic: Sequence[Floats], threads: Floats) -> Floats:
        """[n]: cycles in which the ``traffic`` from beyond each cache comes to so many threads,
        which have an L2 each and share what is behind it."""
        one, (l3, memory) = self.machine.memory.one_core, self.machine.memory.all_cores
        rates = [
            one[1] * threads,
            np.minimum(one[2] * threads, l3),
            np.minimum(one[3] * threads, memory),
        ]
        return np.asarray(sum(t / rate for t, rate in zip(traffic, rates, strict=True)))

    def _pressure(self, a: int, access: AccessStructure, in_tile: Floats) -> Floats:
        """[n]: registers that hold an access during one innermost step."""
        return in_tile if access.is_register or access.writes else np.minimum(in_tile, 4.0)

    def _latency(self, instructions: Floats) -> Floats:
        """[n]: cycles that a sum costs because each addition waits for the one before."""
        written = self._written()
        if written is None or not self.store.accesses[written].reads:
            return np.zeros(self.n)
        latency = self.machine.ports.latency
        return np.asarray(latency * instructions / self._vectors_in_tile(written))

    def _traffic(self, size: int, *, has_sets: bool) -> Floats:
        """[n]: bytes that come from beyond a cache of this size: the loops whose data fit it are
        run with it, all others fetch it again. In a cache that ``has_sets`` a buffer must fit the
        sets that its rows fall into, too."""
        fits = self.footprint <= max(size, 1)
        rows = np.arange(self.n)
        found = np.zeros(self.n)
        for a, access in enumerate(self.store.accesses):
            if access.is_register:
                continue
            own = fits & (self.crowded[a] <= max(size, 1)) if has_sets else fits.copy()
            own[:, -1] = True
            level = np.argmax(own, axis=1)
            found += self.unique[a][rows, level] * access.item_bytes * self.outside[rows, level]
        return found

    def _crowded_bytes(self, a: int) -> Floats:
        """[n, level]: how large a cache must be to hold what is touched: the bytes, divided by the
        share of a page's lines that rows with this distance from one to the next fall on. (A page
        is what both indexing by virtual and by physical addresses leave in place.)"""
        access, widths = self.store.accesses[a], self.widths[a]
        if not access.rank:
            return self.unique[a] * access.item_bytes
        row = np.maximum(LINE, widths[:, -1] * access.item_bytes)
        pitch = np.zeros((self.n, self.depth + 1))
        flat = self.ones * access.item_bytes
        for d in range(access.rank - 2, -1, -1):
            flat = flat * self.leaves.shapes[a][:, d + 1]
            pitch = np.where((pitch == 0) & (widths[:, d] > 1), flat[:, None], pitch)
        apart = np.gcd(pitch.astype(np.int64), PAGE_BYTES)
        share = np.where(pitch > 0, np.minimum(1.0, row / np.maximum(apart, 1)), 1.0)
        return np.asarray(self.unique[a] * access.item_bytes / share)


def _suffix(x: Floats, operation: np.ufunc, last: Floats) -> Floats:
    """[n, level] of [n, loop]: the loops from each on inwards, accumulated."""
    full = np.concatenate([x, last[:, None]], axis=1)
    return np.asarray(operation.accumulate(full[:, ::-1], axis=1)[:, ::-1])

"""Several rows at a time: each pass over a row is one over as many rows side by side.

    for i:                                 for i0:
      for j0: for jl: P[jl] += A[i, j0]      for j0: for i1 in unrolled: for jl: P[i1, jl] += ...
      S[i] = sum of P                ->      for i1 in unrolled: S[i1] = sum of P[i1]
      for j0: for jl: B[i, j0] = f(S[i])     for j0: for i1 in unrolled: for jl: B[.., j0] = f(..)

The sums over lanes, quotients and roots of one row, each of which waits for the one before, run
beside those of the other rows, and what all rows need (the scale of a norm) is loaded once for
them. Rows that are left over run one at a time. Each row is computed as it would be by itself, to
the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.abi import PAGE_BYTES
from ...support.node import walk
from ...support.target import Target
from ...tensorir.expr import BufferLoad, Call, IntImm, Var
from ...tensorir.intrinsics import is_costly
from ...tensorir.lowering.place_prefetches import PREFETCH
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import SeqStmt, annotation
from ..tiling.nests import Nest, accesses
from ..workload import buffer_bytes

TOGETHER = 2
"""Rows at a time."""
BUSY_BYTES = 1024
"""Of a row whose elements take an elementary function each: in longer ones, that takes so long that
what a row waits for does not count."""


L3_SHARE = 1 / 4
"""The part of the third cache that a function finds its rows in: it is that of many cores, and of
what else runs on them (measured)."""


def rows_at_once(nests: Sequence[Nest], target: Target) -> int:
    """How many rows to work on at a time: 1 where rows are passed over once, of unknown length, or
    so long that the first cache cannot hold several."""
    size = _row_bytes(nests)
    if not nests[0].kept or size is None:
        return 1
    rows = nests[0].block.iter_vars[nests[0].kept[-1]].dom.extent
    if isinstance(rows, IntImm) and rows.value < TOGETHER:
        return 1
    if len([n for n in nests if n.rest]) == 1 or _is_crowded(nests, target, TOGETHER):
        return 1
    if _comes_from_memory(nests, target):
        return 1
    most = BUSY_BYTES if any(map(is_busy, nests)) else _longest(target)
    return TOGETHER if size <= most else 1


def next_rows_fit(nests: Sequence[Nest], target: Target) -> bool:
    """Whether the first cache holds the next rows beside those that are worked on."""
    size = _row_bytes(nests)
    if not nests[0].kept or size is None:
        return False
    if _comes_from_memory(nests, target):
        return False
    return size <= _longest(target) and not _is_crowded(nests, target, rows_at_once(nests, target))


def _comes_from_memory(nests: Sequence[Nest], target: Target) -> bool:
    """Whether the caches cannot hold what is read and made of it: memory gives one row after
    another fastest, and sees by itself which is next."""
    loads = [a for nest in nests for a in accesses(nest.block) if isinstance(a, BufferLoad)]
    largest = max([buffer_bytes(a.buffer) or 0 for a in loads], default=0)
    return 2 * largest > L3_SHARE * target.l3_bytes


def _longest(target: Target) -> int:
    """Bytes of a row of which the first cache holds several, and what is made of them."""
    return target.l1_bytes // (2 * TOGETHER)


def _is_crowded(nests: Sequence[Nest], target: Target, count: int) -> bool:
    """Whether rows, so many at a time and the next ones, are as long as pages and compete for the
    same places of the first cache."""
    if (_row_bytes(nests) or 0) % PAGE_BYTES:
        return False
    is_kept: dict[int, bool] = {}
    for nest in nests:
        kept, rest = ({nest.block.iter_vars[i].var for i in x} for x in (nest.kept, nest.rest))
        for a in accesses(nest.block):
            used = {n for i in a.indices for n in walk(i) if isinstance(n, Var)}
            if used & rest:
                is_kept[id(a.buffer)] = bool(used & kept)
    own = sum(is_kept.values())
    return count * (own + 1) + len(is_kept) - own >= target.memory.ways


def _row_bytes(nests: Sequence[Nest]) -> int | None:
    """The size of the longest row; None where one is of unknown length."""
    longest = 0
    for nest in nests:
        size = max([r.buffer.dtype.itemsize for r in (*nest.block.reads, *nest.block.writes)])
        for axis in nest.rest:
            extent = nest.block.iter_vars[axis].dom.extent
            if not isinstance(extent, IntImm):
                return None
            size *= extent.value
        longest = max(longest, size if nest.rest else 0)
    return longest


def is_busy(nest: Nest) -> bool:
    """Whether each element of a row takes an elementary function."""
    rest = {nest.block.iter_vars[i].var for i in nest.rest}
    calls = [n for n in walk(nest.block.body) if isinstance(n, Call) and is_costly(n)]
    return any(n in rest for call in calls for n in walk(call) if isinstance(n, Var))


def run_rows_together(sch: Schedule, row: LoopRV, count: int) -> LoopRV:
    """Work on ``count`` rows at a time in the nests below the loop over rows, which are scheduled
    otherwise; the loop over these."""
    extent = sch.get(row).extent
    full = row
    if not isinstance(extent, IntImm) or extent.value % count:
        full, _ = sch.loop_partition(row, [extent // count * count, None])
    tiles, inner = sch.split(full, [None, count])
    several = isinstance(sch.get(inner).body, SeqStmt)
    for rows in sch.fission(inner) if several else [inner]:
        _move_inside(sch, rows, count)
    return tiles


def _below(sch: Schedule, loop: LoopRV, block: str) -> list[LoopRV]:
    """The loops around a block inside of another."""
    loops = sch.get_loops(block)
    return loops[[x.var for x in loops].index(loop.var) + 1 :]


def _move_inside(sch: Schedule, rows: LoopRV, count: int) -> None:
    """Move the loop over a few rows into the loops over what a row holds, and write it out."""
    first, *others = [_below(sch, rows, b.name) for b in sch.get_child_blocks(rows)]
    around = []
    for loop in first:
        shared = all(any(x.var is loop.var for x in loops) for loops in others)
        if not shared or sch.get(loop).kind != "serial":
            break
        around.append(loop)
    if around:
        sch.reorder(*around, rows)
        distance = annotation(sch.get(around[-1]), PREFETCH)
        if isinstance(distance, int):
            # The rows after those that are being worked on.
            sch.unannotate(around[-1], PREFETCH)
            sch.annotate(around[-1], PREFETCH, distance * count)
    sch.unroll(rows)

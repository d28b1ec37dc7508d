"""Reductions where memory runs along a kept axis: each lane sums a column of its own, in order.

Columns are cut into pieces. Where several blocks go through the same columns, or few rows are
summed, a piece is a few vectors, whose sums are in registers

    for k, j:  S[j] += A[k, j]    ->    for j0: for k: for jl in vectorized: S[jl] += A[k, j0 + jl]

Where many rows are summed, they are read along, a few side by side, for as many columns as have
their sums in the first cache: memory gives long stretches faster than a few lines of each row

    ->    for j0: for k0: for j1: for k1 in unrolled: for jl in vectorized: S[j1, jl] += A[k, ...]

and rows that are not cut into many pieces are cut into groups first, each with sums of its own, so
that there is something to share among threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...support.node import walk
from ...support.target import Target
from ...tensorir.expr import Expr, IntImm
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block, BufferStore
from ...tensorir.visitor import has_load
from ..tiling.lanes import FEWEST_LANES, lanes_of, vectorize_loop, width_for
from ..tiling.long_sums import block_long_sum
from ..tiling.nests import Nest, accesses, axis_of, nest_of, operands_of, spatial_axes
from ..tiling.sharing import GROUP_ROWS, GROUPS, PARALLEL_GRAIN, points_of
from ..tiling.tiles import divisor
from ..workload import blocks_in_order, is_reduction, is_spatial, static_extent
from .elementwise import is_plain
from .rule import Decisions, choice

FEW_ROWS = 16
"""Rows that are fetched side by side as fast as one after another."""
PIECE_BYTES = 1 << 14
"""Of sums in the first cache, beside the rows that stream through it."""
FEW_PIECES = 8
"""Pieces whose sums are in the second cache together."""
MANY_ABREAST = 4
"""Rows whose sums are worth more steps over the columns of a piece."""


def vector_column(nests: list[Nest]) -> int | None:
    """Which of the kept axes the largest operand of the first reduction runs along in memory; None
    where it runs along a reduced axis. An operand whose neighbours data tell runs along none."""
    nest = next(n for n in nests if is_reduction(n.block))
    for load in operands_of(nest):
        for index in reversed(load.indices):
            if has_load(index):
                break
            axis = _axis_along(nest, index)
            if axis is not None:
                return nest.kept.index(axis) if axis in nest.kept else None
    return None


def _axis_along(nest: Nest, index: Expr) -> int | None:
    """The one axis that an index goes along, whatever its step and beginning (``a[:, 3::2]``)."""
    many = {i: nest.block.iter_vars[i].var for i in (*nest.kept, *nest.rest)}
    parts = set(walk(index))
    found = [i for i, var in many.items() if var in parts]
    return found[0] if len(found) == 1 else None


def factor_long_columns(sch: Schedule) -> list[str]:
    """Give groups of rows sums of their own, where a function reduces many rows and has too few
    columns to share among threads; the blocks of these sums."""
    blocks = blocks_in_order(sch.func)
    reductions = [b for b in blocks if is_reduction(b)]
    results = max([math.prod(_extents(b, "spatial")) for b in reductions], default=0)
    if any(points_of(b) > results for b in blocks if is_spatial(b)):
        return []  # rows are read again, and best while they are in the cache
    return [name for b in reductions if (name := _factor_rows(sch, b)) is not None]


def _extents(block: Block, kind: str) -> list[int]:
    """The extents of the axes of a kind; a symbolic one counts for nothing."""
    found = [v.dom.extent for v in block.iter_vars if v.kind == kind]
    return [e.value if isinstance(e, IntImm) else 0 for e in found]


def _factor_rows(sch: Schedule, block: Block) -> str | None:
    """Give groups of the rows that a block reduces sums of their own, in a block of that name;
    None where there is nothing to gain."""
    if points_of(block) < GROUPS * PARALLEL_GRAIN:
        return None
    nest = nest_of(block, spatial_axes(block))
    column = vector_column([nest])
    if column is None or len(nest.kept) > 1 or not nest.rest:
        return None
    axis = nest.rest[0]
    rows, columns = static_extent(block, axis), static_extent(block, nest.kept[column])
    if rows is None or columns is None:
        return None
    pieces = math.ceil(columns / _columns_in_cache(block))
    most = min(GROUPS // pieces, rows // GROUP_ROWS)
    groups = next((n for n in range(most, 1, -1) if rows % n == 0), None)
    if groups is None or not is_plain(sch, block):
        return None
    outer, _ = sch.split(sch.get_loops(block.name)[axis], [groups, None])
    return sch.rfactor(outer, 0).name


def _columns_in_cache(block: Block) -> int:
    return PIECE_BYTES // block.writes[0].buffer.dtype.itemsize


def _piece(nests: list[Nest], column: int, width: int) -> int:
    """Columns whose sums are in the cache while rows stream by; 0 where they are better kept in
    registers, ``width`` at a time."""
    if any(n.rest for n in nests if not is_reduction(n.block)):
        return 0
    reductions = [n for n in nests if is_reduction(n.block)]
    nest = reductions[0]
    columns = static_extent(nest.block, nest.kept[column])
    rows = [static_extent(nest.block, i) for i in nest.rest]
    if columns is None or columns < 2 * width:
        return 0
    if None not in rows and math.prod([n for n in rows if n is not None]) <= FEW_ROWS:
        return 0
    fewest = -(-columns * len(reductions) // _columns_in_cache(nest.block))
    even = next((n for n in range(fewest, 2 * fewest) if columns % (n * width) == 0), None)
    if even is not None:
        return columns // even
    return columns if fewest <= FEW_PIECES else 0


@dataclass(frozen=True)
class Cut:
    """How columns are cut: pieces of ``size``, and, where rows stream by, ``abreast`` of them at a
    time, the loops over a piece with their nests, still to be cut into vectors
    (``vectorize_rows``)."""

    size: int
    width: int
    lanes: int
    abreast: int = 1
    rows: tuple[tuple[Nest, LoopRV], ...] = ()


@dataclass(frozen=True)
class ColumnDecisions(Decisions):
    """Of nests (roles): the vectors of ``columns`` that are summed at a time, and the rows that are
    ``abreast`` where all columns stream by."""

    columns: int = choice(lambda nests, t, d: (1, 2, 4, 8), lambda nests, t, d: 4)
    abreast: int = choice(lambda nests, t, d: (1, 2, 4, 8), lambda nests, t, d: 8)


def schedule_columns(
    sch: Schedule, nests: list[Nest], column: int, target: Target, decisions: ColumnDecisions
) -> Cut:
    """Cut the kept axis ``column`` into pieces, innermost everywhere."""
    extent = nests[0].block.iter_vars[nests[0].kept[column]].dom.extent
    lanes = min([lanes_of(target, n.block) for n in nests])
    width = width_for(extent, lanes, decisions.columns)
    piece = _piece(nests, column, width)
    if not piece:
        _sum_in_registers(sch, nests, column, width)
        return Cut(width, width, lanes)
    rows = [(n, _order_columns(sch, n.block.name, n, column, piece)) for n in nests]
    return Cut(piece, width, lanes, decisions.abreast, tuple(rows))


def vectorize_rows(sch: Schedule, cut: Cut) -> None:
    """Cut the loops over pieces of rows into vectors, when those around them are done with."""
    for nest, loop in cut.rows:
        if not is_reduction(nest.block):
            vectorize_loop(sch, loop, cut.width, cut.lanes)
            continue
        name = nest.block.name
        (abreast, width), row = _abreast(nest, sch.get(loop).extent, cut), None
        if abreast > 1:
            _, row = sch.split(sch.get_loops(name)[-2], [None, abreast])
        _block_long_sum(sch, name, nest, abreast)
        init = sch.decompose_reduction(name, sch.get_loops(name)[len(nest.kept)])
        vectorize_loop(sch, sch.get_loops(init)[-1], width, cut.lanes)
        vectors = vectorize_loop(sch, loop, width, cut.lanes)
        if row is not None:
            sch.reorder(*vectors, row)
            sch.unroll(row)


def _abreast(nest: Nest, columns: Expr, cut: Cut) -> tuple[int, int]:
    """The rows that are summed side by side, and the columns of a step: as many as divide the rows
    and the columns; 1 and the columns of the cut where none do. Shorter steps pay for
    ``MANY_ABREAST`` rows."""
    rows = static_extent(nest.block, nest.rest[-1])
    width = cut.width
    while width > cut.lanes and isinstance(columns, IntImm) and columns.value % width:
        width //= 2
    whole = isinstance(columns, IntImm) and columns.value % width == 0
    abreast = divisor(rows, cut.abreast) if whole and width >= FEWEST_LANES else 1
    fewest = 2 if width == cut.width else MANY_ABREAST
    return (abreast, width) if abreast >= fewest else (1, cut.width)


def _sum_in_registers(sch: Schedule, nests: list[Nest], column: int, width: int) -> None:
    """Cut all nests into vectors of columns, and keep the sums of each in registers."""
    own = {n.block.name for n in nests}
    outputs = {id(b) for b in sch.func.written}
    for nest in nests:
        name = nest.block.name
        if is_reduction(nest.block):
            is_read_elsewhere = any(c.name not in own for c in sch.get_consumers(name))
            if id(nest.block.writes[0].buffer) in outputs or is_read_elsewhere:
                copy = sch.cache_write(name, 0, "register")
                sch.vectorize(_order_columns(sch, copy.name, _copy_nest(nest), column, width))
            else:
                sch.set_scope(name, 0, "register")
        sch.vectorize(_order_columns(sch, name, nest, column, width))
        if is_reduction(nest.block):
            _block_long_sum(sch, name, nest)
            sch.decompose_reduction(name, sch.get_loops(name)[len(nest.kept)])


def _block_long_sum(sch: Schedule, name: str, nest: Nest, abreast: int = 1) -> None:
    """Have the sums of long columns added in blocks; rows that are ``abreast`` are in one block."""
    loops = sch.get_loops(name)[len(nest.kept) + len(nest.units) :]
    block_long_sum(sch, name, loops[: len(nest.rest)], abreast)


def _copy_nest(nest: Nest) -> Nest:
    """The nest of the copy of a reduction's result: an axis for each of its dimensions, which may
    be in another order than the reduction's axes (a factored one's are)."""
    store = next(a for a in accesses(nest.block) if isinstance(a, BufferStore))
    place = {axis_of(nest.block, index): d for d, index in enumerate(store.indices)}
    units = tuple([place[i] for i in nest.units if i in place])
    return Nest(nest.block, tuple([place[i] for i in nest.kept]), units, ())


def _order_columns(sch: Schedule, name: str, nest: Nest, column: int, size: int) -> LoopRV:
    """Order a nest's loops: kept axes, the pieces of the column last; units; the rest; the columns
    of a piece, whose loop is given."""
    loops = sch.get_loops(name)
    kept = [loops[i] for i in nest.kept]
    outer, inner = sch.split(kept[column], [None, size])
    others = [loop for i, loop in enumerate(kept) if i != column]
    within = [loops[i] for i in (*nest.units, *nest.rest)]
    sch.reorder(*others, outer, *within, inner)
    return inner


def cut_columns(sch: Schedule, outer: list[LoopRV], extent: Expr, size: int) -> list[LoopRV]:
    """Give the columns that do not fill a piece a part of their own; the loops around the rest."""
    if isinstance(extent, IntImm) and (extent.value % size == 0 or extent.value < size):
        return outer
    full, _ = sch.loop_partition(outer[-1], [extent // size, None])
    return [*outer[:-1], full]

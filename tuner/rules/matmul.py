"""Matrix products: a register tile of rows x vectors of columns, over packed weights.

    for rows, columns, k:        Y[i, j] += X[i, k] * W[j, k]          epilogue E(Y[i, j])

becomes, for each part of the rows (all full tiles, then smaller ones)

    for i0                                  tiles of rows
      for j0                                tiles of columns, each a panel of packed weights
        Y_tile = 0                          registers
        for k0, k1                          k1 unrolled
          for i1, jp, jv, jl                rows, panels, vectors: unrolled; lanes: vectorized
            Y_tile += X[i, k] * Wp[jp, k, jv, jl]
        E(Y_tile)                           the epilogue, from registers

The layout of the panels, [columns / panel][k][panel], does not depend on the rows: one packed weight
serves every number of rows, 1 included. A weight that the graph knows to be constant is packed at
compile time (its layout is the schedule's); one that is not is packed by a copy inside the function
where that pays. Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), and
BLIS (Van Zee and van de Geijn, 2015), are where the loops come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...support.node import walk
from ...support.target import Target
from ...tensorir.expr import BufferLoad, Expr, IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block
from ..chooser import Chooser
from ..workload import (
    Matmul,
    block_named,
    blocks_in_order,
    is_reduction,
    is_spatial,
    match_matmul,
    static_extent,
)
from .elementwise import vectorize_spatial
from .inline import inline_elementwise
from .lanes import up_to_power
from .panels import pack_columns, place_copy, wants_packing
from .sharing import points_of, share_tiles

FMA_LATENCY = 4
"""Cycles from one fused multiply-add to the next on the same register; two are issued a cycle."""
TALLEST_TILE = 14
SYMBOLIC_TILES = (1, 2, 4, 6, 8, 12)
"""Rows of a tile where the number of rows is symbolic: what remains is cut by divisors of these."""


@dataclass(frozen=True)
class TileShape:
    """``rows`` x ``vectors`` of ``lanes``; ``panels`` panels of columns are worked on together."""

    rows: int
    vectors: int
    panels: int = 1


def match(func: PrimFunc) -> Matmul | None:
    """The one matrix product of a function whose other blocks are elementwise, or None.

    It has one reduce axis, and its last spatial axis is a column.
    """
    reductions = [b for b in blocks_in_order(func) if is_reduction(b)]
    if len(reductions) != 1:
        return None
    matmul = match_matmul(reductions[0])
    if matmul is None or len(matmul.reduce) != 1:
        return None
    spatial = [i for i, v in enumerate(reductions[0].iter_vars) if v.kind == "spatial"]
    return matmul if matmul.columns[-1] == spatial[-1] else None


def steps_a_cycle(rows: int, vectors: int) -> float:
    """Steps of k that a tile does in a cycle: bounded by FMA ports, load ports, issue, and latency.

    The last factor is measured: with few sums in flight, cache latency is not hidden.
    """
    fma = rows * vectors
    loads = rows + vectors
    cycles = max(fma / 2, loads / 2, (fma + loads) / 4, FMA_LATENCY)
    return fma / (fma + 4) / cycles


def best_tile(columns: int | None, rows: int | None, lanes: int, registers: int) -> TileShape:
    """The tile with the most useful multiply-adds a cycle that fits the registers.

    Partial tiles of rows and columns count as full ones; ``rows`` None (symbolic) counts no remainder.
    """
    best: tuple[float, TileShape] | None = None
    for vectors in range(1, 5):
        width = vectors * lanes
        if columns is not None and vectors > math.ceil(columns / lanes):
            continue
        for tile_rows in range(1, min(TALLEST_TILE, rows or TALLEST_TILE) + 1):
            if tile_rows * vectors + vectors + 1 > registers:
                continue
            useful = 1.0
            if columns is not None:
                useful *= columns / (math.ceil(columns / width) * width)
            if rows is not None:
                useful *= rows / (math.ceil(rows / tile_rows) * tile_rows)
            elif tile_rows not in SYMBOLIC_TILES:
                continue
            score = useful * tile_rows * vectors * steps_a_cycle(tile_rows, vectors)
            if best is None or score >= best[0] * 1.0001:
                best = (score, TileShape(tile_rows, vectors))
            elif score >= best[0] * 0.9999 and tile_rows < best[1].rows:
                best = (score, TileShape(tile_rows, vectors))
    assert best is not None
    return best[1]


def row_parts(rows: Expr, tile_rows: int) -> list[tuple[Expr, int]]:
    """Consecutive ranges of rows as (extent, rows of a tile): full tiles first, then what remains.

    A constant remainder is one tile; a symbolic one is cut into halves, quarters ... down to 1, of
    which each is there or not (12 rows: 6, 3, 1).
    """
    if isinstance(rows, IntImm):
        full = rows.value // tile_rows * tile_rows
        parts: list[tuple[Expr, int]] = [(IntImm(full), tile_rows)] if full else []
        if rows.value > full:
            parts.append((IntImm(rows.value - full), rows.value - full))
        return parts or [(rows, 1)]
    parts = [(rows // tile_rows * tile_rows, tile_rows)]
    below = tile_rows
    while below > 1:
        size = below // 2 if below % 2 == 0 else 1
        parts.append(((rows % below) // size * size, size))
        below = size
    return parts


def schedule_matmul(sch: Schedule, target: Target, chooser: Chooser) -> None:
    """Apply the rule to the schedule's function, which ``match`` recognises."""
    matmul = match(sch.func)
    assert matmul is not None
    inline_elementwise(sch, keep=(matmul.x.buffer, matmul.w.buffer))
    matmul = match(sch.func)
    assert matmul is not None
    block = block_named(sch.func, matmul.block)
    lanes = max(1, target.vector_bits // block.writes[0].buffer.dtype.bits)
    columns = static_extent(block, matmul.columns[-1])
    rows = matmul_rows(block, matmul)
    row_count = product_of([static_extent(block, i) for i in rows])
    shape = best_tile(columns, row_count, lanes, target.vector_registers)
    vectors = chooser.value(sch, [1, 2, 3, 4], shape.vectors)
    limit = max(1, (target.vector_registers - vectors - 1) // vectors)
    candidates = [r for r in (1, 2, 3, 4, 5, 6, 8, 10, 12, 14) if r <= limit]
    tile_rows = chooser.value(sch, candidates, shape.rows)
    if row_count is None:
        tile_rows = max(r for r in SYMBOLIC_TILES if r <= tile_rows)
    else:
        tile_rows = min(tile_rows, row_count)
    reduce = static_extent(block, matmul.reduce[0])
    unroll = _divisor(reduce, chooser.value(sch, [1, 2, 4, 8], 4))
    packed = wants_packing(sch, matmul, tile_rows, row_count, chooser)
    copy = pack_columns(sch, matmul, vectors * lanes) if packed else None
    epilogue = consumer_or_copy(sch, matmul.block, "register")
    outer = order_loops(sch, matmul, rows, epilogue)
    if copy is not None:
        place_copy(sch, copy, matmul, target, lanes)
    tiling = _Tiling(packed, vectors, lanes, unroll, target, points_of(block), outer)
    loops, epilogue_loops = sch.get_loops(matmul.block), sch.get_loops(epilogue)
    parts = row_parts(sch.get(loops[outer]).extent, tile_rows)
    names = _partition(
        sch, (matmul.block, epilogue), (loops[outer], epilogue_loops[outer]), [p[0] for p in parts]
    )
    for pair, (_, part_rows) in zip(names, parts, strict=True):
        _tile_part(sch, pair, part_rows, columns, tiling)
    vectorize_spatial(sch, target, chooser)


def product_of(extents: list[int | None]) -> int | None:
    """The product of extents, None where one is symbolic."""
    total = 1
    for e in extents:
        if e is None:
            return None
        total *= e
    return total


def _divisor(extent: int | None, wanted: int) -> int:
    """The largest power of two up to ``wanted`` that divides ``extent``."""
    while extent is not None and wanted > 1 and extent % wanted:
        wanted //= 2
    return wanted if extent is not None else 1


@dataclass(frozen=True)
class _Tiling:
    """What all parts of a product have in common; ``outer`` loops stand around rows and columns."""

    packed: bool
    vectors: int
    lanes: int
    unroll: int
    target: Target
    points: int
    outer: int


def _together(panels: int, vectors: int, rows: int, registers: int) -> int:
    """How many panels a tile of few rows works on at once, to have 8 independent sums in flight."""
    together = 1
    while (
        panels % (together * 2) == 0
        and rows * vectors * together < 8
        and (rows + 1) * vectors * together * 2 + 1 <= registers
    ):
        together *= 2
    return together


def consumer_or_copy(sch: Schedule, block: str, scope: str) -> str:
    """The block that takes a block's results out of ``scope``: its one consumer, where that reads
    them element by element, or a copy made for it."""
    consumers = sch.get_consumers(block)
    if len(consumers) == 1 and reads_in_order(sch.func, consumers[0].name, block):
        sch.set_scope(block, 0, scope)
        return consumers[0].name
    return sch.cache_write(block, 0, scope).name


def reads_in_order(func: PrimFunc, consumer: str, producer: str) -> bool:
    """Whether a spatial block reads what another writes at its own axes, all of them, in order."""
    block, written = block_named(func, consumer), block_named(func, producer).writes[0].buffer
    axes = [v.var for v in block.iter_vars]
    loads = [n for n in walk(block.body) if isinstance(n, BufferLoad) and n.buffer is written]
    return is_spatial(block) and all(
        len(n.indices) == len(axes) and all(i is a for i, a in zip(n.indices, axes, strict=True))
        for n in loads
    )


def matmul_rows(block: Block, matmul: Matmul) -> tuple[int, ...]:
    """The row axes that can be one axis: the last ones, as far as they are neighbours in X's
    dimensions as they are in the result."""
    places = {id(i): d for d, i in enumerate(matmul.x.indices)}
    found: list[int] = []
    for axis in reversed(matmul.rows):
        if found:
            after = found[0]
            where = [places[id(block.iter_vars[i].var)] for i in (axis, after)]
            if after != axis + 1 or where[1] != where[0] + 1:
                break
        found.insert(0, axis)
    return tuple(found)


def order_loops(sch: Schedule, matmul: Matmul, rows: tuple[int, ...], epilogue: str) -> int:
    """Order the loops of product and epilogue: what W runs along, other rows, then one loop of
    ``rows``, columns, and k. Gives the number of loops in front of the rows' loop."""
    column = matmul.columns[-1]
    weight = sorted([*matmul.batch, *matmul.columns[:-1]])
    others = [i for i in matmul.rows if i not in rows]
    front = [*weight, *others]
    for name, last in ((matmul.block, [column, *matmul.reduce]), (epilogue, [column])):
        loops = sch.get_loops(name)
        order = [*front, *rows, *last]
        if order != sorted(order):
            sch.reorder(*[loops[i] for i in order])
        if not rows:
            sch.add_unit_loop(loops[column])
        elif len(rows) > 1:
            sch.fuse(*[loops[i] for i in rows])
    return len(front)


def _partition(
    sch: Schedule, pair: tuple[str, str], loops: tuple[LoopRV, LoopRV], extents: list[Expr]
) -> list[tuple[str, str]]:
    """Cut one loop of the product and one of the epilogue alike; the names in each part."""
    if len(extents) == 1:
        return [pair]
    first, second = [sch.loop_partition(loop, [*extents[:-1], None]) for loop in loops]
    return [
        (sch.get_child_blocks(a)[0].name, sch.get_child_blocks(b)[0].name)
        for a, b in zip(first, second, strict=True)
    ]


def _tile_part(
    sch: Schedule, pair: tuple[str, str], rows: int, columns: int | None, tiling: _Tiling
) -> None:
    """Tile the columns of one part of the rows: packed ones reach as far as whole panels, others
    have a part of their own for what does not fill a tile."""
    vectors, lanes = tiling.vectors, tiling.lanes
    registers = tiling.target.vector_registers
    panels = math.ceil(columns / (vectors * lanes)) if columns is not None else 1
    if tiling.packed:
        shape = TileShape(rows, vectors, _together(panels, vectors, rows, registers))
        _tile(sch, *pair, shape, lanes, tiling)
        return
    loops = [sch.get_loops(name)[tiling.outer + 1] for name in pair]
    extent = sch.get(loops[0]).extent
    shape = TileShape(rows, vectors, _together(panels, vectors, rows, registers))
    width = shape.panels * vectors * lanes
    if columns is not None and columns < width:
        _tile(sch, *pair, *_rest_tile(rows, columns, lanes), tiling)
        return
    if columns is not None and columns % width == 0:
        _tile(sch, *pair, shape, lanes, tiling)
        return
    parts: list[Expr] = [extent // width * width, extent % width]
    full, rest = _partition(sch, pair, (loops[0], loops[1]), parts)
    _tile(sch, *full, shape, lanes, tiling)
    if columns is None:
        _tile(sch, *rest, TileShape(rows, 1), lanes, tiling)
    else:
        _tile(sch, *rest, *_rest_tile(rows, columns % width, lanes), tiling)


def _rest_tile(rows: int, columns: int, lanes: int) -> tuple[TileShape, int]:
    """One tile for a few columns, and its lanes: fewer than a register has where that is enough."""
    if columns < lanes:
        return TileShape(rows, 1), up_to_power(columns)
    return TileShape(rows, math.ceil(columns / lanes)), lanes


def _tile(
    sch: Schedule, product: str, epilogue: str, shape: TileShape, lanes: int, tiling: _Tiling
) -> None:
    """Tile one part: the loops in the drawing above."""
    if tiling.packed:
        column = max(
            i for i, v in enumerate(block_named(sch.func, product).iter_vars) if v.kind == "spatial"
        )
        padding = [1] * len(block_named(sch.func, product).iter_vars)
        padding[column] = shape.panels * shape.vectors * lanes
        sch.pad_einsum(product, padding)
    *outer, i, j, k = sch.get_loops(product)
    i0, i1 = sch.split(i, [None, shape.rows])
    j0, jp, jv, jl = sch.split(j, [None, shape.panels, shape.vectors, lanes])
    k0, k1 = sch.split(k, [None, tiling.unroll])
    sch.reorder(i0, j0, k0, k1, i1, jp, jv, jl)
    sch.reverse_compute_at(epilogue, j0, preserve_unit_loops=True)
    for loop in (k1, i1, jp, jv):
        sch.unroll(loop)
    if lanes > 1:
        sch.vectorize(jl)
    sch.decompose_reduction(product, k0)
    inside = sch.get_loops(epilogue)[len(outer) + 2 :]
    *rows, columns = inside
    vectors, inner = sch.split(columns, [None, lanes])
    for loop in (*rows, vectors):
        sch.unroll(loop)
    if lanes > 1:
        sch.vectorize(inner)
    share_tiles(sch, tiling.target, [*outer, i0, j0], tiling.points)

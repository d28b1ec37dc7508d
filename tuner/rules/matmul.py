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

from ...support.target import Target
from ...tensorir.expr import Expr, IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ..chooser import Chooser
from ..workload import Matmul, blocks_in_order, extent_of, is_reduction, match_matmul, static_extent
from .inline import inline_elementwise

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
    """The one matrix product of a function whose other blocks are elementwise, or None."""
    reductions = [b for b in blocks_in_order(func) if is_reduction(b)]
    if len(reductions) != 1:
        return None
    matmul = match_matmul(reductions[0])
    if matmul is None or matmul.batch or len(matmul.columns) != 1 or len(matmul.reduce) != 1:
        return None
    return matmul


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
    inline_elementwise(sch)
    func = sch.func
    matmul = match(func)
    assert matmul is not None
    block = next(b for b in blocks_in_order(func) if b.name == matmul.block)
    lanes = max(1, target.vector_bits // block.writes[0].buffer.dtype.bits)
    columns = static_extent(block, matmul.columns[0])
    row_count = static_extent(block, matmul.rows[0]) if len(matmul.rows) == 1 else None
    if not matmul.rows:
        row_count = 1
    shape = best_tile(columns, row_count, lanes, target.vector_registers)
    vectors = chooser.value(sch, [1, 2, 3, 4], shape.vectors)
    limit = max(1, (target.vector_registers - vectors - 1) // vectors)
    tile_rows = chooser.value(sch, [r for r in (1, 2, 3, 4, 5, 6, 8, 10, 12, 14) if r <= limit], shape.rows)
    if row_count is None:
        tile_rows = max(r for r in SYMBOLIC_TILES if r <= tile_rows)
    else:
        tile_rows = min(tile_rows, row_count)
    unroll = _divisor(static_extent(block, matmul.reduce[0]), chooser.value(sch, [1, 2, 4, 8], 4))
    panel = vectors * lanes
    _pack_columns(sch, matmul, panel)
    epilogue = consumer_or_copy(sch, matmul.block, "register")
    rows_loop, epilogue_rows = _row_loops(sch, matmul, epilogue)
    parts = row_parts(extent_of(block, matmul.rows[0]), tile_rows) if matmul.rows else [(IntImm(1), 1)]
    names = _partition(sch, matmul.block, epilogue, rows_loop, epilogue_rows, [p[0] for p in parts])
    panels = math.ceil(columns / panel) if columns is not None else 1
    for (product, stored), (_, rows) in zip(names, parts, strict=True):
        together = _together(panels, vectors, rows, target.vector_registers)
        _tile(sch, product, stored, TileShape(rows, vectors, together), lanes, unroll)


def _divisor(extent: int | None, wanted: int) -> int:
    """The largest power of two up to ``wanted`` that divides ``extent``."""
    while extent is not None and wanted > 1 and extent % wanted:
        wanted //= 2
    return wanted if extent is not None else 1


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


def _pack_columns(sch: Schedule, matmul: Matmul, panel: int) -> None:
    """W becomes [columns / panel][k][panel]: its own layout where that is free, else a packed copy."""
    column_first = _column_dim(sch, matmul) == 0

    def packed(a: Var, b: Var) -> tuple[Expr, Expr, Expr]:
        n, k = (a, b) if column_first else (b, a)
        return (n // panel, k, n % panel)

    if is_layout_free(sch.func, matmul):
        sch.transform_layout(matmul.block, ("read", matmul.w_read), packed, pad_value=0.0)
    else:
        copy = sch.cache_read(matmul.block, matmul.w_read, "global")
        sch.transform_layout(copy, ("write", 0), packed, pad_value=0.0)


def _column_dim(sch: Schedule, matmul: Matmul) -> int:
    block = next(b for b in blocks_in_order(sch.func) if b.name == matmul.block)
    column = block.iter_vars[matmul.columns[0]].var
    return next(i for i, index in enumerate(matmul.w.indices) if index is column)


def is_layout_free(func: PrimFunc, matmul: Matmul) -> bool:
    """Whether the weight is a parameter whose layout the schedule may change."""
    params = [id(p) for p in func.params]
    free = func.attr("layout_free") or ()
    return id(matmul.w.buffer) in params and params.index(id(matmul.w.buffer)) in free


def consumer_or_copy(sch: Schedule, block: str, scope: str) -> str:
    """The block that takes the product's results out of ``scope``: the elementwise consumer that is
    there, or a copy made for it."""
    consumers = sch.get_consumers(block)
    if consumers:
        sch.set_scope(block, 0, scope)
        return consumers[0].name
    return sch.cache_write(block, 0, scope).name


def _row_loops(sch: Schedule, matmul: Matmul, epilogue: str) -> tuple[object, object]:
    """One loop over all rows around the product, and one around the epilogue."""
    loops, outer = sch.get_loops(matmul.block), sch.get_loops(epilogue)
    if not matmul.rows:
        return sch.add_unit_loop(loops[0]), sch.add_unit_loop(outer[0])
    if len(matmul.rows) == 1:
        return loops[matmul.rows[0]], outer[matmul.rows[0]]
    return (
        sch.fuse(*[loops[i] for i in matmul.rows]),
        sch.fuse(*[outer[i] for i in matmul.rows]),
    )


def _partition(
    sch: Schedule, block: str, epilogue: str, rows_loop: object, epilogue_rows: object, extents: list[Expr]
) -> list[tuple[str, str]]:
    """Cut both row loops alike; the names of the product and of the epilogue in each part."""
    if len(extents) == 1:
        return [(block, epilogue)]
    first = sch.loop_partition(rows_loop, [*extents[:-1], None])
    second = sch.loop_partition(epilogue_rows, [*extents[:-1], None])
    return [
        (sch.get_child_blocks(a)[0].name, sch.get_child_blocks(b)[0].name)
        for a, b in zip(first, second, strict=True)
    ]


def _tile(sch: Schedule, product: str, epilogue: str, shape: TileShape, lanes: int, unroll: int) -> None:
    """Tile one part: the loops in the drawing above."""
    i, j, k = sch.get_loops(product)
    sch.pad_einsum(product, [1, shape.panels * shape.vectors * lanes, 1])
    i, j, k = sch.get_loops(product)
    i0, i1 = sch.split(i, [None, shape.rows])
    j0, jp, jv, jl = sch.split(j, [None, shape.panels, shape.vectors, lanes])
    k0, k1 = sch.split(k, [None, unroll])
    sch.reorder(i0, j0, k0, k1, i1, jp, jv, jl)
    sch.reverse_compute_at(epilogue, j0)
    for loop in (k1, i1, jp, jv):
        sch.unroll(loop)
    sch.vectorize(jl)
    sch.decompose_reduction(product, k0)
    *_, rows, columns = sch.get_loops(epilogue)
    outer, inner = sch.split(columns, [None, lanes])
    sch.unroll(rows)
    sch.unroll(outer)
    sch.vectorize(inner)

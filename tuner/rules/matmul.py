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

The layout of the panels, [columns / panel][k][panel], does not depend on the part: one packed
weight serves them all. A weight that the graph knows to be constant is packed at compile time (its
layout is the schedule's); of any other a copy is packed inside the function where that pays, or it
is read as it is, its columns cut like the rows. The axes of a batch, and all rows but those of the
last axis, are loops around this. Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication" (2008), and BLIS (Van Zee and van de Geijn, 2015), are where the loops come from.
How large products are blocked for the caches is said in ``blocking.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from ...support.target import Target
from ...tensorir.expr import Expr, IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block
from ..workload import (
    Matmul,
    block_named,
    blocks_in_order,
    match_matmul,
    static_extent,
)
from .blocking import (
    AHEAD,
    SHORT_TILE,
    best_distance,
    best_group,
    best_way,
    copy_rows,
    group_sizes,
    reads_across,
    ways_of_rows,
)
from .inline import inline_elementwise
from .lanes import up_to_power
from .panels import (
    MANY_TILES,
    is_layout_free,
    may_pack,
    pack_columns,
    packing_of,
    place_copy,
    schedule_copy,
    wants_packing,
)
from .reduction import schedule_rest
from .rule import Decide, Decisions, Rule, choice
from .sharing import points_of, share_tiles
from .tiles import (
    CACHE_SHARE,
    MANY_REGISTERS,
    NEXT,
    annotate_sum_blocks,
    bytes_of,
    divisor,
    fetch_ahead,
    outlets,
    pad_columns,
    partition_together,
    reserved_registers,
    steps_unrolled,
    store_tile,
)

FMA_LATENCY = 4
"""Cycles from one fused multiply-add to the next on the same register; two are issued a cycle."""
TALLEST_TILE = 14
VECTORS = (1, 2, 3, 4)
"""Vectors of a tile."""
STEPS = (1, 2, 4, 8)
"""Steps of k that may be written out."""
MOST_SUMS = 3 / 4
"""The part of the registers that sums may take where some are reserved: of more, one is spilled."""
FEW_ROWS = TALLEST_TILE // 2
"""Rows of a short axis that are put into a tile together with several steps of the axis before."""
SYMBOLIC_TILES = (1, 2, 4, 6, 8, 12)
"""Rows of a tile where the number of rows is symbolic: what remains is cut by divisors of these."""


@dataclass(frozen=True)
class TileShape:
    """``rows`` x ``vectors`` of ``lanes``; ``panels`` panels of columns are worked on together."""

    rows: int
    vectors: int
    panels: int = 1


def match(func: PrimFunc) -> Matmul | None:
    """The one matrix product of a function, or None. It has one reduce axis, and its last spatial
    axis is a column."""
    found = [m for b in blocks_in_order(func) if (m := match_matmul(b)) is not None]
    if len(found) != 1 or len(found[0].reduce) != 1:
        return None
    block = block_named(func, found[0].block)
    last = max(i for i, v in enumerate(block.iter_vars) if v.kind == "spatial")
    return found[0] if found[0].columns[-1] == last else None


def steps_a_cycle(rows: int, vectors: int) -> float:
    """Steps of k that a tile does in a cycle: bounded by FMA ports, load ports, issue, and latency.

    The last factor is measured: with few sums in flight, cache latency is not hidden.
    """
    fma = rows * vectors
    loads = rows + vectors
    cycles = max(fma / 2, loads / 2, (fma + loads) / 4, FMA_LATENCY)
    return fma / (fma + 4) / cycles


def best_tile(
    columns: int | None, rows: int | None, lanes: int, registers: int, reserved: int = 0
) -> TileShape:
    """The tile with the most useful multiply-adds a cycle that fits the registers but for those
    ``reserved``.

    Partial tiles of rows and columns count as full ones; ``rows`` None (symbolic) counts no
    remainder.
    """
    best: tuple[float, TileShape] | None = None
    # One register for what is broadcast; without memory operands of that kind another, to load
    # ahead into.
    spare = reserved + (1 if registers >= MANY_REGISTERS else 2)
    # Of equals the one of fewer rows, but with few registers that which reads less of the weight.
    few_rows = registers >= MANY_REGISTERS
    for vectors in range(1, 5):
        width = vectors * lanes
        if columns is not None and vectors > math.ceil(columns / lanes):
            continue
        for tile_rows in range(1, min(TALLEST_TILE, rows or TALLEST_TILE) + 1):
            if tile_rows * vectors + vectors + spare > registers:
                continue
            if reserved and tile_rows * vectors > MOST_SUMS * registers:
                continue
            useful = 1.0
            if columns is not None:
                useful *= columns / (math.ceil(columns / width) * width)
            if rows is not None:
                useful *= rows / (math.ceil(rows / tile_rows) * tile_rows)
            elif tile_rows not in SYMBOLIC_TILES:
                continue
            score = useful * tile_rows * vectors * steps_a_cycle(tile_rows, vectors)
            if (
                best is None
                or score >= best[0] * 1.0001
                or (few_rows and score >= best[0] * 0.9999 and tile_rows < best[1].rows)
            ):
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


@dataclass(frozen=True)
class Product:
    """One product of a function, and what its axes do."""

    func: PrimFunc
    matmul: Matmul

    @property
    def block(self) -> Block:
        return block_named(self.func, self.matmul.block)

    @property
    def roles(self) -> Roles:
        return roles_of(self.block, self.matmul)

    def lanes(self, target: Target) -> int:
        """Columns of a vector."""
        return max(1, target.vector_bits // self.block.writes[0].buffer.dtype.bits)

    def row_count(self) -> int | None:
        """See Roles."""
        return self.roles.row_count(self.block)

    def tiles(self, tile_rows: int) -> int:
        """Tiles of rows; many where the number of rows is symbolic."""
        if self.roles.row is None:
            return 1
        rows = self.row_count()
        return MANY_TILES if rows is None else math.ceil(rows / tile_rows)

    def best_tile(self, target: Target) -> TileShape:
        """The tile that the model suggests."""
        columns = static_extent(self.block, self.matmul.columns[-1])
        across = reads_across(self.block, self.matmul, target)
        # With few registers every tile is short.
        short = across and target.vector_registers >= MANY_REGISTERS
        rows = self.row_count()
        if self._reads_once(rows, target):
            return TileShape(SHORT_TILE, 1)
        reserved = reserved_registers(target)
        tallest = SHORT_TILE if short else rows
        return best_tile(columns, tallest, self.lanes(target), target.vector_registers, reserved)

    def _reads_once(self, rows: int | None, target: Target) -> bool:
        """Whether one tile takes all rows, where few registers would make two of them: a packed
        weight from far away is read once, and its bytes are what the product waits for."""
        weights = bytes_of(self.matmul.w)
        if rows is None or weights is None or not is_layout_free(self.func, self.matmul.w.buffer):
            return False
        far = weights > CACHE_SHARE * target.l2_bytes
        few = target.vector_registers < MANY_REGISTERS
        return far and few and SHORT_TILE - 2 < rows <= SHORT_TILE

    def panel(self, target: Target, before: Any) -> int:
        """Columns of a panel; 0 where W is read as it is."""
        return int(before.vectors * self.lanes(target)) if before.packed else 0


def rows_of_tile(rows: int | None, vectors: int, target: Target) -> tuple[int, ...]:
    """The numbers of rows that a tile of so many ``vectors`` has registers for, of ``rows`` (None
    where that is symbolic)."""
    limit = max(1, (target.vector_registers - vectors - 1) // vectors)
    if rows is None:
        return tuple([r for r in SYMBOLIC_TILES if r <= limit])
    return tuple(range(1, min(limit, rows, TALLEST_TILE) + 1))


def _ways(product: Product) -> tuple[int, ...]:
    return ways_of_rows(product.block, product.matmul, inner=bool(product.roles.inner))


def _best_group(product: Product, target: Target, before: Any) -> int:
    panel = product.panel(target, before)
    return best_group(product.func, product.matmul, panel, product.tiles(before.rows), target)


def _best_distance(product: Product, target: Target, before: Any) -> int:
    panel = product.panel(target, before)
    return best_distance(product.func, product.matmul, panel, product.tiles(before.rows), target)


@dataclass(frozen=True)
class ProductDecisions(Decisions):
    """How one product is tiled and blocked: a tile of ``rows`` x ``vectors``, steps of k that are
    written out, whether W is ``packed``, the copy of X's rows, the panels of a ``group`` that is
    the outer loop (0: none), and how far ``ahead`` is read (see ``blocking``)."""

    vectors: int = choice(lambda p, t, d: VECTORS, lambda p, t, d: p.best_tile(t).vectors)
    rows: int = choice(
        lambda p, t, d: rows_of_tile(p.row_count(), d.vectors, t),
        lambda p, t, d: min(p.best_tile(t).rows, p.row_count() or TALLEST_TILE),
    )
    unroll: int = choice(
        lambda p, t, d: STEPS, lambda p, t, d: steps_unrolled(t, d.rows * d.vectors)
    )
    packed: int = choice(
        lambda p, t, d: may_pack(p.func, p.matmul),
        lambda p, t, d: wants_packing(p.func, p.matmul, d.rows, p.row_count(), t),
    )
    copy: int = choice(
        lambda p, t, d: _ways(p),
        lambda p, t, d: best_way(p.block, p.matmul, d.rows, _ways(p), t),
    )
    group: int = choice(
        lambda p, t, d: group_sizes(p.block, p.matmul, p.panel(t, d), p.tiles(d.rows)),
        _best_group,
    )
    ahead: int = choice(lambda p, t, d: (0, AHEAD, 2 * AHEAD, NEXT), _best_distance)


class MatmulRule(Rule[Product, ProductDecisions]):
    """Functions with one matrix product."""

    name = "matmul"
    decisions = ProductDecisions

    def match(self, func: PrimFunc, target: Target) -> Product | None:
        matmul = match(func)
        return None if matmul is None else Product(func, matmul)

    def prepare(self, sch: Schedule, roles: Product) -> None:
        operands = (roles.matmul.x.buffer, roles.matmul.w.buffer)
        trial = sch.copy()
        inline_elementwise(trial, keep=operands)
        if match(trial.func) is None:
            # An operand that is the same along k or the columns (an expanded one) is written out.
            inline_elementwise(sch, keep=operands, in_order=True)
        else:
            sch.become(trial)

    def apply(
        self, sch: Schedule, roles: Product, decisions: ProductDecisions, decide: Decide
    ) -> None:
        schedule_product(sch, roles, decisions, decide.target)
        schedule_rest(sch, decide.target, decide)


def schedule_product(
    sch: Schedule, product: Product, decisions: ProductDecisions, target: Target
) -> None:
    """Tile one product of a function, and the epilogue that stands behind it."""
    matmul, roles, block = product.matmul, product.roles, product.block
    lanes = product.lanes(target)
    columns = static_extent(block, matmul.columns[-1])
    vectors, tile_rows = decisions.vectors, decisions.rows
    reduce = static_extent(block, matmul.reduce[0])
    unroll = divisor(reduce, decisions.unroll)
    packed = bool(decisions.packed)
    panel, points = vectors * lanes, points_of(block)
    # What stands around the columns but for rows: under these loops a group is packed once.
    fronts = len(matmul.batch) + len(matmul.columns) - 1
    grouped = decisions.group > 0 and len(roles.front) == fronts
    copy = pack_columns(sch, matmul, panel, grouped=grouped) if packed else None
    copy_rows(sch, matmul, decisions.copy, tile_rows, target)
    stored = outlets(sch, matmul.block)
    if packed:
        pad_columns(sch, matmul.block, panel)
    order_loops(sch, matmul, roles, stored)
    outer = len(roles.front)
    if decisions.group:
        columns = panel * decisions.group
        _columns_outside(sch, (matmul.block, *stored), roles, columns)
        outer += 1
    packing = None
    if copy is not None:
        packing = packing_of(sch, copy, matmul, panel, grouped=grouped)
        place_copy(sch, copy, matmul, panel, grouped=grouped)
    tiling = _Tiling(
        packed, columns, vectors, lanes, unroll, outer, target, points, decisions.ahead, reduce
    )
    inner = roles.inner_count(block)
    rows = sch.get(sch.get_loops(matmul.block)[outer]).extent
    parts = row_parts(rows, max(1, tile_rows // inner))
    names = partition_together(sch, (matmul.block, *stored), outer, [e for e, _ in parts])
    for blocks, (_, steps) in zip(names, parts, strict=True):
        _tile_part(sch, blocks, steps, steps * inner, tiling)
    if packing is not None:
        schedule_copy(sch, packing, target)


def _columns_outside(sch: Schedule, blocks: tuple[str, ...], roles: Roles, width: int) -> None:
    """Put the loop over groups of columns around the rows: front, groups, rows, columns, k."""
    for n, name in enumerate(blocks):
        front, rest = len(roles.front), sch.get_loops(name)
        *rows, column = rest[front : -1 if n == 0 else None]
        j0, j1 = sch.split(column, [None, width])
        sch.reorder(j0, *rows, j1, *(rest[-1:] if n == 0 else []))


@dataclass(frozen=True)
class Roles:
    """What a product's axes do (positions in its iter vars): ``front`` loops stand outside (those W
    runs along first); ``row`` (None where there is none) is cut into tiles, and all of ``inner`` is
    in each tile of it."""

    front: tuple[int, ...]
    row: int | None
    inner: tuple[int, ...]

    def inner_count(self, block: Block) -> int:
        """Rows for one value of the row axis."""
        return math.prod([static_extent(block, i) or 1 for i in self.inner])

    def row_count(self, block: Block) -> int | None:
        """Rows that tiles can be cut from; None where that is symbolic."""
        if self.row is None:
            return 1
        rows = static_extent(block, self.row)
        return None if rows is None else rows * self.inner_count(block)


def roles_of(block: Block, matmul: Matmul) -> Roles:
    """The last row axis is cut into tiles, or one before it where the last are so short that
    several together make a tile."""
    front = sorted([*matmul.batch, *matmul.columns[:-1]])
    rows = list(matmul.rows)
    if not rows:
        return Roles(tuple(front), None, ())
    inner: list[int] = []
    count = 1
    while len(rows) > 1:
        extent = static_extent(block, rows[-1])
        if extent is None or count * extent > FEW_ROWS:
            break
        count *= extent
        inner.insert(0, rows.pop())
    return Roles((*front, *rows[:-1]), rows[-1], tuple(inner))


@dataclass(frozen=True)
class _Tiling:
    """What all parts of a product have in common; ``outer`` loops stand around the rows."""

    packed: bool
    columns: int | None
    vectors: int
    lanes: int
    unroll: int
    outer: int
    target: Target
    points: int
    ahead: int
    depth: int | None


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


def order_loops(sch: Schedule, matmul: Matmul, roles: Roles, stored: tuple[str, ...]) -> None:
    """Order the loops of product and outlets: front, row, inner rows, columns, and k."""
    column = matmul.columns[-1]
    rows = [] if roles.row is None else [roles.row, *roles.inner]
    for name in (matmul.block, *stored):
        last = [column, *matmul.reduce] if name == matmul.block else [column]
        loops = sch.get_loops(name)
        order = [*roles.front, *rows, *last]
        if order != sorted(order):
            sch.reorder(*[loops[i] for i in order])
        if not rows:
            sch.add_unit_loop(loops[column])


def _tile_part(
    sch: Schedule, blocks: tuple[str, ...], steps: int, rows: int, tiling: _Tiling
) -> None:
    """Tile one part of the rows: packed columns reach as far as whole panels, others have a part of
    their own for what does not fill a tile."""
    lanes, columns = tiling.lanes, tiling.columns
    vectors = tiling.vectors
    panels = columns // (vectors * lanes) if columns is not None else 1
    if tiling.packed and columns is not None:
        panels = math.ceil(columns / (vectors * lanes))
    together = _together(panels, vectors, rows, tiling.target.vector_registers)
    shape = TileShape(steps, vectors, together)
    width = together * vectors * lanes
    outer = tiling.outer
    row, *inner, j, _ = sch.get_loops(blocks[0])[outer:]
    i0, i1 = sch.split(row, [None, steps])
    sch.reorder(i0, j, i1, *inner)
    if tiling.packed or (columns is not None and columns % width == 0):
        tiles = [(blocks, shape, lanes)]
    elif columns is not None and columns < width:
        tiles = [(blocks, *_rest_tile(steps, columns, lanes))]
    else:
        extent = sch.get(j).extent
        cuts = [extent // width * width, extent % width]
        places = (outer + 1, *[-1 for _ in blocks[1:]])
        full, rest = partition_together(sch, blocks, places, cuts)
        few = (TileShape(steps, 1), lanes)
        if columns is not None:
            few = _rest_tile(steps, columns % width, lanes)
        tiles = [(full, shape, lanes), (rest, *few)]
    for names, tile, own_lanes in tiles:
        _tile(sch, names, tile, own_lanes, tiling)
    # One loop of a part is shared; where columns are cut, that around both cuts is the rows'.
    for names, _, _ in tiles:
        share_tiles(sch, tiling.target, sch.get_loops(names[1])[: outer + 2], tiling.points)


def _rest_tile(steps: int, columns: int, lanes: int) -> tuple[TileShape, int]:
    """One tile for a few columns, and its lanes: fewer than a register has where that is enough."""
    if columns < lanes:
        return TileShape(steps, 1), up_to_power(columns)
    return TileShape(steps, math.ceil(columns / lanes)), lanes


def _tile(
    sch: Schedule, blocks: tuple[str, ...], shape: TileShape, lanes: int, tiling: _Tiling
) -> None:
    """Tile the columns of one part: the loops in the drawing above."""
    product, *stored = blocks
    outer = tiling.outer + 1
    loops = sch.get_loops(product)
    j, *rows, k = loops[outer:]
    j0, jp, jv, jl = sch.split(j, [None, shape.panels, shape.vectors, lanes])
    k0, k1 = sch.split(k, [None, tiling.unroll])
    sch.reorder(j0, k0, k1, *rows, jp, jv, jl)
    store_tile(sch, stored, j0, lanes)
    for loop in (k1, *rows, jp, jv):
        sch.unroll(loop)
    fetch_ahead(sch, k0, tiling.ahead)
    annotate_sum_blocks(sch, product, k0, tiling.depth)
    if not tiling.packed and (tiling.columns is None or tiling.columns % lanes):
        _keep_rows_apart(sch, product, lanes)
    if lanes > 1:
        sch.vectorize(jl)
    sch.decompose_reduction(product, k0)


def _keep_rows_apart(sch: Schedule, product: str, lanes: int) -> None:
    """Begin each row of sums with a register of its own: the last vector of a row that does not
    fill it shares none with the next row."""
    if len(block_named(sch.func, product).writes[0].region) > 1:
        sch.storage_align(product, 0, -2, lanes, 0)

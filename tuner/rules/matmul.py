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
from dataclasses import dataclass, replace
from typing import Any

from ...support.instructions import Instructions
from ...support.target import Target
from ...tensorir.expr import IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block
from ..tiling.blocking import (
    AHEAD,
    SLIVER,
    best_distance,
    best_group,
    best_way,
    copy_rows,
    group_sizes,
    iterations_ahead,
    reads_across,
    ways_of_rows,
)
from ..tiling.inline import inline_elementwise
from ..tiling.lanes import up_to_power
from ..tiling.panels import (
    MANY_TILES,
    compute_panels,
    is_layout_free,
    may_pack,
    pack_columns,
    packing_of,
    place_copy,
    producer_of,
    schedule_copy,
    wants_packing,
)
from ..tiling.register_tile import ProductLoops, RegisterTile, parts_of_rows, tile_product
from ..tiling.sharing import points_of, share_parts
from ..tiling.tile_model import (
    STEPS,
    TALLEST_TILE,
    VECTORS,
    TileShape,
    best_tile,
    rows_of_tile,
    useful_part,
)
from ..tiling.tiles import (
    CACHE_SHARE,
    NEXT,
    bytes_of,
    divisor,
    outlets,
    pad_columns,
    partition_together,
    steps_unrolled,
)
from ..workload import (
    Matmul,
    block_named,
    blocks_in_order,
    last_axis,
    match_matmul,
    static_extent,
)
from .reduction import schedule_rest
from .rule import Decide, Decisions, Rule, choice

ONLY_TILE = 8
"""Rows up to which one tile takes all of them, where two would read the weight twice."""
FEW_ROWS = TALLEST_TILE // 2
"""Rows of a short axis that are put into a tile together with several steps of the axis before."""


def match(func: PrimFunc, *, turned: bool = False) -> Matmul | None:
    """The one matrix product of a function, or None. It has one reduce axis, and its last spatial
    axis is a column; rows of a single column are columns where they are to be ``turned``."""
    found = [(b, m) for b in blocks_in_order(func) if (m := _product(b, turned)) is not None]
    if len(found) != 1 or len(found[0][1].reduce) != 1:
        return None
    block, matmul = found[0]
    spatial = [i for i, v in enumerate(block.iter_vars) if v.kind == "spatial"]
    return matmul if matmul.columns[-1] in (spatial[-1], last_axis(block)) else None


def _product(block: Block, always: bool) -> Matmul | None:
    """The block as a product. Rows of a single column are columns ``always``, or where memory runs
    along them: a matrix that is stored by columns is then read in vectors, and none is turned for
    it."""
    last = last_axis(block)
    turned = match_matmul(block, last)
    if turned is None or always or turned.w.indices[-1] is block.iter_vars[last].var:
        return turned
    return match_matmul(block)


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
        return target.vector_lanes(self.block.writes[0].buffer.dtype)

    @property
    def steps(self) -> int | None:
        """Steps of k; None of a named size."""
        return static_extent(self.block, self.matmul.reduce[0])

    def row_count(self) -> int | None:
        """See Roles."""
        return self.roles.row_count(self.block)

    def tiles(self, tile_rows: int) -> int:
        """Tiles of rows; many where the number of rows is symbolic."""
        if self.roles.row is None:
            return 1
        rows = self.row_count()
        return MANY_TILES if rows is None else math.ceil(rows / tile_rows)

    def best_tile(self, target: Target, vectors: int | None = None) -> TileShape:
        """The tile that the model suggests, of those with so many ``vectors`` (None: any)."""
        columns = static_extent(self.block, self.matmul.columns[-1])
        across = reads_across(self.block, self.matmul, target)
        rows = self.row_count()
        widened = self.matmul.w.dtype.bits < self.block.writes[0].buffer.dtype.bits
        best = best_tile(
            *(columns, SLIVER if across else rows, self.lanes(target), target.instructions),
            widened=widened,
            vectors=vectors,
        )
        is_cut = rows is not None and best.rows < rows <= ONLY_TILE
        if rows is None or not is_cut or vectors is not None or not self._is_far(target):
            return best
        fitting = [v for v in VECTORS if rows in rows_of_tile(rows, v, target)]
        lanes = self.lanes(target)
        return TileShape(rows, max(fitting, key=lambda v: (useful_part(columns, v * lanes), v)))

    def heights(self, vectors: int, target: Target) -> tuple[int, ...]:
        """The rows that a tile of so many vectors may have."""
        return rows_of_tile(self.row_count(), vectors, target)

    def best_height(self, vectors: int, target: Target) -> int:
        """The rows that the model suggests for a tile of so many vectors."""
        best = self.best_tile(target)
        if vectors != best.vectors:
            best = self.best_tile(target, vectors)
        return max([r for r in self.heights(vectors, target) if r <= best.rows])

    def _is_far(self, target: Target) -> bool:
        """Whether a packed weight comes from far away: its bytes are what a product of few rows
        waits for."""
        weights = bytes_of(self.matmul.w)
        if weights is None or not is_layout_free(self.func, self.matmul.w.buffer):
            return False
        return weights > CACHE_SHARE * target.l2_bytes

    @property
    def packs_by_groups(self) -> bool:
        """Whether a weight in panels is a copy, of which each group is packed once: no loop over
        rows stands around the columns."""
        fronts = len(self.matmul.batch) + len(self.matmul.columns) - 1
        free = is_layout_free(self.func, self.matmul.w.buffer)
        return not free and len(self.roles.front) == fronts

    def best_group(
        self, panel: int, tile_rows: int, target: Target, *, copied: bool = False
    ) -> int:
        """The panels of a group that the model suggests; see ``blocking``."""
        tiles = self.tiles(tile_rows)
        return best_group(self.func, self.matmul, panel, tile_rows, tiles, target, copied=copied)

    def panel(self, target: Target, before: Any) -> int:
        """Columns of a panel; 0 where W is read as it is."""
        return int(before.vectors * self.lanes(target)) if before.packed else 0


def _ways(product: Product) -> tuple[int, ...]:
    return ways_of_rows(product.block, product.matmul, inner=bool(product.roles.inner))


def _group_sizes(product: Product, target: Target, before: Any) -> tuple[int, ...]:
    panel, tiles = product.panel(target, before), product.tiles(before.rows)
    copied = product.packs_by_groups
    return group_sizes(product.block, product.matmul, panel, tiles, copied=copied)


def _best_group(product: Product, target: Target, before: Any) -> int:
    panel, copied = product.panel(target, before), product.packs_by_groups
    return product.best_group(panel, before.rows, target, copied=copied)


def _best_distance(product: Product, target: Target, before: Any) -> int:
    panel = product.panel(target, before)
    tiles = product.tiles(before.rows)
    return best_distance(product.func, product.matmul, panel, before.rows, tiles, target)


@dataclass(frozen=True)
class ProductDecisions(Decisions):
    """How one product is tiled and blocked: a tile of ``rows`` x ``vectors``, steps of k that are
    written out, whether W is ``packed``, the copy of X's rows, the panels of a ``group`` that is
    the outer loop (0: none), and how far ``ahead`` is read (see ``best_distance``)."""

    vectors: int = choice(lambda p, t, d: VECTORS, lambda p, t, d: p.best_tile(t).vectors)
    rows: int = choice(
        lambda p, t, d: p.heights(d.vectors, t), lambda p, t, d: p.best_height(d.vectors, t)
    )
    unroll: int = choice(
        lambda p, t, d: STEPS, lambda p, t, d: steps_unrolled(t, d.rows * d.vectors, p.steps)
    )
    packed: int = choice(
        lambda p, t, d: may_pack(p.func, p.matmul),
        lambda p, t, d: wants_packing(
            p.func, p.matmul, TileShape(d.rows, d.vectors), p.row_count(), t
        ),
    )
    copy: int = choice(
        lambda p, t, d: _ways(p),
        lambda p, t, d: best_way(p.block, p.matmul, TileShape(d.rows, d.vectors), _ways(p), t),
    )
    group: int = choice(
        lambda p, t, d: _group_sizes(p, t, d),
        _best_group,
    )
    ahead: int = choice(lambda p, t, d: (0, AHEAD, 2 * AHEAD, NEXT), _best_distance)


class MatmulRule(Rule[Product, ProductDecisions]):
    name = "matmul"
    kind = "one matrix product"
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
    reduce = product.steps
    unroll = divisor(reduce, decisions.unroll)
    packed = bool(decisions.packed)
    panel, points = vectors * lanes, points_of(block)
    grouped = decisions.group > 0 and product.packs_by_groups
    width = panel * decisions.group if grouped else panel
    copy = pack_columns(sch, matmul, panel, grouped=grouped, width=width) if packed else None
    copy_rows(sch, matmul, decisions.copy, tile_rows, target)
    stored = outlets(sch, matmul.block)
    if packed:
        pad_columns(sch, matmul.block, width)
    order_loops(sch, matmul, roles, stored)
    outer = len(roles.front)
    if decisions.group:
        columns = panel * decisions.group
        columns_outside(sch, (matmul.block, *stored), roles, columns)
        outer += 1
    packing = None
    if copy is not None:
        packing = packing_of(sch, copy, matmul, panel, grouped=grouped)
        place_copy(sch, copy, matmul, panel, grouped=grouped)
        producer = producer_of(product.func, matmul.w.buffer)
        if producer is not None and reduce is not None:
            packing = compute_panels(sch, packing, producer, reduce)
    inner = roles.inner_count(block)
    tiling = _Tiling(packed, columns, inner, outer, target)
    ahead = iterations_ahead(decisions.ahead, unroll, reduce)
    tile = RegisterTile(max(1, tile_rows // inner), (vectors, lanes), unroll, ahead, reduce)
    shared: list[str] = []
    for blocks, own in parts_of_rows(sch, (matmul.block, *stored), outer, tile):
        shared += _tile_part(sch, blocks, own, tiling)
    share_parts(sch, target, shared, outer + 2, points)
    if packing is not None:
        schedule_copy(sch, packing, target)


def columns_outside(sch: Schedule, blocks: tuple[str, ...], roles: Roles, width: int) -> None:
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
    """What all parts of a product have in common; ``outer`` loops stand around the rows, of which
    one value of the row axis has ``inner``."""

    packed: bool
    columns: int | None
    inner: int
    outer: int
    target: Target


def _together(panels: int, vectors: int, rows: int, known: Instructions) -> int:
    """How many panels a tile of few rows works on at once, to have sums enough in flight.
    Beside the sums stand one element of X and a row of W, but where a multiply-add uses its vectors
    once, straight from memory."""
    together = 1
    while panels % (together * 2) == 0 and rows * vectors * together < known.ports.sums:
        wide = vectors * together * 2
        held = 0 if rows == 1 and known.fma and known.reads_memory else wide
        if rows * wide + held + 1 > known.registers:
            break
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
    sch: Schedule, blocks: tuple[str, ...], tile: RegisterTile, tiling: _Tiling
) -> list[str]:
    """Tile one part of the rows: packed columns reach as far as whole panels, others have a part of
    their own for what does not fill a tile. The first outlet of each, whose loops threads share."""
    columns, outer = tiling.columns, tiling.outer
    vectors, lanes = tile.columns
    panels = columns // tile.width if columns is not None else 1
    if tiling.packed and columns is not None:
        panels = math.ceil(columns / tile.width)
    rows = tile.rows * tiling.inner
    together = _together(panels, vectors, rows, tiling.target.instructions)
    whole = replace(tile, columns=(together, vectors, lanes))
    row, *inner, j, _ = sch.get_loops(blocks[0])[outer:]
    i0, i1 = sch.split(row, [None, tile.rows])
    sch.reorder(i0, j, i1, *inner)
    if tiling.packed or (columns is not None and columns % whole.width == 0):
        tiles = [(blocks, whole)]
    elif columns is not None and columns < whole.width:
        tiles = [(blocks, _rest_tile(tile, columns))]
    else:
        extent = sch.get(j).extent
        cuts = [extent // whole.width * whole.width, extent % whole.width]
        places = (outer + 1, *[-1 for _ in blocks[1:]])
        full, rest = partition_together(sch, blocks, places, cuts)
        few = replace(tile, columns=(1, 1, lanes))
        if columns is not None:
            few = _rest_tile(tile, columns % whole.width)
        tiles = [(full, whole), (rest, few)]
    for names, own in tiles:
        j, *inner, k = sch.get_loops(names[0])[outer + 1 :]
        if not tiling.packed and (columns is None or columns % own.lanes):
            _keep_rows_apart(sch, names[0], own.lanes)
        tile_product(sch, names, ProductLoops(None, tuple(inner), j, (k,)), own)
    return [names[1] for names, _ in tiles]


def _rest_tile(tile: RegisterTile, columns: int) -> RegisterTile:
    """One tile for a few columns; it has fewer lanes than a register where that is enough."""
    if columns < tile.lanes:
        return replace(tile, columns=(1, 1, up_to_power(columns)))
    return replace(tile, columns=(1, math.ceil(columns / tile.lanes), tile.lanes))


def _keep_rows_apart(sch: Schedule, product: str, lanes: int) -> None:
    """Begin each row of sums with a register of its own: the last vector of a row that does not
    fill it shares none with the next row."""
    shape = block_named(sch.func, product).writes[0].buffer.shape
    many = [d for d, n in enumerate(shape) if not (isinstance(n, IntImm) and n.value == 1)]
    columns = max(many, default=0)
    if columns:
        sch.storage_align(product, 0, columns - 1, lanes, 0)

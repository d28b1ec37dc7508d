"""Matrix products of bfloat16, float16 and bytes in registers that are tiles (AMX).

    for rows, columns, k:
      Y[i, j] += wide(X[i, k]) * wide(W[k, j])               epilogue E(Y[i, j])

becomes, for each part of the rows (tiles of 32, one of 16, the rest)

    for i0, j0
      Y_tile = 0                             2 x 2 blocks of 16 x 16
      for k0
        for i1, jv                           unrolled: the blocks
          Y_tile += X[16 rows, 64 bytes of k] * Wp[64 bytes of k, 16 columns]
      E(Y_tile)                              from the first cache

The weight's layout is that of ``int8``, [columns / panel][k / group][panel][group], whose rows of
16 columns are those of a tile. X is read where it is, 16 rows at their distance. Sums are float32
and int32; each is added up over all of k, by nobody else: the bits do not depend on threads.
Products of few rows wait for the bytes of weights, and are for the rules behind this one.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...support.target import Target
from ...tensorir.expr import IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.lowering.tile_nests import MOST
from ...tensorir.schedule import Schedule
from ..tiling.blocking import group_sizes
from ..tiling.inline import inline_elementwise
from ..tiling.panels import lay_out
from ..tiling.register_tile import RegisterTile, tile_parts
from ..tiling.sharing import points_of, share_parts
from ..tiling.tile_registers import (
    FEWEST_ROWS,
    TILE_VECTORS,
    TileProduct,
    best_shape,
    multiplies,
    shapes,
    tile_product_of,
)
from ..tiling.tiles import consumer_or_copy, pad_columns
from ..workload import Matmul, block_named, static_extent
from .int8 import fits, grouped_map, lay_out_rows
from .matmul import Product, columns_outside, match, order_loops
from .reduction import schedule_rest
from .rule import Decide, Decisions, Rule, choice

_NARROW = ("bfloat16", "float16", "int8", "uint8")


def _columns(product: Product) -> int | None:
    return static_extent(product.block, product.matmul.columns[-1])


def _rows_at_hand(func: PrimFunc, matmul: Matmul) -> bool:
    """Whether rows of X lie at a constant distance."""
    block = block_named(func, matmul.block)
    axes = {id(block.iter_vars[i].var) for i in matmul.rows}
    places = [d for d, i in enumerate(matmul.x.indices) if id(i) in axes]
    behind = matmul.x.buffer.shape[places[-1] + 1 :] if places else ()
    return not matmul.x.buffer.strides and all(isinstance(n, IntImm) for n in behind)


def _step(func: PrimFunc, matmul: Matmul) -> TileProduct | None:
    k = static_extent(block_named(func, matmul.block), matmul.reduce[0])
    return None if k is None else tile_product_of(k, matmul.x.dtype.bits, whole=False)


@dataclass(frozen=True)
class TilesDecisions(Decisions):
    """A tile of ``rows`` x ``vectors`` of 16 columns, and the panels of a ``group`` that is the
    outer loop (0: none), which stays in a cache while all rows are read."""

    vectors: int = choice(
        lambda p, t, d: TILE_VECTORS, lambda p, t, d: best_shape(p.row_count(), _columns(p))[1]
    )
    rows: int = choice(
        lambda p, t, d: shapes(d.vectors),
        lambda p, t, d: min(best_shape(p.row_count(), _columns(p))[0], shapes(d.vectors)[-1]),
    )
    group: int = choice(
        lambda p, t, d: group_sizes(p.block, p.matmul, d.vectors * MOST, p.tiles(d.rows)),
        lambda p, t, d: p.best_group(d.vectors * MOST, d.rows, t),
    )


class TilesRule(Rule[Product, TilesDecisions]):
    name = "tiles"
    kind = "a product in tile registers, on a CPU that has some"
    decisions = TilesDecisions

    def match(self, func: PrimFunc, target: Target) -> Product | None:
        if target.instructions.tiles is None:
            return None
        matmul = match(func)
        if matmul is None:
            return None
        product = Product(func, matmul)
        total = str(product.block.writes[0].buffer.dtype)
        rows = product.row_count()
        if (
            not multiplies(target, str(matmul.x.dtype), str(matmul.w.dtype), total)
            or not fits(func, matmul, _NARROW, total)
            or product.roles.row is None
            or product.roles.inner
            or (rows is not None and rows < FEWEST_ROWS)
            or _step(func, matmul) is None
            or not _rows_at_hand(func, matmul)
        ):
            return None
        return product

    def prepare(self, sch: Schedule, roles: Product) -> None:
        inline_elementwise(sch, keep=(roles.matmul.x.buffer, roles.matmul.w.buffer))

    def apply(
        self, sch: Schedule, roles: Product, decisions: TilesDecisions, decide: Decide
    ) -> None:
        _schedule(sch, roles, decisions, decide.target)
        schedule_rest(sch, decide.target, decide)


def _schedule(sch: Schedule, product: Product, decisions: TilesDecisions, target: Target) -> None:
    """Tile a product of narrow elements, and the epilogue that stands behind it."""
    matmul, roles, block = product.matmul, product.roles, product.block
    panel = decisions.vectors * MOST
    step = _step(product.func, matmul)
    assert step is not None
    lay_out_rows(sch, matmul, block)
    lay_out(sch, matmul.block, matmul.w_read, grouped_map(block, matmul, panel), load=matmul.w)
    stored = (consumer_or_copy(sch, matmul.block, "global"),)
    pad_columns(sch, matmul.block, panel)
    order_loops(sch, matmul, roles, stored)
    outer = len(roles.front)
    if decisions.group:
        columns_outside(sch, (matmul.block, *stored), roles, panel * decisions.group)
        outer += 1
    tile = RegisterTile(decisions.rows, (decisions.vectors, MOST), instruction=step)
    parts = tile_parts(sch, (matmul.block, *stored), outer, tile)
    share_parts(sch, target, [names[1] for names, _ in parts], outer + 2, points_of(block))

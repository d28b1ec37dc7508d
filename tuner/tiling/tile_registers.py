"""Tiles of sums in registers that are tiles themselves (AMX), as nests that code generation takes.

What ``register_tile`` does with vectors is done here with whole tiles: the sums of a tile of rows x
columns are 16 x 16 blocks, each a nest of loops with the annotation ``tile_registers`` (see
``tensorir.lowering.tile_nests``),

    for ..., k0
      for i0, jv                             unrolled: the blocks of the tile
        for jl, i, k2, k1                    a product of tiles: 16 columns, 16 rows, 64 bytes of k
          Y_tile += X * W

and stand in memory between nests, a few KiB in the first cache, from where the outlets take them.
That they are in registers from the first k0 to the last is code generation's affair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...support.target import Target
from ...tensorir.expr import Expr, IntImm
from ...tensorir.lowering.tile_nests import MOST, ROW_BYTES, TILE_REGISTERS
from ...tensorir.schedule import BlockRV, LoopRV, Schedule
from .tiles import depth_below, partition_together

FEWEST_ROWS = 5
"""Rows from which on a product in tiles pays: below, it waits for weights."""
FEWEST_BYTES = 16
"""Bytes of terms in a tile's row below which tiles are mostly empty."""


TILE_VECTORS = (1, 2, 3, 4)
"""Blocks of 16 columns that a tile may have."""


@dataclass(frozen=True)
class TileProduct:
    """What one product of tiles adds: ``terms`` of each sum, which stand in groups of ``group``."""

    terms: int
    group: int


def multiplies(target: Target, first: str, second: str, total: str) -> bool:
    """Whether the target has products in tiles of operands and sums of these types."""
    tiles = target.instructions.tiles
    return tiles is not None and tiles.multiplies(first, second, total)


def tile_product_of(k: int, bits: int, *, whole: bool) -> TileProduct | None:
    """The product of tiles for sums of ``k`` terms, elements of so many ``bits``: of as many terms
    as a row holds. With ``whole`` none may be left over. None where k does not stand in groups, or
    tiles were mostly empty."""
    group = 32 // bits
    most = ROW_BYTES * 8 // bits
    if k % group:
        return None
    divisors = [n for n in range(group, min(k, most) + 1, group) if k % n == 0]
    best = divisors[-1]
    terms = best if whole or 4 * best >= 3 * most else min(k, most)
    return TileProduct(terms, group) if terms * bits >= 8 * FEWEST_BYTES else None


def best_shape(rows: int | None, columns: int | None) -> tuple[int, int]:
    """Rows and vectors of columns of a tile: 2 x 2 blocks of sums, two of each operand; of few rows
    1 x 4, of which four are added to in turn."""
    if rows is not None and rows <= MOST:
        wide = 4 if columns is None else min(4, -(-columns // MOST))
        return MOST, max(1, wide)
    return 2 * MOST, 1 if columns is not None and columns <= MOST else 2


def shapes(vectors: int) -> tuple[int, ...]:
    """The rows that a tile of so many vectors of columns may have: sums and two operands are eight
    registers."""
    return (MOST, 2 * MOST) if vectors <= 3 else (MOST,)


def row_parts(rows: Expr, tile_rows: int) -> list[tuple[Expr, int]]:
    """Consecutive ranges of rows as (extent, rows of a tile): full tiles, blocks of 16, and the
    rest; of a symbolic number 16, 8, 4, 2, 1, each there or not."""
    if isinstance(rows, IntImm):
        parts: list[tuple[Expr, int]] = []
        left = rows.value
        for size in (tile_rows, MOST):
            full = left // size * size
            if full:
                parts.append((IntImm(full), size))
            left -= full
        if left:
            parts.append((IntImm(left), left))
        return parts or [(rows, 1)]
    parts = [(rows // tile_rows * tile_rows, tile_rows)]
    size = tile_rows
    while size > 1:
        below = size // 2
        parts.append(((rows % size) // below * below, below))
        size = below
    return parts


def cut_rows(
    sch: Schedule, blocks: tuple[str, ...], place: int, tile_rows: int
) -> list[tuple[tuple[str, ...], int]]:
    """Cut the loop over rows of each block into ``row_parts``; the blocks and the tile's rows of
    each part."""
    parts = row_parts(sch.get(sch.get_loops(blocks[0])[place]).extent, tile_rows)
    names = partition_together(sch, blocks, place, [extent for extent, _ in parts])
    return list(zip(names, [rows for _, rows in parts], strict=True))


def fill_with_tiles(
    sch: Schedule, product: str, place: LoopRV, step: TileProduct, sums: int
) -> None:
    """Make nests of a tile's sums. Below ``place`` stand so many loops of ``sums``, the last those
    terms that are grouped, then rows, vectors of columns, and a vector's lanes. Of several sums
    none leaves terms over."""
    first = depth_below(sch, place, product)
    outer = first + sums - 1
    terms = sch.get_loops(product)[outer]
    extent = sch.get(terms).extent
    assert isinstance(extent, IntImm)
    full = extent.value // step.terms * step.terms
    left = extent.value - full
    parts = sch.loop_partition(terms, [full, None]) if left else [terms]
    blocks = [sch.get_child_blocks(part)[0] for part in parts]
    steps = [step, replace(step, terms=left)]
    opened = [_nest(sch, block, outer, own) for block, own in zip(blocks, steps, strict=False)]
    update = blocks[0]
    sch.decompose_reduction(update, opened[0] if sums == 1 else sch.get_loops(update)[first])
    zeros = sch.get_child_blocks(sch.get_loops(update)[first - 1])[0]
    *_, lane, _ = sch.get_loops(zeros)
    sch.annotate(lane, TILE_REGISTERS, 1)


def _nest(sch: Schedule, product: BlockRV, outer: int, step: TileProduct) -> LoopRV:
    """Make a nest of one block's loops, those from the sums' last inwards; its loop over steps."""
    k, rows, *columns, lane = sch.get_loops(product)[outer:]
    extent = sch.get(rows).extent
    assert isinstance(extent, IntImm)
    k0, grouped, inner = sch.split(k, [None, step.terms // step.group, step.group])
    block, row = sch.split(rows, [None, min(extent.value, MOST)])
    sch.reorder(k0, block, *columns, lane, row, grouped, inner)
    for loop in (block, *columns):
        sch.unroll(loop)
    sch.annotate(lane, TILE_REGISTERS, 1)
    return k0

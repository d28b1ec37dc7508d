"""A design space for products of any number: each in tiles of four levels, one after the other.

    for i, j, k:   Y[i, j] += X[i, k] * W[k, j]            epilogue E(Y[i, j])

becomes, with rows outside (or the two outermost loops the other way round)

    for i0, j0, i1, j1                 blocks of tiles, in two levels
      Y_tile = 0                       registers
      for k0, k1                       k1 unrolled
        for i2, j2, jl                 unrolled, unrolled, vectorized
          Y_tile += X[i, k] * W[k, j]
      E(Y_tile)

where W may be read from a copy in panels as wide as a vector, and X from one whose rows lie an odd
number of cache lines apart. Which copies there are and which loop is outside are decisions that
choose among loop nests; all products of a function take the same. The tiles are free: they change
the numbers in a nest, and nothing else, so that thousands of candidates are ranked by formula
(``sketch``). The rules of ``tuner.rules`` know more about one product; this space has the many
tilings of it that they leave out, and functions of several products, which no rule knows.
"""

from __future__ import annotations

import math

from ..support.errors import ScheduleValueError
from ..support.target import Target
from ..tensorir.expr import Var
from ..tensorir.function import PrimFunc
from ..tensorir.printer import print_func
from ..tensorir.schedule import LoopRV, Schedule
from ..tensorir.stmt import Block
from .chooser import Chooser
from .rules.inline import inline_elementwise
from .rules.panels import copy_read
from .rules.reduction import schedule_rest
from .rules.tiles import MANY_REGISTERS, outlets, store_tile, sum_in_blocks
from .workload import Matmul, block_named, blocks_in_order, match_matmul, static_extent

MOST_UNROLLED = 8
"""Steps of k that are written out."""
BLOCK_ROWS = 64
"""Rows of a block of tiles, where nobody measures."""
BLOCK_COLUMNS = 2
"""Tiles of columns of a block, where nobody measures."""
MANY_TIMES = 8
"""Tiles of rows (or of columns) from which on a copy of the other operand pays."""


def products_of(func: PrimFunc) -> list[Matmul]:
    """The products that this space can tile, in program order: static, with one axis of rows, one
    of columns and one that is summed over, in this order, and none of a batch."""
    return [m for b in blocks_in_order(func) if (m := _plain_product(b)) is not None]


def _plain_product(block: Block) -> Matmul | None:
    matmul = match_matmul(block)
    if matmul is None or any(static_extent(block, i) is None for i in range(len(block.iter_vars))):
        return None
    axes = (matmul.rows, matmul.columns, matmul.reduce)
    return matmul if matmul.batch == () and axes == ((0,), (1,), (2,)) else None


def has_tiles(func: PrimFunc, target: Target) -> bool:
    """Whether the space has anything for a function: products, with columns for two lanes."""
    return any(_lanes(block_named(func, m.block), target) > 1 for m in products_of(func))


def schedule_products(sch: Schedule, target: Target, chooser: Chooser) -> None:
    """Tile every product of the schedule's function, then what is left. Raises ScheduleError where
    there is none, or where a primitive refuses."""
    found = products_of(sch.func)
    if not found:
        raise ScheduleValueError(
            "products", "The function has no product to tile.", print_func(sch.func)
        )
    inline_elementwise(sch, keep=[load.buffer for m in found for load in (m.x, m.w)])
    first = block_named(sch.func, found[0].block)
    rows, columns = static_extent(first, 0) or 1, static_extent(first, 1) or 1
    many = int(rows >= MANY_TIMES * _most_rows(target))
    copies = _Copies(
        weights=bool(chooser.value(sch, [0, 1], many)),
        rows=bool(chooser.value(sch, [0, 1], many)) and rows > 1,
        columns_outside=bool(chooser.value(sch, [0, 1], int(columns >= MANY_TIMES))),
    )
    for product in found:
        _tile(sch, product.block, copies, target, chooser)
    schedule_rest(sch, target, chooser)


class _Copies:
    """What chooses the loop nest."""

    def __init__(self, *, weights: bool, rows: bool, columns_outside: bool) -> None:
        self.weights, self.rows, self.columns_outside = weights, rows, columns_outside


def _tile(sch: Schedule, product: str, nest: _Copies, target: Target, chooser: Chooser) -> None:
    block = block_named(sch.func, product)
    matmul = _plain_product(block)
    assert matmul is not None
    lanes = _lanes(block, target)
    if nest.rows:
        copy = copy_read(sch, product, matmul.x_read, matmul.x)
        line = 64 * 8 // matmul.x.buffer.dtype.bits
        sch.storage_align(copy, 0, -2, 2 * line, line)
    if nest.weights:
        _pack(sch, product, lanes)
    stored = outlets(sch, product)
    i, j, k = sch.get_loops(product)
    rows, columns, depth = (static_extent(block, axis) or 1 for axis in range(3))
    tall = min(_most_rows(target), rows)
    wide = _widest(rows, target)
    j, jl = sch.split(j, [None, lanes])
    i0, i1, i2 = sch.split(i, _cut(sch, i, rows, tall, BLOCK_ROWS, chooser))
    j0, j1, j2 = sch.split(j, _cut(sch, j, columns // lanes, wide, BLOCK_COLUMNS * wide, chooser))
    inner = _divisor(depth, MOST_UNROLLED // 2)
    taken = [depth // inner, inner] if chooser.analytic else None
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, 2, MOST_UNROLLED, taken))
    outer = (j0, i0) if nest.columns_outside else (i0, j0)
    sch.reorder(*outer, i1, j1, k0, k1, i2, j2, jl)
    store_tile(sch, stored, j1, lanes)
    for loop in (k1, i2, j2):
        sch.unroll(loop)
    if lanes > 1:
        sch.vectorize(jl)
    sum_in_blocks(sch, product, k0, depth)
    sch.decompose_reduction(product, k0)


def _pack(sch: Schedule, product: str, lanes: int) -> None:
    """Read W from a copy: for each vector of columns, all k one after another."""
    matmul = _plain_product(block_named(sch.func, product))
    assert matmul is not None
    block = block_named(sch.func, product)
    column_first = matmul.w.indices[0] is block.iter_vars[1].var

    def panels(*indices: Var) -> tuple[object, ...]:
        n, k = indices if column_first else reversed(indices)
        return (n // lanes, k, n % lanes)

    copy = copy_read(sch, product, matmul.w_read, matmul.w)
    sch.transform_layout(copy, ("write", 0), panels)
    first, second = sch.get_loops(copy)
    n, k = (first, second) if column_first else (second, first)
    panel, lane = sch.split(n, [None, lanes])
    if column_first:
        sch.reorder(panel, k, lane)
    else:
        sch.reorder(k, panel, lane)
    if lanes > 1:
        sch.vectorize(lane)


def _cut(
    sch: Schedule, loop: LoopRV, extent: int, most: int, block: int, chooser: Chooser
) -> list[Var]:
    """Three factors of a loop, the last at most ``most``; the analytic choice is as large a last
    one as there is, with some ``block`` iterations in the last two."""
    taken = None
    if chooser.analytic:
        last = _divisor(extent, most)
        middle = _divisor(extent // last, max(1, block // last))
        taken = [extent // last // middle, middle, last]
    return sch.sample_perfect_tile(loop, 3, most, taken)


def _lanes(block: Block, target: Target) -> int:
    """Columns in a vector: as many as a register holds, or the largest power of two that divides
    them."""
    columns = static_extent(block, 1) or 1
    most = max(1, target.vector_bits // block.writes[0].buffer.dtype.bits)
    return math.gcd(columns, most)


def _most_rows(target: Target) -> int:
    return 8 if target.vector_registers >= MANY_REGISTERS else 4


def _widest(rows: int, target: Target) -> int:
    """Vectors of a tile: with that many rows (see ``_most_rows``) they fit the registers."""
    wide = 3 if target.vector_registers >= MANY_REGISTERS else 2
    return wide if rows > 1 else 4 * wide


def _divisor(extent: int, most: int) -> int:
    """The largest divisor up to ``most``."""
    return max(d for d in range(1, max(1, most) + 1) if extent % d == 0)

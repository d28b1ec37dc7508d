"""A rule and a design space for products of any number: each in tiles of four levels.

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
(``sketch``). The rules before this one know more about one product, and a ``chain`` takes each of
several as if it were alone; this space has the many tilings that they leave out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...support.abi import LINE_BYTES
from ...support.errors import ScheduleValueError
from ...support.target import Target
from ...tensorir.expr import IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block
from ...tensorir.text.printer import print_func
from ..candidate import SpaceFunction
from ..tiling.inline import inline_elementwise
from ..tiling.panels import copy_read
from ..tiling.register_tile import TileLoops, fill_tile
from ..tiling.tile_model import operand_registers
from ..tiling.tiles import outlets
from ..workload import Matmul, block_named, blocks_in_order, match_matmul, static_extent
from .reduction import schedule_rest
from .rule import Decide, Decisions, Rule, choice

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


@dataclass(frozen=True)
class ProductsRoles:
    """The products of a function."""

    func: PrimFunc
    products: tuple[Matmul, ...]

    @property
    def rows(self) -> int:
        """Those of the first product."""
        return static_extent(block_named(self.func, self.products[0].block), 0) or 1

    @property
    def columns(self) -> int:
        """Those of the first product."""
        return static_extent(block_named(self.func, self.products[0].block), 1) or 1

    def are_many(self, target: Target) -> bool:
        """Whether there are so many rows that a copy of the other operand pays."""
        return self.rows >= MANY_TIMES * _most_rows(target)


@dataclass(frozen=True)
class ProductsDecisions(Decisions):
    """What chooses the loop nest: copies of the ``weights`` and of the ``rows``, and which of the
    outermost loops is outside."""

    weights: int = choice(lambda p, t, d: (0, 1), lambda p, t, d: p.are_many(t))
    rows: int = choice(
        lambda p, t, d: (0, 1) if p.rows > 1 else (0,), lambda p, t, d: p.rows > 1 and p.are_many(t)
    )
    columns_outside: int = choice(lambda p, t, d: (0, 1), lambda p, t, d: p.columns >= MANY_TIMES)


Cutter = Callable[[Schedule, LoopRV, int, int, int], list[Any]]
"""Factors of a loop: their count, the largest last one, and how many iterations all but the first
have together where nobody searches."""


class ProductsRule(Rule[ProductsRoles, ProductsDecisions]):
    name = "products"
    kind = "static products of rows and columns, which tiles of registers fit"
    decisions = ProductsDecisions

    def match(self, func: PrimFunc, target: Target) -> ProductsRoles | None:
        return ProductsRoles(func, tuple(products_of(func))) if has_tiles(func, target) else None

    def prepare(self, sch: Schedule, roles: ProductsRoles) -> None:
        inline_elementwise(sch, keep=[x.buffer for m in roles.products for x in (m.x, m.w)])

    def apply(
        self,
        sch: Schedule,
        roles: ProductsRoles,
        decisions: ProductsDecisions,
        decide: Decide,
    ) -> None:
        schedule_products(sch, roles, decisions, decide, _largest_factors)

    def spaces(self, func: PrimFunc, target: Target) -> list[SpaceFunction]:
        """The tilings of the products, each factor drawn."""
        return [Tilings(target)] if self.match(func, target) is not None else []


@dataclass(frozen=True)
class Tilings:
    """The design space: which loop nest and which factors are drawn by primitives. What is left
    beside the products is scheduled as by the analytic rules."""

    target: Target

    def __call__(self, sch: Schedule) -> None:
        rule = ProductsRule()
        found = rule.match(sch.func, self.target)
        if found is None:
            raise ScheduleValueError(
                "products", "The function has no product to tile.", print_func(sch.func)
            )
        rule.prepare(sch, found)
        roles = ProductsRoles(sch.func, tuple(products_of(sch.func)))

        def draw(name: str, domain: Sequence[int], suggest: Callable[[], int], /) -> int:
            if len(domain) == 1:
                return domain[0]
            drawn = sch.sample_categorical(list(domain), [1.0 / len(domain)] * len(domain))
            return int(sch.get(drawn))

        decisions = rule.decide(roles, self.target, draw)
        schedule_products(sch, roles, decisions, Decide(self.target), _drawn_factors)


def _largest_factors(sch: Schedule, loop: LoopRV, count: int, most: int, block: int) -> list[Any]:
    """As large a last factor as there is, with some ``block`` iterations in all but the first."""
    extent = sch.get(loop).extent
    assert isinstance(extent, IntImm)
    if count == 2:
        last = _divisor(extent.value, block)
        return [extent.value // last, last]
    last = _divisor(extent.value, most)
    middle = _divisor(extent.value // last, max(1, block // last))
    return [extent.value // last // middle, middle, last]


def _drawn_factors(sch: Schedule, loop: LoopRV, count: int, most: int, block: int) -> list[Any]:
    return list(sch.sample_perfect_tile(loop, count, most))


def schedule_products(
    sch: Schedule,
    roles: ProductsRoles,
    nest: ProductsDecisions,
    decide: Decide,
    cut: Cutter,
) -> None:
    """Tile every product of the schedule's function, then what is left. Raises ScheduleError where
    a primitive refuses."""
    for product in roles.products:
        _tile(sch, product.block, nest, decide.target, cut)
    schedule_rest(sch, decide.target, decide)


def _tile(
    sch: Schedule, product: str, nest: ProductsDecisions, target: Target, cut: Cutter
) -> None:
    block = block_named(sch.func, product)
    matmul = _plain_product(block)
    assert matmul is not None
    lanes = _lanes(block, target)
    if nest.rows:
        copy = copy_read(sch, product, matmul.x_read, matmul.x)
        line = LINE_BYTES * 8 // matmul.x.buffer.dtype.bits
        sch.storage_align(copy, 0, -2, 2 * line, line)
    if nest.weights:
        _pack(sch, product, lanes)
    stored = outlets(sch, product)
    i, j, k = sch.get_loops(product)
    rows, depth = (static_extent(block, axis) or 1 for axis in (0, 2))
    wide = _widest(rows, target)
    j, jl = sch.split(j, [None, lanes])
    i0, i1, i2 = sch.split(i, cut(sch, i, 3, min(_most_rows(target), rows), BLOCK_ROWS))
    j0, j1, j2 = sch.split(j, cut(sch, j, 3, wide, BLOCK_COLUMNS * wide))
    k0, k1 = sch.split(k, cut(sch, k, 2, MOST_UNROLLED, MOST_UNROLLED // 2))
    outer = (j0, i0) if nest.columns_outside else (i0, j0)
    loops = TileLoops((*outer, i1, j1), (k0,), (k1,), (i2,), (j2,), jl)
    fill_tile(sch, (product, *stored), loops, lanes, length=depth)


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


def _lanes(block: Block, target: Target) -> int:
    """Columns in a vector: as many as a register holds, or the largest power of two that divides
    them."""
    columns = static_extent(block, 1) or 1
    most = target.vector_lanes(block.writes[0].buffer.dtype)
    return math.gcd(columns, most)


def _most_rows(target: Target) -> int:
    return target.instructions.registers // 4


def _widest(rows: int, target: Target) -> int:
    """Vectors of a tile: with that many rows (see ``_most_rows``) they fit the registers."""
    known = target.instructions
    wide = (known.registers - operand_registers(known)) // (_most_rows(target) + 1)
    return wide if rows > 1 else 4 * wide


def _divisor(extent: int, most: int) -> int:
    """The largest divisor up to ``most``."""
    return max(d for d in range(1, max(1, most) + 1) if extent % d == 0)

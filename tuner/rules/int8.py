"""Matrix products of bytes, summed in int32: a register tile over weights in groups of four.

    for rows, columns, k:        Y[i, j] += int32(X[i, k]) * int32(W[k, j])      epilogue E(Y[i, j])

becomes, for each part of the rows,

    for i0, j0
      Y_tile = 0                                registers
      for k0
        for i1, jv                              unrolled
          Y_tile += dot4(X[i, 4 k0 ...], Wp[j0, k0, jv ...])      four products a lane
      E(Y_tile)

The weight's layout, [columns / panel][k / 4][panel][4], has the four bytes of a sum side by side: a
constant weight is packed at compile time, another is copied. It does not depend on the target,
which does ``dot4`` with what it has (``tensorir.codegen.dot4``). Four bytes of a row of X are one
load; where k does not lie side by side in X, or not in whole groups, a copy has it so. Of integers
of 16 bits it is two that stand together, [columns / panel][k / 2][panel][2], and ``dot2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...support.target import Target
from ...tensorir.expr import Expr, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block
from ..tiling.blocking import group_sizes
from ..tiling.inline import inline_elementwise
from ..tiling.lanes import up_to_power
from ..tiling.panels import copy_read, is_layout_free, lay_out
from ..tiling.register_tile import Instruction, RegisterTile, tile_parts
from ..tiling.sharing import points_of, share_parts
from ..tiling.tile_model import SYMBOLIC_TILES, VECTORS, useful_part
from ..tiling.tiles import outlets
from ..workload import Matmul, block_named, load_is_contiguous, static_extent
from .matmul import Product, columns_outside, match, order_loops
from .reduction import schedule_rest
from .rule import Decide, Decisions, Rule, choice

WORD = 32
"""Bits of the elements of one sum that lie side by side."""
MOST_ROWS = 12
SPARE, SPARE_OF_PAIRS = 4, 2
"""Registers beside the sums and the weights: what a row's four bytes become, and a product; of
integers of 16 bits, which are taken as they are, a row's pair and a product."""
LOADED = 6
"""Registers more where every operand must be loaded, none read from memory by the instruction that
uses it."""
MANY_ROWS = 32
"""Rows from which on a copy of a weight whose layout is not free pays."""
_SHORT = {
    "int8": "i8", "uint8": "u8", "int16": "i16", "bfloat16": "bf16", "int32": "i32",
    "float32": "f32",
}  # fmt: skip


def group_of(matmul: Matmul) -> int:
    """Elements of one sum that lie side by side: four bytes, or two halves."""
    return WORD // matmul.x.dtype.bits


def fits(func: PrimFunc, matmul: Matmul, dtypes: tuple[str, ...], total: str) -> bool:
    """Whether a product is one of operands of these ``dtypes``, summed in ``total``, with known
    columns and depth, and enough rows where its weight must be copied."""
    block = block_named(func, matmul.block)
    rows = [static_extent(block, i) for i in matmul.rows]
    many = None in rows or math.prod([n or 0 for n in rows]) >= MANY_ROWS
    k, columns = (static_extent(block, i) for i in (matmul.reduce[0], matmul.columns[-1]))
    return (
        block.writes[0].buffer.dtype == total
        and matmul.x.dtype in dtypes
        and matmul.w.dtype in dtypes
        and columns is not None
        and columns > 1
        and k is not None
        and k >= group_of(matmul)
        and (many or is_layout_free(func, matmul.w.buffer))
    )


def best_tile(
    columns: int,
    rows: int | None,
    lanes: int,
    registers: int,
    *,
    apart: bool = True,
    among: Sequence[int] = VECTORS,
) -> tuple[int, int]:
    """Rows and vectors of the tile with the most useful sums for what it loads and takes
    ``apart``, ``among`` those of so many vectors."""
    best = (0.0, 1, among[0])
    for vectors in among:
        if vectors > among[0] and (vectors - 1) * lanes >= columns:
            break
        for tile_rows in range(1, min(MOST_ROWS, rows or MOST_ROWS) + 1):
            if tile_rows * vectors + _beside(vectors, apart=apart) > registers:
                continue
            if rows is None and tile_rows not in SYMBOLIC_TILES:
                continue
            useful = useful_part(columns, vectors * lanes) * useful_part(rows, tile_rows)
            sums = tile_rows * vectors
            score = useful * sums / (sums + tile_rows + vectors)
            best = max(best, (score, tile_rows, vectors))
    return best[1], best[2]


def _beside(vectors: int, *, apart: bool) -> int:
    """The registers that a tile of so many vectors needs beside its sums."""
    return 2 * vectors + SPARE if apart else vectors + SPARE_OF_PAIRS


def _is_apart(product: Product) -> bool:
    """Whether operands are taken apart before they are multiplied; integers of 16 bits never."""
    return product.matmul.x.dtype != "int16"


def _lanes(product: Product, target: Target) -> int:
    columns = static_extent(product.block, product.matmul.columns[-1])
    assert columns is not None
    return max(4, min(target.vector_bits // 32, up_to_power(columns)))


def _registers(target: Target) -> int:
    return target.instructions.registers - (0 if target.instructions.reads_memory else LOADED)


def _best_tile(product: Product, target: Target, among: Sequence[int] = VECTORS) -> tuple[int, int]:
    columns = static_extent(product.block, product.matmul.columns[-1])
    assert columns is not None
    lanes = _lanes(product, target)
    rows, registers, apart = product.row_count(), _registers(target), _is_apart(product)
    return best_tile(columns, rows, lanes, registers, apart=apart, among=among)


def _best_height(product: Product, vectors: int, target: Target) -> int:
    """The rows that the model suggests for a tile of so many vectors."""
    best, _ = _best_tile(product, target, (vectors,))
    return max([r for r in _heights(product, vectors, target) if r <= best])


def _heights(product: Product, vectors: int, target: Target) -> tuple[int, ...]:
    """The rows that a tile of so many vectors may have."""
    beside = _beside(vectors, apart=_is_apart(product))
    limit = min(MOST_ROWS, max(1, (_registers(target) - beside) // vectors))
    if product.row_count() is None:
        return tuple([r for r in SYMBOLIC_TILES if r <= limit])
    return tuple(range(1, limit + 1))


@dataclass(frozen=True)
class Int8Decisions(Decisions):
    """A tile of ``rows`` x ``vectors``, and the panels of a ``group`` that is the outer loop (0:
    none), which stays in a cache while all rows are read."""

    vectors: int = choice(lambda p, t, d: VECTORS, lambda p, t, d: _best_tile(p, t)[1])
    rows: int = choice(
        lambda p, t, d: _heights(p, d.vectors, t), lambda p, t, d: _best_height(p, d.vectors, t)
    )
    group: int = choice(
        lambda p, t, d: group_sizes(p.block, p.matmul, d.vectors * _lanes(p, t), p.tiles(d.rows)),
        lambda p, t, d: p.best_group(d.vectors * _lanes(p, t), d.rows, t),
    )


class Int8Rule(Rule[Product, Int8Decisions]):
    name = "int8"
    kind = "a product of bytes, or of int16"
    decisions = Int8Decisions

    def match(self, func: PrimFunc, target: Target) -> Product | None:
        matmul = match(func)
        if matmul is None or matmul.x.dtype == matmul.w.dtype == "bfloat16":
            return None
        kinds = ("int16",) if matmul.x.dtype == "int16" else ("int8", "uint8")
        return Product(func, matmul) if fits(func, matmul, kinds, "int32") else None

    def prepare(self, sch: Schedule, roles: Product) -> None:
        inline_elementwise(sch, keep=(roles.matmul.x.buffer, roles.matmul.w.buffer))

    def apply(
        self, sch: Schedule, roles: Product, decisions: Int8Decisions, decide: Decide
    ) -> None:
        schedule_grouped(sch, roles, decisions, decide.target)
        schedule_rest(sch, decide.target, decide)


def schedule_grouped(
    sch: Schedule, product: Product, decisions: Int8Decisions, target: Target
) -> None:
    """Tile a product of narrow elements, and the epilogue that stands behind it."""
    matmul, roles, block = product.matmul, product.roles, product.block
    lanes, vectors, tile_rows = _lanes(product, target), decisions.vectors, decisions.rows
    lay_out_rows(sch, matmul, block)
    packed = grouped_map(block, matmul, vectors * lanes)
    lay_out(sch, matmul.block, matmul.w_read, packed, load=matmul.w)
    stored = outlets(sch, matmul.block)
    pad_product(sch, matmul, vectors * lanes)
    order_loops(sch, matmul, roles, stored)
    outer = len(roles.front)
    if decisions.group:
        width = vectors * lanes * decisions.group
        columns_outside(sch, (matmul.block, *stored), roles, width)
        outer += 1
    group, total = group_of(matmul), block.writes[0].buffer.dtype
    kinds = "".join([_SHORT[d] for d in (matmul.x.dtype, matmul.w.dtype, total)])
    intrinsic = f"dot_{kinds}_{lanes}x{group}"
    height = max(1, tile_rows // roles.inner_count(block))
    tile = RegisterTile(height, (vectors, lanes), instruction=Instruction(intrinsic, group))
    parts = tile_parts(sch, (matmul.block, *stored), outer, tile)
    share_parts(sch, target, [names[1] for names, _ in parts], outer + 2, points_of(block))


def grouped_map(block: Block, matmul: Matmul, panel: int) -> Callable[..., tuple[Expr, ...]]:
    """The weight's layout, for indices in the order of W's."""
    dims = {id(i): d for d, i in enumerate(matmul.w.indices)}
    column = dims[id(block.iter_vars[matmul.columns[-1]].var)]
    depth = dims[id(block.iter_vars[matmul.reduce[0]].var)]
    group = group_of(matmul)

    def grouped(*indices: Var) -> tuple[Expr, ...]:
        n, k = indices[column], indices[depth]
        batch = [i for d, i in enumerate(indices) if d not in (column, depth)]
        return (*batch, n // panel, k // group, n % panel, k % group)

    return grouped


def lay_out_rows(sch: Schedule, matmul: Matmul, block: Block) -> None:
    """Have k side by side in X, in whole groups, in a copy where it is not: of integers it grows
    with the product (``pad_product``), of floats the last group is filled with zeros."""
    k = block.iter_vars[matmul.reduce[0]].var
    is_ragged, group = _is_ragged(matmul, block), group_of(matmul)
    if load_is_contiguous(matmul.x, k) and not is_ragged:
        return
    depth = next(d for d, i in enumerate(matmul.x.indices) if i is k)
    copy = copy_read(sch, matmul.block, matmul.x_read, matmul.x)
    in_groups = is_ragged and block.writes[0].buffer.dtype.is_float

    def turned(*indices: Var) -> tuple[Expr, ...]:
        rest, term = (*indices[:depth], *indices[depth + 1 :]), indices[depth]
        return (*rest, term // group, term % group) if in_groups else (*rest, term)

    if in_groups or depth + 1 < len(matmul.x.indices):
        sch.transform_layout(copy, ("write", 0), turned, pad_value=0)


def _is_ragged(matmul: Matmul, block: Block) -> bool:
    extent = static_extent(block, matmul.reduce[0])
    return extent is None or extent % group_of(matmul) != 0


def pad_product(sch: Schedule, matmul: Matmul, width: int) -> None:
    """Compute whole panels of columns, and of integers whole groups of terms: zeros beyond them."""
    block = block_named(sch.func, matmul.block)
    columns = max(i for i, v in enumerate(block.iter_vars) if v.kind == "spatial")
    is_float = block.writes[0].buffer.dtype.is_float
    padding = {columns: width, matmul.reduce[0]: 1 if is_float else group_of(matmul)}
    sch.pad_einsum(matmul.block, [padding.get(i, 1) for i in range(len(block.iter_vars))])

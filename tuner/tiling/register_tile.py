"""The register tile: a few rows of a product by a few vectors of its columns, summed in registers.

The rules of products and convolutions come here with a product whose loops they have put in order,
and say by role what they are. The way of a product, all of which is ``tile_parts``, is

    product, outlets ── parts_of_rows ──> parts, each with a RegisterTile of its height
    ProductLoops, RegisterTile ── tile_product ──> TileLoops      split: around a tile, and in it
    TileLoops ── fill_tile ──> the tile, and its outlets behind it

and a part becomes

    for i0, ..., j0                            ``around``: tiles of rows, what a rule has between,
                                               tiles of columns
      Y_tile = 0                               registers
      for ..., k0                              ``terms``; prefetches ask for what is read later
        for k1                                 ``steps`` of k that are written out
          for i1, ...                          ``rows`` of a tile: unrolled
            for jp, jv                         panels and vectors of a row, ``columns``: unrolled
              for jl: Y_tile += X * W          ``lane``: vectorized
      E(Y_tile)                                the outlets, from registers (see ``tiles``)

Long sums are added up in blocks of terms: by an annotation of k0, where one loop has all terms, or
by ``Blocks``, where several have and the sum of each block is kept in the cache (``blocks`` are the
loops over them, between ``around`` and ``terms``; see ``partial_sums``).

In place of the vector a tile may have an *instruction* (``Instruction``): what one tensor intrinsic
computes, several terms of a sum for each lane. The tile is one of instructions then,

      for k0
        for i1, ..., jp, jv                    unrolled
          Y_tile += instruction(X[i, terms k0 ...], W[terms k0 ..., jv])
      for the last k, fewer than ``terms``     unrolled: Y_tile += X * W, in vectors

or of products in registers that are tiles themselves (``TileProduct``, see ``tile_registers``).

Windows come with loops that stand as in the drawing already, cut at the borders of an image, and
have the inside of a tile written out (``sum_tile``). What several results of a tile have in common
of their windows is combined once, ``apart``:

      for kh, p, kw: R[p, kh] += X[p * s + kh, ... + kw]      unrolled: most R are found again
      for kh, p: Y_tile[p] += R[p, kh]                        unrolled

Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), calls the inside
of ``around`` the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...tensorir.expr import Expr, IntImm
from ...tensorir.schedule import LoopRV, Schedule
from ..workload import block_named
from .lanes import write_out
from .partial_sums import Blocks, cut_blocks, sum_in_blocks
from .tile_registers import TileProduct, cut_rows, fill_with_tiles
from .tiles import annotate_sum_blocks, depth_below, fetch_ahead, partition_together, store_tile


@dataclass(frozen=True)
class Instruction:
    """What one tensor ``intrinsic`` computes: ``terms`` of the sum of each lane, for so many
    ``rows``, which divide those of a tile. Operands have whole groups of terms."""

    intrinsic: str
    terms: int
    rows: int = 1


@dataclass(frozen=True)
class RegisterTile:
    """The sizes of a tile: its ``rows`` (of the loop that is cut into tiles) by its ``columns``,
    which are vectors x lanes, or panels x vectors x lanes.

    ``unroll`` steps of k are written out; what k reads is asked for ``ahead`` (see
    ``fetch_ahead``). ``length`` is the number of terms of a sum that is added up in blocks where it
    is long (None: symbolic; 0: never), ``blocks`` are those blocks where the rule cuts them itself.
    """

    rows: int
    columns: tuple[int, ...]
    unroll: int = 1
    ahead: int = 0
    length: int | None = 0
    blocks: Blocks | None = None
    instruction: Instruction | TileProduct | None = None

    @property
    def lanes(self) -> int:
        return self.columns[-1]

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return math.prod(self.columns)


Part = tuple[tuple[str, ...], RegisterTile]
"""The blocks of a part of the rows, the product first, and the tile that they have."""


@dataclass(frozen=True)
class ProductLoops:
    """The loops of a product before it has tiles, by what they run over.

    ``row`` is cut into tiles, all of ``inner`` is in each of them; ``between`` stand around the
    columns. ``column`` is cut into tiles as well, unless ``is_panel``: then it is one tile's. The
    last of ``sums`` is the one of which steps are written out.
    """

    row: LoopRV | None
    inner: tuple[LoopRV, ...]
    column: LoopRV
    sums: tuple[LoopRV, ...]
    between: tuple[LoopRV, ...] = ()
    is_panel: bool = False


@dataclass(frozen=True)
class TileLoops:
    """The loops of a product with tiles, in the order of the drawing. ``apart`` is the one of
    ``steps`` whose iterations are combined by themselves."""

    around: tuple[LoopRV, ...]
    terms: tuple[LoopRV, ...]
    steps: tuple[LoopRV, ...]
    rows: tuple[LoopRV, ...]
    columns: tuple[LoopRV, ...]
    lane: LoopRV
    blocks: tuple[LoopRV, ...] = ()
    apart: LoopRV | None = None


# -- parts -----------------------------------------------------------------------------------------
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


def parts_of_rows(
    sch: Schedule, blocks: tuple[str, ...], place: int, tile: RegisterTile
) -> list[Part]:
    """Cut the loop over rows, which stands at a place in each of the blocks, into ``row_parts``;
    the names of the blocks of each part, and its tile."""
    if isinstance(tile.instruction, TileProduct):
        cut = cut_rows(sch, blocks, place, tile.rows)
        return [(names, replace(tile, rows=rows)) for names, rows in cut]
    parts = row_parts(sch.get(sch.get_loops(blocks[0])[place]).extent, tile.rows)
    names = partition_together(sch, blocks, place, [extent for extent, _ in parts])
    tiles = [replace(tile, rows=rows) for _, rows in parts]
    return list(zip(names, tiles, strict=True))


# -- tiles -----------------------------------------------------------------------------------------
def tile_parts(
    sch: Schedule,
    blocks: tuple[str, ...],
    place: int,
    tile: RegisterTile,
    *,
    between: int = 0,
    is_panel: bool = False,
) -> list[Part]:
    """Tile all parts of a product, the first of ``blocks``, whose rows are the loop at ``place``,
    before so many loops ``between``, inner rows, columns, and the loops of the sum; the parts."""
    axes = block_named(sch.func, blocks[0]).iter_vars
    sums = sum(v.kind == "reduce" for v in axes)
    parts = parts_of_rows(sch, blocks, place, tile)
    for names, own in parts:
        row, *rest = sch.get_loops(names[0])[place:]
        *spatial, column = rest[:-sums]
        loops = ProductLoops(
            row, tuple(spatial[between:]), column, tuple(rest[-sums:]),
            tuple(spatial[:between]), is_panel,
        )  # fmt: skip
        tile_product(sch, names, loops, own)
    return parts


def tile_product(
    sch: Schedule, blocks: Sequence[str], loops: ProductLoops, tile: RegisterTile
) -> tuple[LoopRV, ...]:
    """Tile a product, the first of ``blocks``, and put its outlets, the others, behind the sums;
    the loops around the tile."""
    around, rows = [*loops.between], [*loops.inner]
    if loops.row is not None:
        tiles, row = sch.split(loops.row, [None, tile.rows])
        around.insert(0, tiles)
        rows.insert(0, row)
    if loops.is_panel:
        *columns, lane = sch.split(loops.column, [None, *tile.columns[1:]])
    else:
        tiles, *columns, lane = sch.split(loops.column, [None, *tile.columns])
        around.append(tiles)
    cut, terms = cut_blocks(sch, loops.sums, tile.blocks)
    steps: list[LoopRV] = []
    if tile.instruction is None:
        k, step = sch.split(terms.pop(), [None, tile.unroll])
        terms, steps = [*terms, k], [step]
    made = TileLoops(
        tuple(around), tuple(terms), tuple(steps), tuple(rows), tuple(columns), lane, tuple(cut)
    )
    fill_tile(
        sch, blocks, made, tile.lanes,
        ahead=tile.ahead, length=tile.length, instruction=tile.instruction,
    )  # fmt: skip
    return made.around


def fill_tile(
    sch: Schedule,
    blocks: Sequence[str],
    loops: TileLoops,
    lanes: int,
    *,
    ahead: int = 0,
    length: int | None = 0,
    instruction: Instruction | TileProduct | None = None,
) -> None:
    """Order the loops of a product, the first of ``blocks``, as in the drawing, and write its tile
    out; the others are its outlets. What else is given is as in ``RegisterTile``."""
    product, *stored = blocks
    place = loops.around[-1]
    inside = (*loops.terms, *loops.steps, *loops.rows, *loops.columns, loops.lane)
    sch.reorder(*loops.around, *loops.blocks, *inside)
    in_memory = bool(loops.blocks) or isinstance(instruction, TileProduct)
    store_tile(sch, stored, place, lanes, in_registers=not in_memory)
    if isinstance(instruction, TileProduct):
        fill_with_tiles(sch, product, place, instruction, len(loops.terms))
        return
    if instruction is not None:
        _fill_with_instructions(sch, product, place, instruction, len(loops.terms))
        return
    sum_tile(sch, product, loops, lanes, ahead=ahead, length=length)


def sum_tile(
    sch: Schedule,
    product: str,
    loops: TileLoops,
    lanes: int,
    *,
    ahead: int = 0,
    length: int | None = 0,
) -> None:
    """Write out the sums of a tile, whose loops stand in order."""
    if loops.blocks:
        product = sum_in_blocks(sch, product, sch.fuse(*loops.blocks))
    if loops.apart is not None:
        product = _combine_apart(sch, product, loops.apart, loops.around[-1])
    write_out(sch, [*loops.steps, *loops.rows, *loops.columns], loops.lane, lanes)
    if loops.terms:
        fetch_ahead(sch, loops.terms[-1], ahead)
        annotate_sum_blocks(sch, product, loops.terms[-1], length)
    sch.decompose_reduction(product, (*loops.terms, *loops.steps)[0])


def _combine_apart(sch: Schedule, product: str, steps: LoopRV, place: LoopRV) -> str:
    """Combine what each of the ``steps`` of a sum has by itself, then these; the block that does
    the first. Results of a tile, below ``place``, that have steps in common are written out and
    found again."""
    partial = sch.rfactor(steps, 0)
    sch.set_scope(partial, 0, "register")
    *unrolled, lane = sch.get_loops(product)[depth_below(sch, place, product) :]
    write_out(sch, unrolled, lane)
    sch.decompose_reduction(product, unrolled[0])
    return partial.name


def _fill_with_instructions(
    sch: Schedule, product: str, place: LoopRV, instruction: Instruction, sums: int
) -> None:
    """Compute a tile by instructions, and what is left of its sums by plain code. Below ``place``
    stand so many loops of ``sums``, the last those terms that are grouped, then those of the tile,
    and the lanes. Of several sums none leaves terms over."""
    first = depth_below(sch, place, product)
    outer = first + sums - 1
    terms = sch.get_loops(product)[outer]
    extent = sch.get(terms).extent
    assert isinstance(extent, IntImm)
    full = extent.value // instruction.terms * instruction.terms
    parts = sch.loop_partition(terms, [full, None]) if full < extent.value else [terms]
    update, *rest = [sch.get_child_blocks(part)[0] for part in parts]
    for left in rest:
        *unrolled, lane = sch.get_loops(left)[outer:]
        write_out(sch, unrolled, lane)
    k, *unrolled, lane = sch.get_loops(update)[outer:]
    k0, k1 = sch.split(k, [None, instruction.terms])
    inner = [lane, k1]
    if instruction.rows > 1:
        unrolled[0], row = sch.split(unrolled[0], [None, instruction.rows])
        inner.insert(0, row)
    sch.reorder(k0, *unrolled, *inner)
    for loop in unrolled:
        sch.unroll(loop)
    sch.decompose_reduction(update, k0 if sums == 1 else sch.get_loops(update)[first])
    init = sch.get_child_blocks(sch.get_loops(update)[first - 1])[0]
    *_, row, lane = sch.get_loops(init)
    write_out(sch, [row] if instruction.rows > 1 else [], lane)
    sch.tensorize(inner[0], instruction.intrinsic)

"""Matrix products of few rows with a weight whose rows lie along k as dot products.

    for i, j, k:  Y[i, j] += X[i, k] * W[j, k]

becomes, with k in lanes and several columns at once,

    for i, j0
      P = 0                                  one vector a column, in registers
      for k0, j1, kl                         j1 unrolled, kl vectorized
        P[j1, kl] += X[i, k] * W[j, k]
      for j1, kl: Y[i, j] += P[j1, kl]       the lanes, in a fixed tree
      E(Y[i, j])

Such a weight is not packed: that would read and write W once more for every call, which costs as
much as the product itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...support.target import Target
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ..tiling.inline import inline_elementwise
from ..tiling.lanes import write_out
from ..tiling.panels import is_layout_free
from ..tiling.register_tile import Part, RegisterTile, TileLoops, parts_of_rows, sum_tile
from ..tiling.sharing import points_of, share_tiles
from ..tiling.tiles import consumer_or_copy
from ..workload import Matmul, block_named, load_is_contiguous, static_extent
from .matmul import Product, match
from .reduction import combine_lanes, first_blocks, merge_statements, schedule_rest
from .rule import Decide, Decisions, Rule, choice

MOST_ROWS = 4


def fits(func: PrimFunc, matmul: Matmul, lanes: int) -> bool:
    """Whether the product has few rows, k innermost in both operands, and W a fixed layout."""
    block = block_named(func, matmul.block)
    rows = 1
    for axis in matmul.rows:
        extent = static_extent(block, axis)
        if extent is None:
            return False
        rows *= extent
    k = static_extent(block, matmul.reduce[0])
    inner = block.iter_vars[matmul.reduce[0]].var
    return (
        rows <= MOST_ROWS
        and k is not None
        and k >= lanes
        and load_is_contiguous(matmul.w, inner)
        and load_is_contiguous(matmul.x, inner)
        and not is_layout_free(func, matmul.w.buffer)
    )


def _together(product: Product) -> tuple[int, ...]:
    columns = static_extent(product.block, product.matmul.columns[-1])
    return tuple([n for n in (1, 2, 4, 8, 16) if columns is None or n <= columns])


def _steps(product: Product, target: Target) -> tuple[int, ...]:
    k = static_extent(product.block, product.matmul.reduce[0]) or 1
    return tuple([n for n in (1, 2, 4) if n == 1 or n <= k // product.lanes(target)])


@dataclass(frozen=True)
class DotDecisions(Decisions):
    """``columns`` that are summed together, and the steps of k that are written out."""

    columns: int = choice(lambda p, t, d: _together(p), lambda p, t, d: min(8, _together(p)[-1]))
    unroll: int = choice(lambda p, t, d: _steps(p, t), lambda p, t, d: 1)


class DotRule(Rule[Product, DotDecisions]):
    name = "dot"
    kind = "a product of few rows, whose weight has its layout"
    decisions = DotDecisions

    def match(self, func: PrimFunc, target: Target) -> Product | None:
        found = [m for turned in (False, True) if (m := match(func, turned=turned)) is not None]
        products = [Product(func, matmul) for matmul in found]
        return next((p for p in products if fits(func, p.matmul, p.lanes(target))), None)

    def prepare(self, sch: Schedule, roles: Product) -> None:
        inline_elementwise(sch, keep=(roles.matmul.x.buffer, roles.matmul.w.buffer))

    def apply(self, sch: Schedule, roles: Product, decisions: DotDecisions, decide: Decide) -> None:
        block, target = roles.block, decide.target
        epilogue = consumer_or_copy(sch, block.name, "register")
        _columns_innermost(sch, (block.name, epilogue), roles)
        tile = RegisterTile(decisions.columns, (roles.lanes(target),), decisions.unroll)
        k = static_extent(block, roles.matmul.reduce[0])
        assert k is not None
        for (product, outlet), own in _parts_of_columns(sch, (block.name, epilogue), tile):
            _schedule_part(sch, product, outlet, own, k, target, points_of(block))
        schedule_rest(sch, target, decide)


def _columns_innermost(sch: Schedule, blocks: tuple[str, str], roles: Product) -> None:
    """Put the loop over columns behind the spatial ones of one iteration that follow it."""
    column = roles.matmul.columns[-1]
    behind = [i for i, v in enumerate(roles.block.iter_vars) if v.kind == "spatial" and i > column]
    for name in blocks if behind else ():
        loops = sch.get_loops(name)
        sch.reorder(*[loops[i] for i in behind], loops[column])


def _parts_of_columns(sch: Schedule, blocks: tuple[str, str], tile: RegisterTile) -> list[Part]:
    """The product and its epilogue in parts of so many columns at once, each a nest of its own."""
    front = len(sch.get_loops(blocks[1])) - 1
    for name in blocks:
        loops = sch.get_loops(name)
        sch.reorder(loops[front], *loops[:front])
    parts = parts_of_rows(sch, blocks, 0, tile)
    for name in [name for names, _ in parts for name in names]:
        column, *rest = sch.get_loops(name)
        sch.reorder(*rest[:front], column)
    return parts


def _schedule_part(
    sch: Schedule,
    product: str,
    epilogue: str,
    tile: RegisterTile,
    k: int,
    target: Target,
    points: int,
) -> None:
    """Schedule one part: the rows of its tile are columns, the lanes are of ``k``."""
    others = set(first_blocks(sch.func)) - {product}
    loops = sch.get_loops(product)
    depth = len(loops) - 1
    _, lane = sch.split(loops[-1], [None, tile.lanes])
    partial = sch.rfactor(lane, -1)
    sums = sch.get(partial).name
    sch.set_scope(partial, 0, "register")
    combine_lanes(sch, product, tile.lanes, tile.lanes)
    names = [name for name in first_blocks(sch.func) if name not in others]
    for name in names:
        _, inner = sch.split(sch.get_loops(name)[depth - 1], [None, tile.rows])
        if name != sums:
            sch.unroll(inner)
    _tile_partial(sch, sums, depth, tile, k)
    names = [name for name in first_blocks(sch.func) if name not in others]
    outer = merge_statements(sch, names, depth)
    sch.reverse_compute_at(epilogue, outer[-1], preserve_unit_loops=True)
    for loop in sch.get_loops(epilogue)[depth:]:
        sch.unroll(loop)
    share_tiles(sch, target, outer, points)


def _tile_partial(sch: Schedule, partial: str, depth: int, tile: RegisterTile, k: int) -> None:
    """The lanes' sums: k outside (full steps and a rest), columns unrolled, lanes vectors."""
    columns, steps, lane = sch.get_loops(partial)[depth:]
    k0, k1 = sch.split(steps, [None, tile.unroll])
    sch.reorder(k0, k1, columns, lane)
    full, has_rest = divmod(k, tile.lanes * tile.unroll)
    parts = sch.loop_partition(k0, [full, None]) if has_rest else [k0]
    names = [sch.get_child_blocks(part)[0].name for part in parts]
    for name in names[1:]:
        *_, k1, columns, lane = sch.get_loops(name)
        write_out(sch, [k1, columns], lane)
    k0, k1, columns, lane = sch.get_loops(names[0])[depth:]
    loops = TileLoops((), (k0,), (k1,), (columns,), (), lane)
    sum_tile(sch, names[0], loops, tile.lanes, length=full * tile.unroll)

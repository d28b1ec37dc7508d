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
from ...tensorir.expr import Expr, IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ..tiling.inline import inline_elementwise
from ..tiling.panels import is_layout_free
from ..tiling.sharing import points_of, share_tiles
from ..tiling.tiles import annotate_sum_blocks, consumer_or_copy
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
    """Products of few rows, whose weight has its layout."""

    name = "dot"
    decisions = DotDecisions

    def match(self, func: PrimFunc, target: Target) -> Product | None:
        matmul = match(func)
        product = None if matmul is None else Product(func, matmul)
        if product is None or not fits(func, product.matmul, product.lanes(target)):
            return None
        return product

    def prepare(self, sch: Schedule, roles: Product) -> None:
        inline_elementwise(sch, keep=(roles.matmul.x.buffer, roles.matmul.w.buffer))

    def apply(self, sch: Schedule, roles: Product, decisions: DotDecisions, decide: Decide) -> None:
        block, target = roles.block, decide.target
        tile = (roles.lanes(target), decisions.unroll)
        epilogue = consumer_or_copy(sch, block.name, "register")
        parts = _cut_columns(sch, block.name, epilogue, decisions.columns)
        for product, stored, together in parts:
            _schedule_part(sch, product, stored, (together, *tile), target, points_of(block))
        schedule_rest(sch, target, decide)


def _cut_columns(
    sch: Schedule, product: str, epilogue: str, together: int
) -> list[tuple[str, str, int]]:
    """The product and its epilogue in parts of so many columns at once: all that is full, and what
    remains (one by one where that is symbolic)."""
    *front, column, k = sch.get_loops(product)
    extent = sch.get(column).extent
    rest = extent.value % together if isinstance(extent, IntImm) else 1
    if not rest:
        return [(product, epilogue, together)]
    *stored_front, stored_column = sch.get_loops(epilogue)
    if front:
        sch.reorder(column, *front, k)
        sch.reorder(stored_column, *stored_front)
    full: list[Expr | int | None] = [extent // together * together, None]
    products = sch.loop_partition(column, full)
    stores = sch.loop_partition(stored_column, full)
    names = [
        (sch.get(sch.get_child_blocks(a)[0]).name, sch.get(sch.get_child_blocks(b)[0]).name)
        for a, b in zip(products, stores, strict=True)
    ]
    for product_part, stored_part in names:
        column, *front, k = sch.get_loops(product_part)
        stored_column, *stored_front = sch.get_loops(stored_part)
        if front:
            sch.reorder(*front, column, k)
            sch.reorder(*stored_front, stored_column)
    return [(*names[0], together), (*names[1], rest)]


def _schedule_part(
    sch: Schedule,
    product: str,
    epilogue: str,
    tile: tuple[int, int, int],
    target: Target,
    points: int,
) -> None:
    """Schedule one part; ``tile`` is columns at once, lanes, and unrolled steps of k."""
    together, lanes, unroll = tile
    others = set(first_blocks(sch.func)) - {product}
    loops = sch.get_loops(product)
    depth = len(loops) - 1
    k = sch.get(loops[-1]).extent
    assert isinstance(k, IntImm)
    _, lane = sch.split(loops[-1], [None, lanes])
    partial = sch.rfactor(lane, -1)
    sums = sch.get(partial).name
    sch.set_scope(partial, 0, "register")
    combine_lanes(sch, product, lanes, lanes)
    names = [name for name in first_blocks(sch.func) if name not in others]
    for name in names:
        _, inner = sch.split(sch.get_loops(name)[depth - 1], [None, together])
        if name != sums:
            sch.unroll(inner)
    steps = lanes * unroll
    _tile_partial(sch, sums, depth, k.value // steps, k.value % steps > 0, unroll)
    names = [name for name in first_blocks(sch.func) if name not in others]
    outer = merge_statements(sch, names, depth)
    sch.reverse_compute_at(epilogue, outer[-1], preserve_unit_loops=True)
    for loop in sch.get_loops(epilogue)[depth:]:
        sch.unroll(loop)
    share_tiles(sch, target, outer, points)


def _tile_partial(
    sch: Schedule, partial: str, depth: int, full: int, has_rest: bool, unroll: int
) -> None:
    """The lanes' sums: k outside (``full`` steps and a rest), columns unrolled, lanes vectors."""
    columns, steps, lane = sch.get_loops(partial)[depth:]
    k0, k1 = sch.split(steps, [None, unroll])
    sch.reorder(k0, k1, columns, lane)
    parts = sch.loop_partition(k0, [full, None]) if has_rest else [k0]
    annotate_sum_blocks(sch, partial, parts[0], full * unroll)
    children = [sch.get_child_blocks(part)[0] for part in parts]
    for child in children:
        *_, k1, columns, lane = sch.get_loops(child)
        sch.unroll(k1)
        sch.unroll(columns)
        sch.vectorize(lane)
    sch.decompose_reduction(children[0], sch.get_loops(children[0])[depth])

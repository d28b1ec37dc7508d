"""Few rows times a large matrix that lies by rows: sums of its rows, each with a weight.

    for i, j, k:  Y[i, j] += X[i, k] * W[k, j]         epilogue E(Y[i, j])

becomes, with groups of rows of W that have sums of their own, for threads to share,

    for g
      S[g, ...] = 0
      for k0                                    rows of W, a few abreast
        for j1                                  along them
          for i, k1, jl                         unrolled, unrolled, vectorized
            S[g, i, j] += X[i, k] * W[k, j]
    for i, j, g:  Y[i, j] += S[g, i, j]
                  E(Y[i, j])

A register tile would go down W, a page at each step of k, and memory gives long stretches faster.
The sums are in the first cache or the second, where each is read and written once for all rows that
are abreast. That is what a product waits for whose weight comes as an input; a weight that is known
is packed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...support.abi import PAGE_BYTES
from ...support.target import Target
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ..tiling.inline import inline_elementwise
from ..tiling.lanes import vectorize_loop, write_out
from ..tiling.long_sums import block_long_sum
from ..tiling.panels import is_layout_free
from ..tiling.sharing import GROUP_ROWS, GROUPS, points_of, share
from ..tiling.tiles import CACHE_SHARE, bytes_of
from ..workload import load_is_contiguous, static_extent
from .matmul import Product, match
from .reduction import schedule_rest
from .rule import Decide, Decisions, Rule, choice

FEW_ROWS, MOST_ROWS = 4, 7
"""Rows of X where those of W are one page long, and two; of more, a copy of W in panels pays."""


def _depth(product: Product) -> int:
    return static_extent(product.block, product.matmul.reduce[0]) or 1


def _columns(product: Product) -> int:
    return static_extent(product.block, product.matmul.columns[-1]) or 1


def _groups(product: Product) -> tuple[int, ...]:
    depth = _depth(product)
    most = max(1, min(GROUPS, depth // GROUP_ROWS))
    return tuple([n for n in range(1, most + 1) if depth % n == 0])


def _vectors(product: Product, target: Target) -> tuple[int, ...]:
    """Vectors of columns at a time: as many as leave no rest, or one."""
    columns, lanes = _columns(product), product.lanes(target)
    return (1, *[n for n in (2, 4) if columns % (n * lanes) == 0])


def _abreast(product: Product, target: Target, groups: int) -> tuple[int, ...]:
    """Rows of W that may be summed together, where columns are whole vectors."""
    if _columns(product) % product.lanes(target):
        return (1,)
    depth = _depth(product) // groups
    return tuple([n for n in (1, 2, 4, 8) if depth % n == 0])


@dataclass(frozen=True)
class GemvDecisions(Decisions):
    """The ``groups`` of rows of W, the rows that are ``abreast`` in each, and the ``vectors`` of
    columns at a time."""

    groups: int = choice(lambda p, t, d: _groups(p), lambda p, t, d: _groups(p)[-1])
    abreast: int = choice(
        lambda p, t, d: _abreast(p, t, d.groups), lambda p, t, d: _abreast(p, t, d.groups)[-1]
    )
    vectors: int = choice(lambda p, t, d: _vectors(p, t), lambda p, t, d: _vectors(p, t)[-1])


class GemvRule(Rule[Product, GemvDecisions]):
    """Products of few rows with a matrix from memory, whose rows are pages long."""

    name = "gemv"
    kind = "a product of few rows with a matrix from memory, which lies by rows of pages"
    decisions = GemvDecisions

    def match(self, func: PrimFunc, target: Target) -> Product | None:
        matmul = match(func)
        product = None if matmul is None else Product(func, matmul)
        return product if product is not None and reads_along(product, target) else None

    def prepare(self, sch: Schedule, roles: Product) -> None:
        inline_elementwise(sch, keep=(roles.matmul.x.buffer, roles.matmul.w.buffer))

    def apply(
        self, sch: Schedule, roles: Product, decisions: GemvDecisions, decide: Decide
    ) -> None:
        _sum_rows(sch, roles, decisions, decide.target)
        schedule_rest(sch, decide.target, decide)


def _sum_rows(sch: Schedule, product: Product, decisions: GemvDecisions, target: Target) -> None:
    """Order the product's loops as in the drawing."""
    matmul, name, points = product.matmul, product.matmul.block, points_of(product.block)
    lanes, reduce, outer = product.lanes(target), product.matmul.reduce[0], []
    width = lanes * decisions.vectors
    if decisions.groups > 1:
        group, _ = sch.split(sch.get_loops(name)[reduce], [decisions.groups, None])
        name = sch.rfactor(group, 0).name
        outer = [sch.get_loops(name)[reduce]]
    loops = [loop for n, loop in enumerate(sch.get_loops(name)) if not outer or n != reduce]
    rows = [loops[i] for i in matmul.rows]
    k0, k1 = sch.split(loops[reduce], [None, decisions.abreast])
    block_long_sum(sch, name, [k0], decisions.abreast)
    column = loops[matmul.columns[-1]]
    if _columns(product) % width:
        sch.reorder(*outer, k0, *rows, k1, column)
        init = sch.decompose_reduction(name, k0)
        for loop in (column, sch.get_loops(init)[-1]):
            vectorize_loop(sch, loop, width, lanes)
    else:
        vectors, lane = sch.split(column, [None, width])
        sch.reorder(*outer, k0, vectors, *rows, k1, lane)
        init = sch.decompose_reduction(name, k0)
        write_out(sch, (*rows, k1), lane)
        *_, lane = sch.get_loops(init)
        sch.vectorize(lane)
    share(sch, target, outer, points)


def reads_along(product: Product, target: Target) -> bool:
    """Whether W is read once, from beyond the second cache, in rows of pages."""
    block, matmul = product.block, product.matmul
    rows = math.prod([static_extent(block, i) or MOST_ROWS + 1 for i in matmul.rows])
    columns, nbytes = static_extent(block, matmul.columns[-1]), bytes_of(matmul.w)
    if matmul.batch or len(matmul.columns) > 1 or columns is None or nbytes is None:
        return False
    pages = columns * matmul.w.dtype.itemsize // PAGE_BYTES
    long = rows <= (FEW_ROWS if pages < 2 else MOST_ROWS) and pages > 0
    far = nbytes > CACHE_SHARE * target.l2_bytes
    along = load_is_contiguous(matmul.w, block.iter_vars[matmul.columns[-1]].var)
    same = matmul.w.dtype is block.writes[0].buffer.dtype
    return far and long and along and same and not is_layout_free(product.func, matmul.w.buffer)

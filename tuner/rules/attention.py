"""Attention: the two products, and the softmax between them, a tile of rows at a time.

    for rows, keys, c:  S[i, j] += Q[i, c] * K[j, c]      masked, max, exp, sum of each row
    for rows, e, keys:  Y[i, e] += exp(S)[i, j] * V[j, e]      E(Y[i, e] / sum[i])

becomes, for each part of the rows (all full tiles, then a smaller one), under one loop over heads

    Kp = K of the head, in panels of keys
    for i0                                  tiles of rows
      for j0                                panels of keys
        S_tile = 0                          registers
        for c0, c1: for i1, jv, jl:         c1, rows and vectors unrolled; lanes vectorized
          S_tile += Q[i, c] * Kp[j0, c, jv, jl]
        scores of the tile, masked          to the cache
      for i1:                               max, exp and sum of the rows, in vectors
      for e0                                tiles of columns of V
        Y_tile = 0                          registers
        for j0, j1: for i1, ev, el:
          Y_tile += exp[i, j] * V[j, e0, ev, el]
        E(Y_tile)                           divided, from registers

so that there are never more scores in memory than those of one tile of rows a thread. The tiles are
those of matrix products (``matmul.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...support.errors import ScheduleValueError
from ...support.node import walk
from ...support.target import Target
from ...tensorir.expr import BufferLoad, Cast, Expr, IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block, BufferStore, SeqStmt
from ..tiling.lanes import up_to_power, vectorize_loop
from ..tiling.register_tile import ProductLoops, RegisterTile, parts_of_rows, tile_product
from ..tiling.row_axes import SHORT
from ..tiling.sharing import points_of, share_tiles
from ..tiling.tile_model import (
    STEPS,
    SYMBOLIC_TILES,
    TALLEST_TILE,
    VECTORS,
    TileShape,
    best_tile,
    reserved_registers,
)
from ..tiling.tiles import (
    depth_below,
    divisor,
    pad_columns,
    reads_in_order,
    steps_unrolled,
)
from ..workload import (
    axis_kinds,
    block_named,
    blocks_in_order,
    is_reduction,
    is_spatial,
    product_of,
    static_extent,
)
from .reduction import vectorize_terms
from .rule import Decide, Decisions, Rule, choice
from .trial import attempt

HEAD, ROW, COLUMN = 1, 2, 3
"""The places of the axes of heads, rows and columns in both products; the sum's axis is next."""
SCORES_SHARE = 4
"""The part of the L2 cache that the scores of a tile of rows may take."""
MOST_SUMS = 0.75
"""The part of the registers that a tile's sums may take."""


@dataclass(frozen=True)
class Attention:
    """The blocks of an attention by role: the product ``scores``, ``masked`` that takes it out of
    registers, ``rows`` between the products, the product ``values``, and ``result``, which takes
    that out of registers."""

    scores: str
    masked: str
    rows: tuple[str, ...]
    values: str
    result: str

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, in order."""
        return (self.scores, self.masked, *self.rows, self.values, self.result)


def match_attention(func: PrimFunc) -> Attention | None:
    """The attention that a function computes: its two products over (batch, head, row, column),
    what is computed of each row between them, and what is done with the second; else None."""
    blocks = blocks_in_order(func)
    products = [b for b in blocks if product_of(b) is not None]
    if len(products) != 2 or any(not _has_axes(b, "SSSSR") for b in products):
        return None
    scores, values = products
    reached = _reached(blocks, scores)
    consumers = [b for b in reached if _reads(b, scores)]
    results = [b for b in reached if _reads(b, values)]
    if len(consumers) != 1 or len(results) != 1 or values not in reached:
        return None
    (masked,), (result,) = consumers, results
    rows = [b for b in reached if b is not masked and b is not values and b is not result]
    rows = [b for b in rows if blocks.index(b) < blocks.index(values)]
    if not rows or not all(_has_axes(b, "SSS", "SSSS", "SSSR") for b in rows):
        return None
    for consumer, product in ((masked, scores), (result, values)):
        if not reads_in_order(func, consumer.name, product.name):
            return None
    return Attention(
        scores.name, masked.name, tuple([b.name for b in rows]), values.name, result.name
    )


def _has_axes(block: Block, *kinds: str) -> bool:
    return axis_kinds(block) in kinds


def _reads(block: Block, producer: Block) -> bool:
    written = {id(w.buffer) for w in producer.writes}
    return block is not producer and any(id(r.buffer) in written for r in block.reads)


def _reached(blocks: list[Block], start: Block) -> list[Block]:
    """The blocks that depend on one, in order, without it."""
    found = [start]
    for block in blocks[blocks.index(start) + 1 :]:
        if any(_reads(block, producer) for producer in found):
            found.append(block)
    return found[1:]


@dataclass(frozen=True)
class AttentionRoles:
    """The attention of a function, whose keys and values have known numbers."""

    func: PrimFunc
    attention: Attention

    @property
    def scores(self) -> Block:
        return block_named(self.func, self.attention.scores)

    @property
    def values(self) -> Block:
        return block_named(self.func, self.attention.values)

    @property
    def rows(self) -> int | None:
        return static_extent(self.scores, ROW)

    @property
    def keys(self) -> int:
        keys = static_extent(self.scores, COLUMN)
        assert keys is not None
        return keys

    @property
    def columns(self) -> int:
        columns = static_extent(self.values, COLUMN)
        assert columns is not None
        return columns

    def lanes(self, target: Target) -> int:
        return target.vector_lanes(self.scores.writes[0].buffer.dtype)

    def best_tile(self, target: Target) -> TileShape:
        """The tile of the first product that the model suggests."""
        return best_tile(self.keys, self.rows, self.lanes(target), target.instructions)

    def heights(self, target: Target) -> tuple[int, ...]:
        """The rows that a tile may have, whose scores stay in the cache."""
        row_bytes = self.keys * self.scores.writes[0].buffer.dtype.bits // 8
        most = min(max(1, target.l2_bytes // SCORES_SHARE // row_bytes), TALLEST_TILE)
        if self.rows is None:
            return tuple([r for r in SYMBOLIC_TILES if r <= most])
        return tuple(range(1, min(most, self.rows) + 1))

    def best_height(self, target: Target) -> int:
        """The rows that the model suggests, as far as the sums leave registers to what lives beside
        both products, such as the constants of the exponential."""
        tile = self.best_tile(target)
        most = int(MOST_SUMS * target.vector_registers) // tile.vectors
        return max([r for r in self.heights(target) if r == 1 or r <= min(tile.rows, most)])


def _limit(rows: int, target: Target) -> int:
    """Vectors of a tile of so many rows that the registers hold."""
    known = target.instructions
    return max(1, (known.registers - reserved_registers(known) - 1) // (rows + 1))


def _vectors(rows: int, target: Target) -> tuple[int, ...]:
    return VECTORS[: _limit(rows, target)]


@dataclass(frozen=True)
class AttentionDecisions(Decisions):
    """Tiles of ``rows`` that serve both products, of so many vectors of keys and of values; the
    steps of either product that are written out, at most; the vectors of a row's arithmetic."""

    rows: int = choice(lambda a, t, d: a.heights(t), lambda a, t, d: a.best_height(t))
    keys: int = choice(
        lambda a, t, d: _vectors(d.rows, t),
        lambda a, t, d: min(a.best_tile(t).vectors, _limit(d.rows, t)),
    )
    values: int = choice(
        lambda a, t, d: _vectors(d.rows, t),
        lambda a, t, d: _value_vectors(a.columns, a.lanes(t), _limit(d.rows, t)),
    )
    unroll: int = choice(
        lambda a, t, d: STEPS,
        lambda a, t, d: steps_unrolled(t, d.rows * max(d.keys, d.values)),
    )
    row_vectors: int = choice(lambda a, t, d: (1, 2, 4), lambda a, t, d: 2)


class AttentionRule(Rule[AttentionRoles, AttentionDecisions]):
    name = "attention"
    kind = "two products and a softmax between them"
    decisions = AttentionDecisions

    def match(self, func: PrimFunc, target: Target) -> AttentionRoles | None:
        attention = match_attention(func)
        if attention is None:
            return None
        products = [block_named(func, name) for name in (attention.scores, attention.values)]
        if any(static_extent(block, COLUMN) is None for block in products):
            raise ScheduleValueError("attention", "Expected a constant number of keys and values.")
        return AttentionRoles(func, attention)

    def apply(
        self,
        sch: Schedule,
        roles: AttentionRoles,
        decisions: AttentionDecisions,
        decide: Decide,
    ) -> None:
        schedule_attention(sch, roles, decisions, decide.target)


def schedule_attention(
    sch: Schedule, roles: AttentionRoles, decisions: AttentionDecisions, target: Target
) -> None:
    """Tile the rows, and both products and all between them in each tile."""
    attention = roles.attention
    depth = static_extent(roles.scores, COLUMN + 1)
    lanes, rows = roles.lanes(target), decisions.rows
    tiling = _Tiling(
        RegisterTile(
            rows, (decisions.keys, lanes), divisor(depth, decisions.unroll), length=depth
        ),
        RegisterTile(
            rows, (decisions.values, lanes), divisor(roles.keys, decisions.unroll),
            length=roles.keys,
        ),
        decisions.row_vectors,
    )  # fmt: skip
    copies = _prepare(sch, attention, tiling)
    prepared = match_attention(sch.func)
    assert prepared is not None
    attention = prepared
    sch.set_scope(attention.scores, 0, "register")
    sch.set_scope(attention.values, 0, "register")
    own = attention.names if copies.queries is None else (*attention.names, copies.queries)
    parts = parts_of_rows(sch, own, ROW, tiling.keys)
    points = points_of(block_named(sch.func, attention.scores))
    tiles: list[tuple[Attention, LoopRV]] = []
    for names, keys in parts:
        first, masked, *between, values, result = names[: len(attention.names)]
        part = Attention(first, masked, tuple(between), values, result)
        tiles.append((part, _tile_part(sch, part, names[len(attention.names) :], keys, tiling)))
    last = sch.get_loops(tiles[0][0].result)
    sch.compute_at(copies.keys, last[HEAD], preserve_unit_loops=True)
    _vectorize_keys(sch, copies.keys, tiling)
    heads = sch.fuse(*last[: HEAD + 1])
    share_tiles(sch, target, [heads, tiles[0][1]], points)
    for part, tile in tiles:
        _schedule_rows(sch, part, tile, tiling)


@dataclass(frozen=True)
class _Tiling:
    """The tiles of the product with ``keys`` and of that with ``values``, and the vectors of a
    row's arithmetic."""

    keys: RegisterTile
    values: RegisterTile
    row_vectors: int

    @property
    def lanes(self) -> int:
        return self.keys.lanes


def _value_vectors(columns: int, lanes: int, limit: int) -> int:
    """Vectors of a tile of the second product: as many as there is room for, and no more tiles."""
    vectors = max(1, math.ceil(columns / lanes))
    tiles = math.ceil(vectors / min(limit, 4))
    return math.ceil(vectors / tiles)


@dataclass(frozen=True)
class _Copies:
    """What is made of the operands: ``keys`` of a head in panels, and the ``queries`` of a tile,
    widened, where they have another dtype than the sums. Values are widened where they are
    loaded, once for all rows of a tile."""

    keys: str
    queries: str | None


def _prepare(sch: Schedule, attention: Attention, tiling: _Tiling) -> _Copies:
    """Copy the keys into panels, and inline what is computed before and after: moves of q, k, v and
    of the result, a mask's arithmetic."""
    scores = block_named(sch.func, attention.scores)
    column, depth = (scores.iter_vars[i].var for i in (COLUMN, COLUMN + 1))
    keys, queries = _operands(scores)
    widened = {id(b.writes[0].buffer): b.name for b in blocks_in_order(sch.func) if _widens(b)}
    wide_queries = widened.get(id(queries.buffer))
    panel = tiling.keys.width
    place = next(i for i, r in enumerate(scores.reads) if r.buffer is keys.buffer)
    n, c = (next(d for d, i in enumerate(keys.indices) if i is v) for v in (column, depth))

    def packed(*indices: Var) -> tuple[Expr, ...]:
        outer = [i for d, i in enumerate(indices) if d not in (n, c)]
        return (*outer, indices[n] // panel, indices[c], indices[n] % panel)

    copy = sch.cache_read(attention.scores, place, "global")
    name = sch.get(copy).name
    sch.transform_layout(copy, ("write", 0), packed, pad_value=0.0)
    pad_columns(sch, attention.scores, panel)
    kept = {*attention.names, name, wide_queries}
    for block in reversed(blocks_in_order(sch.func)):
        if block.name not in kept and is_spatial(block):
            attempt(sch, _inline, block.name)
    return _Copies(name, wide_queries)


def _inline(sch: Schedule, block: str) -> None:
    """Inline a block into its consumers, or, where it writes an output, into its producer."""
    if any(b is sch.get(sch.get_block(block)).writes[0].buffer for b in sch.func.written):
        sch.reverse_compute_inline(block)
    else:
        sch.compute_inline(block)


def _tile_part(
    sch: Schedule, part: Attention, queries: tuple[str, ...], keys: RegisterTile, tiling: _Tiling
) -> LoopRV:
    """One part of the rows, with its tile of ``keys``; the loop over its tiles."""
    *_, i, j, c = sch.get_loops(part.scores)
    i0, _ = tile_product(sch, (part.scores, part.masked), ProductLoops(i, (), j, (c,)), keys)
    for name in (*part.rows, part.values, part.result):
        sch.reverse_compute_at(name, i0, preserve_unit_loops=True)
    *_, i1, e, j = sch.get_loops(part.values)
    loops = ProductLoops(None, (i1,), e, (j,))
    tile_product(sch, (part.values, part.result), loops, tiling.values)
    for name in queries:
        sch.compute_at(name, i0, preserve_unit_loops=True)
        _vectorize_last(sch, name, tiling)
    return i0


# -- rows ------------------------------------------------------------------------------------------
def _schedule_rows(sch: Schedule, part: Attention, tile: LoopRV, tiling: _Tiling) -> None:
    """What is computed of each row of a tile, one row after another, in vectors along it."""
    depth = depth_below(sch, tile, part.rows[0]) + ROW
    for name in part.rows:
        block = block_named(sch.func, name)
        loops = sch.get_loops(name)
        if len(loops) == depth + 1:
            continue
        extent = sch.get(loops[-1]).extent
        assert isinstance(extent, IntImm)
        count = extent.value
        if count < SHORT:
            sch.unroll(loops[-1])
            continue
        width = min(tiling.lanes * tiling.row_vectors, up_to_power(count + 1) // 2)
        if is_reduction(block):
            vectorize_terms(sch, name, depth + 1, count, width, tiling.lanes)
        else:
            vectorize_loop(sch, loops[-1], width, min(tiling.lanes, width))
    body = sch.get(tile).body
    assert isinstance(body, SeqStmt)
    held = [[n.name for n in walk(s) if isinstance(n, Block)] for s in body.stmts]
    begin = next(i for i, names in enumerate(held) if part.masked in names) + 1
    sch.merge(*[sch.get_loops(names[0])[depth] for names in held[begin:-1]])


# -- copies ----------------------------------------------------------------------------------------
def _operands(block: Block) -> tuple[BufferLoad, BufferLoad]:
    """What a product reads: the operand of its columns, and that of its rows."""
    product = product_of(block)
    assert product is not None
    column = block.iter_vars[COLUMN].var
    first, second = product
    return (first, second) if any(i is column for i in first.indices) else (second, first)


def _widens(block: Block) -> bool:
    """Whether a block only converts an operand to the dtype of the sums."""
    body = block.body
    return isinstance(body, BufferStore) and isinstance(body.value, Cast)


def _vectorize_keys(sch: Schedule, keys: str, tiling: _Tiling) -> None:
    """Panels of keys are gathered from as many keys as vectors have lanes, whose lines serve
    several positions."""
    block = block_named(sch.func, keys)
    if len(block.iter_vars) == len(block.writes[0].buffer.shape):
        # With padding, the copy runs over the packed layout, ...
        *_, depth, column = sch.get_loops(keys)
        vectors, lane = sch.split(column, [None, tiling.lanes])
    else:
        # ... else over the keys' own dimensions.
        *_, key, depth = sch.get_loops(keys)
        _, vectors, lane = sch.split(key, [None, *tiling.keys.columns])
    sch.reorder(vectors, depth, lane)
    sch.unroll(lane)


def _vectorize_last(sch: Schedule, block: str, tiling: _Tiling) -> None:
    loop = sch.get_loops(block)[-1]
    extent = sch.get(loop).extent
    assert isinstance(extent, IntImm)
    # The last vector is masked: of a copy in two parts it would have to be proved that a tile reads
    # nothing but its own.
    _, vector = sch.split(loop, [None, min(tiling.lanes, up_to_power(extent.value))])
    sch.vectorize(vector)

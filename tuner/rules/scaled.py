"""Linear layers whose weights are integers with scales: both of their sums in registers.

    for rows, g, columns, q, s:   T[i, g, j] += X[i, k] * (float32(W[j, g, q], s) - Z[j, g])
    for rows, columns, g:         Y[i, j] += T[i, g, j] * S[j, g]               epilogue E(Y[i, j])

becomes, for each part of the rows and of the columns,

    for j0, i0                                  tiles of columns, then of rows
      Y_tile = 0
      for g
        T_tile = 0                              registers
        for q
          for s, i1, jv                         unrolled
            T_tile += X[i, k] * (float32(Wp[j0, g, q, jv], s) - Zp[j0, g, jv])
        Y_tile += T_tile * Sp[j0, g, jv]
      E(Y_tile)

The weight's layout, [columns / panel][g][q][panel], is read from front to back, a word for each
column of a vector: a product of few rows waits for these bytes alone. A number is taken out of its
word once for all rows of a tile (``tensorir.operators.scaled_linear``). Tiles of columns are
outside, since a panel stays in a cache while all rows pass. Scales and zero points have the same
layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...support.target import Target
from ...tensorir.buffer import Buffer
from ...tensorir.expr import BufferLoad, Expr, IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.operators.scaled_linear import WORD
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block
from ...tensorir.visitor import loads_in
from ..tiling.inline import inline_elementwise
from ..tiling.lanes import up_to_power
from ..tiling.panels import is_layout_free
from ..tiling.register_tile import RegisterTile, TileLoops, fill_tile, parts_of_rows, sum_tile
from ..tiling.sharing import points_of, share_parts
from ..tiling.tile_model import SYMBOLIC_TILES
from ..tiling.tiles import outlets, partition_together
from ..workload import axis_kinds, block_named, blocks_in_order, is_reduction, static_extent
from .reduction import schedule_rest
from .rule import Decide, Decisions, Rule, choice

WIDTHS = (1, 2, 4, 8)
"""Vectors of a tile."""
MOST_ROWS = 12
SPARE = 4
"""Registers beside the sums of a group: numbers, and what takes them out of their words."""
SUMS = 8
"""Registers that have sums of a group: as many as hide the latency of multiply-adds, with those of
all groups beside them, which few registers keep on the stack."""


@dataclass(frozen=True)
class Scaled:
    """The blocks of both sums; the positions of the weights' buffers among what they read."""

    func: PrimFunc
    terms: str
    total: str
    x: Buffer
    weights: tuple[int, ...]
    """In ``terms``: the words, and the zero points where there are any."""
    scale: int

    @property
    def block(self) -> Block:
        return block_named(self.func, self.total)

    @property
    def columns(self) -> int:
        columns = static_extent(self.block, 1)
        assert columns is not None
        return columns

    @property
    def rows(self) -> int | None:
        return static_extent(self.block, 0)

    def lanes(self, target: Target) -> int:
        """Columns of a vector."""
        return target.vector_lanes(self.block.writes[0].buffer.dtype)


def _widths(scaled: Scaled, target: Target) -> tuple[int, ...]:
    lanes, most = scaled.lanes(target), max(1, target.vector_registers // 4)
    return tuple([v for v in WIDTHS if v == 1 or (v <= most and (v // 2) * lanes < scaled.columns)])


def _best_width(scaled: Scaled, target: Target) -> int:
    """As many vectors as leave registers for all rows, or else few, since each number taken out
    serves all rows of a tile; fewer where that leaves no columns in a part of their own."""
    most = max(1, SUMS // (scaled.rows or MOST_ROWS))
    fitting = [v for v in _widths(scaled, target) if v <= most]
    return min(fitting, key=lambda v: (scaled.columns % (v * scaled.lanes(target)) > 0, -v))


def _heights(scaled: Scaled, vectors: int, target: Target) -> tuple[int, ...]:
    room = (target.vector_registers - vectors - SPARE) // vectors
    most = max(1, min(MOST_ROWS, room, scaled.rows or MOST_ROWS))
    known = range(1, most + 1) if scaled.rows is not None else SYMBOLIC_TILES
    return tuple([r for r in known if r <= most])


def _best_height(scaled: Scaled, vectors: int, target: Target) -> int:
    """Tiles of rows as even as can be, whose sums leave registers."""
    most = max(1, SUMS // vectors)
    heights = [r for r in _heights(scaled, vectors, target) if r <= most]
    if scaled.rows is None:
        return heights[-1]
    tiles = -(-scaled.rows // heights[-1])
    return -(-scaled.rows // tiles)


@dataclass(frozen=True)
class ScaledDecisions(Decisions):
    """A tile of ``rows`` x ``vectors``."""

    vectors: int = choice(lambda p, t, d: _widths(p, t), lambda p, t, d: _best_width(p, t))
    rows: int = choice(
        lambda p, t, d: _heights(p, d.vectors, t), lambda p, t, d: _best_height(p, d.vectors, t)
    )


class ScaledRule(Rule[Scaled, ScaledDecisions]):
    name = "scaled"
    kind = "a linear layer of integer weights"
    decisions = ScaledDecisions

    def match(self, func: PrimFunc, target: Target) -> Scaled | None:
        sums = [b for b in blocks_in_order(func) if is_reduction(b)]
        if len(sums) != 2 or axis_kinds(sums[0]) != "SSSRR" or axis_kinds(sums[1]) != "SSR":
            return None
        terms, total = sums
        made = terms.writes[0].buffer
        row, column, group = [v.var for v in total.iter_vars]
        loads = loads_in(total.body)
        read = [n for n in loads if n.buffer is made]
        scales = [n for n in loads if _is_at(n, column, group)]
        if len(read) != 1 or not _is_at(read[0], row, group, column) or len(scales) != 1:
            return None
        row, group, column, q, _ = [v.var for v in terms.iter_vars]
        loads = loads_in(terms.body)
        words = [n for n in loads if _is_at(n, column, group, q) and n.dtype == WORD]
        zeros = [n for n in loads if _is_at(n, column, group)]
        others = [n for n in loads if n.buffer is not made and n not in (*words, *zeros)]
        if len(words) != 1 or len(zeros) > 1 or len(others) != 1:
            return None
        weights = [words[0].buffer, *[z.buffer for z in zeros]]
        known = all(is_layout_free(func, b) for b in (*weights, scales[0].buffer))
        if not known or static_extent(total, 1) is None:
            return None
        return Scaled(
            func, terms.name, total.name, others[0].buffer,
            tuple([_place(terms, b) for b in weights]), _place(total, scales[0].buffer),
        )  # fmt: skip

    def prepare(self, sch: Schedule, roles: Scaled) -> None:
        inline_elementwise(sch, keep=(roles.x,))

    def apply(
        self, sch: Schedule, roles: Scaled, decisions: ScaledDecisions, decide: Decide
    ) -> None:
        target = decide.target
        points = points_of(block_named(roles.func, roles.terms))
        tile = RegisterTile(decisions.rows, (decisions.vectors, roles.lanes(target)))
        for place in roles.weights:
            sch.transform_layout(roles.terms, ("read", place), _panels(tile.width), pad_value=0)
        sch.transform_layout(roles.total, ("read", roles.scale), _panels(tile.width), pad_value=0)
        stored = outlets(sch, roles.total)
        sch.set_scope(roles.terms, 0, "register")
        blocks = (roles.terms, roles.total, *stored)
        places = (2, *[1 for _ in blocks[1:]])
        full = roles.columns // tile.width * tile.width
        cuts: list[Expr] = [IntImm(c) for c in (full, roles.columns - full) if c]
        for name, place in zip(blocks, places, strict=True):
            loops = sch.get_loops(name)
            sch.reorder(loops[place], *loops[:place])
        for part, cut in zip(partition_together(sch, blocks, 0, cuts), cuts, strict=True):
            assert isinstance(cut, IntImm)
            own = replace(tile, columns=_columns(tile, cut.value))
            for name in part:
                _tiles_outside(sch, name, own)
            parts = parts_of_rows(sch, part, 1, own)
            for names, rows in parts:
                _tile_part(sch, names, rows)
            share_parts(sch, target, [names[-1] for names, _ in parts], 2, points)
        schedule_rest(sch, target, decide)


def _is_at(load: BufferLoad, *indices: Var) -> bool:
    return len(load.indices) == len(indices) and all(
        i is v for i, v in zip(load.indices, indices, strict=True)
    )


def _place(block: Block, buffer: Buffer) -> int:
    return next(i for i, r in enumerate(block.reads) if r.buffer is buffer)


def _panels(width: int) -> Callable[..., tuple[Expr, ...]]:
    """The layout of weights, read from front to back."""

    def packed(n: Var, *rest: Var) -> tuple[Expr, ...]:
        return (n // width, *rest, n % width)

    return packed


def _columns(tile: RegisterTile, columns: int) -> tuple[int, int]:
    """Vectors and lanes of a tile for these columns: fewer for those that do not fill it."""
    vectors, lanes = tile.columns
    if columns % tile.width == 0:
        return vectors, lanes
    return (1, up_to_power(columns)) if columns < lanes else (-(-columns // lanes), lanes)


def _tiles_outside(sch: Schedule, block: str, tile: RegisterTile) -> None:
    """Put a loop over tiles of columns around all others: those of one tile stay behind the rows,
    and what is summed in front of them."""
    column, *rest = sch.get_loops(block)
    tiles, vector, lane = sch.split(column, [None, *tile.columns])
    sch.reorder(tiles, *rest, vector, lane)


def _tile_part(sch: Schedule, blocks: tuple[str, ...], tile: RegisterTile) -> None:
    """Tile a part of the rows: the terms of a group, their total, and what reads it."""
    terms, total, *stored = blocks
    _, row, group, jv, jl = sch.get_loops(total)
    i0, i1 = sch.split(row, [None, tile.rows])
    made = TileLoops((i0,), (group,), (), (i1,), (jv,), jl)
    fill_tile(sch, (total, *stored), made, tile.lanes)
    sch.compute_at(terms, group, preserve_unit_loops=True)
    own, _, column, q, s = sch.get_loops(terms)[3:]
    cv, cl = sch.split(column, [None, tile.lanes])
    sch.reorder(q, s, own, cv, cl)
    sum_tile(sch, terms, TileLoops((group,), (q,), (s,), (own,), (cv,), cl), tile.lanes)

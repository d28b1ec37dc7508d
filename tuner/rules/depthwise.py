"""Depthwise convolutions and pooling with channels last: windows of pixels, channels in lanes.

    for n, p, q, c, kh, kw:   Y[n, p, q, c] += X[n, p * s + kh, q * s + kw, c] * W[c, 0, kh, kw]

becomes

    for n, p0
      Xp = padded rows of X
      for p1, c0, q0                         tiles of pixels
        Y_tile = 0                           registers
        for kh, kw, q1: unrolled             each weight is loaded once, each pixel once a row
          Y_tile[q1, cl] += Xp[...] * Wp[c0, kh, kw, cl]
        E(Y_tile)

A window that is combined without weights (the maximum or the sum of pooling) is the same without W.
Where sizes are known and windows small, no rows are copied and tiles have several rows: see
``direct_window``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...support.instructions import Instructions
from ...support.target import Target
from ...tensorir.expr import Expr, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block
from ..tiling.inline import inline_elementwise
from ..tiling.lanes import up_to_power
from ..tiling.panels import lay_out
from ..tiling.register_tile import RegisterTile, TileLoops, fill_tile, parts_of_rows
from ..tiling.sharing import points_of, share
from ..tiling.tile_model import TALLEST_TILE, cycles_of_rows, window_cycles
from ..tiling.tiles import outlets
from ..tiling.window_match import Window, match_window
from ..workload import block_named, static_extent
from .conv import rows_together, vectorize_pad
from .direct_window import (
    WIDEST,
    DirectWindow,
    best_tile,
    direct_window,
    schedule_direct,
    tile_heights,
)
from .reduction import schedule_rest
from .rule import Decide, Decisions, Rule, choice

MOST_STEPS = 32
"""Elements of a window up to which all of it is written out."""


@dataclass(frozen=True)
class WindowRoles:
    """The window of a function; ``direct`` where it does without a padded copy."""

    func: PrimFunc
    window: Window
    direct: DirectWindow | None

    @property
    def block(self) -> Block:
        return block_named(self.func, self.window.block)

    @property
    def width(self) -> int | None:
        """Pixels of a row."""
        return static_extent(self.block, self.window.pixels[-1])

    def lanes(self, target: Target) -> int:
        """Channels of a vector."""
        lanes = target.vector_lanes(self.block.writes[0].buffer.dtype)
        channels = static_extent(self.block, self.window.channel)
        # Of vectors that are mostly empty LLVM makes bad code, and sometimes none.
        return lanes if channels is None else min(lanes, up_to_power(channels))

    def best_tile(self, target: Target) -> tuple[int, int]:
        """Rows and pixels of the tile that the model suggests."""
        if self.direct is not None:
            return best_tile(self.direct, self.block, target, self.lanes(target))
        best = _pixels(self.width, target.instructions, self.window.w is not None)
        return 1, min(best, self.width or best)


def _widths(roles: WindowRoles) -> tuple[int, ...]:
    most = TALLEST_TILE if roles.direct is None else WIDEST
    return tuple(range(1, min(most, roles.width or most) + 1))


def _heights(roles: WindowRoles, pixels: int, target: Target) -> tuple[int, ...]:
    return (1,) if roles.direct is None else tile_heights(roles.direct, pixels, target)


@dataclass(frozen=True)
class WindowDecisions(Decisions):
    """A tile of ``rows`` x ``pixels``; of one row where rows are copied."""

    pixels: int = choice(lambda w, t, d: _widths(w), lambda w, t, d: w.best_tile(t)[1])
    rows: int = choice(
        lambda w, t, d: _heights(w, d.pixels, t),
        lambda w, t, d: min(w.best_tile(t)[0], _heights(w, d.pixels, t)[-1]),
    )


class WindowRule(Rule[WindowRoles, WindowDecisions]):
    name = "window"
    kind = "one window over pixels, each channel by itself"
    decisions = WindowDecisions

    def match(self, func: PrimFunc, target: Target) -> WindowRoles | None:
        window = match_window(func)
        if window is None:
            return None
        is_small = _steps(block_named(func, window.block), window) <= MOST_STEPS
        return WindowRoles(func, window, direct_window(func, window) if is_small else None)

    def prepare(self, sch: Schedule, roles: WindowRoles) -> None:
        window = roles.window
        keep = [window.x.buffer] + ([] if window.w is None else [window.w.buffer])
        inline_elementwise(sch, keep=tuple(keep))

    def apply(
        self, sch: Schedule, roles: WindowRoles, decisions: WindowDecisions, decide: Decide
    ) -> None:
        lanes, target = roles.lanes(decide.target), decide.target
        if roles.window.w is not None:
            _pack(sch, roles.window, lanes)
        if roles.direct is not None:
            schedule_direct(sch, roles.direct, (decisions.rows, decisions.pixels), target, lanes)
        else:
            schedule_copied(sch, roles, decisions.pixels, target)
        schedule_rest(sch, target, decide)


def _steps(block: Block, window: Window) -> int:
    """Elements of a window; many where that is symbolic."""
    return math.prod([static_extent(block, k) or MOST_STEPS + 1 for k in window.kernel])


def schedule_copied(sch: Schedule, roles: WindowRoles, tile: int, target: Target) -> None:
    """Tile rows of ``tile`` pixels, over padded rows; weights have their layout already."""
    window, block, lanes = roles.window, roles.block, roles.lanes(target)
    is_small = _steps(block, window) <= MOST_STEPS
    stored = outlets(sch, window.block)
    outer = _order(sch, window, stored, rows_together(block, window.pixels), lanes)
    parts = parts_of_rows(sch, (window.block, *stored), outer, RegisterTile(tile, (lanes,)))
    for blocks, own in parts:
        q, *kernel, lane = sch.get_loops(blocks[0])[outer:]
        q0, q1 = sch.split(q, [None, own.rows])
        terms, steps = ((), kernel) if is_small else (kernel, ())
        loops = TileLoops((q0,), tuple(terms), tuple(steps), (q1,), (), lane)
        fill_tile(sch, blocks, loops, lanes)
    front = sch.get_loops(parts[0][0][1])[: outer + 1]
    together = bool(window.pad) and len(window.pixels) > 1
    if together:
        sch.compute_at(window.pad, front[len(window.pixels) - 1], preserve_unit_loops=True)
    share(sch, target, front, points_of(block))
    if window.pad:
        vectorize_pad(sch, window.pad, target, alone=not together)


def _pixels(width: int | None, known: Instructions, weighted: bool) -> int:
    """Pixels of a tile: those with which a row takes the fewest cycles, with room for weights. What
    remains of a row is a tile of its own, and each tile waits for its sums at least."""
    most = min(known.registers // 2 - 2, 8 if weighted else 14)
    if width is None:
        return 4
    return min(
        range(1, most + 1),
        key=lambda t: (
            cycles_of_rows(width, t, 1, known.ports, window_cycles),
            width % t > 0,
            -t,
        ),
    )


def _pack(sch: Schedule, window: Window, lanes: int) -> None:
    """Weights as [c / lanes][kernel][lanes]: their own layout where that is free, else a copy's."""
    assert window.w is not None
    block = block_named(sch.func, window.block)
    read = next(i for i, r in enumerate(block.reads) if r.buffer is window.w.buffer)

    def packed(*indices: Var) -> tuple[Expr, ...]:
        c, one, *kernel = indices
        return (c // lanes, one, *kernel, c % lanes)

    lay_out(sch, window.block, read, packed)


def _order(
    sch: Schedule, window: Window, stored: tuple[str, ...], together: int, lanes: int
) -> int:
    """Order the loops: n, rows, channels, pixels, lanes, kernel; how many stand before a row's
    pixels."""
    for name in (window.block, *stored):
        loops = sch.get_loops(name)
        if name == window.block:
            channel = loops[window.channel]
            spatial = [loops[i] for i in (window.batch, *window.pixels)]
            inner = [loops[i] for i in window.kernel]
        else:
            *spatial, channel = loops
            inner = []
        c0, c1 = sch.split(channel, [None, lanes])
        *rows, q = spatial
        if len(rows) > 1:
            p0, p1 = sch.split(rows[-1], [None, together])
            rows = [*rows[:-1], p0, p1]
        sch.reorder(*rows, c0, q, *inner, c1)
    return len(rows) + 1

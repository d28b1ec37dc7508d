"""Windows read where the image stands: no padded copy, tiles of rows x pixels in registers.

    for n, cc                                    chunks of channels, for threads
      for p0, q0                                 tiles of pixels, those at borders apart
        for c0                                   vectors of channels, side by side in memory
          Y_tile = 0                             registers
          for kh, kw, p1, q1: unrolled           each weight is loaded once, each pixel once
            Y_tile[p1, q1, cl] += X[...] * Wp[c0, kh, kw, cl]
          E(Y_tile)

Where registers do not hold all weights and products are fused with sums, a tile is a column of
pixels, and kh the innermost loop, so that weights and pixels leave registers to the sums (see
``column_of``).

Rows of a tile share the rows of their windows, so that less is read, and, where there are no
weights, so that each row is combined once for all; channels inside make every
read one of a few streams through memory. Interior tiles have no conditions (see ``borders``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...support.abi import STACK_LIMIT
from ...support.target import Target
from ...tensorir.expr import IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block
from ..tiling.borders import Axis, cut_axis, window_image
from ..tiling.register_tile import TileLoops, fill_tile
from ..tiling.sharing import ENOUGH_TILES, points_of, share, share_longest
from ..tiling.tiles import bytes_of, outlets
from ..tiling.window_match import Window
from ..workload import block_named, static_extent

MOST_PIXEL_AXES = 2
"""Axes of pixels up to which borders are peeled: each triples the code."""


TILE_ROWS = 4
"""Rows of a tile; see ``best_tile``."""

HIGHEST, WIDEST = 7, 8
"""Rows and pixels of the largest tile."""

TILE = 8
"""Results of a tile a lane."""

COLUMN = (5, 7)
"""Results of a tile that is a column: the fewest that keep the CPU busy, and the most."""

MOST_PRODUCTS = 72
"""Products of such a tile; of many more LLVM mixes up the order, which is all that they are for."""

UNFUSED_TILE = (2, 3)
"""Rows and pixels of a tile where products need registers before they are added."""

CHUNK = 1
"""The place of the loop over chunks of channels, behind that over images."""


@dataclass(frozen=True)
class DirectWindow:
    """A window whose axes of pixels are known."""

    window: Window
    axes: tuple[Axis, ...]


def direct_window(func: PrimFunc, window: Window) -> DirectWindow | None:
    """The window as one that can do without a padded copy, or None: its sizes are symbolic, its
    image is not just padded, or it has many dimensions."""
    image = window_image(func, window)
    axes = tuple([axis for axis in image.axes if axis is not None])
    is_known = image.pad == window.pad and len(axes) == len(window.pixels) <= MOST_PIXEL_AXES
    return DirectWindow(window, axes) if is_known else None


def schedule_direct(
    sch: Schedule, direct: DirectWindow, shape: tuple[int, int], target: Target, lanes: int
) -> None:
    """Tile the window, in rows x pixels of ``shape``; weights have their layout already."""
    window, axes = direct.window, direct.axes
    block = block_named(sch.func, window.block)
    steps = _rows_of_window(direct, block)
    by_rows = _combines_rows(direct, block)
    chunks = _chunks(direct, block, target, lanes)
    column = column_of(direct, block, target, chunks)
    tile = shape[-len(axes) :]
    if window.pad:
        sch.compute_inline(window.pad)
    stored = outlets(sch, window.block)
    for name in (window.block, *stored):
        _order(sch, window, name, lanes, chunks)
    groups = [(window.block, *stored)]
    for at, (axis, size) in enumerate(zip(axes, tile, strict=True), CHUNK + 1):
        parts = axis.parts(size)
        groups = [part for names in groups for part in cut_axis(sch, names, at, parts, lanes=1)]
    if by_rows and steps is not None:
        sums = math.prod(tile) * lanes * block.writes[0].buffer.dtype.itemsize
        by_rows = tile[0] > 1 and len(groups) * sums * (len(stored) + steps) <= STACK_LIMIT
    for names in groups:
        _tile(sch, names, len(axes), lanes, by_rows=by_rows, by_columns=column is not None)
    if not share(sch, target, sch.get_loops(groups[0][1])[: CHUNK + 1], points_of(block)):
        # The rows inside are nearly all.
        rows = [sch.get_loops(names[1])[CHUNK + 1] for names in groups]
        share_longest(sch, target, rows, points_of(block))


def _rows_of_window(direct: DirectWindow, block: Block) -> int | None:
    """Rows of a window; None where there are none, or of unknown number."""
    return static_extent(block, direct.window.kernel[-2]) if len(direct.axes) > 1 else None


def _combines_rows(direct: DirectWindow, block: Block) -> bool:
    """Whether the rows of windows may be combined by themselves."""
    steps = _rows_of_window(direct, block)
    return direct.window.w is None and steps is not None and steps > direct.axes[0].stride


def tile_heights(direct: DirectWindow, pixels: int, target: Target) -> tuple[int, ...]:
    """The rows that a tile of so many pixels may have: its sums take half the registers at most."""
    if len(direct.axes) == 1:
        return (1,)
    most = max(1, target.vector_registers // 2 // pixels)
    return tuple(range(1, min(HIGHEST, direct.axes[0].extent, most) + 1))


def best_tile(direct: DirectWindow, block: Block, target: Target, lanes: int) -> tuple[int, int]:
    """Rows and pixels of a tile (one row where there are none).

    High tiles of few pixels are best: a row of a window is read for as many rows of results, and
    what is read and written at a time are few lines of each row. With a stride pixels share little
    of their windows, and one pixel a row is less code; so it is where the rows of windows are
    combined by themselves, which are registers more. Without, and where products are not fused with
    sums, tiles are lower: what rows share needs registers as well.
    """
    axes = direct.axes
    fused = direct.window.w is None or target.instructions.fma
    width = axes[-1].extent
    high = min(TILE_ROWS, axes[0].extent) if len(axes) > 1 else 1
    by_rows = _combines_rows(direct, block)
    reach = (2 if by_rows else min(axes[-1].stride, 2)) if high > 1 else 1
    best = TILE // high // reach
    if not fused and high > 1 and reach == 1:
        high, best = UNFUSED_TILE
    column = column_of(direct, block, target, _chunks(direct, block, target, lanes))
    return (high, min(best, width)) if column is None else (column, 1)


def column_of(direct: DirectWindow, block: Block, target: Target, chunks: int) -> int | None:
    """Results of a tile that is a column of pixels, or None where tiles are wider.

    In a column windows go one below the other. Taken column by column of the window, a column of
    weights and as many pixels are enough for all its sums, and the pixels are those of the next
    window but for one. Where registers hold all weights of a window, pixels are shared by two
    columns of results, which leaves less to load. Rows that two tiles read are to be in the cache
    still for the second; and threads that share rows get as few as possible at the borders, which
    are one thread's.
    """
    window, axes = direct.window, direct.axes
    if not target.instructions.fma or window.w is None:
        return None
    if len(axes) != 2 or axes[0].stride > 1:
        return None
    steps, width = (static_extent(block, k) or MOST_PRODUCTS for k in window.kernel)
    # The sums of two columns, all weights of a window, and two rows of pixels.
    if target.instructions.holds(TILE + steps * width + 2 * (width + 1)):
        return None
    if axes[0].reach != steps or axes[0].extent < COLUMN[0]:
        return None
    fitting = min(target.vector_registers - 2 * steps - 1, MOST_PRODUCTS // (steps * width))
    if fitting < COLUMN[0]:
        return None
    least, most = COLUMN
    if target.threads != 1 and chunks == 1 and static_extent(block, window.batch) == 1:
        return least
    size = [d.value for d in window.x.buffer.shape[2:] if isinstance(d, IntImm)]
    row = math.prod(size) * window.x.buffer.dtype.itemsize
    return min(max(least, target.l2_bytes // row - steps + 1), most, fitting, axes[0].extent)


def _chunks(direct: DirectWindow, block: Block, target: Target, lanes: int) -> int:
    """Into how many chunks channels are cut, so that threads have something to share where there
    is one image, in a core's cache. Through memory an image goes in one piece: what stands side by
    side is read together, and threads share its rows.
    """
    window = direct.window
    batch, channels = (static_extent(block, i) for i in (window.batch, window.channel))
    size = bytes_of(window.x)
    if target.threads == 1 or batch != 1 or channels is None or channels % lanes:
        return 1
    if len(direct.axes) > 1 and (size is None or size > target.l2_bytes):
        return 1
    vectors = channels // lanes
    wanted = target.threads or ENOUGH_TILES
    return next((d for d in range(wanted, vectors + 1) if vectors % d == 0), 1)


def _order(sch: Schedule, window: Window, name: str, lanes: int, chunks: int) -> None:
    """Order the loops: n, chunks, pixels, vectors of channels, kernel, lanes."""
    loops = sch.get_loops(name)
    if name == window.block:
        channel = loops[window.channel]
        n, *pixels = [loops[i] for i in (window.batch, *window.pixels)]
        kernel = [loops[i] for i in window.kernel]
    else:
        n, *pixels, channel = loops
        kernel = []
    cc, rest = sch.split(channel, [chunks, None])
    c0, c1 = sch.split(rest, [None, lanes])
    sch.reorder(n, cc, *pixels, c0, *kernel, c1)


def _tile(
    sch: Schedule,
    names: tuple[str, ...],
    count: int,
    lanes: int,
    *,
    by_rows: bool,
    by_columns: bool,
) -> None:
    """What stands inside of a tile's loops, ``count`` of them over pixels: see the drawing."""
    c0, *inner, lane = sch.get_loops(names[0])[CHUNK + 1 + count :]
    kernel, pixels = tuple(inner[:count]), tuple(inner[count:])
    if by_columns:
        rows, *columns = kernel
        loops = TileLoops((c0,), (), tuple(columns), pixels, (rows,), lane)
    else:
        apart = kernel[-2] if by_rows else None
        loops = TileLoops((c0,), (), kernel, pixels, (), lane, apart=apart)
    fill_tile(sch, names, loops, lanes)

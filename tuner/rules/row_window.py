"""Windows over images with channels first (pooling): lanes run along the rows of the image.

    for n, c, p, q, kh, kw:   Y[n, c, p, q] += X[n, c, p * s + kh, q * s + kw]

becomes

    for n, c
      for p0, q0                             tiles of rows x vectors of pixels, borders apart
        Y_tile = 0                           registers
        for p1, kh: R = X[n, c, p0 * .. + p1 * s + kh, q0 * .. :]     registers, where s > 1
        for kh, kw, p1: unrolled
          Y_tile[p1, ql] += R[.., ql * s + kw]
        E(Y_tile)

Rows of windows that several results of a tile have in common are combined once (``apart``).
With a stride, rows are read in whole vectors into registers, from which code generation takes every
s-th element by shuffles; memory is read in order, each element once a tile. What does not fit the
third-level cache is asked for ahead, in the order of memory (``prefetch_region``): rows that are
read side by side are several streams, of which memory serves one at a time at full speed.

Interior tiles have no conditions, and those at borders constant ones (see ``borders``) or masks.
What does not fill a vector at the end of a row is a vector of its own. Of large windows the rows
are a loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...support.abi import STACK_LIMIT
from ...support.target import Target
from ...tensorir.function import PrimFunc
from ...tensorir.lowering.place_prefetches import PREFETCH_REGION
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block
from ..tiling.borders import Axis, Image, cut_axis, window_image
from ..tiling.inline import inline_elementwise
from ..tiling.lanes import write_out
from ..tiling.register_tile import TileLoops, sum_tile
from ..tiling.sharing import count_of, points_of, share_longest, share_tiles
from ..tiling.tiles import depth_below, outlets, store_tile
from ..tiling.window_match import RowWindow, match_row_window
from ..workload import block_named, static_extent
from .reduction import schedule_rest
from .rule import Decide, Decisions, Rule, choice

NARROWEST = 3
"""Results in a row that are worth a vector."""

MOST_STEPS = 32
"""Elements of a window's row that are written out, and of a window up to which all of it is."""

TILE_ROWS = 4
"""Rows of a tile whose windows share rows; see ``_rows_of_tile``."""

MOST_PIXEL_AXES = 2
"""Axes of pixels, from the last, whose borders are peeled: each triples the code."""


@dataclass(frozen=True)
class Registers:
    """What is put into registers besides sums: rows that are ``read`` there first, and the sums of
    each row of a window, ``by_rows``. ``unrolled`` says that all of a window is written out."""

    read: bool
    by_rows: bool
    unrolled: bool


def fits_row_window(func: PrimFunc, target: Target) -> bool:
    """Whether the function has one window over rows that are worth vectors."""
    window = match_row_window(func)
    if window is None:
        return False
    block = block_named(func, window.block)
    width, steps = (static_extent(block, i) for i in (window.pixels[-1], window.kernel[-1]))
    axis = window_image(func, window).axes[-1]
    return (
        width is not None
        and width >= NARROWEST
        and steps is not None
        and steps <= MOST_STEPS
        and axis is not None
        and axis.stride <= _lanes(func, window, target)
    )


@dataclass(frozen=True)
class RowWindowRoles:
    """The window of a function, over rows, and where it reads."""

    func: PrimFunc
    window: RowWindow
    image: Image


def _row_counts(roles: RowWindowRoles) -> tuple[int, ...]:
    axis = _tall_axis(roles)
    return (1,) if axis is None else tuple(sorted({min(n, axis.extent) for n in (1, 2, 4)}))


def _best_count(roles: RowWindowRoles) -> int:
    """Windows that share most of their rows are computed together."""
    axis = _tall_axis(roles)
    if axis is None:
        return 1
    block = block_named(roles.func, roles.window.block)
    steps = static_extent(block, roles.window.kernel[-2])
    shared = steps is not None and axis.stride < steps
    best = TILE_ROWS // axis.stride if shared and _is_unrolled(block, roles.window) else 1
    return min(max(1, best), axis.extent)


def _tall_axis(roles: RowWindowRoles) -> Axis | None:
    """The axis that is cut into tiles of several rows, if there is one."""
    return roles.image.axes[-2] if len(roles.image.axes) > 1 else None


@dataclass(frozen=True)
class RowWindowDecisions(Decisions):
    """The ``rows`` of a tile."""

    rows: int = choice(lambda w, t, d: _row_counts(w), lambda w, t, d: _best_count(w))


class RowWindowRule(Rule[RowWindowRoles, RowWindowDecisions]):
    name = "row_window"
    kind = "one window over rows that are worth vectors"
    decisions = RowWindowDecisions

    def match(self, func: PrimFunc, target: Target) -> RowWindowRoles | None:
        window = match_row_window(func) if fits_row_window(func, target) else None
        return None if window is None else RowWindowRoles(func, window, window_image(func, window))

    def prepare(self, sch: Schedule, roles: RowWindowRoles) -> None:
        inline_elementwise(sch, keep=(roles.window.x.buffer,), in_order=True)

    def apply(
        self, sch: Schedule, roles: RowWindowRoles, decisions: RowWindowDecisions, decide: Decide
    ) -> None:
        schedule_row_window(sch, roles, decisions.rows, decide.target)
        schedule_rest(sch, decide.target, decide)


def schedule_row_window(sch: Schedule, roles: RowWindowRoles, rows: int, target: Target) -> None:
    """Tile the window; ``rows`` of a tile."""
    window, image = roles.window, roles.image
    block = block_named(sch.func, window.block)
    lanes = _lanes(sch.func, window, target)
    stored = outlets(sch, window.block)
    groups = [(window.block, *stored)]
    tile: list[int] = []
    for at in range(len(window.pixels)):
        parts = _parts(window, image, at, rows, lanes)
        tile.append(max([size for _, size in parts]))
        place = len(window.lead) + at
        groups = [part for names in groups for part in cut_axis(sch, names, place, parts, lanes=0)]
    how = _choose_registers(sch, window, image, tile, len(groups), len(stored))
    if image.pad and not how.read:
        sch.compute_inline(image.pad)
    ahead = image.size is not None and 0 < target.l3_bytes < image.size
    for names in groups:
        _tile(sch, window, names, how, ahead=ahead)
    if image.pad and how.read:
        sch.compute_inline(image.pad)
    _share(sch, target, window, [names[1] for names in groups], points_of(block))


def _lanes(func: PrimFunc, window: RowWindow, target: Target) -> int:
    """Results in a row of a tile: a register of sums, or two where both are widened together."""
    block = block_named(func, window.block)
    width = static_extent(block, window.pixels[-1])
    fits = width is not None and 0 < target.apart_lanes <= width
    if window.x.buffer.dtype == "bfloat16" and fits:
        return target.apart_lanes
    return target.vector_lanes(block.writes[0].buffer.dtype)


def _parts(
    window: RowWindow, image: Image, at: int, rows: int, lanes: int
) -> list[tuple[int, int]]:
    """The parts of an axis of pixels; one part of single rows where borders are not peeled."""
    axis = image.axes[at]
    behind = len(window.pixels) - 1 - at
    if axis is None or behind >= MOST_PIXEL_AXES:
        return [(0, 1)]
    return axis.parts(rows if behind else lanes)


def _is_unrolled(block: Block, window: RowWindow) -> bool:
    """Whether all of a window is written out."""
    steps = 1
    for k in window.kernel:
        steps *= static_extent(block, k) or MOST_STEPS + 1
    return steps <= MOST_STEPS


def _choose_registers(
    sch: Schedule, window: RowWindow, image: Image, tile: list[int], parts: int, stored: int
) -> Registers:
    """Rows with a stride go through registers, and rows of windows are combined by themselves where
    tiles have several, as far as code generation takes so many; ``parts`` tiles are written out."""
    block = block_named(sch.func, window.block)
    unrolled = _is_unrolled(block, window)
    x, sums = window.x.buffer.dtype.itemsize, block.writes[0].buffer.dtype.itemsize
    *_, width = image.axes
    assert width is not None
    span = (tile[-1] - 1) * width.stride + width.reach
    for size, axis in zip(tile[:-1], image.axes[:-1], strict=True):
        reach = axis.reach if axis is not None else MOST_STEPS
        span *= (size - 1) * (axis.stride if axis is not None else 1) + reach if unrolled else 1
    steps = static_extent(block, window.kernel[-2]) if len(tile) > 1 else None
    by_rows = unrolled and steps is not None and min(steps, tile[-2]) > 1
    for read in (width.stride > 1, False):
        for rows in (by_rows, False):
            results = math.prod(tile) * sums * (stored + (steps or 0 if rows else 0))
            if parts * (results + (span * x if read else 0)) <= STACK_LIMIT:
                return Registers(read, rows, unrolled)
    return Registers(False, False, unrolled)


def _tile(
    sch: Schedule, window: RowWindow, names: tuple[str, ...], how: Registers, *, ahead: bool
) -> None:
    """What stands inside of a tile's loops: see the drawing. ``ahead`` asks for the rows of the
    next tiles while those of this one are read."""
    product, *stored = names
    place, *inner, lane = sch.get_loops(product)[len(window.lead) + len(window.pixels) - 1 :]
    kernel, rows = tuple(inner[: len(window.kernel)]), tuple(inner[len(window.kernel) :])
    lanes = count_of(sch, lane)
    store_tile(sch, stored, place, lanes)
    if how.read:
        _read_rows(sch, product, window, place if how.unrolled else kernel[-2])
    if ahead:
        sch.annotate(place, PREFETCH_REGION, 1)
    terms = () if how.unrolled else kernel[:-1]
    apart = kernel[-2] if how.by_rows else None
    loops = TileLoops((place,), terms, kernel[len(terms) :], rows, (), lane, apart=apart)
    sum_tile(sch, product, loops, lanes)


def _read_rows(sch: Schedule, product: str, window: RowWindow, place: LoopRV) -> None:
    """Read the rows that a tile needs in vectors, into registers."""
    reads = block_named(sch.func, product).reads
    read = next(i for i, r in enumerate(reads) if r.buffer is window.x.buffer)
    copy = sch.cache_read(product, read, "register", [product])
    sch.compute_at(copy, place)
    loops = sch.get_loops(copy)[depth_below(sch, place, copy.name) :]
    if loops:  # else a single element is read
        write_out(sch, loops[:-1], loops[-1])


def _share(
    sch: Schedule, target: Target, window: RowWindow, stored: list[str], points: int
) -> None:
    """Threads share what stands before the rows, or else the rows inside, which are nearly all."""
    count = len(window.lead)
    if share_tiles(sch, target, sch.get_loops(stored[0])[:count], points):
        return
    share_longest(sch, target, [sch.get_loops(name)[count] for name in stored], points)

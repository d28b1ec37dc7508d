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

from ...support.target import Target
from ...tensorir.expr import Expr, Var
from ...tensorir.schedule import Schedule
from ..chooser import Chooser
from ..workload import block_named, static_extent
from .conv import rows_together, vectorize_pad
from .direct_window import direct_window, schedule_direct
from .inline import inline_elementwise
from .lanes import up_to_power
from .matmul import FMA_LATENCY, row_parts
from .panels import lay_out
from .reduction import schedule_rest
from .sharing import points_of, share
from .tiles import outlets, partition_together, store_tile
from .window_match import Window, match_window

MOST_STEPS = 32
"""Elements of a window up to which all of it is written out."""


def schedule_window(sch: Schedule, target: Target, chooser: Chooser) -> None:
    """Apply the rule; ``match_window`` says where."""
    window = match_window(sch.func)
    assert window is not None
    keep = [window.x.buffer] + ([] if window.w is None else [window.w.buffer])
    inline_elementwise(sch, keep=tuple(keep))
    window = match_window(sch.func)
    assert window is not None
    block = block_named(sch.func, window.block)
    lanes = max(1, target.vector_bits // block.writes[0].buffer.dtype.bits)
    channels = static_extent(block, window.channel)
    if channels is not None:
        # Of vectors that are mostly empty LLVM makes bad code, and sometimes none.
        lanes = min(lanes, up_to_power(channels))
    steps = 1
    for k in window.kernel:
        steps *= static_extent(block, k) or MOST_STEPS + 1
    direct = direct_window(sch, window) if steps <= MOST_STEPS else None
    if direct is not None:
        if window.w is not None:
            _pack(sch, window, lanes)
        schedule_direct(sch, direct, target, chooser, lanes)
        return
    width = static_extent(block, window.pixels[-1])
    best = _pixels(width, target.vector_registers, window.w is not None)
    tile = chooser.value(sch, [1, 2, 4, 7, 8, 14], best)
    tile = tile if width is None else min(tile, width)
    if window.w is not None:
        _pack(sch, window, lanes)
    stored = outlets(sch, window.block)
    outer = _order(sch, window, stored, rows_together(block, window.pixels), lanes)
    parts = row_parts(sch.get(sch.get_loops(window.block)[outer]).extent, tile)
    names = partition_together(sch, (window.block, *stored), outer, [e for e, _ in parts])
    for blocks, (_, pixels) in zip(names, parts, strict=True):
        _tile(sch, blocks, pixels, outer, lanes, unrolled=steps <= MOST_STEPS)
    front = sch.get_loops(names[0][1])[: outer + 1]
    together = bool(window.pad) and len(window.pixels) > 1
    if together:
        sch.compute_at(window.pad, front[len(window.pixels) - 1], preserve_unit_loops=True)
    share(sch, target, front, points_of(block))
    if window.pad:
        vectorize_pad(sch, window.pad, target, alone=not together)
    schedule_rest(sch, target, chooser)


def _pixels(width: int | None, registers: int, weighted: bool) -> int:
    """Pixels of a tile: those with which a row takes the fewest cycles, with room for weights. What
    remains of a row is a tile of its own, and each tile waits for its sums at least."""
    most = min(registers // 2 - 2, 8 if weighted else 14)
    if width is None:
        return 4

    def cycles(tile: int) -> int:
        rest = width % tile
        return width // tile * max(tile, 2 * FMA_LATENCY) + (
            max(rest, 2 * FMA_LATENCY) if rest else 0
        )

    return min(range(1, most + 1), key=lambda t: (cycles(t), width % t > 0, -t))


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


def _tile(
    sch: Schedule,
    blocks: tuple[str, ...],
    pixels: int,
    outer: int,
    lanes: int,
    *,
    unrolled: bool,
) -> None:
    product, *stored = blocks
    q, *kernel, lane = sch.get_loops(product)[outer:]
    q0, q1 = sch.split(q, [None, pixels])
    sch.reorder(q0, *kernel, q1, lane)
    store_tile(sch, stored, q0, lanes)
    for loop in [*(kernel if unrolled else []), q1]:
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.decompose_reduction(product, kernel[0])

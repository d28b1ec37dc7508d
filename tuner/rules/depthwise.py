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
"""

from __future__ import annotations

from dataclasses import dataclass

from ...support.node import walk
from ...support.target import Target
from ...tensorir.expr import BufferLoad, Expr, IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block, BufferStore
from ..chooser import Chooser
from ..workload import block_named, blocks_in_order, is_reduction, product_of, static_extent
from .conv import rows_together, vectorize_pad
from .inline import inline_elementwise
from .matmul import row_parts
from .panels import lay_out
from .reduction import schedule_rest
from .sharing import points_of, share
from .tiles import outlets, partition_together, store_tile

MOST_STEPS = 32
"""Elements of a window up to which all of it is written out."""


@dataclass(frozen=True)
class Window:
    """A block that combines windows of pixels channel by channel; positions in its iter vars.

    ``x`` is the image's load, ``w`` the weights' (None for pooling), ``pad`` the block that makes
    the image, or empty.
    """

    block: str
    batch: int
    pixels: tuple[int, ...]
    channel: int
    kernel: tuple[int, ...]
    x: BufferLoad
    w: BufferLoad | None
    pad: str


def match_window(func: PrimFunc) -> Window | None:
    """The one such block of a function, or None."""
    reductions = [b for b in blocks_in_order(func) if is_reduction(b)]
    return _match(func, reductions[0]) if len(reductions) == 1 else None


def _match(func: PrimFunc, block: Block) -> Window | None:
    kinds = [v.kind for v in block.iter_vars]
    spatial = [i for i, k in enumerate(kinds) if k == "spatial"]
    kernel = tuple([i for i, k in enumerate(kinds) if k == "reduce"])
    if len(spatial) < 3 or len(kernel) != len(spatial) - 2:
        return None
    if not isinstance(block.body, BufferStore):
        return None
    batch, *pixels, channel = spatial
    found = _operands(block)
    if found is None:
        return None
    x, w = found
    variables = [v.var for v in block.iter_vars]
    if len(x.indices) != len(spatial) or x.indices[0] is not variables[batch]:
        return None
    if x.indices[-1] is not variables[channel]:
        return None
    for p, k, index in zip(pixels, kernel, x.indices[1:-1], strict=True):
        used = {id(n) for n in walk(index) if isinstance(n, Var)}
        if id(variables[p]) not in used or not used <= {id(variables[p]), id(variables[k])}:
            return None
    if w is not None and not _is_filter(w, variables[channel], [variables[k] for k in kernel]):
        return None
    pad = next((b.name for b in blocks_in_order(func) if b.writes[0].buffer is x.buffer), "")
    return Window(block.name, batch, tuple(pixels), channel, kernel, x, w, pad)


def _operands(block: Block) -> tuple[BufferLoad, BufferLoad | None] | None:
    product = product_of(block)
    if product is not None:
        return product
    store = block.body
    assert isinstance(store, BufferStore)
    loads = [
        n for n in walk(store.value) if isinstance(n, BufferLoad) and n.buffer is not store.buffer
    ]
    return (loads[0], None) if len(loads) == 1 else None


def _is_filter(w: BufferLoad, channel: Var, kernel: list[Var]) -> bool:
    """Whether weights are indexed [channel, 0, kernel...]."""
    c, one, *steps = w.indices if len(w.indices) > 2 else (None, None)
    return (
        c is channel
        and isinstance(one, IntImm)
        and len(steps) == len(kernel)
        and all(a is b or isinstance(a, IntImm) for a, b in zip(steps, kernel, strict=True))
    )


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
    steps = 1
    for k in window.kernel:
        steps *= static_extent(block, k) or MOST_STEPS + 1
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
    """Pixels of a tile: as many as divide the row well, with room for weights."""
    most = min(registers // 2 - 2, 8 if weighted else 14)
    if width is None:
        return 4
    return max(range(1, most + 1), key=lambda t: (width / (-(-width // t) * t), t))


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

"""Windows without padded copies: the tiles at an image's borders stand in loops of their own.

A window that reaches beyond the image reads padding there, which is a condition on each load. Tiles
of results are cut into those whose windows may, and those between, whose never do:

    outputs  0 ........................ n          for tile 0:            conditions known
             |tile|tile|tile|tile|rest|            for tiles 1 .. m - 1:  no conditions
                    interior                       for tiles m ..:        conditions known

Where one tile holds a whole border, unrolling makes every one of its conditions a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...tensorir.arith.analyzer import Analyzer
from ...tensorir.expr import EQ, BufferLoad, Call, Expr, FloatImm, IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block, BufferStore
from ...tensorir.visitor import substitute
from ..workload import block_named, static_extent
from .tiles import bytes_of, partition_together
from .window_match import RowWindow, Window


@dataclass(frozen=True)
class Axis:
    """The results along one axis: ``extent`` of them, of which those in [first, last) have windows
    inside of the image; windows are ``stride`` elements apart, and ``reach`` elements long."""

    extent: int
    first: int
    last: int
    stride: int = 1
    reach: int = 1

    def parts(self, tile: int) -> list[tuple[int, int]]:
        """Consecutive ranges as (extent, results of a tile): the first border, what is inside, the
        last border, and what remains behind full tiles."""
        full = self.extent // tile
        inside = min(-(-self.first // tile), full)
        beyond = max(inside, min(self.last // tile, full))
        counts = [inside, beyond - inside, full - beyond]
        parts = [(n * tile, tile) for n in counts if n]
        rest = self.extent - full * tile
        return [*parts, (rest, rest)] if rest else parts


def padded_axis(
    index: Expr, pixel: Var, step: Var, extents: tuple[int, int], before: int, size: int
) -> Axis | None:
    """The axis of results ``pixel`` whose windows read ``index`` of a padded image, where the image
    itself is ``[before, before + size)``; ``extents`` are those of ``pixel`` and ``step``. None
    where the index is not known to be ``pixel * stride + step * dilation + offset``."""
    results, kernel = extents
    at = [_value(index, {pixel: p, step: k}) for p, k in ((0, 0), (1, 0), (0, kernel - 1))]
    first, second, reach = at
    if first is None or second is None or reach is None or second <= first or reach < first:
        return None
    stride = second - first
    if kernel == 1:
        index, dilation = substitute(index, {step: IntImm(0, step.dtype)}), 0
    else:
        dilation = (reach - first) // (kernel - 1)
    if not Analyzer().can_prove(EQ(index, pixel * stride + step * dilation + first)):
        return None
    low = -(-(before - first) // stride)
    high = (before + size - 1 - reach) // stride + 1
    low = min(max(low, 0), results)
    high = min(max(high, low), results)
    return Axis(results, low, high, stride, reach - first + 1)


@dataclass(frozen=True)
class Image:
    """Where windows read: the block that only pads what they read, or empty, the bytes of the image
    and its axes of pixels (None for what is of unknown size)."""

    pad: str
    size: int | None
    axes: tuple[Axis | None, ...]


def window_image(func: PrimFunc, window: Window | RowWindow) -> Image:
    """What a window reads: the image itself where a block only pads it."""
    block = block_named(func, window.block)
    pad = block_named(func, window.pad) if window.pad else None
    image = image_of(pad) if pad is not None else None
    if pad is None or image is None:
        pad, image = None, window.x
    axes: list[Axis | None] = []
    for dim, (p, k) in enumerate(zip(window.pixels, window.kernel, strict=True), len(window.lead)):
        results, steps = static_extent(block, p), static_extent(block, k)
        size, index = image.buffer.shape[dim], window.x.indices[dim]
        before = offset_of(pad, image, dim) if pad is not None else 0
        if results is None or steps is None or before is None or not isinstance(size, IntImm):
            axes.append(None)
            continue
        pixel, step = block.iter_vars[p].var, block.iter_vars[k].var
        axes.append(padded_axis(index, pixel, step, (results, steps), before, size.value))
    return Image(pad.name if pad is not None else "", bytes_of(image), tuple(axes))


def cut_axis(
    sch: Schedule, names: tuple[str, ...], at: int, parts: list[tuple[int, int]], *, lanes: int
) -> list[tuple[str, ...]]:
    """Cut the loop of an axis, which stands at a place among each block's, into parts (see
    ``Axis.parts``) and each into tiles; the loop in a tile of the product, the first block, goes
    behind the others, but before the loops over ``lanes``. The names of the blocks of each part."""
    cut = partition_together(sch, names, at, [IntImm(extent) for extent, _ in parts])
    for part, (_, tile) in zip(cut, parts, strict=True):
        loops = sch.get_loops(part[0])
        outer, inner = sch.split(loops[at], [None, tile])
        end = len(loops) - lanes
        sch.reorder(outer, *loops[at + 1 : end], inner, *loops[end:])
    return cut


def image_of(pad: Block) -> BufferLoad | None:
    """What a block pads: its value is that load inside of the image, and a constant elsewhere."""
    value = pad.body.value if isinstance(pad.body, BufferStore) else None
    if not (isinstance(value, Call) and value.op == "if_then_else"):
        return None
    _, inside, outside = value.args
    if not isinstance(inside, BufferLoad) or not isinstance(outside, FloatImm | IntImm):
        return None
    return inside if len(inside.indices) == len(pad.iter_vars) else None


def offset_of(pad: Block, image: BufferLoad, dim: int) -> int | None:
    """How many elements of padding stand before the image along a dimension."""
    own = pad.iter_vars[dim].var
    found = Analyzer().simplify(own - image.indices[dim])
    return found.value if isinstance(found, IntImm) else None


def _value(index: Expr, values: dict[Var, int]) -> int | None:
    bound: dict[Var, Expr] = {v: IntImm(n, v.dtype) for v, n in values.items()}
    found = Analyzer().simplify(substitute(index, bound))
    return found.value if isinstance(found, IntImm) else None

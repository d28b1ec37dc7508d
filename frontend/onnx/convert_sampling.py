"""Operators of ONNX that read images between their pixels, or put pixels to places: GridSample,
RoiAlign, DeformConv, Col2Im, MaxUnpool."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from onnx import NodeProto

from ...graphir.dim import fold_dim
from ...support.errors import FrontendError
from ...tensorir.expr import Expr
from ..term import join
from .data_sizes import counted, positions, size_of
from .registry import MOST_ELEMENTS, Context, Value, attribute, converts, node_name
from .term import Term

Neighbours = list[tuple[Term, Term]]
"""Of one axis: places, and their weights."""


def _read(x: Term, axes: Sequence[Neighbours], where: str, *, zeros: bool) -> Term:
    """``x[n, c, places]`` weighted and summed, for each combination of the axes' neighbours.

    Places are (n, points) numbers in float, weights the same; gives (n, points, c). Places outside
    are 0 with ``zeros``, else those at the border.
    """
    sizes = x.sizes(where)
    batch, channels, spatial = sizes[0], sizes[1], sizes[2:]
    pixels = x.channels_last().reshape(batch * math.prod(spatial), channels)
    first = x.data(np.arange(batch)[:, None] * math.prod(spatial), "int64")
    result: Term | None = None
    for chosen in itertools.product(*axes):
        index, weight = first, None
        for (place, w), size, behind in zip(
            chosen, spatial, [math.prod(spatial[d + 1 :]) for d in range(len(spatial))], strict=True
        ):
            at = place.op("clip", min=0.0, max=float(size - 1)).cast("int64")
            index = index + at * behind
            weight = w if weight is None else weight * w
            if zeros:
                inside = (place >= 0.0) & (place <= float(size - 1))
                weight = inside.where(weight, 0.0)
        assert weight is not None
        term = pixels.op("take", index, axis=0) * weight.cast(x.dtype).unsqueeze(-1)
        result = term if result is None else result + term
    assert result is not None
    return result


def _linear(place: Term) -> Neighbours:
    low = place.op("floor")
    part = place - low
    return [(low, 1.0 - part), (low + 1.0, part)]


def _cubic(place: Term, a: float = -0.75) -> Neighbours:
    low = place.op("floor")
    t = place - low

    def near(d: Term) -> Term:
        return ((a + 2) * d - (a + 3)) * d * d + 1.0

    def far(d: Term) -> Term:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
    return [(low + float(k), w) for k, w in zip((-1, 0, 1, 2), weights, strict=True)]


_NEIGHBOURS: dict[str, Callable[[Term], Neighbours]] = {
    "nearest": lambda p: [(p.op("round"), p * 0.0 + 1.0)],
    "linear": _linear,
    "bilinear": _linear,
    "cubic": _cubic,
    "bicubic": _cubic,
}


@converts("GridSample")
def grid_sample(context: Context, node: NodeProto) -> Value:
    """Pixels at the places of a grid, which are -1 to 1 from border to border, last axis first."""
    x, grid = (Term(context, context.operand(node, i)) for i in range(2))
    where = node_name(node)
    sizes, points = x.sizes(where)[2:], grid.sizes(where)
    mode = str(attribute(node, "mode", "linear"))
    padding = str(attribute(node, "padding_mode", "zeros"))
    if mode not in _NEIGHBOURS or padding not in ("zeros", "border", "reflection"):
        raise FrontendError(f"{where}: mode {mode!r} with padding {padding!r} is unknown.")
    corners = bool(attribute(node, "align_corners", 0))
    flat = grid.reshape(points[0], math.prod(points[1:-1]), points[-1])
    axes: list[Neighbours] = []
    for d, size in enumerate(sizes):
        place = flat.at(2, len(sizes) - 1 - d)
        place = (place + 1.0) * ((size - 1) / 2 if corners else size / 2)
        place = place if corners else place - 0.5

        def bounded(p: Term, size: int = size) -> Term:
            if padding == "reflection":
                low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
                p = _reflected(p, low, high)
            return p if padding == "zeros" else p.op("clip", min=0.0, max=float(size - 1))

        if "cubic" in mode:
            axes.append([(bounded(p), w) for p, w in _NEIGHBOURS[mode](place)])
        else:
            axes.append(_NEIGHBOURS[mode](bounded(place)))
    found = _read(x, axes, where, zeros=padding == "zeros")
    return found.permute(0, 2, 1).reshape(points[0], x.shape[1], *points[1:-1]).atom


def _reflected(place: Term, low: float, high: float) -> Term:
    """Places outside turned back at the borders, as often as need be."""
    span = high - low
    if span <= 0:
        return place * 0.0
    distance = (place - low).op("abs")
    turns = (distance / span).op("floor")
    rest = distance - turns * span
    odd = (turns - (turns * 0.5).op("floor") * 2.0) > 0.5
    return odd.where(span - rest, rest) + low


@converts("RoiAlign")
def roi_align(context: Context, node: NodeProto) -> Value:
    """Means (or maxima) of samples in the cells of regions; a region has its own batch."""
    x, rois, batch = (Term(context, context.operand(node, i)) for i in range(3))
    count, channels = rois.shape[0], x.shape[1]
    sizes = [counted(context, size).cast(str(rois.dtype)) for size in x.shape[2:]]
    half = str(attribute(node, "coordinate_transformation_mode", "half_pixel")) == "half_pixel"
    half = half and context.opset >= 16
    shift = 0.5 if half else 0.0
    scale = float(attribute(node, "spatial_scale", 1.0))
    out = [int(attribute(node, f"output_{side}", 1)) for side in ("height", "width")]
    ratio = int(attribute(node, "sampling_ratio", 0))
    corners = rois * scale - shift
    starts = [corners.at(1, 1), corners.at(1, 0)]
    extents = [corners.at(1, 3) - starts[0], corners.at(1, 2) - starts[1]]
    if not half:
        extents = [e.op("maximum", 1.0) for e in extents]
    grids = [_Grid(context, node, e, n, ratio) for e, n in zip(extents, out, strict=True)]
    places, outside = [], []
    for start, extent, grid, size in zip(starts, extents, grids, sizes, strict=True):
        place = start.unsqueeze(1) + (extent / float(grid.cells)).unsqueeze(1) * grid.parts
        outside.append((place < -1.0) | (place > size))
        places.append(place.op("maximum", 0.0).op("minimum", size - 1.0))
    is_max = str(attribute(node, "mode", "avg")) == "max"
    pixels, image = x.permute(0, 2, 3, 1), batch.cast("int64").unsqueeze(1, 2)
    value: Term | None = None
    for (row, above), (column, beside) in itertools.product(*map(_linear, places)):
        at = [
            near.op("minimum", size - 1.0).cast("int64").unsqueeze(axis)
            for near, size, axis in ((row, sizes[0], 2), (column, sizes[1], 1))
        ]
        weight = (above.unsqueeze(2) * beside.unsqueeze(1)).cast(str(x.dtype))
        read = pixels.op("advanced_index", image, *at, axes=(0, 1, 2)) * weight.unsqueeze(3)
        value = read if value is None else value.op("maximum", read) if is_max else value + read
    assert value is not None
    gone = (outside[0].unsqueeze(2) | outside[1].unsqueeze(1)).unsqueeze(3)
    value = gone.where(value.data(0.0, str(value.dtype)), value)  # an inf times 0 were NaN
    split = (count, out[0], grids[0].samples, out[1], grids[1].samples, channels)
    if ratio > 0:
        made = value.reshape(*split).op("max" if is_max else "mean", axis=(2, 4))
        return made.permute(0, 3, 1, 2).atom
    own = (grids[0].is_sample.unsqueeze(2) & grids[1].is_sample.unsqueeze(1)).unsqueeze(3)
    value = own.where(value, float("-inf") if is_max else 0.0).reshape(*split)
    many = (grids[0].many * grids[1].many).cast(str(value.dtype)).reshape(count, 1, 1, 1)
    made = value.op("max", axis=(2, 4)) if is_max else value.sum(2, 4) / many.op("maximum", 1.0)
    return (many > 0.0).where(made, 0.0).permute(0, 3, 1, 2).atom


class _Grid:
    """Where regions are sampled along an axis: in each of as many cells alike, as often as
    ``ratio`` says, or where that is 0 once for each pixel of a cell, rounded up. The regions then
    have samples of their own numbers, as many as the largest; those behind a region's own count for
    nothing."""

    def __init__(
        self, context: Context, node: NodeProto, extent: Term, cells: int, ratio: int
    ) -> None:
        self.cells = cells
        self.samples: Expr | int = ratio
        if ratio > 0:
            place = np.arange(cells * ratio)
            self.parts = extent.data(place // ratio + (place % ratio + 0.5) / ratio)
            return
        wanted = (extent / float(cells)).op("ceil").cast("int64").op("maximum", 0)
        most = join([wanted, wanted.data([1])], 0).op("max")
        self.many = wanted
        """Of each region."""
        size = self.samples = size_of(context, most, node, 1)
        each = counted(context, size)
        places = positions(context, fold_dim(size * cells))
        sample = places.op("floor_mod", each)
        self.is_sample = sample < wanted.unsqueeze(1)
        own, kind = wanted.op("maximum", 1).unsqueeze(1), str(extent.dtype)
        inner = (sample.cast(kind) + 0.5) / own.cast(kind)
        self.parts = places.op("floor_divide", each).cast(kind) + inner


@converts("DeformConv")
def deform_conv(context: Context, node: NodeProto) -> Value:
    """A convolution each of whose taps is read at an offset, and perhaps has a factor."""
    x, w, offsets = (Term(context, context.operand(node, i)) for i in range(3))
    where = node_name(node)
    (n, channels), (outputs, _, *kernel) = x.sizes(where)[:2], w.sizes(where)
    count, taps = len(kernel), math.prod(kernel)
    groups = int(attribute(node, "offset_group", 1))
    strides, dilations, pads = (
        list(attribute(node, name) or default)
        for name, default in (
            ("strides", [1] * count), ("dilations", [1] * count), ("pads", [0] * 2 * count),
        )
    )  # fmt: skip
    extent = list(offsets.sizes(where)[2:])
    if taps * math.prod(extent) > MOST_ELEMENTS:
        raise FrontendError(
            f"{where}: Expected the offsets of an image; found a shape that ends with {extent}, "
            f"which are more than {MOST_ELEMENTS} places."
        )
    shape = (n, groups, taps, count, *extent)
    moved = offsets.reshape(*shape)
    mask = Term(context, context.operand(node, 4)) if context.raw(node, 4) is not None else None
    columns = []
    for g in range(groups):
        axes: list[Neighbours] = []
        for d in range(count):
            at = np.indices(kernel)[d].reshape(taps, *[1] * count) * dilations[d] - pads[d]
            at = at + np.indices(extent)[d] * strides[d]
            place = moved.at(1, g).at(2, d) + x.data(at)
            axes.append(_linear(place.reshape(n, taps * math.prod(extent))))
        each = channels // groups
        read = _read(x.cut(1, g * each, (g + 1) * each), axes, where, zeros=True)
        if mask is not None:
            factor = mask.reshape(n, groups, taps * math.prod(extent)).at(1, g)
            read = read * factor.unsqueeze(2)
        columns.append(read)
    parts = int(attribute(node, "group", 1))
    pixels = join(columns, 2).reshape(n, taps, math.prod(extent), parts, channels // parts)
    rows = pixels.permute(0, 3, 2, 4, 1).reshape(n, parts, math.prod(extent), -1)
    weight = w.reshape(parts, outputs // parts, channels // parts * taps).swap()
    made = (rows @ weight).permute(0, 1, 3, 2).reshape(n, outputs, *extent)
    if context.raw(node, 3) is not None:
        made = made + Term(context, context.operand(node, 3)).reshape(-1, *[1] * count)
    return made.atom


@converts("Col2Im")
def col2im(context: Context, node: NodeProto) -> Value:
    """Columns of blocks added up where the blocks lie."""
    x = Term(context, context.operand(node, 0))
    where = node_name(node)
    image, block = context.ints(node, 1) or [], context.ints(node, 2) or []
    count = len(image)
    strides, dilations = (list(attribute(node, k) or [1] * count) for k in ("strides", "dilations"))
    pads = list(attribute(node, "pads") or [0] * 2 * count)
    n, columns, length = x.sizes(where)
    channels = columns // math.prod(block)
    steps = [
        (image[d] + pads[d] + pads[d + count] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1
        for d in range(count)
    ]
    is_inside = np.full((math.prod(block), length), fill_value=True)
    index: np.ndarray = np.zeros(is_inside.shape, np.int64)
    for d in range(count):
        tap = np.indices(block)[d].reshape(-1, 1) * dilations[d] - pads[d]
        at = tap + np.indices(steps)[d].reshape(1, -1) * strides[d]
        is_inside = is_inside & (at >= 0) & (at < image[d])
        index = index * image[d] + at
    total = math.prod(image)
    index = np.where(is_inside, index, total).reshape(-1)
    zeros = x.data(0.0).expand(n, channels, total + 1)
    updates = x.reshape(n, channels, math.prod(block) * length)
    made = zeros.op("scatter_index", updates, x.data(index, "int64"), axes=(2,), reduction="add")
    return made.cut(2, 0, total).reshape(n, channels, *image).atom


@converts("MaxUnpool")
def max_unpool(context: Context, node: NodeProto) -> Value:
    """Values back at the places that a MaxPool took them from, 0 elsewhere."""
    x, index = (Term(context, context.operand(node, i)) for i in range(2))
    sizes = x.sizes(node_name(node))
    kernel = list(attribute(node, "kernel_shape"))
    count = len(kernel)
    strides = list(attribute(node, "strides") or [1] * count)
    pads = list(attribute(node, "pads") or [0] * 2 * count)
    spatial = [
        (s - 1) * strides[d] - pads[d] - pads[d + count] + kernel[d]
        for d, s in enumerate(sizes[2:])
    ]
    wanted = context.ints(node, 2)
    shape = list(wanted) if wanted is not None else [*sizes[:2], *spatial]
    if wanted is not None:
        index = _renumbered(index, [*sizes[:2], *spatial], shape)
    zeros = x.data(0.0).expand(math.prod(shape))
    made = zeros.op("scatter_index", x.reshape(-1), index.reshape(-1), axes=(0,))
    return made.reshape(*shape).atom


def _renumbered(index: Term, old: Sequence[int], new: Sequence[int]) -> Term:
    """Numbers of elements of one shape as those of the same places of another."""
    found: Term | None = None
    for d in range(len(old)):
        at = index.floor_divide(math.prod(old[d + 1 :])).modulo(old[d])
        part = at * math.prod(new[d + 1 :])
        found = part if found is None else found + part
    assert found is not None
    return found

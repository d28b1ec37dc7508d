"""Operators of torch on images written with others: see ``decompositions``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .decompositions import aten, decomposes


# -- sampling ------------------------------------------------------------------------------------
def _coordinates(grid: Tensor, size: int, padding: int, align_corners: bool, lost: float) -> Tensor:
    """Coordinates of -1 to 1 in elements, brought ``_within`` the axis, where NaN goes to
    ``lost``."""
    at = (grid + 1) / 2 * (size - 1) if align_corners else ((grid + 1) * size - 1) / 2
    at = _within(at, size, padding, align_corners)
    return at if padding == 0 else torch.where(at.isnan(), lost, at)


def _within(at: Tensor, size: int, padding: int, align_corners: bool) -> Tensor:
    """Coordinates outside stay there, or go to the border (``padding=1``), or are reflected (2)."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if padding == 2:
        distance, step = (at - low).abs(), torch.sym_max(span, 1)  # of one element all is the first
        rest, flips = torch.fmod(distance, step), torch.floor(distance / step)
        at = torch.where(torch.fmod(flips, 2) == 0, rest, span - rest) + low
    return at if padding == 0 else at.clamp(0, size - 1)


_NEAREST, _CUBIC = 1, 2
_CUBIC_A = -0.75
"""What Keys' cubic convolution has for its one free parameter in torch."""


@decomposes(aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def grid_sampler(
    x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Modes 0, 1 and 2 are linear, nearest and cubic; of the grid's numbers the first is the
    column. The places that a sample reads and their weights are the same for all channels; a place
    outside is negative, whatever its other axes are.

    Outside of an image of two axes 0 is taken, whose product with a weight that is NaN is NaN, as
    in torch; outside of one of three there is no product at all.
    """
    batch, channels, *sizes = x.shape
    place = weight = None
    outside = -math.prod(sizes)
    for d, size in enumerate(sizes):
        at = grid[..., len(sizes) - 1 - d].reshape(batch, 1, -1)
        lost = 0 if len(sizes) == 2 else size - 1  # where torch's comparisons bring NaN
        own, share = _taps(at, size, interpolation_mode, padding_mode, align_corners, lost)
        within = (own >= 0) & (own < size)  # of NaN False
        own = torch.where(within, torch.where(within, own, 0).to(torch.int64), outside)
        if place is None or weight is None:
            place, weight = own, share
        else:
            place = (place.unsqueeze(2) * size + own.unsqueeze(1)).flatten(1, 2)
            weight = (weight.unsqueeze(2) * share.unsqueeze(1)).flatten(1, 2)
    assert place is not None
    assert weight is not None
    if len(sizes) == 3:
        weight = torch.where(place < 0, 0.0, weight)
    many = not isinstance(channels, int) or channels >= _FEWEST_CHANNELS
    made = (_sampled_rows if many else _sampled)(x.reshape(batch, channels, -1), place, weight)
    return made.reshape(batch, channels, *grid.shape[1:-1])


_FEWEST_CHANNELS = 4
"""Channels of a place that are worth to be brought side by side, to be read together."""


def _sampled(x: Tensor, place: Tensor, weight: Tensor) -> Tensor:
    """For each sample the elements of (batch, channels, elements) at its places, weighed and
    added: (batch, channels, samples)."""
    result = None
    for t in range(place.shape[1]):
        own, share = place[:, t], weight[:, t]
        taken = x.gather(2, own.clamp(min=0).unsqueeze(1).expand(-1, x.shape[1], -1))
        term = torch.where(own.unsqueeze(1) < 0, 0.0, taken) * share.unsqueeze(1)
        result = term if result is None else result + term
    assert result is not None
    return result


def _sampled_rows(x: Tensor, place: Tensor, weight: Tensor) -> Tensor:
    """The same, all channels of a place at once, for the samples of all images in a row."""
    batch, channels, count = x.shape
    rows = x.transpose(1, 2).reshape(batch * count, channels)
    first = torch.arange(batch).reshape(batch, 1, 1) * count
    place = torch.where(place < 0, place, place + first)
    result = None
    for own, share in zip(*(t.transpose(0, 1).flatten(1) for t in (place, weight)), strict=True):
        taken = rows.index_select(0, own.clamp(min=0))
        term = torch.where(own.unsqueeze(1) < 0, 0.0, taken) * share.unsqueeze(1)
        result = term if result is None else result + term
    assert result is not None
    return result.reshape(batch, -1, channels).transpose(1, 2)


def _taps(
    grid: Tensor, size: int, mode: int, padding: int, align_corners: bool, lost: float
) -> tuple[Tensor, Tensor]:
    """The places along one axis that each sample reads, (batch, places, samples), as floats that
    may lie outside, and their weights."""
    at = _coordinates(grid, size, 0 if mode == _CUBIC else padding, align_corners, lost)
    if mode == _NEAREST:
        return at.round(), torch.ones_like(at)
    if mode == _CUBIC:
        free = at.floor() + torch.arange(-1, 3, dtype=at.dtype).unsqueeze(1)
        return _within(free, size, padding, align_corners), _cubic(at - free)
    place = at.floor() + torch.arange(2, dtype=at.dtype).unsqueeze(1)
    return place, 1 - (at - place).abs()


def _cubic(distance: Tensor) -> Tensor:
    """Keys' kernel at distances of -2 to 2."""
    d, a = distance.abs(), _CUBIC_A
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return torch.where(d <= 1, near, far)


# -- pooling -------------------------------------------------------------------------------------
_MAX_POOLS = {2: torch.max_pool2d, 3: torch.max_pool3d}


@decomposes(aten.max_pool2d_with_indices.default)
def max_pool_with_indices(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
    *,
    dims: int = 2,
) -> tuple[Tensor, Tensor]:
    """The maxima, and where each is."""
    kernel, steps, pads, gaps = (
        list(v) * (dims // len(v)) for v in (kernel_size, stride or kernel_size, padding, dilation)
    )
    values = _MAX_POOLS[dims](x, kernel, steps, pads, gaps, ceil_mode)
    places, inside = [], []
    for d, size in enumerate(x.shape[-dims:]):
        first = torch.arange(values.shape[d - dims]) * steps[d] - pads[d]
        at = first.unsqueeze(-1) + torch.arange(kernel[d]) * gaps[d]
        places.append(at.clamp(0, size - 1))
        inside.append((at >= 0) & (at < size))
    return values, _places_of(x, values, places, inside)


@decomposes(aten.max_pool3d_with_indices.default)
def max_pool3d_with_indices(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    return max_pool_with_indices(*args, **kwargs, dims=3)


@decomposes(
    aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default,
    aten.adaptive_max_pool3d.default,
)  # fmt: skip
def adaptive_max_pool(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Windows that divide the axes evenly; those that are shorter than others read an element
    twice."""
    dims = len(output_size)
    if any(isinstance(size, torch.SymInt) for size in (*x.shape[-dims:], *output_size)):
        for axis, out in enumerate(output_size, -dims):
            x = _maximum_of_windows(x, axis, out)
        return x, torch.zeros_like(x, dtype=torch.int64)  # which nobody asks for
    places = []
    for size, out in zip(x.shape[-dims:], output_size, strict=True):
        row = torch.arange(out, device=x.device)
        first, last = row * size // out, ((row + 1) * size + out - 1) // out - 1
        widest = max([-(-(i + 1) * size // out) - i * size // out for i in range(out)], default=1)
        at = first.unsqueeze(-1) + torch.arange(widest, device=x.device)
        places.append(torch.minimum(at, last.unsqueeze(-1)))
    values = None
    for _, taken in _taken(x, places):
        values = taken if values is None else torch.maximum(values, taken)
    assert values is not None
    inside = [torch.ones_like(p, dtype=torch.bool) for p in places]
    return values, _places_of(x, values, places, inside)


@decomposes(
    aten.adaptive_avg_pool1d.default, aten.adaptive_avg_pool2d.default,
    aten.adaptive_avg_pool3d.default, aten._adaptive_avg_pool2d.default,
    aten._adaptive_avg_pool3d.default,
)  # fmt: skip
def adaptive_avg_pool(x: Tensor, output_size: Sequence[int]) -> Tensor:
    """Of images of named sizes: a mean along one axis after the other, since windows are boxes."""
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    for axis, out in enumerate(output_size, -len(output_size)):
        wide = _mean_of_windows(wide, axis, out)
    return wide.to(x.dtype)


def _windows(size: int, out: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of windows that divide an axis evenly: the places of their elements, of the last one again
    where there is none, which of them there are, and how many."""
    row = torch.arange(out).unsqueeze(-1)
    first, end = row * size // out, ((row + 1) * size + (out - 1)) // out
    at = first + torch.arange((size + (out - 1)) // out + 1)
    return torch.minimum(at, end - 1), at < end, end - first


def _mean_of_windows(x: Tensor, axis: int, out: int) -> Tensor:
    size = x.shape[axis]
    if out == 1:
        return x.mean(axis, keepdim=True)
    if statically_known_true(size == out):
        return x
    at, is_there, count = _windows(size, out)
    behind = [1] * (-1 - axis)
    taken = x.index_select(axis, at.reshape(-1)).unflatten(axis, (out, at.shape[1]))
    is_there, count = is_there.reshape(*is_there.shape, *behind), count.reshape(out, *behind)
    return torch.where(is_there, taken, 0).sum(axis) / count.to(x.dtype)


def _maximum_of_windows(x: Tensor, axis: int, out: int) -> Tensor:
    size = x.shape[axis]
    if out == 1:
        return x.amax(axis, keepdim=True)
    if statically_known_true(size == out):
        return x
    at, _, _ = _windows(size, out)
    return x.index_select(axis, at.reshape(-1)).unflatten(axis, (out, at.shape[1])).amax(axis)


def _taken(x: Tensor, places: Sequence[Tensor]) -> Iterator[tuple[tuple[int, ...], Tensor]]:
    """For each place of a window: the elements of all windows there."""
    dims = len(places)
    for tap in itertools.product(*[range(p.shape[1]) for p in places]):
        taken = x
        for d, k in enumerate(tap):
            taken = taken.index_select(d - dims, places[d][:, k])
        yield tap, taken


def _places_of(
    x: Tensor, values: Tensor, places: Sequence[Tensor], inside: Sequence[Tensor]
) -> Tensor:
    """Where each maximum is first found in its window (the last NaN of one that has some), as
    places of all elements in a row. ``places[d]`` has the windows of axis d as its rows."""
    dims = len(places)
    terms = []
    for tap, taken in _taken(x, places):
        number = torch.zeros((), dtype=torch.int64)
        counts = torch.ones((), dtype=torch.bool)
        for d, k in enumerate(tap):
            behind = [1] * (dims - 1 - d)
            own = places[d][:, k].reshape(-1, *behind)
            number = number * x.shape[d - dims] + own
            counts = counts & inside[d][:, k].reshape(-1, *behind)
        terms.append((taken, number, counts))
    found = torch.zeros_like(values, dtype=torch.int64)
    if x.is_floating_point():
        for taken, number, counts in terms:
            found = torch.where(taken.isnan() & counts, number, found)
    for taken, number, counts in reversed(terms):
        found = torch.where((taken == values) & counts, number, found)
    return found


# -- resizing ------------------------------------------------------------------------------------
def _tent(distance: Tensor) -> Tensor:
    return (1 - distance).clamp(min=0)


def _keys_cubic(distance: Tensor) -> Tensor:
    """Keys' kernel with a = -1/2, as where antialiasing is asked for (-3/4 elsewhere)."""
    near = (1.5 * distance - 2.5) * distance * distance + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    return torch.where(distance < 1, near, torch.where(distance < 2, far, torch.zeros_like(far)))


def _spread_weights(
    kernel: Callable[[Tensor], Tensor],
    size: int,
    out: int,
    align_corners: bool,
    scale: float | None,
) -> Tensor:
    """The weights (out, size) of an interpolation whose support grows with the scale."""
    if align_corners:
        step = (size - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = 1 / scale if scale else size / out
    centre = (torch.arange(out, dtype=torch.float64) + 0.5) * step
    distance = torch.arange(size, dtype=torch.float64) + 0.5 - centre.unsqueeze(-1)
    weights = kernel(distance.abs() / max(step, 1.0))
    return weights / weights.sum(-1, keepdim=True)


@decomposes(aten._upsample_bilinear2d_aa.default)
def upsample_bilinear_antialiased(
    x: Tensor,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    return _antialiased(x, _tent, output_size, align_corners, scales_h, scales_w)


@decomposes(aten._upsample_bicubic2d_aa.default)
def upsample_bicubic_antialiased(
    x: Tensor,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    return _antialiased(x, _keys_cubic, output_size, align_corners, scales_h, scales_w)


def _antialiased(
    x: Tensor,
    kernel: Callable[[Tensor], Tensor],
    output_size: Sequence[int],
    align_corners: bool,
    *scales: float | None,
) -> Tensor:
    """A product with the weights of each axis; bytes are rounded after each, as eager does (whose
    weights have 16 bits then: each may differ by one)."""
    dtype = x.dtype if x.dtype.is_floating_point else torch.float32
    down, across = (
        _spread_weights(kernel, x.shape[axis], out, align_corners, scale).to(dtype)
        for axis, out, scale in zip((-2, -1), output_size, scales, strict=True)
    )
    if dtype == x.dtype:
        return torch.matmul(down, torch.matmul(x, across.t()))
    rows = torch.matmul(x.to(dtype), across.t()).round().clamp(0, 255)
    return torch.matmul(down, rows).round().clamp(0, 255).to(x.dtype)


# -- unpooling -----------------------------------------------------------------------------------
@decomposes(aten.max_unpool2d.default, aten.max_unpool3d.default)
def max_unpool(x: Tensor, indices: Tensor, output_size: Sequence[int], *window: Any) -> Tensor:
    """Elements at their places in a channel. torch's own decomposition numbers the places of all
    channels, and writes what is out of range into another one."""
    outer = x.shape[: x.ndim - len(output_size)]
    inner = math.prod(x.shape[len(outer) :])
    row = x.new_zeros((*outer, math.prod(output_size)))
    row = row.scatter(-1, indices.reshape(*outer, inner), x.reshape(*outer, inner))
    return row.reshape(*outer, *output_size)

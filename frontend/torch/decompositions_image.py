"""Operators of torch on images written with others: see ``decompositions``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

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
    low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
    if padding == 2 and span == 0:
        at = torch.zeros_like(at)
    elif padding == 2:
        distance = (at - low).abs()
        rest, flips = torch.fmod(distance, span), torch.floor(distance / span)
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
        lost = 0.0 if len(sizes) == 2 else float(size - 1)  # where torch's comparisons bring NaN
        own, share = _taps(at, size, interpolation_mode, padding_mode, align_corners, lost)
        within = (own >= 0) & (own < size)  # of NaN False
        own = torch.where(within, own, float(outside)).to(torch.int64)
        if place is None or weight is None:
            place, weight = own, share
        else:
            place = (place.unsqueeze(2) * size + own.unsqueeze(1)).flatten(1, 2)
            weight = (weight.unsqueeze(2) * share.unsqueeze(1)).flatten(1, 2)
    assert place is not None
    assert weight is not None
    if len(sizes) == 3:
        weight = torch.where(place < 0, 0.0, weight)
    flat = x.reshape(batch, channels, -1)
    result = None
    for t in range(place.shape[1]):
        own = place[:, t : t + 1]
        taken = flat.gather(2, own.clamp(min=0).expand(-1, channels, -1))
        taken = torch.where(own < 0, 0.0, taken)
        term = taken * weight[:, t : t + 1]
        result = term if result is None else result + term
    assert result is not None
    return result.reshape(batch, channels, *grid.shape[1:-1])


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
@decomposes(aten.max_pool2d_with_indices.default)
def max_pool_with_indices(
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """The maxima, and where each is first found (the last NaN of a window that has some)."""
    values = torch.max_pool2d(
        x, tuple(kernel_size), tuple(stride), tuple(padding), tuple(dilation), ceil_mode
    )
    kernel, pads, steps = (list(v) * (3 - len(v)) for v in (kernel_size, padding, dilation))
    strides = list(stride or kernel) * (3 - len(stride or kernel))
    rows, columns = x.shape[-2:]

    def along(d: int, k: int) -> Tensor:
        count = values.shape[d - 2]
        return torch.arange(count) * strides[d] - pads[d] + k * steps[d]

    found = torch.zeros_like(values, dtype=torch.int64)
    terms = []
    for i, j in itertools.product(range(kernel[0]), range(kernel[1])):
        down, across = along(0, i), along(1, j)
        inside = ((down >= 0) & (down < rows)).unsqueeze(-1) & (across >= 0) & (across < columns)
        place = (down * columns).unsqueeze(-1) + across
        taken = x.index_select(-2, down.clamp(0, rows - 1))
        terms.append((taken.index_select(-1, across.clamp(0, columns - 1)), place, inside))
    if x.is_floating_point():
        for taken, place, inside in terms:
            found = torch.where(taken.isnan() & inside, place, found)
    for taken, place, inside in reversed(terms):
        found = torch.where((taken == values) & inside, place, found)
    return values, found


# -- resizing ------------------------------------------------------------------------------------
def _triangles(size: int, out: int, align_corners: bool, scale: float | None) -> Tensor:
    """The weights (out, size) of linear interpolation whose support grows with the scale."""
    if align_corners:
        step = (size - 1) / (out - 1) if out > 1 else 0.0
    else:
        step = 1 / scale if scale else size / out
    support = max(step, 1.0)
    centre = (torch.arange(out, dtype=torch.float64) + 0.5) * step
    distance = torch.arange(size, dtype=torch.float64) + 0.5 - centre.unsqueeze(-1)
    weights = (1 - distance.abs() / support).clamp(min=0)
    return weights / weights.sum(-1, keepdim=True)


@decomposes(aten._upsample_bilinear2d_aa.default)
def upsample_bilinear_antialiased(
    x: Tensor,
    output_size: Sequence[int],
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Tensor:
    """A product with the weights of each axis; of bytes in float32, rounded at the end."""
    dtype = x.dtype if x.dtype.is_floating_point else torch.float32
    down = _triangles(x.shape[-2], output_size[0], align_corners, scales_h).to(dtype)
    across = _triangles(x.shape[-1], output_size[1], align_corners, scales_w).to(dtype)
    result = torch.matmul(down, torch.matmul(x.to(dtype), across.t()))
    return result if dtype == x.dtype else result.round().clamp(0, 255).to(x.dtype)

"""Operators of torch on images written with others: see ``decompositions``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from .decompositions import aten, decomposes


# -- sampling ------------------------------------------------------------------------------------
def _coordinates(grid: Tensor, size: int, padding: int, align_corners: bool) -> Tensor:
    """Coordinates of -1 to 1 in elements; those outside stay there, or go to the border
    (``padding=1``), or are reflected (2)."""
    if align_corners:
        at, low, span = (grid + 1) / 2 * (size - 1), 0.0, float(size - 1)
    else:
        at, low, span = ((grid + 1) * size - 1) / 2, -0.5, float(size)
    if padding == 2 and span == 0:
        at = torch.zeros_like(at)
    elif padding == 2:
        distance = (at - low).abs()
        rest, flips = torch.fmod(distance, span), torch.floor(distance / span)
        at = torch.where(torch.fmod(flips, 2) == 0, rest, span - rest) + low
    return at if padding == 0 else at.clamp(0, size - 1)


@decomposes(aten.grid_sampler_3d.default)
def grid_sampler_3d(
    x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Modes 0 and 1 are linear and nearest; of the grid's three numbers the first is the column."""
    batch, channels, *sizes = x.shape
    at = [
        _coordinates(grid[..., 2 - d], sizes[d], padding_mode, align_corners).reshape(batch, -1)
        for d in range(3)
    ]
    first = [c.round() if interpolation_mode == 1 else c.floor() for c in at]
    flat = x.reshape(batch, channels, -1)
    total = None
    for corner in itertools.product((0, 1), repeat=1 if interpolation_mode == 1 else 3):
        step = (0, 0, 0) if interpolation_mode == 1 else corner
        places = [f + s for f, s in zip(first, step, strict=True)]
        place = torch.zeros_like(places[0], dtype=torch.int64)
        weight = torch.ones_like(places[0])
        for p, c, size in zip(places, at, sizes, strict=True):
            inside = (p >= 0) & (p < size)
            share = torch.ones_like(c) if interpolation_mode == 1 else 1 - (c - p).abs()
            weight = torch.where(inside, weight * share, 0.0)
            place = place * size + p.clamp(0, size - 1).to(torch.int64)
        taken = flat.gather(2, place.unsqueeze(1).expand(batch, channels, place.shape[-1]))
        term = taken * weight.unsqueeze(1)
        total = term if total is None else total + term
        if interpolation_mode == 1:
            break
    assert total is not None
    return total.reshape(batch, channels, *grid.shape[1:4])


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

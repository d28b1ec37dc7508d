"""Operators of torch that count elements: histograms, the most frequent value, the places of a
known number of elements, and whether a bit is set in an odd number of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .decompositions import aten, decomposes, searchsorted


# -- histograms ----------------------------------------------------------------------------------
@decomposes(aten.histc.default)
def histc(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements are in each of ``bins`` equal parts; what is outside does not count."""
    flat = x.reshape(-1)
    low, high = _range(flat, min, max, 1)
    place = ((flat - low) * bins / (high - low)).floor()
    inside = (flat >= low) & (flat <= high)
    return _counted(place.clamp(0, bins - 1), inside.to(x.dtype), bins)


def _range(flat: Tensor, low: float, high: float, apart: float) -> tuple[Tensor, Tensor]:
    """The ends that are given, or those of the data where they are the same; a single point is
    widened."""
    if low == high and flat.numel():
        ends = flat.min(), flat.max()
    else:
        ends = torch.full((), low, dtype=flat.dtype), torch.full((), high, dtype=flat.dtype)
    is_point = ends[0] == ends[1]
    margin = is_point.to(flat.dtype) * apart
    return ends[0] - margin, ends[1] + margin


def _counted(place: Tensor, weight: Tensor, bins: int) -> Tensor:
    counts = torch.zeros(bins, dtype=weight.dtype, device=weight.device)
    return counts.index_add(0, place.to(torch.int64), weight)


@decomposes(aten.histogram.bins_tensor)
def histogram(
    x: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: bool = False
) -> tuple[Tensor, Tensor]:
    """Between the given edges; the last part has its right one."""
    flat, count = x.reshape(-1), bins.shape[0] - 1
    inside = (flat >= bins[0]) & (flat <= bins[-1])
    place = (searchsorted(bins, flat, right=True) - 1).clamp(0, count - 1)
    share = torch.ones_like(flat) if weight is None else weight.reshape(-1)
    counts = _counted(place, torch.where(inside, share, 0.0), count)
    if density:
        counts = counts / (counts.sum() * bins.diff())
    return counts, bins


@decomposes(aten.histogram.bin_ct)
def histogram_of_equal_parts(
    x: Tensor,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    first, last = range or (0.0, 0.0)
    edges = _equal_parts(x.reshape(-1), bins, first, last)
    return histogram(x, edges, weight=weight, density=density)


def _equal_parts(flat: Tensor, bins: int, first: float, last: float) -> Tensor:
    """The edges between two ends, or those of the data."""
    low, high = _range(flat, first, last, 0.5)
    step = torch.arange(bins + 1, dtype=flat.dtype, device=flat.device) / bins
    return torch.where(step < 0.5, low + step * (high - low), high - (1 - step) * (high - low))


@decomposes(aten._histogramdd_bin_edges.default)
def edges_of_dims(
    x: Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> list[Tensor]:
    """Of equal parts along each of the last axis' coordinates."""
    columns = x.reshape(-1, x.shape[-1])
    if not columns.shape[0] and range is None:
        range = [0.0, 1.0] * len(bins)
    ends = range or [0.0] * (2 * len(bins))
    return [
        _equal_parts(columns[:, d], count, ends[2 * d], ends[2 * d + 1])
        for d, count in enumerate(bins)
    ]


@decomposes(aten._histogramdd_from_bin_cts.default)
def histogram_of_dims_in_equal_parts(
    x: Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Tensor:
    edges = edges_of_dims(x, bins, range=range)
    return histogram_of_dims(x, edges, weight=weight, density=density)


@decomposes(aten._histogramdd_from_bin_tensors.default)
def histogram_of_dims(
    x: Tensor, bins: Sequence[Tensor], *, weight: Tensor | None = None, density: bool = False
) -> Tensor:
    """How many points (along the last axis their coordinates) are in each box."""
    points = x.reshape(-1, x.shape[-1])
    box = torch.zeros(points.shape[0], dtype=torch.int64, device=x.device)
    inside = torch.ones_like(box, dtype=torch.bool)
    for d, edges in enumerate(bins):
        column, count = points[:, d].contiguous(), edges.shape[0] - 1
        inside = inside & (column >= edges[0]) & (column <= edges[-1])
        place = searchsorted(edges, column, right=True) - 1
        box = box * count + place.clamp(0, count - 1)
    share = torch.ones_like(box, dtype=x.dtype) if weight is None else weight.reshape(-1)
    sizes = [edges.shape[0] - 1 for edges in bins]
    counts = _counted(box, torch.where(inside, share, 0.0), math.prod(sizes)).reshape(sizes)
    if density:
        counts = counts / counts.sum()
        for d, edges in enumerate(bins):
            shape = [1] * len(bins)
            shape[d] = -1
            counts = counts / edges.diff().reshape(shape)
    return counts


# -- the most frequent ---------------------------------------------------------------------------
@decomposes(aten.mode.default)
def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The value that is most often there (of several the least), and its last place."""
    if x.ndim == 0:
        return x, torch.zeros_like(x, dtype=torch.int64)
    rows = x.movedim(dim, -1)
    order, places = torch.sort(rows, dim=-1, stable=True)
    often = searchsorted(order, order, right=True) - searchsorted(order, order)
    # The last of the first run that is as long as any.
    most = often.amax(-1, keepdim=True)
    first = (often == most).to(torch.uint8).argmax(-1, keepdim=True)
    at = first + most - 1
    found: list[Any] = [order.gather(-1, at), places.gather(-1, at)]
    if keepdim:
        return found[0].movedim(-1, dim), found[1].movedim(-1, dim)
    return found[0].squeeze(-1), found[1].squeeze(-1)


# -- places --------------------------------------------------------------------------------------
@decomposes(aten.nonzero_static.default)
def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The places of the first ``size`` elements that are not 0; behind the last the filling."""
    flat = (x != 0).reshape(-1)
    if not size or not x.ndim or not flat.shape[0]:
        return torch.full((size, x.ndim), fill_value, dtype=torch.int64, device=x.device)
    number = flat.to(torch.int64).cumsum(0)
    wanted = torch.arange(size, device=x.device)
    # Element k stands where more than k are found for the first time.
    place = searchsorted(number, wanted, right=True)
    found = place < flat.shape[0]
    columns, rest = [], place
    for extent in reversed(x.shape):
        columns.append(rest % extent)
        rest = rest // extent
    table = torch.stack(columns[::-1], -1)
    return torch.where(found.unsqueeze(-1), table, fill_value)


# -- bits ----------------------------------------------------------------------------------------
@decomposes(aten.hash_tensor.default)
def hash_tensor(
    x: Tensor, dim: Sequence[int] = (), *, keepdim: bool = False, mode: int = 0
) -> Tensor:
    """The exclusive or of all elements' bits, floats as those of float64: of each bit whether it is
    set in an odd number of them."""
    axes = sorted({d % max(x.ndim, 1) for d in dim or range(x.ndim)}) if x.ndim else []
    words = x.double().view(torch.int64) if x.is_floating_point() else x.to(torch.int64)
    place = torch.arange(64, device=x.device)
    odd = (words.unsqueeze(-1) >> place) & 1
    if axes:
        odd = odd.sum(axes, keepdim=keepdim) & 1
    return (odd << place).sum(-1).to(torch.uint64)

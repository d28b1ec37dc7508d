"""Reductions of torch over segments, whose lengths are data and whose number is known."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .decompositions import aten, decomposes, searchsorted

_REDUCED = {"sum": "sum", "mean": "sum", "max": "amax", "min": "amin", "prod": "prod"}
_OF_NOTHING = {"sum": 0.0, "mean": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0}


@decomposes(aten.segment_reduce.default)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Along an axis the segments one behind the other; axes in front have segments of their own.
    What is before the first one and behind the last goes to a place that is left out."""
    if offsets is None:
        assert lengths is not None
        ends = lengths.cumsum(-1)
        starts = ends - lengths
    else:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    count = ends.shape[-1]
    axis = axis % data.ndim
    place = torch.arange(data.shape[axis], device=data.device, dtype=ends.dtype)
    place = place.expand(data.shape[: axis + 1]).contiguous()
    segment = searchsorted(ends.contiguous(), place, right=True)
    segment = torch.where(place < starts.narrow(-1, 0, 1), count, segment) if count else segment
    behind = [1] * (data.ndim - axis - 1)
    shape = list(data.shape)
    shape[axis] = count + 1
    start = _OF_NOTHING[reduce] if initial is None else float(initial)
    result = torch.full(shape, start, dtype=data.dtype, device=data.device).scatter_reduce(
        axis, segment.reshape([*place.shape, *behind]).expand(data.shape), data, _REDUCED[reduce]
    )
    result = result.narrow(axis, 0, count)
    if reduce != "mean":
        return result
    length = (ends - starts).reshape([*ends.shape, *behind]).to(data.dtype)
    empty = math.nan if initial is None else start
    return torch.where(length == 0, empty, result / length)

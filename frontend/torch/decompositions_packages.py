"""Operators that other packages register with torch, written with torch's own, by their names: a
package need not be there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ...support.errors import FrontendError


def grouped_mm(x: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    """Rows of ``x`` stand by groups, which end at ``offs``; each group has a weight of its own.

    Every product is computed whole and its own rows are taken: how many those are only data say.
    """
    place = torch.arange(x.shape[0], device=x.device, dtype=offs.dtype)
    group = (place.unsqueeze(1) >= offs.unsqueeze(0)).sum(1).unsqueeze(1)
    result = torch.zeros(x.shape[0], weight.shape[2], dtype=x.dtype, device=x.device)
    for i in range(weight.shape[0]):
        result = torch.where(group == i, x @ weight[i], result)
    return result


def roi_align(
    x: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Means of bilinear samples in a grid of bins over each region (image, x1, y1, x2, y2)."""
    if sampling_ratio <= 0:
        raise FrontendError(
            "roi_align with sampling_ratio=0 takes as many samples as the size of each region "
            "says, and a compiled model's shapes must follow from those of its inputs; give a "
            "number."
        )
    offset = 0.5 if aligned else 0.0
    corners = rois[:, 1:] * spatial_scale - offset
    image = rois[:, 0].to(torch.int64).reshape(-1, 1, 1)
    rows, row_parts = _samples(
        corners[:, 1], corners[:, 3], pooled_height, sampling_ratio, x.shape[2], aligned
    )
    columns, column_parts = _samples(
        corners[:, 0], corners[:, 2], pooled_width, sampling_ratio, x.shape[3], aligned
    )
    channels_last = x.permute(0, 2, 3, 1)
    result = torch.zeros((), dtype=x.dtype, device=x.device)
    for row, row_part in zip(rows, row_parts, strict=True):
        for column, column_part in zip(columns, column_parts, strict=True):
            part = row_part.unsqueeze(2) * column_part.unsqueeze(1)
            taken = channels_last[image, row.unsqueeze(2), column.unsqueeze(1)]
            result = result + taken * part.unsqueeze(3)
    bins = (pooled_height, sampling_ratio, pooled_width, sampling_ratio)
    apart: Tensor = result.unflatten(2, bins[2:]).unflatten(1, bins[:2])
    return apart.mean((2, 4)).permute(0, 3, 1, 2)


def _samples(
    low: Tensor, high: Tensor, bins: int, each: int, size: int, aligned: bool
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Along an axis of each region: both neighbours of every sample, and their parts."""
    extent = high - low if aligned else (high - low).clamp(min=1.0)
    step = (torch.arange(bins * each, dtype=low.dtype, device=low.device) + 0.5) / (bins * each)
    at = low.unsqueeze(1) + step * extent.unsqueeze(1)
    inside = ((at >= -1) & (at <= size)).to(low.dtype)
    at = at.clamp(0, size - 1)
    first = at.floor()
    share = at - first
    near = first.to(torch.int64)
    far = (near + 1).clamp(max=size - 1)
    return (near, far), ((1 - share) * inside, share * inside)


def linear_cross_entropy(
    x: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    chunk: int,
    policy: str,
    dtype: torch.dtype,
    retain: bool,
    *wants_gradients: bool,
) -> tuple[Tensor, ...]:
    """A loss of the logits of a linear layer, which torch computes piece by piece to save memory.
    The other results are gradients."""
    if any(wants_gradients):
        raise FrontendError(
            "linear_cross_entropy is to give gradients, which a compiled model does not compute; "
            "call it under torch.no_grad()."
        )
    wide = [None if t is None else t.to(dtype) for t in (x, linear_weight, linear_bias, weight)]
    logits = nn.functional.linear(*wide[:3])  # type: ignore[arg-type]
    loss = nn.functional.cross_entropy(
        logits, target, wide[3], ignore_index=ignore_index, reduction=reduction
    )
    nothing = x.new_zeros((0, 0))
    return loss.to(x.dtype), nothing, nothing, x.new_zeros((0,))


def linear_cross_entropies(
    x: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    linear_bias: Tensor | None,
    weight: Tensor | None,
    ignore_index: int,
    chunk: int,
    policy: str,
    dtype: torch.dtype,
) -> Tensor:
    """The losses one by one."""
    return linear_cross_entropy(
        x, linear_weight, target, linear_bias, weight, "none", ignore_index, 0.0, chunk, policy,
        dtype, False,
    )[0]  # fmt: skip


BY_NAME: dict[str, Callable[..., Any]] = {
    "torch_nn._linear_cross_entropy_batch_chunked.default": linear_cross_entropy,
    "torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default": linear_cross_entropies,
    "transformers.grouped_mm_fallback.default": grouped_mm,
    "torchvision.roi_align.default": roi_align,
}

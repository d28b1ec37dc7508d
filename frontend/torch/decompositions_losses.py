"""Losses of torch written with others: see ``decompositions``."""

from __future__ import annotations

import torch
from torch import Tensor

from .decompositions import aten, decomposes

_NONE, _MEAN = 0, 1


@decomposes(aten.multilabel_margin_loss.default)
def multilabel_margin_loss(x: Tensor, target: Tensor, reduction: int = _MEAN) -> Tensor:
    """``max(0, 1 - x[label] + x[other])`` of each label up to the first -1 and each class that is
    no label, over the number of classes. torch's own decomposition counts what stands behind the
    -1 as labels of class 0."""
    scores, labels = torch.atleast_2d(x), torch.atleast_2d(target)
    number = torch.arange(scores.shape[1], device=x.device)
    is_label = (labels == -1).to(torch.int64).cumsum(-1) == 0
    known = torch.where(is_label, labels, 0)
    named = (number == known.unsqueeze(-1)) & is_label.unsqueeze(-1)
    is_target = named.any(dim=1)
    margin = 1 - scores.gather(1, known).unsqueeze(-1) + scores.unsqueeze(1)
    counted = is_label.unsqueeze(-1) & ~is_target.unsqueeze(1)
    loss = torch.where(counted, margin.clamp(min=0), 0).sum((1, 2)) / scores.shape[1]
    if reduction == _NONE:
        return loss.reshape(x.shape[:-1])
    return loss.mean() if reduction == _MEAN else loss.sum()

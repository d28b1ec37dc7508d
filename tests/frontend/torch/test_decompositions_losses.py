"""Losses written with others against eager torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from burnish.tests.frontend.torch.oracle import check_all


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_labels_end_at_the_first_minus_one(reduction: str) -> None:
    torch.manual_seed(0)
    rows = [[0, -1, 1, 2], [3, 0, -1, -1], [-1, 0, 1, 2], [1, 0, 3, 2], [2, 2, -1, 0]]
    x, labels = torch.randn(5, 4), torch.tensor(rows)
    check_all(
        {
            "rows": lambda x, i: F.multilabel_margin_loss(x, i, reduction=reduction),
            "one": lambda x, i: F.multilabel_margin_loss(x[0], i[0], reduction=reduction),
        },
        x,
        labels,
    )

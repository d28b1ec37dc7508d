"""The incomplete gamma functions beside SciPy's, in every range of both operands."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.special
import torch

from burnish.frontend.torch.decompositions import DECOMPOSITIONS, aten
from burnish.tests.frontend.torch.oracle import check_all

A = 10 ** torch.linspace(-3, 5, 60, dtype=torch.float64).unsqueeze(1)
RATIOS = torch.cat(
    [10 ** torch.linspace(-3, 3, 60).double(), 1 + torch.linspace(-0.35, 0.35, 51).double()]
)
PAIRS = [
    (aten.igamma.default, scipy.special.gammainc),
    (aten.igammac.default, scipy.special.gammaincc),
]


@pytest.mark.parametrize(("op", "reference"), PAIRS)
def test_all_ranges(op: Any, reference: Any) -> None:
    for x in (A * RATIOS, RATIOS.expand(60, -1)):
        found, wanted = DECOMPOSITIONS[op](A, x), reference(A.numpy(), x.numpy())
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-9, atol=1e-280)


@pytest.mark.parametrize(("op", "reference"), PAIRS)
def test_ends_of_both_axes(op: Any, reference: Any) -> None:
    ends = torch.tensor([0.0, 1.0, 30.0, -1.0, math.inf, math.nan])
    a, x = (m.contiguous() for m in torch.meshgrid(ends, ends, indexing="ij"))
    torch.testing.assert_close(DECOMPOSITIONS[op](a, x), op(a, x), equal_nan=True)


def test_they_are_imported() -> None:
    a = torch.tensor([0.5, 3.0, 40.0])
    check_all(
        {"igamma": torch.special.gammainc, "igammac": torch.special.gammaincc}, a, a * 1.1 + 0.1
    )

"""Sizes that a scale gives. Values of resizing are tested in both front ends, coordinates and
weights in ``graphir/test_interpolation.py``."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.resize import scaled_size
from burnish.graphir.dim import print_dim
from burnish.tensorir.expr import Var


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (2.0, "n * 2"),
        (0.5, "n // 2"),
        (1.75, "n * 7 // 4"),
        (0.1, None),
        (-2.0, None),
        (np.inf, None),
    ],
)
def test_a_named_size_times_a_fraction(scale: float, expected: str | None) -> None:
    found = scaled_size(Var("n"), scale)
    assert (None if found is None else print_dim(found)) == expected

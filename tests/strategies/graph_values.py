"""Whether the results of a compiled random graph are what it means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def check_values(found: Sequence[Any], expected: Sequence[Any], depth: int) -> None:
    """Within what ``depth`` float32 operations may lose, of the largest element."""
    assert len(found) == len(expected)
    for index, (got, want) in enumerate(zip(found, expected, strict=True)):
        got, want = np.asarray(got), np.asarray(want)
        assert got.shape == want.shape, f"output {index}"
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(got, want, f"output {index}")
            continue
        assert got.dtype == np.float32
        largest = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        np.testing.assert_allclose(
            *(got, want), rtol=2e-4, atol=2e-5 * depth * largest, err_msg=f"output {index}"
        )

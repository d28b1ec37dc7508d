"""take and gather_elements against NumPy; indices out of range read the nearest element."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]
X = np.random.default_rng(0).random((7, 5), dtype="float32")


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take(run: Run, dtype: str, axis: int) -> None:
    at = np.array([[0, 4, 2], [1, 1, 3]], dtype)
    np.testing.assert_array_equal(
        run(lambda x, i: ops.take(x, i, axis=axis), X, at), np.take(X, at, axis)
    )


def test_indices_from_the_end_and_outside(run: Run) -> None:
    at = np.array([-1, -7, 7, 100, -8, -100, 2**62, -(2**62)])
    found = run(ops.take, X, at)
    np.testing.assert_array_equal(found, X[[6, 0, 6, 6, 0, 0, 6, 0]])


def test_symbolic_rows(run: Run) -> None:
    at = np.array([3, 9, -1])
    found = run(ops.take, X, at, shapes=[("n", 5), ("m",)])
    np.testing.assert_array_equal(found, X[[3, 6, 6]])


def test_an_axis_that_turns_out_empty_gives_zeros(run: Run) -> None:
    found = run(ops.take, X[:0], np.array([0, 1]), shapes=[("n", 5), (2,)])
    np.testing.assert_array_equal(found, np.zeros((2, 5)))


def test_gather_elements(run: Run) -> None:
    at = np.random.default_rng(1).integers(-7, 7, (4, 5))
    np.testing.assert_array_equal(run(ops.gather_elements, X, at), np.take_along_axis(X, at, 0))


def test_errors() -> None:
    x, i = te.placeholder((7, 5)), te.placeholder((3,), "int64")
    with pytest.raises(ComputeError, match="take: expected indices of an integer dtype"):
        ops.take(x, x)
    with pytest.raises(ComputeError, match="expected indices of 2 dimensions, found 1"):
        ops.gather_elements(x, i)

"""Softmax against NumPy, with values that overflow unless the maximum is subtracted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]
X = np.random.default_rng(1).uniform(-5, 5, (3, 4, 5)).astype("float32")
X[0, 0] += 1000
X[1, 1] -= 1000


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    wide = x.astype("float64")
    shifted = wide - wide.max(axis, keepdims=True)
    result: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
    return result


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax(run: Run, axis: int) -> None:
    expected = log_softmax(X, axis)
    np.testing.assert_allclose(
        run(lambda x: ops.softmax(x, axis), X), np.exp(expected), rtol=1e-5, atol=1e-7
    )
    found = run(lambda x: ops.log_softmax(x, axis), X)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("places", [(0,), (5, 39), (0, 1, 2, 3, 4)])
def test_what_is_no_number_or_infinite(run: Run, axis: int, places: tuple[int, ...]) -> None:
    """A row with NaN or infinity is NaN, one of minus infinity too; single ones of it are 0."""
    x = np.random.default_rng(2).normal(size=(40, 40)).astype("float32")
    rows = x if axis == -1 else x.T
    for row, value in ((1, np.nan), (2, np.inf), (3, -np.inf)):
        rows[row, list(places)] = value
    rows[4] = -np.inf
    rows[5] = np.nan
    rows[6] = np.finfo("float32").min
    rows[7, 0], rows[7, 1:] = 1.5e38, -1.5e38
    with np.errstate(invalid="ignore"):
        expected = log_softmax(x, axis)
    found = run(lambda a: ops.softmax(a, axis), x)
    np.testing.assert_allclose(found, np.exp(expected), rtol=1e-5, atol=1e-7)
    zero = found if axis == -1 else found.T
    assert not zero[3, list(places)].any()
    found = run(lambda a: ops.log_softmax(a, axis), x)
    np.testing.assert_allclose(found, expected.astype("float32"), rtol=1e-5, atol=1e-5)


def test_half_precision(run: Run) -> None:
    x = np.linspace(-4, 4, 64).astype("float16")
    for operator, expected in (
        (ops.softmax, np.exp(log_softmax(x, 0))),
        (ops.log_softmax, log_softmax(x, 0)),
    ):
        found = run(operator, x)
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, expected, rtol=2e-3)


def test_symbolic_dims(run: Run) -> None:
    found = run(ops.softmax, X, shapes=[("n", 4, "m")])
    np.testing.assert_allclose(found, np.exp(log_softmax(X, -1)), rtol=1e-5, atol=1e-7)

"""Cumulative sums and products against NumPy and torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops
from burnish.tests.tensorir.operators.rows_native import run_rows

X = np.random.default_rng(0).standard_normal((3, 5, 4))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_every_axis(name: str, axis: int) -> None:
    found = run_rows(lambda x: getattr(ops, name)(x, axis), X, shape=X.shape)
    np.testing.assert_allclose(found, getattr(np, name)(X, axis), rtol=1e-13)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_exclusive_and_reverse(exclusive: bool, reverse: bool) -> None:
    given = X[:, ::-1] if reverse else X
    expected = np.cumsum(given, 1)
    if exclusive:
        expected = expected - given
    found = run_rows(
        lambda x: ops.cumsum(x, 1, exclusive=exclusive, reverse=reverse), X, shape=X.shape
    )
    np.testing.assert_allclose(found, expected[:, ::-1] if reverse else expected, atol=1e-13)


@pytest.mark.parametrize("shape", [(1,), (0,), (2, 0), (0, 3), (7, 1)])
def test_small_and_empty(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape)
    found = run_rows(lambda t: ops.cumsum(t, 0), x, shape=shape)
    np.testing.assert_allclose(found, np.cumsum(x, 0), rtol=1e-13)


def test_special_values() -> None:
    x = np.array([1.0, np.inf, 2.0, -np.inf, 3.0, np.nan, 1.0])
    found = run_rows(lambda t: ops.cumsum(t, 0), x, shape=x.shape)
    np.testing.assert_array_equal(found, torch.tensor(x).cumsum(0).numpy())


def test_integers_wrap() -> None:
    x = np.array([2**63 - 1, 1, 5, -3])
    found = run_rows(lambda t: ops.cumsum(t, 0), x, shape=x.shape)
    np.testing.assert_array_equal(found, np.cumsum(x))


def test_half_precision_accumulates_in_float32() -> None:
    x = np.full(4096, 0.1, np.float16)
    found = run_rows(lambda t: ops.cumsum(t, 0), x, shape=x.shape)
    expected = np.cumsum(x.astype(np.float32)).astype(np.float16)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_symbolic_sizes() -> None:
    found = run_rows(lambda t: ops.cumsum(t, 1), X, shape=X.shape, shapes=[("m", "n", "k")])
    np.testing.assert_allclose(found, np.cumsum(X, 1), rtol=1e-13)


def test_errors() -> None:
    with pytest.raises(ComputeError, match="cumsum: expected numbers, found bool"):
        ops.cumsum(te.placeholder((3,), "bool"), 0)
    with pytest.raises(ComputeError, match="Expected an axis from -1 to 0, found 1"):
        ops.cumprod(te.placeholder((3,)), 1)

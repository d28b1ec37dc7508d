"""Reductions against NumPy over every kind of axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.support.node import walk
from burnish.tensorir import operators as ops
from burnish.tensorir.stmt import Block

Run = Callable[..., np.ndarray]
X = np.random.default_rng(5).uniform(0.5, 1.5, (3, 4, 5)).astype("float32")


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean"])
def test_reductions(
    run: Run, name: str, axis: int | tuple[int, ...] | None, *, keepdims: bool
) -> None:
    found = run(lambda x: getattr(ops, name)(x, axis, keepdims=keepdims), X)
    expected = getattr(np, name)(X.astype("float64"), axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_variance_does_not_cancel(run: Run, correction: int, *, keepdims: bool) -> None:
    x = X + 1000
    found = run(lambda t: ops.variance(t, (0, 2), keepdims=keepdims, correction=correction), x)
    expected = x.astype("float64").var(axis=(0, 2), keepdims=keepdims, ddof=correction)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("mean", [0.0, 1e4, 1e6])
@pytest.mark.parametrize("axis", [0, 1])
def test_variance_around_a_mean_is_exact(run: Run, axis: int, mean: float) -> None:
    """A mean that is rounded to float32 is off by 0.03 of a million."""
    x = (np.random.default_rng(0).standard_normal((40, 30)) + mean).astype("float32")
    found = run(lambda t: ops.variance(t, axis), x)
    np.testing.assert_allclose(found, x.astype("float64").var(axis), rtol=2**-23)


@pytest.mark.parametrize(
    ("rows", "correction", "expected"),
    [(0, 0, np.nan), (0, 1, np.nan), (1, 1, np.nan), (1, 0, 0.0), (2, 3, np.inf)],
)
@pytest.mark.parametrize("symbolic", [False, True])
def test_no_degrees_of_freedom(
    run: Run, rows: int, correction: int, expected: float, *, symbolic: bool
) -> None:
    """As in PyTorch: what the correction leaves is not negative."""
    x = X.reshape(3, -1)[:rows]
    shapes = [("n", 20)] if symbolic else None
    found = run(lambda t: ops.variance(t, 0, correction=correction), x, shapes=shapes)
    np.testing.assert_array_equal(found, np.full(20, expected, "float32"))


def test_half_precision_is_rounded_once(run: Run) -> None:
    x = np.full((4096,), 0.1, "float16")
    expected = np.float16(x.astype("float64").sum())
    assert run(ops.sum, x) == expected
    text = te.create_prim_func([t := te.placeholder((8,), "float16"), ops.sum(t)]).script()
    assert "sum_float32 = T.alloc_buffer(())" in text


def test_integers_and_nan(run: Run) -> None:
    x = np.array([[3, -5, 7], [1, 2, -9]], "int32")
    np.testing.assert_array_equal(run(lambda t: ops.sum(t, 1), x), [5, -6])
    np.testing.assert_array_equal(run(lambda t: ops.max(t, 0), x), [3, 2, 7])
    y = np.array([1.0, np.nan, 3.0], "float32")
    assert np.isnan(run(ops.max, y))
    assert np.isnan(run(ops.min, y))


def test_symbolic_dims(run: Run) -> None:
    shapes = [("n", 4, "m")]
    np.testing.assert_allclose(
        run(lambda x: ops.mean(x, (0, 2)), X, shapes=shapes), X.mean((0, 2)), rtol=1e-5
    )


def test_errors() -> None:
    x = te.placeholder((3, 4))
    with pytest.raises(ComputeError, match="Expected an axis from -2 to 1, found 2"):
        ops.sum(x, 2)
    with pytest.raises(ComputeError, match="name one twice"):
        ops.sum(x, (0, -2))
    with pytest.raises(ComputeError, match="expected a tensor of floats, found int32"):
        ops.mean(te.placeholder((3,), "int32"))
    with pytest.raises(ComputeError, match="expected a tensor of floats"):
        ops.variance(te.placeholder((3,), "int32"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_extremes_of_half_precision_are_float32_until_they_are_results(dtype: str) -> None:
    """A step takes no rounding, which the next one would wait for."""
    func = te.create_prim_func([x := te.placeholder((4, 64), dtype), ops.max(x, 1)])
    blocks = [n for n in walk(func) if isinstance(n, Block) and n.iter_vars]
    assert [b.writes[0].buffer.dtype for b in blocks] == ["float32", dtype]

"""layer_norm against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]
RNG = np.random.default_rng(2)
X = (RNG.standard_normal((2, 3, 8)) * 3 + 100).astype("float32")


def layer_norm(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    wide = x.astype("float64")
    center, spread = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    result: np.ndarray = (wide - center) / np.sqrt(spread + epsilon)
    return result


def test_last_axis_with_parameters(run: Run) -> None:
    gamma, beta = (RNG.standard_normal(8).astype("float32") for _ in range(2))
    found = run(lambda x, g, b: ops.layer_norm(x, g, b), X, gamma, beta)
    expected = layer_norm(X, (2,), 1e-5) * gamma + beta
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_several_axes_without_parameters(run: Run) -> None:
    found = run(lambda x: ops.layer_norm(x, axes=(1, 2), epsilon=1e-3), X)
    np.testing.assert_allclose(found, layer_norm(X, (1, 2), 1e-3), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("columns", [1, 10, 64, 65, 128])
@pytest.mark.parametrize("mean", [0.0, 1e4, 1e6])
def test_a_large_mean_leaves_rows_exact(run: Run, columns: int, mean: float) -> None:
    """A mean that is rounded to float32 is off by 0.03 of a million."""
    x = (RNG.standard_normal((4, columns)) + mean).astype("float32")
    np.testing.assert_allclose(run(ops.layer_norm, x), layer_norm(x, (1,), 1e-5), atol=2e-6)


@pytest.mark.parametrize("first", [1e8, -1e8, 3e38])
def test_a_first_element_far_from_the_others(run: Run, first: float) -> None:
    x = RNG.standard_normal((2, 100)).astype("float32")
    x[0, 0] = first
    with np.errstate(over="ignore"):
        expected = layer_norm(x, (1,), 1e-5)
    found = run(ops.layer_norm, x)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[1], expected[1], atol=2e-6)
    if abs(first) < 1e18:  # whose square is a float32
        # Here, without a schedule, 100 differences are added one after another.
        np.testing.assert_allclose(found[0], expected[0], atol=1e-4)


@pytest.mark.parametrize("where", [0, 7])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_spoils_its_row_alone(run: Run, where: int, value: float) -> None:
    x = RNG.standard_normal((2, 100)).astype("float32")
    x[0, where] = value
    found = run(ops.layer_norm, x)
    assert np.isnan(found[0]).all()
    np.testing.assert_allclose(found[1], layer_norm(x[1:], (1,), 1e-5)[0], atol=2e-6)


def test_rows_of_middle_length_have_a_mean_of_one_part() -> None:
    """It is the time that decides."""
    for columns, has_rest in ((128, True), (129, False), (2047, False), (2048, True)):
        x = te.placeholder((4, columns))
        text = te.create_prim_func([x, ops.layer_norm(x)]).script()
        assert ("rest" in text) is has_rest


def test_half_precision_and_symbolic_dims(run: Run) -> None:
    x = RNG.standard_normal((3, 64)).astype("float16")
    found = run(ops.layer_norm, x, shapes=[("n", 64)])
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, layer_norm(x, (1,), 1e-5), rtol=4e-3, atol=1e-3)


def test_errors() -> None:
    x = te.placeholder((2, 3), name="x")
    with pytest.raises(ComputeError, match="expected the last axes of 2, found"):
        ops.layer_norm(x, axes=(0,))
    with pytest.raises(ComputeError, match="expected 'g' of 1 dimensions, found 2"):
        ops.layer_norm(x, te.placeholder((2, 3), name="g"))

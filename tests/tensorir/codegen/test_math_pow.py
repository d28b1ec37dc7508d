"""pow and rsqrt: C99's special cases, exact powers, extremes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

INF, NAN = np.inf, np.nan
Loops = Callable[..., Callable[..., np.ndarray]]
DTYPES = ["float32x16", "float32", "float64x8", "float64"]
VALUES = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 2.5, 1e6, 16777215.0, 16777216.0, 1e30, INF, NAN]


def scalar(dtype: str) -> type:
    return np.float32 if dtype.startswith("float32") else np.float64


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_pairs(math_loop: Loops, dtype: str) -> None:
    """Every pair of the values where C99 says something of its own, against the C library."""
    kind = scalar(dtype)
    values = np.array([v for value in VALUES for v in (value, -value)], kind)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.float64), y.astype(np.float64)).astype(kind)
    got = math_loop("pow", dtype)(x, y)
    np.testing.assert_allclose(got, expected, rtol=2 * np.finfo(kind).eps)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), ~number)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_whole_powers_are_exact(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    x, y = (a.ravel().astype(kind) for a in np.meshgrid(np.arange(-12, 13), np.arange(0, 7)))
    expected = x.astype(np.float64) ** y.astype(np.float64)
    np.testing.assert_array_equal(math_loop("pow", dtype)(x, y), expected)


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_odd_exponents_up_to_where_all_are_even(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    limit = 2.0 ** (24 if kind is np.float32 else 53)
    y = np.array([limit - 1, limit - 2, limit, 2 * limit, 1, 3, -5, -(limit - 1)], kind)
    got = math_loop("pow", dtype)(np.full(len(y), -1, kind), y)
    np.testing.assert_array_equal(got, np.array([-1, 1, 1, 1, -1, -1, -1, -1], kind))


def test_a_small_error_of_the_logarithm_would_show(math_loop: Loops) -> None:
    """Near the overflow every bit of the exponent counts ten bits further down."""
    x = np.array([1.0000000000000002, 1.1, 10.0, 0.9999999999999999, 3.0])
    y = np.array([3.1e18, 7443.0, 308.0, 6.0e18, -646.0])
    exact = np.exp(y.astype(np.longdouble) * np.log(x.astype(np.longdouble)))
    expected = np.power(x, y)
    assert np.isfinite(exact).all()
    np.testing.assert_allclose(math_loop("pow", "float64x8")(x, y), expected, rtol=3e-16)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rsqrt(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    x = np.array([0.0, -0.0, INF, -1, NAN, 4, 0.25, 1], kind)
    got = math_loop("rsqrt", dtype)(x)
    np.testing.assert_array_equal(got, np.array([INF, -INF, 0, NAN, NAN, 0.5, 2, 1], kind))
    tiny = np.finfo(kind).smallest_subnormal
    np.testing.assert_allclose(
        math_loop("rsqrt", dtype)(np.array([tiny], kind)), 1 / np.sqrt(tiny), rtol=1e-6
    )

"""atan, atan2, asin and acos: special values, quadrants, domain ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

INF, NAN, PI = np.inf, np.nan, np.pi
Loops = Callable[..., Callable[..., np.ndarray]]
DTYPES = ["float32x16", "float32", "float64x8", "float64"]


def scalar(dtype: str) -> type:
    return np.float32 if dtype.startswith("float32") else np.float64


def same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        (
            "atan",
            [0.0, -0.0, INF, -INF, NAN, 1, -1],
            [0.0, -0.0, PI / 2, -PI / 2, NAN, PI / 4, -PI / 4],
        ),
        ("asin", [0.0, -0.0, 1, -1, 1.5, -INF, NAN], [0.0, -0.0, PI / 2, -PI / 2, NAN, NAN, NAN]),
        ("acos", [0.0, -0.0, 1, -1, 1.5, INF, NAN], [PI / 2, PI / 2, 0.0, PI, NAN, NAN, NAN]),
    ],
    ids=["atan", "asin", "acos"],
)
def test_special_values(
    math_loop: Loops, name: str, arguments: list[float], expected: list[float], dtype: str
) -> None:
    kind = scalar(dtype)
    same_bits(math_loop(name, dtype)(np.array(arguments, kind)), np.array(expected, kind))


@pytest.mark.parametrize("dtype", DTYPES)
def test_atan2_special_values(math_loop: Loops, dtype: str) -> None:
    """Every pair of the values where C99 says something of its own."""
    kind = scalar(dtype)
    info = np.finfo(kind)
    values = [0.0, -0.0, 1, -1, INF, -INF, NAN, info.max, -info.max, info.tiny, -info.tiny]
    values.append(info.smallest_subnormal)
    y, x = (a.ravel().astype(kind) for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        exact = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    expected = exact.astype(kind)
    got = math_loop("atan2", dtype)(y, x)
    np.testing.assert_allclose(got, expected, rtol=2 * info.eps, atol=info.smallest_subnormal)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), ~number)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
@pytest.mark.parametrize("name", ["atan", "asin"])
def test_odd_and_tiny(math_loop: Loops, name: str, dtype: str) -> None:
    kind = scalar(dtype)
    loop = math_loop(name, dtype)
    x = np.linspace(0, 1, 10_001).astype(kind)
    np.testing.assert_array_equal(loop(-x), -loop(x))
    tiny = np.array([np.finfo(kind).smallest_subnormal, np.finfo(kind).tiny], kind)
    np.testing.assert_array_equal(loop(tiny), tiny)


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_asin_and_acos_add_up(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    x = np.linspace(-1, 1, 10_001).astype(kind)
    total = math_loop("asin", dtype)(x) + math_loop("acos", dtype)(x)
    np.testing.assert_allclose(total, np.pi / 2, rtol=4 * np.finfo(kind).eps)

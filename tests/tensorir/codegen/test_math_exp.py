"""exp, exp_negative, exp2, expm1, sigmoid, sinh and cosh: limits, special values and laws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

INF, NAN = np.inf, np.nan
SPECIAL = [
    ("exp", [0.0, -0.0, INF, -INF, NAN, 1e30, -1e30], [1, 1, INF, 0, NAN, INF, 0]),
    ("exp_negative", [0.0, -0.0, -INF, NAN, -1e30], [1, 1, 0, NAN, 0]),
    ("exp2", [0.0, INF, -INF, NAN, 1e30, -1e30], [1, INF, 0, NAN, INF, 0]),
    ("expm1", [0.0, -0.0, INF, -INF, NAN, 1e30, -1e30], [0.0, -0.0, INF, -1, NAN, INF, -1]),
    ("sigmoid", [0.0, -0.0, INF, -INF, NAN, 1e30, -1e30], [0.5, 0.5, 1, 0, NAN, 1, 0]),
    ("sinh", [0.0, -0.0, INF, -INF, NAN, 1e30, -1e30], [0.0, -0.0, INF, -INF, NAN, INF, -INF]),
    ("cosh", [0.0, -0.0, INF, -INF, NAN, 1e30, -1e30], [1, 1, INF, INF, NAN, INF, INF]),
]
DTYPES = ["float32x16", "float32", "float64x8", "float64"]
Loops = Callable[..., Callable[..., np.ndarray]]


def same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal, NaN to NaN and signs of zeros included."""
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


def scalar(dtype: str) -> type:
    return np.float32 if dtype.startswith("float32") else np.float64


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("name", "arguments", "expected"), SPECIAL, ids=[s[0] for s in SPECIAL])
def test_special_values(
    math_loop: Loops, name: str, arguments: list[float], expected: list[float], dtype: str
) -> None:
    kind = scalar(dtype)
    got = math_loop(name, dtype)(np.array(arguments, kind))
    same_bits(got, np.array(expected, kind))


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_nan_with_any_payload_stays_nan(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    integer, top = (np.uint32, 0x7F800000) if kind is np.float32 else (np.uint64, 0x7FF << 52)
    rng = np.random.default_rng(3)
    payload = rng.integers(1, np.iinfo(integer).max - top, 2000, integer)
    x = (payload | integer(top)).view(kind)
    x = np.concatenate([x[np.isnan(x)], -x[np.isnan(x)]])
    for name, _, _ in SPECIAL:
        assert np.isnan(math_loop(name, dtype)(x)).all(), name


def test_exp2_of_integers_is_exact(math_loop: Loops) -> None:
    n = np.arange(-1074, 1024).astype(np.float64)
    np.testing.assert_array_equal(math_loop("exp2", "float64x8")(n), np.ldexp(1.0, n.astype(int)))
    n32 = np.arange(-149, 128).astype(np.float32)
    expected = np.ldexp(np.float32(1), n32.astype(int))
    np.testing.assert_array_equal(math_loop("exp2", "float32x16")(n32), expected)


@pytest.mark.parametrize(
    ("dtype", "largest", "overflow", "smallest", "underflow"),
    [
        ("float32x16", 88.72283, 88.72284, -103.27892, -103.97209),
        ("float64x8", 709.782712893384, 709.7827128933841, -744.4400719213812, -745.1332191019412),
    ],
    ids=["float32", "float64"],
)
def test_where_exp_leaves_the_format(
    math_loop: Loops, dtype: str, largest: float, overflow: float, smallest: float, underflow: float
) -> None:
    kind = scalar(dtype)
    x = np.array([largest, overflow, smallest, underflow], kind)
    got = math_loop("exp", dtype)(x)
    assert np.isfinite(got[0])
    assert got[0] > np.finfo(kind).max * (1 - 1e-4)
    assert got[1] == np.inf
    assert got[2] == np.finfo(kind).smallest_subnormal
    assert got[3] == 0


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_exp_never_falls(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    x = np.linspace(-100, 80, 200_001).astype(kind)
    assert (np.diff(math_loop("exp", dtype)(x)) >= 0).all()


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
@pytest.mark.parametrize("name", ["expm1", "sinh"])
def test_tiny_arguments_come_back(math_loop: Loops, name: str, dtype: str) -> None:
    kind = scalar(dtype)
    tiny = np.finfo(kind).smallest_subnormal
    x = np.array([tiny, -tiny, 3 * tiny, np.finfo(kind).tiny, 1e-30], kind)
    same_bits(math_loop(name, dtype)(x), x)


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_symmetries(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    x = np.random.default_rng(5).uniform(-20, 20, 5000).astype(kind)
    sinh, cosh = math_loop("sinh", dtype), math_loop("cosh", dtype)
    np.testing.assert_array_equal(sinh(-x), -sinh(x))
    np.testing.assert_array_equal(cosh(-x), cosh(x))
    sigmoid = math_loop("sigmoid", dtype)
    np.testing.assert_allclose(sigmoid(x) + sigmoid(-x), 1, rtol=4 * np.finfo(kind).eps)


@pytest.mark.parametrize(("dtype", "x"), [("float32x16", -100.0), ("float64x8", -740.0)])
def test_sigmoid_reaches_the_denormals(math_loop: Loops, dtype: str, x: float) -> None:
    kind = scalar(dtype)
    got = math_loop("sigmoid", dtype)(np.array([x], kind))
    assert got[0] == kind(np.exp(np.longdouble(x)))
    assert 0 < got[0] < np.finfo(kind).tiny

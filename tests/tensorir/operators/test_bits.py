"""Elementary functions and bits against NumPy in float64, special values included."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.special

from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]
UNARY = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "exp2": np.exp2,
    "log10": np.log10, "erfc": scipy.special.erfc,
}  # fmt: skip
BINARY = {"atan2": np.arctan2, "hypot": np.hypot, "copysign": np.copysign}
VALUES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.3, 2.0, -7.5, 1e-9, 30.0, np.inf, -np.inf, np.nan, 1e5]
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(run: Run, name: str, dtype: str) -> None:
    x = np.concatenate([VALUES, np.linspace(-4, 4, 41)]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = UNARY[name](x)
    tolerance = 2e-6 if dtype == "float32" else 1e-13
    found = run(getattr(ops, name), x)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize("name", BINARY)
def test_binary(run: Run, name: str) -> None:
    a, b = np.meshgrid(VALUES, VALUES)
    with np.errstate(all="ignore"):
        expected = BINARY[name](a, b)
    found = run(getattr(ops, name), a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_array_equal(
        np.signbit(found[expected == 0]), np.signbit(expected[expected == 0])
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint16", "bool"])
@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits(run: Run, name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 127, (3, n)).astype(dtype) for n in (5, 1))
    found = run(getattr(ops, name), a, b)
    np.testing.assert_array_equal(found, getattr(np, name)(a, b))
    np.testing.assert_array_equal(run(ops.bitwise_not, a), np.bitwise_not(a))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_shifts(run: Run, dtype: str) -> None:
    bits = np.dtype(dtype).itemsize * 8
    least = np.iinfo(dtype).min
    a = np.array([1, 5, 127, least, 0, 3], dtype)[:, None]
    b = np.array([0, 1, 3, bits - 1], dtype)
    np.testing.assert_array_equal(run(ops.shift_left, a, b), np.left_shift(a, b))
    np.testing.assert_array_equal(run(ops.shift_right, a, b), np.right_shift(a, b))


def test_shifts_by_more_than_all_bits(run: Run) -> None:
    a, b = np.array([-5, 5, -5, 5], np.int32), np.array([32, 99, -1, -1], np.int32)
    np.testing.assert_array_equal(run(ops.shift_left, a, b), [0, 0, 0, 0])
    np.testing.assert_array_equal(run(ops.shift_right, a, b), [-1, 0, -1, 0])

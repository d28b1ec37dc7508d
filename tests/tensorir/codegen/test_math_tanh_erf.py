"""tanh, erf and erfc: saturation, special values, oddness, tiny arguments."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

INF, NAN = np.inf, np.nan
Loops = Callable[..., Callable[..., np.ndarray]]
DTYPES = ["float32x16", "float32", "float64x8", "float64"]


def scalar(dtype: str) -> type:
    return np.float32 if dtype.startswith("float32") else np.float64


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_special_values(math_loop: Loops, name: str, dtype: str) -> None:
    kind = scalar(dtype)
    x = np.array([0.0, -0.0, INF, -INF, 1e30, -1e30, 20.0, -20.0, NAN], kind)
    got = math_loop(name, dtype)(x)
    np.testing.assert_array_equal(got, np.array([0, 0, 1, -1, 1, -1, 1, -1, NAN], kind))
    assert np.signbit(got[1])
    assert not np.signbit(got[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_of_erfc(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    x = np.array([0.0, -0.0, INF, -INF, 1e30, -1e30, NAN], kind)
    got = math_loop("erfc", dtype)(x)
    np.testing.assert_array_equal(got, np.array([1, 1, 0, 2, 0, 2, NAN], kind))


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_odd_bounded_and_never_falling(math_loop: Loops, name: str, dtype: str) -> None:
    kind = scalar(dtype)
    x = np.linspace(0, 25, 100_001).astype(kind)
    loop = math_loop(name, dtype)
    got = loop(x)
    np.testing.assert_array_equal(loop(-x), -got)
    assert got.max() == 1
    # Two neighbouring results may swap by a unit; a fall beyond that would be a seam.
    assert (np.diff(got) >= -2 * np.finfo(kind).eps).all()


@pytest.mark.parametrize("cpu", ["host", "x86-64"])
def test_erf_never_exceeds_1_and_stays_there(math_loop: Loops, cpu: str) -> None:
    x = np.arange(0x40400000, 0x40900000, 3, np.uint32).view(np.float32)  # 3 to 4.5
    got = math_loop("erf", "float32x16", cpu)(x)
    assert got.max() == 1
    assert (got[x > 4.1] == 1).all()


@pytest.mark.parametrize("cpu", ["host", "x86-64"])
def test_erf_of_denormals(math_loop: Loops, cpu: str) -> None:
    unit = np.finfo(np.float32).smallest_subnormal
    x = np.array([1, -1, 7, 1000, -123457, 8388607], np.float32) * unit
    got = math_loop("erf", "float32x16", cpu)(x)
    exact = x.astype(np.float64) * 2 / np.sqrt(np.pi)
    assert (abs(got - exact) <= 1.5 * unit).all()


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_tanh_of_denormals_is_the_argument(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    tiny = np.finfo(kind).smallest_subnormal
    x = np.array([tiny, -7 * tiny, np.finfo(kind).tiny], kind)
    np.testing.assert_array_equal(math_loop("tanh", dtype)(x), x)


@pytest.mark.parametrize(("dtype", "x"), [("float32x16", 10.0), ("float64x8", 27.0)])
def test_erfc_reaches_the_denormals(math_loop: Loops, dtype: str, x: float) -> None:
    kind = scalar(dtype)
    got = math_loop("erfc", dtype)(np.array([x, 40.0], kind))
    expected = {10.0: 2.088487583762545e-45, 27.0: 5.237048923789255e-319}[x]
    assert abs(got[0] - kind(expected)) <= 4 * np.finfo(kind).smallest_subnormal
    assert got[0] > 0
    assert got[1] == 0

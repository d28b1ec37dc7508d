"""log, log2, log10 and log1p: special values, denormals, exact cases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

INF, NAN = np.inf, np.nan
Loops = Callable[..., Callable[..., np.ndarray]]
DTYPES = ["float32x16", "float32", "float64x8", "float64"]
ARGUMENTS = [0.0, -0.0, 1.0, INF, -INF, NAN, -1.0, -1e-40, -1e30]
EXPECTED = [-INF, -INF, 0.0, INF, NAN, NAN, NAN, NAN, NAN]


def scalar(dtype: str) -> type:
    return np.float32 if dtype.startswith("float32") else np.float64


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["log", "log2", "log10"])
def test_special_values(math_loop: Loops, name: str, dtype: str) -> None:
    kind = scalar(dtype)
    got = math_loop(name, dtype)(np.array(ARGUMENTS, kind))
    np.testing.assert_array_equal(got, np.array(EXPECTED, kind))


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values_of_log1p(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    x = np.array([0.0, -0.0, -1.0, INF, -INF, NAN, -1.5, -1e30], kind)
    got = math_loop("log1p", dtype)(x)
    np.testing.assert_array_equal(got, np.array([0, 0, -INF, INF, NAN, NAN, NAN, NAN], kind))
    assert np.signbit(got[1])


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_log1p_at_the_ends(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    info = np.finfo(kind)
    tiny = np.array([info.smallest_subnormal, -info.tiny, info.eps**2], kind)
    np.testing.assert_array_equal(math_loop("log1p", dtype)(tiny), tiny)
    ends = np.array([info.max, -1 + info.epsneg], kind)
    np.testing.assert_allclose(
        math_loop("log1p", dtype)(ends),
        np.log1p(ends.astype(np.longdouble)).astype(kind),
        rtol=2 * info.eps,
    )


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_log2_of_powers_of_two_is_exact(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    low, high = (-149, 128) if kind is np.float32 else (-1074, 1024)
    n = np.arange(low, high)
    got = math_loop("log2", dtype)(np.ldexp(kind(1), n).astype(kind))
    np.testing.assert_array_equal(got, n.astype(kind))


def test_log10_of_powers_of_ten_is_exact_in_float64(math_loop: Loops) -> None:
    n = np.arange(0, 23)
    got = math_loop("log10", "float64x8")(10.0**n)
    np.testing.assert_array_equal(got, n)


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_log_never_falls(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    x = np.geomspace(1e-30, 1e30, 100_001).astype(kind)
    for name in ("log", "log2", "log10"):
        assert (np.diff(math_loop(name, dtype)(x)) >= 0).all(), name

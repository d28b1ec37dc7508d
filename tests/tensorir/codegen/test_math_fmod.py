"""fmod: exact for every pair, special values as in C99."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

Loops = Callable[..., Callable[..., np.ndarray]]
DTYPES = ["float32x16", "float32", "float64x8", "float64"]


def scalar(dtype: str) -> type:
    return np.float32 if dtype.startswith("float32") else np.float64


@pytest.mark.parametrize("cpu", ["host", "x86-64"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_exact_on_all_sizes(math_loop: Loops, dtype: str, cpu: str) -> None:
    kind = scalar(dtype)
    integer = np.uint32 if kind is np.float32 else np.uint64
    rng = np.random.default_rng(9)
    bits = rng.integers(0, np.iinfo(integer).max, (2, 3000), integer, endpoint=True)
    x, y = bits.view(kind)
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    got = math_loop("fmod", dtype, cpu)(x, y)
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_pairs(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    info = np.finfo(kind)
    values = [0.0, -0.0, 1, -1, 0.5, 3, 1.5, 1e6, np.inf, -np.inf, np.nan]
    values += [info.max, -info.max, info.tiny, info.smallest_subnormal, 7 * info.smallest_subnormal]
    x, y = (a.ravel().astype(kind) for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    got = math_loop("fmod", dtype)(x, y)
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_quotients_next_to_whole_numbers(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    rng = np.random.default_rng(1)
    y = rng.uniform(1, 2, 3000).astype(kind)
    whole = rng.integers(1, 2**24, 3000).astype(kind) * y
    x = np.concatenate([whole, np.nextafter(whole, kind(0)), np.nextafter(whole, kind(np.inf))])
    y = np.tile(y, 3)
    np.testing.assert_array_equal(math_loop("fmod", dtype)(x, y), np.fmod(x, y))


@pytest.mark.parametrize("cpu", ["host", "x86-64"])
def test_ordinary_quotients_beside_others(math_loop: Loops, cpu: str) -> None:
    """Vectors of small quotients, and vectors with one lane that is something else."""
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((2, 1600)).astype(np.float32) * np.float32(10)
    x[800::16] = rng.choice([np.inf, np.nan, 3e38, 1e-40, -0.0], 50)
    y[807::16] = rng.choice([np.inf, -np.inf, np.nan, 1e-40, 0.0], 50)
    with np.errstate(all="ignore"):
        expected = np.fmod(x, y)
    got = math_loop("fmod", "float32x16", cpu)(x, y)
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))

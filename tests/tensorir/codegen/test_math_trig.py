"""sin, cos and tan: exact values, arguments next to multiples of pi/2, huge arguments."""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest

Loops = Callable[..., Callable[..., np.ndarray]]
DTYPES = ["float32x16", "float32", "float64x8", "float64"]
# The arguments of each format that come closest to a multiple of pi/2, and other hard ones.
HARD_64 = [
    6381956970095103.0 * 2.0**797,
    5.319372648326541e255,
    np.finfo(np.float64).max,
    2.0**1023,
    2.0**20,
    np.nextafter(2.0**20, 0),
    1.6471e6,
    np.pi,
    2 * np.pi,
    355.0,
    710.0,
    8e15,
]
HARD_32 = [16367173.0 * 2.0**72, 3.4028235e38, 2.0**127, 2.0**20, 355.0, 52174.0, 1e10, 3.1415927]


def scalar(dtype: str) -> type:
    return np.float32 if dtype.startswith("float32") else np.float64


@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], kind)
    nan = [np.nan] * 3
    for name, zeros in (("sin", [0.0, -0.0]), ("cos", [1, 1]), ("tan", [0.0, -0.0])):
        got = math_loop(name, dtype)(x)
        np.testing.assert_array_equal(got, np.array(zeros + nan, kind))
        np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(zeros))


@pytest.mark.parametrize("cpu", ["host", "x86-64"])
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize(("dtype", "hard"), [("float32x16", HARD_32), ("float64x8", HARD_64)])
def test_hard_arguments(
    math_loop: Loops, name: str, dtype: str, hard: list[float], cpu: str
) -> None:
    kind = scalar(dtype)
    x = np.array(hard, kind)
    x = np.concatenate([x, -x])
    got = math_loop(name, dtype, cpu)(x)
    with mp.workprec(1300):
        exact = [getattr(mp, name)(mp.mpf(float(v))) for v in x]
        error = [abs(mp.mpf(float(g)) / e - 1) for g, e in zip(got, exact, strict=True)]
    assert float(max(error)) <= 2 * np.finfo(kind).eps


def test_one_large_lane_does_not_disturb_the_others(math_loop: Loops) -> None:
    rng = np.random.default_rng(11)
    x = rng.uniform(-100, 100, 16).astype(np.float32)
    expected = math_loop("sin", "float32x16")(x)
    for lane in range(16):
        mixed = x.copy()
        mixed[lane] = 1e30
        got = math_loop("sin", "float32x16")(mixed)
        others = np.arange(16) != lane
        np.testing.assert_array_equal(got[others], expected[others])
        assert abs(got[lane] - np.sin(np.float64(np.float32(1e30)))) < 1e-6


@pytest.mark.parametrize("dtype", ["float32x16", "float64x8"])
def test_symmetries(math_loop: Loops, dtype: str) -> None:
    kind = scalar(dtype)
    x = np.random.default_rng(2).normal(0, 1e5, 3000).astype(kind)
    sin, cos, tan = (math_loop(n, dtype) for n in ("sin", "cos", "tan"))
    np.testing.assert_array_equal(sin(-x), -sin(x))
    np.testing.assert_array_equal(cos(-x), cos(x))
    np.testing.assert_array_equal(tan(-x), -tan(x))
    np.testing.assert_allclose(sin(x) ** 2 + cos(x) ** 2, 1, rtol=8 * np.finfo(kind).eps)

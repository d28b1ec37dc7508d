"""Linear layers of integers with scales: every width, with and without zero points, and errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers (..., k) in words, low bits first."""
    per = 32 // bits
    parts = numbers.reshape(*numbers.shape[:-1], -1, per).astype("uint32")
    return np.bitwise_or.reduce(parts << np.arange(0, 32, bits, dtype="uint32"), axis=-1)


def case(
    rows: tuple[int, ...], n: int, groups: int, depth: int, bits: int, zero: str = ""
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Operands with every number of the width, the result in float64, and the sum of the terms'
    magnitudes. ``zero`` is the dtype of zero points, "" where there are none."""
    rng = np.random.default_rng(n + depth)
    numbers = rng.integers(0, 1 << bits, (n, groups, depth))
    numbers.reshape(-1)[: 1 << bits] = np.arange(1 << bits)[: numbers.size]
    x = rng.standard_normal((*rows, groups * depth)).astype("float32")
    scale = rng.uniform(0.01, 0.1, (n, groups)).astype("float32")
    operands, middle = [x, packed(numbers, bits), scale], np.full((n, groups), 1 << (bits - 1))
    if zero:
        middle = rng.integers(0, 1 << bits, (n, groups))
        operands.append(middle.astype(zero))
    weight = (numbers - middle[..., None]) * scale[..., None].astype("float64")
    flat = weight.reshape(n, -1).T
    return operands, x.astype("float64") @ flat, np.abs(x).astype("float64") @ np.abs(flat)


def bound(terms: int) -> float:
    """Of an error, relative to the sum of the terms' magnitudes."""
    return (terms + 3) * 2.0**-24


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zero", ["", "uint8", "float32", "float16"])
@pytest.mark.parametrize("rows", [(), (3,), (2, 3)])
def test_results(run: Run, bits: int, zero: str, rows: tuple[int, ...]) -> None:
    operands, exact, magnitude = case(rows, 5, 3, 16, bits, zero)
    found = run(lambda *v: ops.scaled_linear(*v, bits=bits), *operands)
    assert np.all(np.abs(found - exact) <= bound(48) * magnitude)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_numbers_are_exact(run: Run, bits: int) -> None:
    """One term at a time, scales of one."""
    k = 1 << max(bits, 4)
    numbers = np.arange(k) % (1 << bits)
    x, scale = np.eye(k, dtype="float32"), np.ones((1, 1), "float32")
    words = packed(numbers[None, None], bits)
    found = run(lambda *v: ops.scaled_linear(*v, bits=bits), x, words, scale)
    np.testing.assert_array_equal(found[:, 0], numbers - (1 << (bits - 1)))


def test_infinities_and_nan(run: Run) -> None:
    """A number that is its zero point is a zero: times infinity it is NaN."""
    x = np.array([[np.inf, 0, 0, 0], [np.nan, 0, 0, 0], [1, 0, 0, 0]], "float32")
    words = packed(np.array([[[129, 128, 128, 128]], [[128, 128, 128, 128]]]), 8)
    found = run(ops.scaled_linear, x, words, np.ones((2, 1), "float32"))
    np.testing.assert_array_equal(found, [[np.inf, np.nan], [np.nan, np.nan], [1, 0]])


@pytest.mark.parametrize(
    ("shapes", "dtypes", "bits", "message"),
    [
        (((8,), (5, 1, 2), (5, 1)), ("float32", "uint32", "float32"), 3, "2, 4 or 8 bits"),
        (((8,), (5, 2), (5, 1)), ("float32", "uint32", "float32"), 8, "w\\[n, g, q\\]"),
        (((8,), (5, 1, 2), (5, 1)), ("float32", "int8", "float32"), 8, "found float32, int8"),
        (((8,), (5, 1, 2), (5, 1)), ("float32", "uint32", "uint8"), 8, "scale of floats"),
        (((8,), (5, 1, 2), (5, 1)), ("float32", "uint32", "float32"), 4, "dims 8 and 16 differ"),
        (((8,), (5, 1, 2), (1, 5)), ("float32", "uint32", "float32"), 8, "dims 1 and 5 differ"),
    ],
)
def test_errors(
    shapes: tuple[tuple[int, ...], ...], dtypes: tuple[str, ...], bits: int, message: str
) -> None:
    operands = [te.placeholder(s, d) for s, d in zip(shapes, dtypes, strict=True)]
    with pytest.raises(ComputeError, match=message):
        ops.scaled_linear(*operands, bits=bits)

"""Which sums are added in blocks, and that their errors stay small."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tensorir import operators as op
from burnish.tensorir.text.printer import print_func
from burnish.tests.native import call_native
from burnish.tests.tuner.rules.checking import SKYLAKE, Shape, Workload, scheduled
from burnish.tuner.tiling.long_sums import TERMS

BLOCKED = f'"sum_block": {TERMS}'


def total(*shape: int | str, dtype: str = "float32") -> Workload:
    return Workload(lambda a: op.sum(a, -1), lambda a: a.sum(-1), shape, dtype=dtype)


def is_blocked(workload: Workload) -> bool:
    return BLOCKED in print_func(scheduled(workload.func, target=SKYLAKE)[1])


@pytest.mark.parametrize(("columns", "blocked"), [(100, False), (2048, False), (2176, True)])
def test_lanes_are_partial_sums_already(columns: int, blocked: bool) -> None:
    assert is_blocked(total(4, columns)) is blocked


def test_rows_of_unknown_length_are_long() -> None:
    assert is_blocked(total(4, "m"))


def test_sums_of_integers_and_maxima_are_not() -> None:
    assert not is_blocked(total(4, 10_000, dtype="int32"))
    assert not is_blocked(Workload(lambda a: op.max(a, -1), lambda a: a.max(-1), (4, 10_000)))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_no_bit(threads: int) -> None:
    x = np.random.default_rng(0).standard_normal((10, 70_001)).astype("float32")
    _, func = scheduled(total(10, 70_001).func)
    found, again = np.zeros(10, "float32"), np.zeros(10, "float32")
    call_native(func, x, found)
    call_native(func, x, again, threads=threads)
    np.testing.assert_array_equal(found, again)


@pytest.mark.parametrize("shape", [(3, 70_001), (3, "m"), (3, 50, 5000)])
def test_long_rows(shape: Shape) -> None:
    """70,000 tenths in 64 lanes, each in order, are off by 6e-6 of their sum."""
    x = np.full([70_001 if n == "m" else n for n in shape], 0.1, "float32")
    axes = tuple(range(1, x.ndim))
    _, func = scheduled(Workload(lambda a: op.sum(a, axes), lambda a: a, shape).func)
    found = np.zeros(3, "float32")
    call_native(func, x, found, dims=[70_001] if "m" in shape else [])
    np.testing.assert_allclose(found, x.astype("float64").sum(axes), rtol=4e-7)


@pytest.mark.parametrize("columns", [70_001, "m"])
def test_what_is_made_to_be_summed_is_blocked_too(columns: int | str) -> None:
    softmax = Workload(lambda a: op.softmax(a, -1), lambda a: a, (3, columns))
    assert is_blocked(softmax)
    _, func = scheduled(softmax.func)
    x = np.full((3, 70_001), 0.1, "float32")
    found = np.zeros_like(x)
    call_native(func, x, found, dims=[70_001] if columns == "m" else [])
    np.testing.assert_allclose(found, 1 / 70_001, rtol=4e-7)


@pytest.mark.parametrize("mean", [0.0, 1e4, 1e6])
def test_a_large_mean_leaves_long_rows_exact(mean: float) -> None:
    """With a mean rounded to float32 alone, they were off by 0.01 and more."""
    x = (np.random.default_rng(0).standard_normal((4, 8200)) + mean).astype("float32")
    _, func = scheduled(Workload(lambda a: op.layer_norm(a), lambda a: a, x.shape).func)
    found = np.zeros_like(x)
    call_native(func, x, found)
    wide = x.astype("float64")
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, expected, atol=2e-6)

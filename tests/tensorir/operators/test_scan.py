"""Cumulative sums, products and extremes against NumPy and torch."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from burnish import te
from burnish.support.errors import ComputeError
from burnish.support.target import Target
from burnish.tensorir import operators as ops
from burnish.tests import assembly
from burnish.tests.native import call_native
from burnish.tests.tensorir.operators.ordered_rows import sample
from burnish.tests.tensorir.operators.rows_native import run_rows

X = np.random.default_rng(0).standard_normal((3, 5, 4))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_every_axis(name: str, axis: int) -> None:
    found = run_rows(lambda x: getattr(ops, name)(x, axis), X, shape=X.shape)
    np.testing.assert_allclose(found, getattr(np, name)(X, axis), rtol=1e-13)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_exclusive_and_reverse(exclusive: bool, reverse: bool) -> None:
    given = X[:, ::-1] if reverse else X
    expected = np.cumsum(given, 1)
    if exclusive:
        expected = expected - given
    found = run_rows(
        lambda x: ops.cumsum(x, 1, exclusive=exclusive, reverse=reverse), X, shape=X.shape
    )
    np.testing.assert_allclose(found, expected[:, ::-1] if reverse else expected, atol=1e-13)


@pytest.mark.parametrize("shape", [(1,), (0,), (2, 0), (0, 3), (7, 1)])
def test_small_and_empty(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).random(shape)
    found = run_rows(lambda t: ops.cumsum(t, 0), x, shape=shape)
    np.testing.assert_allclose(found, np.cumsum(x, 0), rtol=1e-13)


LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 100, 1000)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int8"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_rows_of_any_length(length: int, dtype: str, reverse: bool, exclusive: bool) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (3, length)).astype(dtype)
    found = run_rows(
        lambda t: ops.cumsum(t, 1, exclusive=exclusive, reverse=reverse), x, shape=x.shape
    )
    given = x[:, ::-1] if reverse else x
    expected = np.cumsum(given, 1, dtype=dtype) - (given if exclusive else 0)
    np.testing.assert_array_equal(found, expected[:, ::-1] if reverse else expected)


@pytest.mark.parametrize("inner", [(1,), (3,), (8,), (17,), (3, 11), (5000,), (65, 64)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_columns_of_any_number(inner: tuple[int, ...], reverse: bool, exclusive: bool) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (2, 5, *inner)).astype("float32")
    found = run_rows(
        lambda t: ops.cumsum(t, 1, exclusive=exclusive, reverse=reverse), x, shape=x.shape
    )
    given = x[:, ::-1] if reverse else x
    expected = np.cumsum(given, 1) - (given if exclusive else 0)
    np.testing.assert_array_equal(found, expected[:, ::-1] if reverse else expected)


@pytest.mark.parametrize("shape", [(3, 1003), (1003, 37), (5, 40, 3)])
def test_products(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).uniform(0.9, 1.1, shape).astype("float32")
    found = run_rows(lambda t: ops.cumprod(t, 1), x, shape=shape)
    np.testing.assert_allclose(found, np.cumprod(x.astype("float64"), 1), rtol=2e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_are_as_good_as_in_order(axis: int) -> None:
    """At most the error of adding one element after another, which is at most half a unit of the
    sum of magnitudes for each addition."""
    x = np.random.default_rng(0).standard_normal((2, 10_000)).astype("float32")
    x = x if axis else np.ascontiguousarray(x.T)
    found = run_rows(lambda t: ops.cumsum(t, axis), x, shape=x.shape)
    exact = np.cumsum(x.astype("float64"), axis)
    steps = np.arange(x.shape[axis]).reshape((-1, 1) if axis == 0 else (1, -1))
    bound = steps * np.finfo("float32").eps / 2 * np.cumsum(np.abs(x.astype("float64")), axis)
    assert (np.abs(found - exact) <= bound + 1e-30).all()
    in_order = np.abs(np.cumsum(x, axis) - exact).max()
    assert np.abs(found - exact).max() <= (in_order if axis else in_order * 1.5)


@pytest.mark.parametrize("place", [0, 5, 7, 8, 20])
def test_special_values(place: int) -> None:
    x = np.zeros(40)
    x[place : place + 7] = [1.0, np.inf, 2.0, -np.inf, 3.0, np.nan, 1.0]
    x[-4] = -np.inf
    for given in (x, np.where(np.isnan(x) | (x == -np.inf), 1.0, x)):
        found = run_rows(lambda t: ops.cumsum(t, 0), given, shape=x.shape)
        np.testing.assert_array_equal(found, torch.tensor(given).cumsum(0).numpy())
        along = run_rows(lambda t: ops.cumsum(t, 0), given[:, None], shape=(40, 1))
        np.testing.assert_array_equal(along, found[:, None])


@pytest.mark.parametrize(("axis", "shape"), [(1, (40, 100)), (1, (3, 20, 6000)), (0, (9, 10_000))])
def test_threads_change_no_bit(axis: int, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    func = ops.cumsum(te.placeholder(shape), axis)
    results = [np.zeros(shape, "float32") for _ in range(3)]
    for threads, out in enumerate(results, 1):
        call_native(func, x, out, threads=threads)
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()


CPUS = ("skylake-avx512", "haswell", "x86-64", "generic")


def _loops(
    axis: int, cpu: str, dtype: str = "float32", *, scan: str = "cumsum"
) -> list[list[assembly.Line]]:
    target = Target(f"llvm -mcpu={cpu}").with_options(threads=1)
    func = getattr(ops, scan)(te.placeholder((64, 1024), dtype), axis)
    lines = assembly.kernel_lines(func, target)
    assert assembly.foreign_calls(lines) == []
    return assembly.innermost_loops(lines)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("axis", [0, 1])
def test_code_is_vectors_without_spills(axis: int, cpu: str) -> None:
    for loop in _loops(axis, cpu):
        assert assembly.spills(loop) == []
        sums = [line for line in loop if line.operation in ("vaddpd", "addpd", "fadd", "vaddsd")]
        assert all(line.is_wide for line in sums)


@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell", "generic"])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_running_extremes_are_vectors_without_spills(dtype: str, cpu: str) -> None:
    for loop in _loops(1, cpu, dtype, scan="cummax"):
        assert assembly.vector_spills(loop) == []
        assert any(line.is_wide for line in loop)


@pytest.mark.parametrize(("dtype", "additions", "shuffled"), [("float64", 5, 1), ("float32", 4, 3)])
def test_a_vector_of_a_row_takes_few_additions_and_shuffles(
    dtype: str, additions: int, shuffled: int
) -> None:
    """An addition for each distance and one more. Neighbours of the state's dtype are loaded again,
    and one of their sums computed again; others are shuffled."""
    loops = _loops(1, "skylake-avx512", dtype)
    found = [[line.operation for line in loop] for loop in loops]
    assert max([codes.count("vaddpd") for codes in found]) == additions
    assert not any(code.startswith("vexpand") for codes in found for code in codes)
    shuffles = [[c for c in codes if re.match("vperm|vshuf|valign", c)] for codes in found]
    assert max(map(len, shuffles)) == shuffled


@pytest.mark.parametrize("combine", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [0, 1])
def test_each_result_is_rounded_once(combine: str, axis: int) -> None:
    """A running float32 sum of 100,000 numbers was off by 1e-4 of it."""
    near = np.random.default_rng(0).uniform(0.9, 1.1, (2, 100_000) if axis else (100_000, 2))
    x = near.astype("float32") if combine == "cumsum" else (1 + (near - 1) * 1e-3).astype("float32")
    found = run_rows(lambda t: getattr(ops, combine)(t, axis), x, shape=x.shape)
    exact = getattr(np, combine)(x.astype("float64"), axis)
    assert np.abs(found / exact - 1).max() <= 2**-24


@pytest.mark.parametrize(
    "row",
    [[0.0] + [1e6] * 20, [1e-30, 1e30, 1e30, 1.0], [1e20] + [1e-20] * 7 + [1e5] * 8],
)
def test_products_are_taken_in_order(row: list[float]) -> None:
    """Products of neighbours would overflow, and zero times infinity is NaN."""
    x = np.array([row], "float32")
    found = run_rows(lambda t: ops.cumprod(t, 1), x, shape=x.shape)
    np.testing.assert_array_equal(found, np.cumprod(x, 1))


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int32", "int8", "uint8"]
)
def test_running_extremes(dtype: str, name: str) -> None:
    """Values and their places, with ties, NaN of both signs, infinities and the least integers."""
    for shape in ((3, 100), (2, 7), (1, 1001), (40, 3), (2, 0)):
        x = sample(dtype, shape, seed=shape[1])
        if dtype.startswith("int") and shape[1]:
            x[:, 0] = torch.iinfo(x.dtype).min if name == "cummax" else torch.iinfo(x.dtype).max
        for axis in (0, 1):
            values, places = getattr(torch, name)(x, axis)
            found = run_rows(lambda t, d=axis: getattr(ops, name)(t, d), x.numpy(), shape=shape)
            np.testing.assert_array_equal(found, values.numpy())
            found = run_rows(
                lambda t, v, d=axis: ops.last_match(t, v, d),
                x.numpy(), values.numpy(), shape=shape,
            )  # fmt: skip
            np.testing.assert_array_equal(found, places.numpy())


@pytest.mark.parametrize("axis", [0, 1])
def test_running_extremes_of_symbolic_sizes(axis: int) -> None:
    x = sample("float32", (5, 37))
    values, places = x.cummax(axis)
    named = [("m", "n")]
    found = run_rows(lambda t: ops.cummax(t, axis), x.numpy(), shape=(5, 37), shapes=named)
    np.testing.assert_array_equal(found, values.numpy())
    found = run_rows(
        lambda t, v: ops.last_match(t, v, axis), x.numpy(), values.numpy(),
        shape=(5, 37), shapes=named * 2,
    )  # fmt: skip
    np.testing.assert_array_equal(found, places.numpy())


def test_integers_wrap() -> None:
    x = np.array([2**63 - 1, 1, 5, -3])
    found = run_rows(lambda t: ops.cumsum(t, 0), x, shape=x.shape)
    np.testing.assert_array_equal(found, np.cumsum(x))


def test_half_precision_accumulates_in_float32() -> None:
    x = np.full(4096, 0.1, np.float16)
    found = run_rows(lambda t: ops.cumsum(t, 0), x, shape=x.shape)
    expected = np.cumsum(x.astype(np.float32)).astype(np.float16)
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(3, 5, 4), (2, 3, 3000), (1, 1, 1), (2, 0, 3), (3, 37, 8)])
def test_symbolic_sizes(axis: int, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(-3, 4, shape).astype("float64")
    found = run_rows(lambda t: ops.cumsum(t, axis), x, shape=shape, shapes=[("m", "n", "k")])
    np.testing.assert_array_equal(found, np.cumsum(x, axis))


def test_errors() -> None:
    with pytest.raises(ComputeError, match="cumsum: expected numbers, found bool"):
        ops.cumsum(te.placeholder((3,), "bool"), 0)
    with pytest.raises(ComputeError, match="cummax: expected numbers, found bool"):
        ops.cummax(te.placeholder((3,), "bool"), 0)
    with pytest.raises(ComputeError, match="Expected an axis from -1 to 0, found 1"):
        ops.cumprod(te.placeholder((3,)), 1)

"""The stable order against NumPy and torch: ties, NaN, every axis, symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish import te
from burnish.support.errors import ComputeError
from burnish.support.node import walk
from burnish.tensorir import operators as ops
from burnish.tensorir.stmt import Block
from burnish.tests.tensorir.operators.rows_native import run_rows


def wanted(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    order = torch.sort(torch.tensor(x), stable=True, dim=axis, descending=descending)[1]
    return np.asarray(order.numpy())


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "uint8"])
def test_ties_keep_their_order(dtype: str, axis: int, descending: bool) -> None:
    x = np.random.default_rng(0).integers(0, 6, (4, 37, 3)).astype(dtype)
    found = run_rows(lambda t: ops.argsort(t, axis, descending=descending), x, shape=x.shape)
    np.testing.assert_array_equal(found, wanted(x, axis, descending))


@pytest.mark.parametrize("descending", [False, True])
def test_special_values(descending: bool) -> None:
    x = np.array([1.0, np.nan, -np.inf, 0.0, -0.0, np.inf, np.nan, -1.0, np.inf])
    found = run_rows(lambda t: ops.argsort(t, descending=descending), x, shape=x.shape)
    np.testing.assert_array_equal(found, wanted(x, -1, descending))


def test_bools_and_integer_extremes() -> None:
    bools = np.array([True, False, True, False])
    np.testing.assert_array_equal(run_rows(ops.argsort, bools, shape=(4,)), [1, 3, 0, 2])
    x = np.array([0, 2**63 - 1, -(2**63), 1])
    np.testing.assert_array_equal(run_rows(ops.argsort, x, shape=(4,)), [2, 0, 3, 1])


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 40), st.integers(0, 3))
def test_any_symbolic_size(n: int, rows: int) -> None:
    x = np.random.default_rng(n).integers(0, 9, (rows, n))
    found = run_rows(ops.argsort, x, shape=x.shape, shapes=[("m", "n")])
    np.testing.assert_array_equal(found, np.argsort(x, 1, kind="stable"))


@pytest.mark.parametrize("n", [1, 2, 3, 16, 17])
def test_static_sizes(n: int) -> None:
    x = np.random.default_rng(n).random((2, n))
    np.testing.assert_array_equal(run_rows(ops.argsort, x, shape=x.shape), np.argsort(x, 1))


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.integers(3, 200), st.sampled_from(["float32", "float64"]))
def test_the_first_few_of_any_symbolic_size(n: int, dtype: str) -> None:
    x = np.random.default_rng(n).integers(0, 99, (2, n)).astype(dtype)
    found = run_rows(lambda t: ops.argsort(t, count=3), x, shape=(2, 3), shapes=[("m", "n")])
    np.testing.assert_array_equal(found, np.argsort(x, 1, kind="stable")[:, :3])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [None, 1, 20, 300, 1200])
def test_every_way_of_ordering_has_one_result(dtype: str, count: int | None) -> None:
    x = np.random.default_rng(0).integers(0, 500, (2, 1200)).astype(dtype)
    x[:, 7::100] = np.nan
    kept = 1200 if count is None else count
    order = wanted(x, 1, True)[:, :kept]
    for shapes in (None, [("m", "n")]):
        found = run_rows(
            lambda t: ops.argsort(t, descending=True, count=count),
            x, shape=(2, kept), shapes=shapes,
        )  # fmt: skip
        np.testing.assert_array_equal(found, order)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8"])
@pytest.mark.parametrize(("start", "count"), [(0, 1), (3, 4), (40, 41), (599, 600), (30, 50)])
def test_every_way_of_finding_a_part_has_one_result(dtype: str, start: int, count: int) -> None:
    for shape, axis in (((2, 1200), 1), ((600, 2), 0), ((60, 61), 1), ((600, 60), 0)):
        if count > shape[axis]:
            continue
        x = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
        kept = (shape[0], count - start) if axis else (count - start, shape[1])
        order = np.take(wanted(x, axis, False), range(start, count), axis)
        for shapes in (None, [("m", "n")]):
            found = run_rows(
                lambda t, d=axis: ops.argsort(t, d, count=count, start=start),
                x, shape=kept, shapes=shapes,
            )  # fmt: skip
            np.testing.assert_array_equal(found, order)


@pytest.mark.parametrize(
    ("shape", "axis", "keywords", "buffers"),
    [
        ((5000, 5), 1, {}, {"words", "turned", "places"}),
        ((40, 600), 0, {}, {"words"}),
        ((40, 600), 0, {"count": 3}, {"words"}),
        ((40, 600), 1, {"count": 3}, {"firsts", "found"}),
        ((2, 20_000), 1, {}, {"items", "counts", "total", "half"}),
        ((2, 20_000), 1, {"count": 10_000, "start": 9_999}, {"keys", "low", "count", "place"}),
        ((20_000, 2), 0, {"count": 10_000, "start": 9_999}, {"keys", "low", "count", "place"}),
        ((1, 20), 1, {}, {"firsts", "before"}),
    ],
)
def test_the_least_work_is_taken(
    shape: tuple[int, int], axis: int, keywords: dict[str, int], buffers: set[str]
) -> None:
    func = ops.argsort(te.placeholder(shape), axis, **keywords)
    found = {b.name for n in walk(func) if isinstance(n, Block) for b in n.alloc_buffers}
    assert found == buffers


@pytest.mark.parametrize("n", [20, 150])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_first_few_along_any_axis(axis: int, n: int) -> None:
    x = np.random.default_rng(0).integers(0, 50, (n, n, 2)).astype(np.float32)
    shape = (4, n, 2) if axis == 0 else (n, 4, 2)
    found = run_rows(lambda t: ops.argsort(t, axis, count=4), x, shape=shape)
    np.testing.assert_array_equal(found, np.take(wanted(x, axis, False), range(4), axis))


def test_the_first_few() -> None:
    x = np.random.default_rng(0).permutation(30).reshape(2, 15).astype(np.float32)
    found = run_rows(lambda t: ops.argsort(t, descending=True, count=4), x, shape=(2, 4))
    np.testing.assert_array_equal(found, torch.tensor(x).topk(4)[1].numpy())
    none = run_rows(lambda t: ops.argsort(t, count=0), x, shape=(2, 0))
    assert none.shape == (2, 0)


def test_errors() -> None:
    with pytest.raises(ComputeError, match="argsort: the first 4 of an axis of another size"):
        ops.argsort(te.placeholder((3,)), count=4)
    with pytest.raises(ComputeError, match="argsort: 3 of the first 2 are to be left out"):
        ops.argsort(te.placeholder((3,)), count=2, start=3)

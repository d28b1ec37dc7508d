"""Scatters against torch and NumPy: repeated places, reductions, indices outside."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops
from burnish.tests.tensorir.operators.rows_native import run_rows

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 4))
REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reduction", sorted(REDUCE))
def test_scatter_elements_combines(reduction: str, axis: int) -> None:
    at, updates = RNG.integers(0, 4, (3, 4)), RNG.standard_normal((3, 4))
    expected = torch.tensor(X).scatter_reduce(
        axis, torch.tensor(at), torch.tensor(updates), REDUCE[reduction]
    )
    found = run_rows(
        lambda x, i, u: ops.scatter_elements(x, i, u, axis=axis, reduction=reduction),
        X, at, updates, shape=X.shape,
    )  # fmt: skip
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-13)


@pytest.mark.parametrize(
    ("size", "given"), [(1, 1), (63, 60), (64, 61), (65, 62), (130, 127), (130, 64), (200, 128)]
)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_runs_of_places(axis: int, size: int, given: int) -> None:
    """Fewer elements than a run of places, as many, and more; fewer updates than elements."""
    x = RNG.standard_normal((3, 2, size))
    updates = RNG.standard_normal((2, 1, given))
    at = RNG.integers(0, x.shape[axis], updates.shape)
    expected = torch.tensor(x).scatter_reduce(axis, torch.tensor(at), torch.tensor(updates), "sum")
    for shapes in (None, [("n", 2, "m"), ("k", 1, "j"), ("k", 1, "j")]):
        found = run_rows(
            lambda x, i, u: ops.scatter_elements(x, i, u, axis=axis, reduction="add"),
            x, at, updates, shape=x.shape, shapes=shapes,
        )  # fmt: skip
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-13)


@pytest.mark.parametrize("size", [1, 63, 64, 65, 130])
def test_runs_of_indices(size: int) -> None:
    """Indexed axes at the end, whose places are found by runs, in order for repeated ones."""
    x = RNG.standard_normal((3, 4, 5))
    i, j = RNG.integers(-4, 4, (2, size)), RNG.integers(-5, 5, size)
    updates = RNG.standard_normal((3, 2, size))
    for axes, arrays, place in (([1, 2], [i, j], (i, j)), ([2], [i], (slice(None), i))):
        given = updates if len(axes) == 2 else RNG.standard_normal((3, 4, 2, size))
        expected = x.copy()
        np.add.at(expected, (slice(None), *place), given)
        found = run_rows(
            lambda t, u, *at, axes=axes: ops.scatter_index(t, u, *at, axes=axes, reduction="add"),
            x, given, *arrays, shape=x.shape,
        )  # fmt: skip
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_scatter_elements_replaces_and_the_last_one_counts() -> None:
    at = np.array([[1, 0, 1, -1], [1, 9, -9, 2]])
    updates = np.arange(8.0).reshape(2, 4)
    expected = X.copy()
    for i, j in np.ndindex(2, 4):
        expected[{9: 4, -9: 0, -1: 4}.get(int(at[i, j]), at[i, j]), j] = updates[i, j]
    found = run_rows(ops.scatter_elements, X, at, updates, shape=X.shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_one_update_for_all_places(axis: int) -> None:
    at, one = RNG.integers(0, 4, (3, 4)), np.array(2.5)
    for reduction, expected in (
        ("none", torch.tensor(X).scatter(axis, torch.tensor(at), 2.5)),
        ("add", torch.tensor(X).scatter(axis, torch.tensor(at), 2.5, reduce="add")),
    ):
        found = run_rows(
            lambda x, i, u, d=axis, how=reduction: ops.scatter_elements(
                x, i, u, axis=d, reduction=how
            ),
            X, at, one, shape=X.shape,
        )  # fmt: skip
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-13)


def test_scatter_elements_of_symbolic_sizes() -> None:
    at, updates = RNG.permutation(5)[:, None] + np.zeros((1, 4), np.int64), RNG.random((5, 4))
    shapes = [("n", 4), ("m", 4), ("m", 4)]
    found = run_rows(ops.scatter_elements, X, at, updates, shape=X.shape, shapes=shapes)
    expected = np.empty_like(X)
    np.put_along_axis(expected, at, updates, 0)
    np.testing.assert_array_equal(found, expected)


def test_scatter_index_as_numpy() -> None:
    x = RNG.standard_normal((4, 5, 3))
    i, j = np.array([[0], [2]]), np.array([1, 4, 0])
    for axes, place in [
        ([0, 1], (i, j)), ([0, 2], (i, slice(None), j % 3)), ([1], (slice(None), i))
    ]:  # fmt: skip
        arrays = [i, j % 3][: len(axes)]
        expected = x.copy()
        updates = RNG.standard_normal(expected[place].shape)
        if axes == [0, 1]:
            place = (i, j % 3)
        expected[place] = updates
        found = run_rows(
            lambda t, u, *at, axes=axes: ops.scatter_index(t, u, *at, axes=axes),
            x, updates, *arrays, shape=x.shape,
        )  # fmt: skip
        np.testing.assert_array_equal(found, expected)


def test_scatter_index_adds_every_update() -> None:
    at, updates = np.array([0, 2, 0, -1]), np.array(1.5)
    expected = X.copy()
    np.add.at(expected, at, updates)
    found = run_rows(
        lambda x, u, i: ops.scatter_index(x, u, i, axes=[0], reduction="add"),
        X, updates, at, shape=X.shape,
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_errors() -> None:
    x, i = te.placeholder((5, 4)), te.placeholder((3, 4), "int64")
    with pytest.raises(ComputeError, match="expected one of none, add, mul, max, min, found 'sub'"):
        ops.scatter_elements(x, i, x, reduction="sub")
    with pytest.raises(ComputeError, match="expected updates of float32, found int64"):
        ops.scatter_elements(x, i, i)
    with pytest.raises(ComputeError, match="expected indices of an integer dtype"):
        ops.scatter_elements(x, x, x)
    with pytest.raises(ComputeError, match="operands of one rank, found 2, 1 and 2"):
        ops.scatter_elements(x, te.placeholder((3,), "int64"), x)
    with pytest.raises(ComputeError, match=r"one for each of 1 index tensors, found \[1, 0\]"):
        ops.scatter_index(x, x, i, axes=[1, 0])
    b = te.placeholder((5, 4), "bool")
    with pytest.raises(ComputeError, match="bools do not combine by 'add'"):
        ops.scatter_elements(b, i, b, reduction="add")

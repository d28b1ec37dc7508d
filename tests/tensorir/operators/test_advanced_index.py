"""Indexing of several axes against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.tensorir import operators as ops

Run = Callable[..., np.ndarray]
X = np.random.default_rng(0).random((3, 4, 5, 2))
AT, J = np.array([[2], [-1]]), np.array([1, 0, 3], np.int32)
ALL = slice(None)


@pytest.mark.parametrize(
    ("axes", "arrays", "place"),
    [
        ([0], [AT], (AT,)),
        ([2], [AT], (ALL, ALL, AT)),
        ([-1], [AT % 2], (ALL, ALL, ALL, AT % 2)),
        ([0, 1], [AT, J], (AT, J)),
        ([1, 2], [AT, J], (ALL, AT, J)),
        ([0, 2], [AT, J], (AT, ALL, J)),
        ([1, 3], [J, J % 2], (ALL, J, ALL, J % 2)),
        ([0, 1, 2], [AT, J, J], (AT, J, J)),
    ],
)
def test_as_numpy(run: Run, axes: list[int], arrays: list[np.ndarray], place: object) -> None:
    found = run(lambda x, *at: ops.advanced_index(x, *at, axes=axes), X, *arrays)
    np.testing.assert_array_equal(found, X[place])  # type: ignore[index]


def test_scalars_and_empty_indices(run: Run) -> None:
    found = run(lambda x, i: ops.advanced_index(x, i, axes=[1]), X, np.array(2))
    np.testing.assert_array_equal(found, X[:, 2])
    none = run(lambda x, i: ops.advanced_index(x, i, axes=[1]), X, np.zeros((0, 2), np.int64))
    assert none.shape == (3, 0, 2, 5, 2)


def test_indices_outside_read_the_nearest(run: Run) -> None:
    at = np.array([-9, 9])
    found = run(lambda x, i: ops.advanced_index(x, i, i, axes=[0, 1]), X, at)
    np.testing.assert_array_equal(found, X[[0, 2], [0, 3]])


def test_symbolic_sizes(run: Run) -> None:
    found = run(
        lambda x, i: ops.advanced_index(x, i, axes=[1]), X, J, shapes=[("a", "b", 5, 2), ("n",)]
    )
    np.testing.assert_array_equal(found, X[:, J])


def test_errors() -> None:
    x, i = te.placeholder((3, 4)), te.placeholder((2,), "int64")
    with pytest.raises(ComputeError, match="one for each of 1 index tensors"):
        ops.advanced_index(x, i, axes=[0, 1])
    with pytest.raises(ComputeError, match="expected integer indices, found float32"):
        ops.advanced_index(x, x, axes=[0])
    with pytest.raises(ComputeError, match="do not broadcast"):
        ops.advanced_index(x, i, te.placeholder((3,), "int64"), axes=[0, 1])

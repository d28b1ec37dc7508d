"""Non-maximum suppression: the function against NumPy, box by box."""

from __future__ import annotations

import numpy as np
import pytest

from burnish import te
from burnish.support.errors import ComputeError
from burnish.support.structural import structural_equal
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.graphir.data_reference import non_max_suppression
from burnish.tests.native import call_native


def function(batch: int, classes: int, dtype: str = "float32") -> PrimFunc:
    """Of any number of boxes."""
    n = te.var("n")
    shapes = [(batch, 4, n), (batch, classes, n), (batch, classes, n), (), ()]
    dtypes = (dtype, "int64", "bool", "int64", dtype)
    operands = [
        te.placeholder(s, d, name=f"x{i}")
        for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True))
    ]
    return op.non_max_suppression(*operands)


def boxes(batch: int, classes: int, count: int, dtype: str = "float32") -> list[np.ndarray]:
    """Overlapping ones, in some order, of which a few do not count."""
    rng = np.random.default_rng(0)
    corners = rng.uniform(0, 4, (batch, 4, count)).astype(dtype)
    corners[:, 2:] = corners[:, :2] + rng.uniform(0, 3, (batch, 2, count))
    order = np.argsort(rng.random((batch, classes, count)), -1).astype("int64")
    return [corners, order, rng.random((batch, classes, count)) > 0.2]


@pytest.mark.parametrize(
    ("batch", "classes", "count"), [(1, 1, 40), (2, 3, 9), (1, 2, 1), (1, 1, 0)]
)
@pytest.mark.parametrize("limit", [0, 3, 1 << 60])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_which_boxes_stay(batch: int, classes: int, count: int, limit: int, dtype: str) -> None:
    func = verify_func(function(batch, classes, dtype))
    assert structural_equal(parse_func(func.script()), func)
    given = [*boxes(batch, classes, count, dtype), np.array(limit), np.array(0.3, dtype)]
    expected = non_max_suppression(*given)
    found = np.ones(expected.shape, bool)
    call_native(func, *given, found, dims=[count])
    np.testing.assert_array_equal(found, expected)
    if count > 5:
        assert found.sum() < count * batch * classes


def test_numbers_out_of_range_are_those_of_the_nearest_box() -> None:
    given = [*boxes(1, 1, 6), np.array(9), np.array(0.3, np.float32)]
    given[1] = np.array([[[99, -5, 1, 2, 3, 4]]])
    near = [given[0], given[1].clip(0, 5), *given[2:]]
    found = np.ones((1, 1, 6), bool)
    call_native(function(1, 1), *given, found, dims=[6])
    np.testing.assert_array_equal(found, non_max_suppression(*near))


def test_ranks() -> None:
    x = te.placeholder((4, 6), name="x")
    with pytest.raises(ComputeError, match="found ranks 2, 2 and 2"):
        op.non_max_suppression(x, x, x, x, x)

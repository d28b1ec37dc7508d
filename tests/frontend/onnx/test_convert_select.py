"""Results whose size the data say."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.driver.compile import compile
from burnish.frontend.onnx import import_onnx
from burnish.support.errors import FrontendError
from burnish.tests.frontend.onnx.oracle import check_compiled, compare, model

RNG = np.random.default_rng(3)


def test_a_sum_of_zeros_and_ones_is_asked_for() -> None:
    made = model("y = NonZero(x)", "float[2, 3] x", outputs="int64 y")
    with pytest.raises(FrontendError, match="decides about sizes and is computed from data"):
        import_onnx(made)
    compiled = check_compiled(made, x=np.array([[0, 1, 0], [2, 0, 3]], np.float32))
    compare(compiled, made, x=np.array([[1, 1, 0], [0, 0, 3]], np.float32))
    assert compiled.compilations == 1  # as many as before
    compare(compiled, made, x=np.zeros((2, 3), np.float32))


def test_a_scalar_has_no_coordinates() -> None:
    compiled = compile(model("y = NonZero(x)", "float x", outputs="int64 y"))
    for value, count in ((3, 1), (0, 0)):
        found = compiled(np.array(value, np.float32))
        assert (found.shape, found.dtype) == ((0, count), np.int64)


@pytest.mark.parametrize("attributes", ["<axis = 1>", ""])
def test_compress(attributes: str) -> None:
    made = model(f"y = Compress{attributes}(x, c)", "float[2, 3] x, bool[3] c")
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    check_compiled(made, x=x, c=np.array([True, False, True]))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_sorted(axis: int | None) -> None:
    attributes = "" if axis is None else f"<axis = {axis}>"
    made = model(f"y, a, b, c = Unique{attributes}(x)", "int64[6, 3] x",
                 outputs="int64 y, int64 a, int64 b, int64 c")  # fmt: skip
    check_compiled(made, x=RNG.integers(0, 2, (6, 3)))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_in_the_order_of_the_tensor(axis: int | None) -> None:
    attributes = "<sorted = 0>" if axis is None else f"<sorted = 0, axis = {axis}>"
    made = model(f"y, a, b, c = Unique{attributes}(x)", "int64[6, 3] x",
                 outputs="int64 y, int64 a, int64 b, int64 c")  # fmt: skip
    x = RNG.integers(0, 2, (6, 3))
    y, first, inverse, counts = compile(made)(x)
    flat, along = (x.reshape(-1), 0) if axis is None else (x, axis)
    _, at, number = np.unique(flat, return_index=True, return_counts=True, axis=along)
    order = np.argsort(at)
    assert np.array_equal(first, at[order])
    assert np.array_equal(counts, number[order])
    assert np.array_equal(y, np.take(flat, first, axis=along))
    assert np.array_equal(np.take(y, inverse, axis=along), flat)


@pytest.mark.parametrize("centred", [0, 1])
def test_boxes_that_overlap_are_given_up(centred: int) -> None:
    body = (
        f"y = NonMaxSuppression<center_point_box = {centred}>(boxes, scores, most, overlap, least)"
    )
    weights = {"most": np.array([3]), "overlap": np.array([0.3], np.float32),
               "least": np.array([0.2], np.float32)}  # fmt: skip
    made = model(body, "float[2, 6, 4] boxes, float[2, 3, 6] scores", weights=weights,
                 outputs="int64 y")  # fmt: skip
    corners = RNG.random((2, 6, 4)).astype(np.float32)
    corners[..., 2:] += corners[..., :2] if not centred else 0
    check_compiled(made, boxes=corners, scores=RNG.random((2, 3, 6)).astype(np.float32))

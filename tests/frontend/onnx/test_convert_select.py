"""Results whose size the data say."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.driver.compile import compile
from burnish.frontend.onnx import import_onnx
from burnish.support.errors import BurnishError
from burnish.tests.frontend.onnx.oracle import check_compiled, compare, model

RNG = np.random.default_rng(3)


def test_one_program_finds_what_is_not_zero_in_all_data() -> None:
    made = model("y = NonZero(x)", "float[N, 3] x", outputs="int64 y")
    compiled = check_compiled(made, x=np.array([[0, 1, 0], [2, 0, 3]], np.float32))
    for x in (np.ones((4, 3)), np.zeros((2, 3)), np.zeros((0, 3)), np.eye(3)):
        compare(compiled, made, x=x.astype(np.float32))
    assert compiled.compilations == 1
    assert 'R.Tensor((2, "y_size"), dtype="int64")' in compiled.script("00-import")


@pytest.mark.parametrize("axis", [None, 0])
def test_one_program_for_all_rows_that_are_equal(axis: int | None) -> None:
    attributes = "" if axis is None else f"<axis = {axis}>"
    made = model(f"y, a, b, c = Unique{attributes}(x)", "int64[N, 2] x",
                 outputs="int64 y, int64 a, int64 b, int64 c")  # fmt: skip
    compiled = compile(made)
    for high, count in ((1, 4), (3, 7), (9, 5), (9, 1)):
        compare(compiled, made, x=RNG.integers(0, high, (count, 2)))


def test_one_program_for_all_conditions() -> None:
    made = model("y = Compress(x, c)", "float[N] x, bool[N] c")
    compiled = compile(made)
    for count in (3, 0, 6):
        x = RNG.standard_normal(count).astype(np.float32)
        compare(compiled, made, x=x, c=RNG.random(count) > 0.5)


def test_a_size_that_must_be_known_is_asked_for() -> None:
    body = (
        "z = NonZero(x)\nf = Cast<to = 1>(z)\nimage = Unsqueeze(f, first)\n"
        'y = AveragePool<kernel_shape = [3], strides = [2], auto_pad = "SAME_UPPER">(image)'
    )
    made = model(body, "float[4] x", 18, weights={"first": np.array([0])}, outputs="float y")
    with pytest.raises(BurnishError, match="auto_pad of a symbolic size"):
        import_onnx(made)
    compiled = compile(made)
    for x in ([1, 2, 0, 3], [0, 1, 5, 0], [1, 0, 7, 9]):
        compare(compiled, made, x=np.array(x, np.float32))
    assert compiled.compilations == 2  # three elements, and two
    assert any("a size of data must be known" in n for n in compiled.report.notes)


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


def test_many_boxes_with_limits_of_data_are_one_program() -> None:
    body = "y = NonMaxSuppression(boxes, scores, most, overlap, least)"
    made = model(body, "float[1, N, 4] boxes, float[1, 2, N] scores, int64[1] most, "
                 "float[1] overlap, float[1] least", outputs="int64 y")  # fmt: skip
    compiled = compile(made)
    for count, most, overlap, least in ((900, 1 << 60, 0.5, 0.1), (7, 2, 0.9, 0.0)):
        corners = RNG.random((1, count, 4)).astype(np.float32)
        corners[..., 2:] += corners[..., :2]
        given = {
            "boxes": corners, "scores": RNG.random((1, 2, count)).astype(np.float32),
            "most": np.array([most]), "overlap": np.array([overlap], np.float32),
            "least": np.array([least], np.float32),
        }  # fmt: skip
        compare(compiled, made, **given)
    none = {**given, "boxes": corners[:, :0], "scores": given["scores"][:, :, :0]}
    assert compiled(none).shape == (0, 3)
    assert compiled.compilations == 1

"""Gathers, scatters and one-hot rows against onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import check, evaluate, model, operators_of, refusal

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 5, 3)).astype(np.float32)


def integers(high: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, high, shape)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_elements(axis: int) -> None:
    made = model(f"y = GatherElements<axis = {axis}>(x, i)", "float[4, 5, 3] x, int64[2, 2, 2] i")
    at = integers(3, 2, 2, 2)
    place = list(np.indices(at.shape))
    place[axis] = at
    np.testing.assert_array_equal(
        evaluate(import_onnx(made), {"x": X, "i": at})[0], X[tuple(place)]
    )


@pytest.mark.parametrize("width", [1, 2, 3])
def test_gather_nd(width: int) -> None:
    made = model("y = GatherND(x, i)", f"float[N, 5, 3] x, int64[2, K, {width}] i")
    check(made, x=X, i=integers(3, 2, 4, width))


def test_gather_nd_with_batch_dims() -> None:
    for batch, shape in [(1, "4, K, 1"), (1, "4, K, 2"), (2, "4, 5, 1")]:
        made = model(
            f"y = GatherND<batch_dims = {batch}>(x, i)", f"float[4, 5, 3] x, int64[{shape}] i"
        )
        sizes = [int(s) if s.strip() != "K" else 6 for s in shape.split(",")]
        check(made, x=X, i=integers(3, *sizes))


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_nd(reduction: str) -> None:
    places = {"none": np.array([[3, 1], [0, 2]])}.get(reduction, np.array([[3, 1], [3, 1]]))
    made = model(
        f'y = ScatterND<reduction = "{reduction}">(x, i, u)',
        "float[N, 5, 3] x, int64[2, 2] i, float[2, 3] u",
        18,
    )
    check(made, x=X, i=places, u=X[0, :2])


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_elements(reduction: str) -> None:
    places = np.array([[[3, 1, 2], [0, 2, 1]]])
    made = model(
        f'y = ScatterElements<axis = 1, reduction = "{reduction}">(x, i, u)',
        "float[4, 5, 3] x, int64[1, 2, 3] i, float[1, 2, 3] u",
        18,
    )
    check(made, x=X, i=places, u=X[:1, :2])


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    weights = {"d": np.int64(5), "v": np.array([-1.5, 2], np.float32)}
    made = model(f"y = OneHot<axis = {axis}>(i, d, v)", "int64[N, 3] i", 13, weights=weights)
    imported = import_onnx(made)
    at = np.array([[0, 4, -1], [2, -5, 3]])
    rows = np.where(np.arange(5) == (at % 5)[..., None], np.float32(2), np.float32(-1.5))
    expected = np.moveaxis(rows, -1, axis)
    np.testing.assert_array_equal(evaluate(imported, {"i": at})[0], expected)
    check(made, i=np.abs(at) % 5)


def test_which_operators_they_become() -> None:
    made = model("y = GatherND(x, i)", "float[N, 5, 3] x, int64[7, 1] i")
    assert operators_of(import_onnx(made))[-1] == "take"
    made = model("y = GatherND(x, i)", "float[N, 5, 3] x, int64[7, 2] i")
    assert operators_of(import_onnx(made))[-1] == "advanced_index"


def test_what_cannot_be_imported() -> None:
    message = refusal(model("y = GatherND(x, i)", "float[N, 5, 3] x, int64[7, K] i"))
    assert "the last dim of its indices must be a static number of axes" in message
    message = refusal(
        model("y = GatherND<batch_dims = 1>(x, i)", "float[N, 5, 3] x, int64[N, 2, 1] i")
    )
    assert "batch dims must be static" in message
    message = refusal(
        model('y = ScatterElements<reduction = "sub">(x, i, x)', "float[4, 5] x, int64[4, 5] i", 18)
    )
    assert "reduction 'sub' is unknown" in message
    weights = {"d": np.int64(5), "v": np.zeros(2, np.float32)}
    message = refusal(model("y = OneHot<axis = 3>(i, d, v)", "int64[N] i", 13, weights=weights))
    assert "axis 3 of a result of 2 dims" in message


def test_no_index_gives_no_element_of_an_empty_axis() -> None:
    """As detectors come to, whose levels may have no box."""
    x, i = np.zeros((0, 3), np.float32), np.zeros((0, 3), np.int64)
    check(model("y = GatherElements(x, i)", "float[0, 3] x, int64[0, 3] i"), x=x, i=i)
    made = model("y, at = TopK <axis = 0> (x, k)", "float[0, 3] x", outputs="float y, int64 at",
                 weights={"k": np.array([0])})  # fmt: skip
    found = evaluate(import_onnx(made), {"x": x})
    assert [(f.shape, str(f.dtype)) for f in found] == [((0, 3), "float32"), ((0, 3), "int64")]

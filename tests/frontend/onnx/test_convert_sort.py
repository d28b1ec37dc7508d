"""ArgMax, TopK and CumSum against onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tests.frontend.onnx.oracle import check, model, refusal

X = np.random.default_rng(0).permutation(24).reshape(2, 3, 4).astype(np.float32)
TIES = (X // 8).astype(np.float32)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
def test_arg_extremes(name: str, keep: int, last: int) -> None:
    for axis in (0, 1, -1):
        attributes = f"axis = {axis}, keepdims = {keep}, select_last_index = {last}"
        made = model(f"y = {name}<{attributes}>(x)", opset=13)
        check(made, x=X)
        check(made, x=TIES)


@pytest.mark.parametrize("largest", [0, 1])
def test_top_k(largest: int) -> None:
    for axis in (0, 1, -1):
        made = model(
            f"y, i = TopK<axis = {axis}, largest = {largest}>(x, k)",
            "float[2, 3, 4] x", 11, outputs="float y, int64 i",
            weights={"k": np.array([2])},
        )  # fmt: skip
        check(made, x=X)


def test_top_k_of_a_symbolic_axis_and_of_old_opsets() -> None:
    made = model(
        "y, i = TopK<axis = 0>(x, k)", outputs="float y, int64 i", weights={"k": np.array([1])}
    )
    check(made, x=X)
    check(model("y, i = TopK<k = 3>(x)", opset=9, outputs="float y, int64 i"), x=X)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulative_sum(exclusive: int, reverse: int) -> None:
    for axis in (0, 2, -2):
        made = model(
            f"y = CumSum<exclusive = {exclusive}, reverse = {reverse}>(x, a)",
            opset=14, weights={"a": np.int64(axis)},
        )  # fmt: skip
        check(made, x=X)


def test_errors() -> None:
    message = refusal(
        model("y, i = TopK(x, k)", "float[N, 3] x, int64[2] k", 11, outputs="float y, int64 i")
    )
    assert "k must be one number" in message
    message = refusal(model("y = ArgMax<axis = 5>(x)", opset=13))
    assert "axis=5 is out of range" in message

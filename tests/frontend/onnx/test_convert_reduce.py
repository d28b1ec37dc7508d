"""Reductions: axes as attribute and as input, kept dims, none at all."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.onnx.convert_reduce import _REDUCE
from burnish.tests.frontend.onnx.oracle import check, model, operators_of, refusal

X = np.random.default_rng(0).uniform(0.2, 1.5, (2, 3, 4)).astype(np.float32)


@pytest.mark.parametrize("name", sorted(_REDUCE))
def test_axes_as_attribute_and_as_input(name: str) -> None:
    for attributes in ("", "<axes = [1]>", "<axes = [0, -1], keepdims = 0>", "<keepdims = 0>"):
        check(model(f"y = {name}{attributes}(x)", opset=11), x=X)
    weights = {"axes": np.array([1, -1])}
    check(model(f"y = {name}(x, axes)", opset=18, weights=weights), x=X)
    check(model(f"y = {name}<keepdims = 0>(x, axes)", opset=18, weights=weights), x=X)


def test_no_axes_may_mean_nothing() -> None:
    imported = check(model("y = ReduceSum<noop_with_empty_axes = 1>(x)", opset=13), x=X)
    assert operators_of(imported) == []
    empty = {"axes": np.array([], np.int64)}
    check(model("y = ReduceSum(x, axes)", opset=13, weights=empty), x=X)


def test_integers_and_infinities() -> None:
    ints = (X * 5).astype(np.int64)
    check(
        model("y = ReduceSum(x, a)", "int64[N, 3, 4] x", 13, weights={"a": np.array([1])}), x=ints
    )
    x = X.copy()
    x[0] = -np.inf
    x[1, 0] = np.inf
    check(model("y = ReduceLogSumExp<axes = [2]>(x)", opset=13), x=X * 100)
    check(model("y = ReduceMax<axes = [1]>(x)", opset=13), x=x)


def test_the_number_of_elements_is_a_size() -> None:
    body = "s = Shape(x)\nn = ReduceProd<keepdims = 1>(s)\ny = Reshape(x, n)"
    imported = check(model(body, opset=13), x=X)
    assert '"N * 12"' in imported.module.script()


def test_axes_must_be_constant() -> None:
    made = model("a = Cast<to = 7>(x)\ny = ReduceSum(x, a)", "float[1] x", 13)
    assert "input 1 ('a') decides about sizes and is computed from data" in refusal(made)

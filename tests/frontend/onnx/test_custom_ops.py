"""Operators of domains of users' own: kernels, environment functions, attributes, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import burnish
from burnish import graph
from burnish.frontend import custom_ops
from burnish.frontend.onnx.custom_ops import register_onnx_op
from burnish.frontend.onnx.registry import REGISTRY
from burnish.support.errors import BurnishError, FrontendError, UnsupportedOpError
from burnish.vm import registry as environment

X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(REGISTRY, "_table", dict(REGISTRY._table))
    monkeypatch.setattr(custom_ops, "_OWN", {})
    monkeypatch.setattr(environment, "_functions", dict(environment._functions))


def model_of(
    inputs: list[str] | None = None, outputs: int = 1, n: str | int = "n", **attributes: Any
) -> ModelProto:
    names = [f"y{i}" for i in range(outputs)]
    nodes = [
        helper.make_node("Scale", inputs or ["x"], names, domain="mine", **attributes),
        *[helper.make_node("Relu", [y], [f"z{y}"]) for y in names],
    ]
    info = [helper.make_tensor_value_info(f"z{y}", TensorProto.FLOAT, [n, 4]) for y in names]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, 4])
    made = helper.make_graph(nodes, "g", [x], info)
    return helper.make_model(
        made, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    )


def test_a_function_gets_inputs_and_attributes() -> None:
    with pytest.raises(UnsupportedOpError, match=r"burnish\.register_onnx_op"):
        burnish.compile(model_of(by=2.0))
    seen: list[dict[str, Any]] = []

    def convert(x: Any, absent: Any, y: Any, **attributes: Any) -> Any:
        seen.append(attributes)
        assert absent is None
        return graph.op("multiply", graph.op("add", x, y), attributes["by"])

    register_onnx_op("mine::Scale", convert)
    held = numpy_helper.from_array(np.arange(3))
    model = burnish.compile(model_of(["x", "", "x"], by=2.0, word="w", many=[1, 2], held=held))
    for n in (0, 1, 3):
        np.testing.assert_allclose(model(X[:n]), np.maximum(X[:n] * 4, 0), rtol=1e-6)
    assert {k: seen[0][k] for k in ("by", "word", "many")} == {
        "by": 2.0,
        "word": "w",
        "many": [1, 2],
    }
    np.testing.assert_array_equal(seen[0]["held"], np.arange(3))


def test_the_name_of_a_graph_operator() -> None:
    register_onnx_op("mine::Scale", "softmax")
    np.testing.assert_allclose(
        burnish.compile(model_of(axis=1))(X),
        np.exp(X) / np.exp(X).sum(1, keepdims=True),
        rtol=1e-5,
    )


def test_several_results() -> None:
    register_onnx_op("mine::Scale", lambda x: (graph.op("negative", x), x))
    first, second = burnish.compile(model_of(outputs=2))(X)
    np.testing.assert_array_equal(first, np.maximum(-X, 0))
    np.testing.assert_array_equal(second, np.maximum(X, 0))


def test_a_function_of_the_environment() -> None:
    burnish.register_func(
        "test.scale", lambda x, out: np.multiply(x.numpy(), 3, out=out.numpy()), override=True
    )
    register_onnx_op("mine::Scale", environment="test.scale")
    np.testing.assert_allclose(burnish.compile(model_of())(X), np.maximum(X * 3, 0))
    register_onnx_op("mine::Scale", environment="test.scale", like=1)
    with pytest.raises(FrontendError, match="has no input 1"):
        burnish.compile(model_of(n=3))


def test_errors() -> None:
    with pytest.raises(BurnishError, match="'Relu' has a converter of burnish"):
        register_onnx_op("Relu", "relu")
    with pytest.raises(BurnishError, match="takes an operator's name"):
        register_onnx_op("mine::", "relu")
    register_onnx_op("mine::Scale", lambda x: graph.op("negative", x))
    with pytest.raises(FrontendError, match="gave 1 values, and the node has 2"):
        burnish.compile(model_of(outputs=2, n=3))
    inner = helper.make_graph([], "inner", [], [])
    with pytest.raises(FrontendError, match="an attribute is a GraphProto"):
        burnish.compile(model_of(body=inner, n=3))

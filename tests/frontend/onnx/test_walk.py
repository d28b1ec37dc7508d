"""The walk over nodes: functions, constants, graphs inside of graphs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from burnish.driver.compile import compile
from burnish.frontend.onnx import import_onnx
from burnish.support.errors import FrontendError, TypeInferenceError
from burnish.tests.frontend.onnx.oracle import check, evaluate, model, operators_of

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(1, 3, 4)


def test_operators_without_a_converter_are_their_own_functions() -> None:
    body = 'y = NegativeLogLikelihoodLoss<reduction = "mean">(x, t)'
    made = model(body, "float[2, 3] x, int64[2] t")
    check(made, x=X.reshape(4, 3)[:2], t=np.array([2, 0]))


def test_attributes_that_are_not_given_have_the_operators_defaults() -> None:
    made = model("y = HannWindow(n)", "float[1] x", weights={"n": np.int64(6)})
    found = evaluate(import_onnx(made), {"x": X[0, 0, :1]})[0]
    np.testing.assert_allclose(found, np.hanning(7)[:6], atol=1e-6)


def test_a_form_that_the_converter_leaves_is_the_function() -> None:
    body = "y, mean, deviation = LayerNormalization<axis = -1>(x, w)"
    made = model(body, outputs="float y, float mean", weights={"w": np.ones(4, np.float32)})
    made.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("x", 1, [1, 3, 4]))
    y, mean = (np.asarray(v) for v in evaluate(import_onnx(made), {"x": X}))
    np.testing.assert_allclose(mean, X.mean(-1, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y.mean(-1), 0, atol=1e-5)


def test_attributes_of_a_call_reach_the_nodes_of_a_function() -> None:
    made = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 17, "local" : 1]>
        g (float[N, 4] x) => (float y) { y = local.sharp<a = 0.5>(x) }
        <domain: "local", opset_import: ["" : 17, "local" : 1]>
        sharp <a>(v) => (w) { t = LeakyRelu<alpha: float = @a>(v)
            w = local.twice(t) }
        <domain: "local", opset_import: ["" : 17, "local" : 1]>
        twice (v) => (w) { w = Add(v, v) }
    """)
    imported = import_onnx(made)
    assert operators_of(imported) == ["leaky_relu", "add"]
    found = evaluate(imported, {"x": X[0]})[0]
    np.testing.assert_allclose(found, 2 * np.where(X[0] > 0, X[0], X[0] / 2))


def test_a_function_that_calls_itself_is_refused() -> None:
    made = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 17, "local" : 1]>
        g (float[N, 4] x) => (float y) { y = local.deep(x) }
        <domain: "local", opset_import: ["" : 17, "local" : 1]>
        deep (v) => (w) { w = local.deep(v) }
    """)
    with pytest.raises(FrontendError, match="the function 'deep' calls itself"):
        import_onnx(made)


def test_a_few_known_numbers_are_computed() -> None:
    body = """
        a = Mul(two, three)
        b = Cast<to = 7>(a)
        c = Reshape(x, b)
        y = Relu(c)
    """
    weights = {"two": np.array([1.5, 3], np.float32), "three": np.array([4, 2], np.float32)}
    imported = import_onnx(model(body, "float[2, 3, 6] x", weights=weights))
    assert operators_of(imported) == ["reshape", "relu"]


@pytest.mark.parametrize("values", [[-1.0, 300.0], [np.nan, 1.0], [1.9, 254.9]])
def test_casts_of_known_numbers_are_those_of_numbers_that_are_not(values: list[float]) -> None:
    x = np.array(values, np.float32)
    outputs = "uint8[2] y"
    folded = compile(model("y = Cast<to = 2>(w)", "float[2] x", outputs=outputs, weights={"w": x}))
    run = compile(model("y = Cast<to = 2>(x)", "float[2] x", outputs=outputs))
    assert np.array_equal(folded(x), run(x))


def test_names_of_an_inner_graph_are_its_own() -> None:
    body = """
        a = Neg(x)
        b = If (yes) <then_branch = g1 () => (float c) { a = Exp(x) c = Add(a, x) },
                      else_branch = g2 () => (float c) { c = Neg(x) }>
        y = Mul(a, b)
    """
    made = model(body, weights={"yes": np.array(True)})
    check(made, x=X)


def test_a_file_of_mixed_dtypes_hears_of_a_cast_node() -> None:
    made = model("y = Add(x, z)", "float[2] x, double[2] z", outputs="float[2] y")
    with pytest.raises(TypeInferenceError, match="one dtype; put a Cast in front of the node"):
        import_onnx(made)


@pytest.mark.parametrize("name", ["FLOAT8E5M2", "FLOAT8E4M3FN", "FLOAT8E5M2FNUZ", "INT4"])
def test_a_cast_of_known_numbers_to_a_narrow_type(name: str) -> None:
    to = getattr(TensorProto, name)
    x = numpy_helper.from_array(np.array([1, -2, 0.3], np.float32), "x")
    node = helper.make_node("Cast", ["x"], ["y"], to=to)
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", to, [3])], [x])
    model = compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]))
    assert np.asarray(model(), np.float32).tolist() == [1, -2, 0 if name == "INT4" else 0.3125]

"""Nodes that ONNX's reference evaluator runs, in models that are compiled around them."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, helper

from burnish.driver.compile import compile
from burnish.driver.compiled_model import CompiledModel
from burnish.frontend.onnx import import_onnx
from burnish.frontend.onnx.fallback import Fallback, _Node
from burnish.graphir.type import TensorType
from burnish.support.dtype import DType
from burnish.support.errors import (
    ArtifactError,
    EnvironmentFunctionError,
    FrontendError,
    UnsupportedOpError,
)
from burnish.tensorir.expr import IntImm
from burnish.tests.frontend.onnx.oracle import compare, model
from burnish.vm.registry import list_funcs
from burnish.vm.tensor import array

FLOAT = DType("float32")

ML = ', "ai.onnx.ml" : 3'
BINARY = """
    a = Mul(x, x)
    b = ai.onnx.ml.Binarizer <threshold = 0.5> (a)
    y = Neg(b)
"""
X = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
SCALED = """
    a = Mul(x, x)
    b = ai.onnx.ml.Scaler <offset = [0.5, 1.5, 2.5], scale = [2.0, 3.0, 4.0]> (a)
    y = Relu(b)
"""
TREE: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [1, 0, 0],
    "nodes_values": [0.8, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [10.0, 20.0],
    "n_targets": 1,
}


def ml(body: str, inputs: str = "float[4, 3] x", **options: Any) -> ModelProto:
    return model(body, inputs, domains=ML, **options)


def falls_back(made: ModelProto, *, tolerance: float = 2e-5, **values: Any) -> CompiledModel:
    compiled = compile(made, fallback="onnx", threads=1)
    compare(compiled, made, tolerance=tolerance, **values)
    return compiled


def notes(compiled: CompiledModel) -> list[str]:
    return [n for n in compiled.report.notes if "reference evaluator" in n]


def test_a_node_between_two_that_are_compiled() -> None:
    made = ml(BINARY)
    made.graph.node[1].name = "half"
    with pytest.raises(UnsupportedOpError, match='fallback="onnx"'):
        compile(made)
    (note,) = notes(falls_back(made, x=X))
    assert note == (
        "ai.onnx.ml.Binarizer runs in ONNX's reference evaluator, once in a call of the model, "
        "first at node 'half' (Binarizer): each time it ends a native segment, and 48 bytes of "
        "results are copied."
    )


def test_one_program_serves_every_size() -> None:
    made = ml(SCALED, "float[N, 3] x")
    compiled = falls_back(made, x=X)
    compare(compiled, made, x=X[:1])
    assert compiled.compilations == 1
    assert "its results are copied" in notes(compiled)[0]


def test_calls_of_one_operator_are_one_note() -> None:
    twice = BINARY.replace("y = Neg(b)", "y = ai.onnx.ml.Binarizer <threshold = 0.1> (b)")
    (note,) = notes(falls_back(ml(twice), x=X))
    assert "2 times in a call" in note
    assert "96 bytes of results" in note


def test_several_results_and_inputs_of_several_dtypes() -> None:
    body = """
        s = Sigmoid(x)
        label, score = ai.onnx.ml.LinearClassifier <
            classlabels_ints = [3, 7], coefficients = [1.0, -1.0, 2.0, 0.5, 1.0, -3.0],
            intercepts = [0.1, 0.2], multi_class = 0, post_transform = "SOFTMAX"> (s)
        y = Add(score, score)
        z = Add(label, label)
    """
    made = ml(body, outputs="float y, int64 z")
    assert len(notes(falls_back(made, x=X))) == 1


def test_sizes_that_onnx_does_not_infer_are_asked_of_the_call() -> None:
    node = helper.make_node("TreeEnsembleRegressor", ["a"], ["b"], domain="ai.onnx.ml", **TREE)
    made = ml("a = Relu(x)\nb = Identity(a)\ny = Neg(b)", "float[N, 3] x")
    made.graph.node[1].CopyFrom(node)
    compiled = falls_back(made, x=X)
    compare(compiled, made, x=X[2:])
    assert compiled.compilations == 1
    assert compiled.script("00-import").count("call_dps_packed") in (1, 2)


def test_sizes_that_data_tell() -> None:
    body = "a = Relu(x)\nb = ai.onnx.ml.ArrayFeatureExtractor(a, i)\ny = Neg(b)"
    compiled = falls_back(ml(body, "float[4, 3] x, int64[K] i"), x=X, i=np.array([2, 0]))
    compare(compiled, ml(body, "float[4, 3] x, int64[K] i"), x=X, i=np.array([1]))
    assert compiled.compilations == 1


def test_a_converter_that_refuses_a_form_leaves_it_to_the_evaluator() -> None:
    body = "a = Neg(x)\ny = DFT(a, , axis)"
    given = np.random.default_rng(0).standard_normal((1, 5000, 1)).astype(np.float32)
    made = model(body, "float[1, 5000, 1] x", opset=20, weights={"axis": np.int64(1)})
    with pytest.raises(FrontendError, match="points"):
        compile(made)
    assert "DFT runs in" in notes(falls_back(made, tolerance=1e-2, x=given))[0]


def test_in_a_loop_and_in_a_branch() -> None:
    body = """
        y = Loop (n, go, x) <body = body (int64 i, bool going, float[4, 3] s)
                => (bool on, float[4, 3] t) {
            on = Identity(going)
            h = ai.onnx.ml.Binarizer <threshold = 0.5> (s)
            t = Add(h, s)
        }>
    """
    made = ml(body, "float[4, 3] x, int64 n, bool go")
    compiled = falls_back(made, x=X, n=np.int64(3), go=np.array(True))
    compare(compiled, made, x=X, n=np.int64(5), go=np.array(True))
    assert compiled.compilations == 1
    assert len(notes(compiled)) == 1


def test_random_numbers_are_drawn_anew() -> None:
    made = model("r = RandomUniformLike(x)\ny = Mul(r, x)", "float[4, 3] x")
    compiled = compile(made, fallback="onnx")
    one, two = (np.asarray(compiled(X)) for _ in range(2))
    assert one.shape == X.shape
    assert not np.array_equal(one, two)


def test_half_precision_keeps_its_dtype() -> None:
    made = model("r = RandomNormalLike <dtype = 16> (x)\ny = Mul(r, x)", "bfloat16[4, 3] x",
                 outputs="bfloat16 y")  # fmt: skip
    found = compile(made, fallback="onnx").run([X.astype(ml_dtypes.bfloat16)])
    assert found.dtype == "bfloat16"


def test_weights_are_operands_too() -> None:
    body = "a = ai.onnx.ml.Binarizer <threshold = 0.5> (w)\ny = Add(a, x)"
    falls_back(ml(body, weights={"w": X[::-1].copy()}), x=X)


def test_results_that_no_program_has_are_refused() -> None:
    body = """
        l = ai.onnx.ml.LabelEncoder <keys_floats = [0.0], values_strings = ["a"]> (x)
        y = Identity(x)
    """
    with pytest.raises(FrontendError, match=r"LabelEncoder that makes 'l'.*expected a tensor of"):
        compile(ml(body), fallback="onnx")


def test_what_the_evaluator_has_not_either_is_still_reported() -> None:
    made = model("a = mine.Special(x)\ny = Neg(a)", domains=', "mine" : 1')
    for options in ({}, {"fallback": "onnx"}):
        with pytest.raises(UnsupportedOpError, match=r"mine\.Special \(x1\)") as caught:
            compile(made, **options)
        assert "fallback=" not in str(caught.value)


def test_errors_of_nodes_are_ours_with_theirs_as_cause() -> None:
    body = "a = Relu(x)\ny = ai.onnx.ml.ArrayFeatureExtractor(a, i)"
    compiled = compile(ml(body, "float[4, 3] x, int64[K] i"), fallback="onnx")
    with pytest.raises(
        EnvironmentFunctionError, match=r"ArrayFeatureExtractor.*raised RuntimeError"
    ):
        compiled.run([X, np.array([7])])


def test_results_that_are_not_as_inferred_are_refused() -> None:
    made = model("y = Mine(x)", "float[4, 3] x").graph.node[0]
    made.op_type = "Identity"
    node = _Node(
        Fallback({"": 17})._model(made, {"x": TensorType((IntImm(4),), FLOAT)}), "it", ["float32"]
    )
    with pytest.raises(EnvironmentFunctionError, match=r"it gave a tensor of shape \(4,\)"):
        node.results(*[array(np.ones(n, np.float32)) for n in (4, 3)])


def test_a_model_with_such_nodes_is_not_saved(tmp_path: Any) -> None:
    with pytest.raises(
        ArtifactError, match=r"calls functions of this process \(onnx\.ai\.onnx\.ml\.Bin"
    ):
        falls_back(ml(BINARY), x=X).save(tmp_path / "model.burnish")


def test_such_a_model_is_verified() -> None:
    made = ml(BINARY)
    found = compile(made, fallback="onnx").verify(X, source=made)
    assert found
    assert "Neg" in str(found)


def test_several_threads_keep_their_results_apart() -> None:
    made = ml(SCALED, "float[N, 3] x")
    compiled = falls_back(made, x=X)
    with ThreadPoolExecutor(4) as pool:
        sizes = [1 + i % 4 for i in range(24)]
        found = list(pool.map(lambda n: compiled.run([X[:n]]), sizes))
    for n, one in zip(sizes, found, strict=True):
        np.testing.assert_array_equal(one, compiled.run([X[:n]]))


def test_the_functions_go_with_their_model() -> None:
    before = set(list_funcs())  # those of other tests may go at any time
    compiled = falls_back(ml(BINARY), x=X)
    assert len(set(list_funcs()) - before) == 1
    del compiled
    gc.collect()
    assert set(list_funcs()) <= before


def test_of_what_is_given_up_nothing_is_kept() -> None:
    """A loop whose state changes its size is written out; its nodes count where they stand."""
    body = """
        y = Loop (n, go, x) <body = body (int64 i, bool going, float[R, 3] s)
                => (bool on, float[T, 3] t) {
            on = Identity(going)
            h = ai.onnx.ml.Binarizer <threshold = 0.5> (s)
            t = Concat <axis = 0> (h, s)
        }>
    """
    made = ml(body, "float[4, 3] x", weights={"n": np.int64(2), "go": np.array(True)})
    (note,) = notes(falls_back(made, x=X))
    assert "2 times in a call" in note


def test_other_models_are_refused() -> None:
    with pytest.raises(FrontendError, match="is for models of torch"):
        compile(ml(BINARY), fallback="torch")
    assert import_onnx(ml(BINARY), fallback="onnx").functions

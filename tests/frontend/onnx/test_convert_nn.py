"""Matrix products, softmax and normalisations against onnx's reference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from burnish.frontend.onnx import import_onnx
from burnish.graphir.verify import verify_module
from burnish.tests.frontend.onnx.oracle import check, evaluate, model, operators_of, refusal

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


X = normal(2, 3, 4)
C_SHAPES: list[tuple[int, ...] | None] = [None, (5,), (1, 5), (3, 5), (3, 1), ()]


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
def test_gemm_transposed_or_not(opset: int) -> None:
    for trans_a, trans_b in itertools.product((0, 1), (0, 1)):
        a = normal(4, 3) if trans_a else normal(3, 4)
        b = normal(5, 4) if trans_b else normal(4, 5)
        text = f"y = Gemm<transA = {trans_a}, transB = {trans_b}>(a, b, c)"
        made = model(text, "float[M, K] a", opset, weights={"b": b, "c": normal(5)})
        made.graph.input[0].type.tensor_type.shape.dim[1 - trans_a].dim_value = 4
        check(made, a=a)


@pytest.mark.parametrize("shape", C_SHAPES)
@pytest.mark.parametrize(
    "scales", ["", ", alpha = 0.5", ", beta = 2.0", ", alpha = 2.0, beta = 0.0"]
)
def test_gemm_with_every_c(shape: tuple[int, ...] | None, scales: str) -> None:
    weights = {"b": normal(5, 4)} | ({} if shape is None else {"c": normal(*shape)})
    arguments = "a, b" if shape is None else "a, b, c"
    made = model(f"y = Gemm<transB = 1{scales}>({arguments})", "float[3, 4] a", 13, weights=weights)
    imported = check(made, a=normal(3, 4))
    is_linear = shape in (None, (5,)) and not scales
    assert (operators_of(imported) == ["linear"]) == is_linear


def test_matmul() -> None:
    for b in (normal(4, 5), normal(2, 4, 5), normal(4)):
        check(model("y = MatMul(x, b)", "float[2, 3, 4] x", weights={"b": b}), x=X)
    check(model("y = MatMul(x, b)", "float[N, 3, 4] x", weights={"b": normal(4, 5)}), x=X)


def softmax(x: np.ndarray, name: str) -> np.ndarray:
    shifted = x - x.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return np.asarray(logs if name == "LogSoftmax" else np.exp(logs))


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_softmax_from_opset_13_on_is_of_one_axis(name: str) -> None:
    for axis in (0, 1, 2, -2):
        check(model(f"y = {name}<axis = {axis}>(x)", opset=13), x=X)
    check(model(f"y = {name}(x)", opset=17), x=X)


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [7, 11])
def test_softmax_before_opset_13_is_of_all_axes_from_one_on(name: str, opset: int) -> None:
    """onnx's evaluator takes one axis here; the specification flattens to two dims."""
    for text, rows in (("", 2), ("<axis = 0>", 1), ("<axis = 2>", 6), ("<axis = 3>", 24)):
        imported = import_onnx(model(f"y = {name}{text}(x)", opset=opset))
        verify_module(imported.module)
        (found,) = evaluate(imported, {"x": X})
        expected = softmax(X.reshape(rows, -1), name).reshape(X.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert "axis 5 of a tensor of 3 dims" in refusal(model(f"y = {name}<axis = 5>(x)", opset=opset))


def test_layer_normalization() -> None:
    gamma, beta = normal(4), normal(4)
    weights = {"g": gamma, "b": beta}
    check(model("y = LayerNormalization(x, g, b)", weights=weights), x=X)
    check(model("y = LayerNormalization<epsilon = 0.01>(x, g)", weights=weights), x=X)
    two = {"g": normal(3, 4), "b": normal(3, 4)}
    check(model("y = LayerNormalization<axis = 1>(x, g, b)", weights=two), x=X)
    made = model("z, mean = LayerNormalization(x, g)\ny = Relu(mean)", weights=weights)
    check(made, x=X)  # by ONNX's own function


BATCH_NORM = {"s": normal(3), "b": normal(3), "m": normal(3), "v": normal(3) ** 2 + np.float32(0.1)}


def test_batch_normalization() -> None:
    text = "y = BatchNormalization<epsilon = 0.01>(x, s, b, m, v)"
    for opset in (14, 15):
        check(model(text, opset=opset, weights=BATCH_NORM), x=X)
    made = model("y = BatchNormalization(x, s, b, m, v)", "float[N, 3] x", weights=BATCH_NORM)
    check(made, x=X[:, :, 0])
    # onnx's evaluator computes the statistics of training before opset 14
    s, b, m, v = (p.reshape(3, 1) for p in BATCH_NORM.values())
    (found,) = evaluate(import_onnx(model(text, opset=9, weights=BATCH_NORM)), {"x": X})
    expected = (X - m) / np.sqrt(v + 0.01) * s + b
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_batch_normalization_in_training_is_refused() -> None:
    for opset, text in (
        (14, "y = BatchNormalization<training_mode = 1>(x, s, b, m, v)"),
        (9, "y, m1, v1 = BatchNormalization(x, s, b, m, v)"),
    ):
        message = refusal(model(text, opset=opset, weights=BATCH_NORM))
        assert "the BatchNormalization that makes 'y' is in training mode" in message


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("y = Attention(q, k, v)", [(2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6)]),
        ("y = Attention<scale = 0.3, is_causal = 1>(q, k, v)", [(1, 2, 4, 8)] * 3),
        ("y = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, v)", [(2, 4, 16)] * 3),
        ("y = Attention(q, k, v, mask)", [(1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8)]),
        ("y = Attention<softcap = 2.0>(q, k, v)", [(1, 2, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8)]),
    ],
)
def test_attention(text: str, shapes: list[tuple[int, ...]]) -> None:
    values = dict(zip("qkv", [normal(*s) for s in shapes], strict=True))
    inputs = ", ".join(f"float[{', '.join(map(str, x.shape))}] {n}" for n, x in values.items())
    weights = {"mask": normal(3, 5)} if "mask" in text else {}
    check(model(text, inputs, 23, weights=weights), **values)


@pytest.mark.parametrize(
    ("text", "shape", "message"),
    [
        ("y = Attention<q_num_heads = 3, kv_num_heads = 3>(q, q, q)", "1, 2, 4",
         "found 3 dims and q_num_heads 3"),
    ],
)  # fmt: skip
def test_attention_that_is_refused(text: str, shape: str, message: str) -> None:
    assert message in refusal(model(text, f"float[{shape}] q", 23))

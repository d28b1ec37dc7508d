"""Matrix products, softmax and normalisations against onnx's reference."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from burnish.tests.frontend.onnx.oracle import check, model, operators_of, refusal

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


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_softmax_before_and_after_opset_13(name: str) -> None:
    for opset, axis in itertools.product((7, 11, 13), (0, 1, 2)):
        made = model(f"y = {name}<axis = {axis}>(x)", "float[N, 3, 4] x", opset)
        check(made, x=X)
    check(model(f"y = {name}<axis = -2>(x)", "float[N, 3, 4] x", 11), x=X)
    for opset in (9, 17):
        check(model(f"y = {name}(x)", "float[N, 3, 4] x", opset), x=X)
    assert "axis 5 of a tensor of 3 dims" in refusal(model(f"y = {name}<axis = 5>(x)", opset=9))


def test_layer_normalization() -> None:
    gamma, beta = normal(4), normal(4)
    weights = {"g": gamma, "b": beta}
    check(model("y = LayerNormalization(x, g, b)", weights=weights), x=X)
    check(model("y = LayerNormalization<epsilon = 0.01>(x, g)", weights=weights), x=X)
    two = {"g": normal(3, 4), "b": normal(3, 4)}
    check(model("y = LayerNormalization<axis = 1>(x, g, b)", weights=two), x=X)
    made = model("z, mean = LayerNormalization(x, g)\ny = Relu(mean)", weights=weights)
    assert "its result 'mean' is used" in refusal(made)


def test_batch_normalization() -> None:
    weights = {
        "s": normal(3),
        "b": normal(3),
        "m": normal(3),
        "v": normal(3) ** 2 + np.float32(0.1),
    }
    for opset in (9, 14, 15):
        made = model(
            "y = BatchNormalization<epsilon = 0.01>(x, s, b, m, v)", opset=opset, weights=weights
        )
        check(made, x=X)
    check(
        model("y = BatchNormalization(x, s, b, m, v)", "float[N, 3] x", weights=weights),
        x=X[:, :, 0],
    )
    made = model("y = BatchNormalization<training_mode = 1>(x, s, b, m, v)", weights=weights)
    assert "is in training mode" in refusal(made)

"""Normalisations against onnx's reference, and by hand where it has none."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import check, evaluate, model, operators_of, refusal

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 6, 4, 3)).astype(np.float32)
S, B = (RNG.random(6, np.float32) for _ in range(2))
SHAPE = "float[N, 6, H, 3] x"


def test_instance_normalization() -> None:
    made = model("y = InstanceNormalization<epsilon = 0.01>(x, s, b)", SHAPE,
                 weights={"s": S, "b": B})  # fmt: skip
    check(made, x=X)


def test_group_normalization_by_channels() -> None:
    made = model("y = GroupNormalization<num_groups = 3>(x, s, b)", SHAPE, 21,
                 weights={"s": S, "b": B})  # fmt: skip
    rows = X.reshape(2, 3, -1).astype(np.float64)
    normal = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    expected = normal.reshape(X.shape) * S[:, None, None] + B[:, None, None]
    np.testing.assert_allclose(evaluate(import_onnx(made), {"x": X})[0], expected, atol=1e-5)


def test_group_normalization_by_groups() -> None:
    made = model("y = GroupNormalization<num_groups = 3>(x, s, b)", SHAPE, 18,
                 weights={"s": S[:3], "b": B[:3]})  # fmt: skip
    rows = X.reshape(2, 3, -1).astype(np.float64)
    normal = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    expected = (normal * S[:3, None] + B[:3, None]).reshape(X.shape)
    np.testing.assert_allclose(evaluate(import_onnx(made), {"x": X})[0], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["SimplifiedLayerNormalization", "RMSNormalization"])
def test_by_the_root_of_the_mean_square(name: str) -> None:
    weight = RNG.random((4, 3), np.float32)
    made = model(f"y = {name}<axis = -2, epsilon = 0.001>(x, s)", "float[N, 6, 4, 3] x",
                 weights={"s": weight})  # fmt: skip
    square = (X.astype(np.float64) ** 2).mean((-2, -1), keepdims=True)
    expected = X / np.sqrt(square + 0.001) * weight
    np.testing.assert_allclose(evaluate(import_onnx(made), {"x": X})[0], expected, atol=1e-5)


def test_mean_variance_and_norms() -> None:
    check(model("y = MeanVarianceNormalization(x)", SHAPE, 13), x=X)
    check(model("y = MeanVarianceNormalization<axes = [1]>(x)", SHAPE, 13), x=X)
    for p in (1, 2):
        made = model(f"y = LpNormalization<p = {p}, axis = 1>(x)", SHAPE, 13)
        expected = X / np.linalg.norm(X, p, 1, keepdims=True)
        np.testing.assert_allclose(evaluate(import_onnx(made), {"x": X})[0], expected, rtol=1e-5)


def test_zeros_stay_zeros() -> None:
    made = model("y = LpNormalization(x)", SHAPE, 13)
    assert not evaluate(import_onnx(made), {"x": np.zeros_like(X)})[0].any()


def test_constant_statistics_of_a_batch_norm_are_two_constants() -> None:
    weights = {"s": S, "b": B, "m": B * 2, "v": S + 0.5}
    made = model("y = BatchNormalization(x, s, b, m, v)", SHAPE, 15, weights=weights)
    assert operators_of(check(made, x=X)) == ["multiply", "add"]
    given = model(
        "y = BatchNormalization(x, s, b, m, v)", f"{SHAPE}, float[6] m", 15,
        weights={k: w for k, w in weights.items() if k != "m"},
    )  # fmt: skip
    assert "rsqrt" in operators_of(check(given, x=X, m=B))


def test_what_cannot_be_imported() -> None:
    message = refusal(
        model("y = GroupNormalization<num_groups = 4>(x, s, b)", SHAPE, 21,
              weights={"s": S, "b": B})
    )  # fmt: skip
    assert "4 groups do not divide the channels" in message
    assert "the norm of order 3" in refusal(model("y = LpNormalization<p = 3>(x)", SHAPE, 13))
    assert "LRN" in refusal(model("y = LRN<size = 3>(x)", SHAPE, 13))

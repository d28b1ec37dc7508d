"""Elementary functions, activations and bits against onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import check, evaluate, model, refusal

X = np.linspace(-0.95, 0.95, 24, dtype=np.float32).reshape(2, 3, 4)
INTS = np.array([[1, 5, 127, 0], [3, 2, 8, 64]])


@pytest.mark.parametrize(
    "name", ["Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Atanh", "Softsign"]
)
def test_unary(name: str) -> None:
    check(model(f"y = {name}(x)"), x=X)


def test_acosh_above_one() -> None:
    check(model("y = Acosh(x)"), x=X + 3)


@pytest.mark.parametrize(
    ("text", "opset"),
    [
        ("Mish(x)", 18),
        ("Celu<alpha = 0.5>(x)", 12),
        ("Celu(x)", 12),
        ("ThresholdedRelu<alpha = 0.4>(x)", 10),
        ("Shrink<lambd = 0.3, bias = 0.1>(x)", 9),
        ("Shrink(x)", 9),
    ],
)
def test_activations(text: str, opset: int) -> None:
    check(model(f"y = {text}", opset=opset), x=X)


@pytest.mark.parametrize("alpha", [1.0, 1.7])
def test_swish(alpha: float) -> None:
    imported = import_onnx(model(f"y = Swish<alpha = {alpha}>(x)"))
    expected = X / (1 + np.exp(-alpha * X))
    np.testing.assert_allclose(evaluate(imported, {"x": X})[0], expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bits(name: str) -> None:
    made = model(f"y = {name}(x, z)", "int64[N, 4] x, int64[4] z", 18, outputs="int64 y")
    check(made, x=INTS, z=INTS[1])


def test_bits_of_one_operand_and_shifts() -> None:
    check(model("y = BitwiseNot(x)", "int64[N, 4] x", 18, outputs="int64 y"), x=INTS)
    for direction in ("LEFT", "RIGHT"):
        made = model(
            f'y = BitShift<direction = "{direction}">(x, z)', "uint8[N, 4] x, uint8[4] z", 11,
            outputs="uint8 y",
        )  # fmt: skip
        check(made, x=INTS.astype(np.uint8), z=np.array([0, 1, 2, 7], np.uint8))


def test_an_unknown_direction_is_refused() -> None:
    made = model('y = BitShift<direction = "UP">(x, x)', "uint8[N] x", 11, outputs="uint8 y")
    assert "direction 'UP' is unknown" in refusal(made)

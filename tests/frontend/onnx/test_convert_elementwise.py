"""Elementwise operators, casts and constants against onnx's reference, opset by opset."""

from __future__ import annotations

import math

import numpy as np
import pytest

from burnish.frontend.onnx import import_onnx
from burnish.tests.frontend.onnx.oracle import check, evaluate, model, operators_of, refusal

EDGES = np.array([-math.inf, -30, -2.5, -1, -0.5, 0, 0.5, 1.5, 3, 25, math.inf], np.float32)
FINITE = EDGES[1:-1]
INTS = np.array([-9, -2, 0, 1, 2, 7], np.int64)
OTHER = np.array([2, -3, 5, 1, -1, -2], np.int64)
FLAGS = np.array([True, False, True])


def body_of(operators: str, arguments: str = "x") -> tuple[str, str]:
    """One statement an operator; (body, outputs)."""
    names = operators.split()
    lines = [f"y{i} = {name}({arguments})" for i, name in enumerate(names)]
    return "\n".join(lines), ", ".join(f"float y{i}" for i in range(len(names)))


def test_unary_operators() -> None:
    body, outputs = body_of(
        "Relu Abs Neg Exp Tanh Sigmoid Erf Floor Ceil Round Reciprocal IsNaN Identity"
    )
    check(model(body, "float[N] x", outputs=outputs), x=EDGES)
    body, outputs = body_of("Sin Cos Tan Sign Softplus HardSwish LeakyRelu Elu Selu HardSigmoid")
    check(model(body, "float[N] x", outputs=outputs), x=FINITE)
    body, outputs = body_of("Log Sqrt Reciprocal")
    check(model(body, "float[N] x", outputs=outputs), x=np.abs(FINITE) + np.float32(0.1))


def test_attributes_of_activations() -> None:
    body = """
        y0 = LeakyRelu<alpha = 0.3>(x)
        y1 = Elu<alpha = 0.5>(x)
        y2 = Selu<alpha = 1.5, gamma = 0.5>(x)
        y3 = HardSigmoid<alpha = 0.5, beta = 0.25>(x)
        y4 = Gelu(x)
        y5 = Gelu<approximate = "tanh">(x)
        y6 = PRelu(x, slope)
    """
    outputs = ", ".join(f"float y{i}" for i in range(7))
    slope = np.array([0.25], np.float32)
    check(model(body, "float[N] x", 20, outputs=outputs, weights={"slope": slope}), x=FINITE)


def test_is_inf_by_sign() -> None:
    body = """
        y0 = IsInf(x)
        y1 = IsInf<detect_negative = 0>(x)
        y2 = IsInf<detect_positive = 0>(x)
        y3 = IsInf<detect_positive = 0, detect_negative = 0>(x)
    """
    outputs = ", ".join(f"bool y{i}" for i in range(4))
    check(model(body, "float[N] x", outputs=outputs), x=EDGES)


def test_binary_operators_broadcast() -> None:
    names = "Add Sub Mul Div Max Min Equal Less LessOrEqual Greater GreaterOrEqual"
    body, outputs = body_of(names, "x, y")
    made = model(body, "float[N, 1] x, float[5] y", outputs=outputs)
    y = np.array([-1.0, 0.5, 2.0, 3.0, -2.0], np.float32)
    check(made, x=FINITE[:, None], y=y)


def test_binary_operators_of_integers_and_bools() -> None:
    body, outputs = body_of("Add Sub Mul Max Min Mod Equal Less Abs", "x, y")
    body = body.replace("y8 = Abs(x, y)", "y8 = Mod<fmod = 1>(x, y)")
    check(model(body, "int64[N] x, int64[N] y", outputs=outputs), x=INTS, y=OTHER)
    made = model("y = Div(a, b)", "int32[N] a, int32[N] b", outputs="int32 y")
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    check(made, a=a, b=b)
    body, outputs = body_of("And Or Xor", "x, y")
    check(model(body, "bool[N] x, bool[N] y", outputs=outputs), x=FLAGS, y=FLAGS[::-1])
    check(model("y = Not(x)", "bool[N] x", outputs="bool y"), x=FLAGS)


def test_variadic_operators() -> None:
    body = "y0 = Max(x, y, z)\ny1 = Min(x)\ny2 = Sum(x, y, z)\ny3 = Mean(x, y, z)"
    made = model(body, "float[N] x, float[1] y, float[N] z", outputs=", ".join(
        f"float y{i}" for i in range(4)))  # fmt: skip
    check(made, x=FINITE, y=FINITE[:1], z=FINITE * 2)


def test_powers() -> None:
    body = "y0 = Pow(x, two)\ny1 = Pow(x, three)\ny2 = Pow(x, half)\ny3 = Pow(x, e)\ny4 = Pow(x, i)"
    weights = {
        "two": np.float32(2), "three": np.int64(3), "half": np.float32(0.5),
        "e": np.array([1.5], np.float32), "i": np.array([4], np.int64),
    }  # fmt: skip
    made = model(body, "float[N] x", 13, weights=weights, outputs=", ".join(
        f"float y{i}" for i in range(5)))  # fmt: skip
    imported = check(made, x=np.array([0.5, 1.0, 2.5], np.float32))
    assert operators_of(imported).count("power") == 2
    squares = model("y = Pow(x, two)", "int64[N] x", 13, weights={"two": np.int64(2)})
    check(squares, x=INTS)
    exponents = np.array([0, 1, 3, 5, -1, -2, 9])[: len(INTS)].astype(INTS.dtype)
    check(model("y = Pow(x, z)", "int64[N] x, int64[N] z", 13), x=INTS, z=abs(exponents))
    check(
        model("y = Pow(x, z)", "int64[N] x, float[N] z", 13),
        x=INTS,
        z=abs(exponents).astype(np.float32),
    )


# -- clip --------------------------------------------------------------------------------------
def test_clip_by_attributes_and_by_inputs() -> None:
    check(model("y = Clip<min = -1.0, max = 2.0>(x)", "float[N] x", 7), x=FINITE)
    check(model("y = Clip<max = 0.5>(x)", "float[N] x", 9), x=FINITE)
    low, high = np.float32(-1), np.float32(2)
    for opset in (11, 13):
        for arguments in ("x, low, high", "x, low", 'x, "", high', "x"):
            text = arguments.replace('""', "")
            made = model(
                f"y = Clip({text})", "float[N] x", opset, weights={"low": low, "high": high}
            )
            check(made, x=FINITE)
    ints = {"low": np.int64(-2), "high": np.int64(2)}
    check(model("y = Clip(x, low, high)", "int64[N] x", 12, weights=ints), x=INTS)


def test_clip_by_computed_bounds() -> None:
    made = model("b = Neg(a)\ny = Clip(x, b, a)", "float[N] x, float a", 13)
    made.graph.input[1].type.tensor_type.shape.SetInParent()
    check(made, x=FINITE, a=np.float32(1.25))


# -- where, cast -------------------------------------------------------------------------------
def test_where_and_casts() -> None:
    body = """
        c = Greater(x, zero)
        y0 = Where(c, x, zero)
        y1 = Cast<to = 7>(x)
        y2 = Cast<to = 9>(x)
        y3 = Cast<to = 11>(c)
        y4 = CastLike(c, x)
        y5 = Cast<to = 1>(x)
    """
    outputs = ", ".join(f"float y{i}" for i in range(6))
    weights = {"zero": np.float32(0)}
    check(model(body, "float[N] x", outputs=outputs, weights=weights), x=FINITE)


def test_dtypes_that_are_unknown_are_named() -> None:
    message = refusal(model("y = Cast<to = 8>(x)", "float[N] x"))
    assert "the Cast that makes 'y': dtype STRING cannot be imported; known are float64" in message
    assert "dtype number 999" in refusal(model("y = Cast<to = 999>(x)", "float[N] x"))


# -- dropout -----------------------------------------------------------------------------------
def test_dropout_at_inference_is_nothing() -> None:
    for opset, text in (
        (7, "Dropout<ratio = 0.5>(x)"),
        (13, "Dropout(x, r)"),
        (13, "Dropout(x, r, t)"),
    ):
        made = model(f"z, mask = {text}\ny = Relu(z)", "float[N] x", opset, weights={
            "r": np.float32(0.5), "t": np.bool_(False)})  # fmt: skip
        assert operators_of(check(made, x=FINITE)) == ["relu"]


def test_dropout_in_training_is_refused_and_its_mask_is_true() -> None:
    weights = {"r": np.float32(0.5), "t": np.bool_(True)}
    made = model("y = Dropout(x, r, t)", "float[N] x", 13, weights=weights)
    assert "the Dropout that makes 'y' is in training mode" in refusal(made)
    made = model("z, mask = Dropout(x)\ny = Not(mask)", "float[N] x", 13, outputs="bool y")
    assert not evaluate(import_onnx(made), {"x": FINITE})[0].any()


# -- constants ---------------------------------------------------------------------------------
def test_constants_of_every_kind() -> None:
    body = """
        a = Constant<value = float[2] {1.5, 2.5}>()
        b = Constant<value_float = 3.0>()
        c = Constant<value_floats = [4.0, 5.0]>()
        d = Constant<value_int = 6>()
        e = Constant<value_ints = [7, 8]>()
        f = Add(d, e)
        g = Cast<to = 1>(f)
        s = Sum(a, b, c, g)
        y = Add(x, s)
    """
    check(model(body, "float[N, 2] x", 13), x=np.ones((3, 2), np.float32))
    message = refusal(model('y = Constant<value_string = "text">()', "float[N] x", 13))
    assert "only numeric constants can be imported" in message


@pytest.mark.parametrize("fill", ["", "<value = float[1] {2.5}>", "<value = int64[1] {7}>"])
def test_constant_of_shape(fill: str) -> None:
    body = f"s = Shape(x)\ny = ConstantOfShape{fill}(s)"
    check(model(body, "float[N, 2] x", 13), x=np.ones((3, 2), np.float32))
    made = model(f"y = ConstantOfShape{fill}(s)", "float[N] x", weights={"s": np.array([2, 3])})
    check(made, x=FINITE)

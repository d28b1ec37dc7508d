"""Operations and atoms as text: arguments, constants, calls."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.dim import print_shape
from burnish.graphir.expr import Call, Constant, Function, ShapeExpr
from burnish.graphir.text.parser import parse_module
from burnish.support.errors import ParseError


def calls(expression: str, **env: object) -> list[Call]:
    module = parse_module(
        f"@R.function\ndef main(x: R.Tensor((2, 3))):\n    y = {expression}\n    return y\n",
        env=env,
    )
    func = module["main"]
    assert isinstance(func, Function)
    values = [b.value for k in func.body.blocks for b in k.bindings]
    return [v for v in values if isinstance(v, Call)]


def constant_of(expression: str, **env: object) -> np.ndarray:
    (call,) = calls(f"R.add({expression}, {expression})", **env)
    atom = call.args[0]
    assert isinstance(atom, Constant)
    return atom.values()


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("R.const(1.5)", "float32", 1.5),
        ("R.const(3)", "int64", 3),
        ("R.const([1, -2], 'int8')", "int8", [1, -2]),
        ("R.const([1, 2], dtype='float16')", "float16", [1, 2]),
        ("R.const(3, dtype='float64')", "float64", 3),
        ("R.const([[0.5, -inf]], 'float64')", "float64", [[0.5, -np.inf]]),
        ("R.const([], R.Tensor((0, 2), 'int32'))", "int32", np.zeros((0, 2))),
        ("C", "float16", [1, 2]),
        ("R.const(C)", "float16", [1, 2]),
        ("R.const(C, 'float32')", "float32", [1, 2]),
        ("R.const(C, R.Tensor((2, 1), 'float32'))", "float32", [[1], [2]]),
    ],
)
def test_constants(text: str, dtype: str, value: object) -> None:
    found = constant_of(text, C=np.array([1, 2], "float16"))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, value)


def test_a_list_is_a_tuple() -> None:
    (call,) = calls("R.reshape(x, [3, 2])")
    shape = call.args[1]
    assert isinstance(shape, ShapeExpr)
    assert print_shape(shape.values) == "(3, 2)"


def test_variadic_operators_take_a_tuple_or_a_list_of_arguments() -> None:
    for text in ("R.concat(x, x, axis=1)", "R.concat((x, x), axis=1)", "R.concat([x, x], axis=1)"):
        (call,) = calls(text)
        assert len(call.args) == 2


def test_an_out_dtype_that_is_not_given_may_be_void() -> None:
    (call,) = calls("R.matmul(x, x, transpose_b=True, out_dtype='void')")
    assert dict(call.attrs) == {"transpose_b": True}


def test_inner_calls_are_bound_in_order_of_evaluation() -> None:
    found = [c.op for c in calls("R.add(R.exp(R.relu(x)), R.tanh(x))")]
    assert found == ["relu", "exp", "tanh", "add"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("R.const()", "Expected R.const(value, dtype)"),
        ("R.const([1, 2], foo='float16')", "R.const has no argument 'foo'."),
        ("R.const([1, 2], dtyp='float16')", "has no argument 'dtyp'. Did you mean 'dtype'?"),
        ("R.const([1, 2], 'int8', dtype='int8')", "Expected R.const(value, dtype)"),
        ("R.const('sha256:0')", "No values for 'sha256:0'"),
        ("R.const([1.5], R.Tensor(('m',)))", "A constant has a static shape."),
        ("R.shape(3)", "R.shape takes a list of dims."),
        ("R.shape()", "Expected 1 argument."),
        ("R.softmax(x, **{})", "Attributes are given by name."),
        ("R.call_dps()", "Expected the function to call."),
        (
            "R.call_dps(3, (x,), R.Tensor((1,)))",
            "Expected linear0, cls.linear0 or a name in quotes.",
        ),
        ("R.exp(R.sum(x, axis=5))", "axis=5 is out of range"),
        ("cls.f(x)", "The module has no function 'f'."),
        ("R.nn.relu(x)", "Operators have no namespaces: write R.relu."),
        ("R.nn.conv2d(x, x)", "Operators have no namespaces: write R.conv."),
        ("R.image.resize2d(x)", "Operators have no namespaces: write R.resize2d."),
        ("R.image.resize3d(x)", "and there is none called 'resize3d'."),
        ("R.split(x, 3)", "R.split: 2 elements are not 3 equal parts."),
        ("R.zeros((4, 6), kind=3)", "R.zeros has no argument 'kind'."),
        ("R.match_cast(x, R.Tensor(('m',)))", "which is no such type"),
        ("R.call_packed('f', x)", "R.call_dps_packed, with its type"),
        (
            "R.call_dps_packed('f', (), R.Tensor((2,)), tir_vars=R.shape([2]))",
            "There are no tir_vars: a PrimFunc reads its sizes from the shapes",
        ),
        ("x[0]", "index 0 of a value that has no such field"),
    ],
)
def test_errors(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        calls(text)
    assert message in caught.value.message
    assert caught.value.span is not None

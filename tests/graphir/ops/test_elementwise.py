"""Elementwise rows with attributes and broadcast operands against NumPy, and the errors; the plain
ones are in ``tests/test_elementwise_cases.py``."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import B, N, X, Y, check_error, check_kernel

CASES: list[tuple[str, dict[str, str]]] = [
    ("R.gelu(x)", {"x": X}),
    ("R.leaky_relu(x)", {"x": X}),
    ("R.elu(x)", {"x": X}),
    ("R.shift_left(a, b)", {"a": N, "b": 'R.Tensor((3,), "int32")'}),
    ("R.relu(x)", {"x": Y}),
    ("R.add(a, b)", {"a": Y, "b": 'R.Tensor((3,), "float32")'}),
    ("R.add(a, 2.0)", {"a": Y}),
    ("R.logical_not(x)", {"x": B}),
    ("R.where(c, x, y)", {"c": B, "x": X, "y": 'R.Tensor((), "float32")'}),
    ('R.astype(x, dtype="int32")', {"x": X}),
    ("R.clip(x, min=0.3, max=0.5)", {"x": X}),
    ("R.clip(x, min=0.3)", {"x": X}),
    ('R.gelu(x, approximate="tanh")', {"x": X}),
]


@pytest.mark.parametrize(("expression", "params"), CASES)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


ERRORS: list[tuple[str, dict[str, str], str]] = [
    (
        "R.add(a, b)",
        {"a": X, "b": "R.Tensor((4, 3))"},
        "add: the shapes do not broadcast: dims 2 and 4 (the 2. from the right) "
        "differ and neither is 1 "
        "(a: (2, 3) float32, b: (4, 3) float32).",
    ),
    (
        "R.add(a, b)",
        {"a": 'R.Tensor(("m",))', "b": 'R.Tensor(("n",))'},
        "dims m and n (the 1. from the right) are not proved equal",
    ),
    (
        "R.add(a, b)",
        {"a": X, "b": N},
        (
            "different dtypes (a: (2, 3) float32, b: (2, 3) int32). Expected one "
            "dtype; cast with R.astype"
        ),
    ),
    ("R.exp(x)", {"x": N}, "needs float operands (x: (2, 3) int32)"),
    ("R.relu(x, x)", {"x": X}, "relu: 2 operands were given. Expected 1 (x)."),
    ("R.astype(x)", {"x": X}, "attribute 'dtype' is missing"),
    ("R.clip(x)", {"x": X}, "neither min nor max is given"),
    ("R.where(x, x, x)", {"x": X}, "the condition is no bool tensor"),
    ('R.gelu(x, approximate="erf")', {"x": X}, "approximate='erf'"),
    ("R.logical_not(x)", {"x": X}, "logic needs bools"),
    ("R.add(a, a)", {"a": B}, "arithmetic needs numbers"),
    ("R.asin(x)", {"x": N}, "needs float operands"),
    ("R.atan2(x, y)", {"x": X, "y": N}, "needs float operands"),
    ("R.hypot(x, y)", {"x": X, "y": 'R.Tensor((4, 3), "float32")'}, "do not broadcast"),
    ("R.bitwise_and(x, x)", {"x": X}, "this operator works on bits"),
    ("R.shift_left(x, x)", {"x": B}, "this operator works on bits"),
    ("R.bitwise_or(x, y)", {"x": N, "y": B}, "different dtypes"),
]


@pytest.mark.parametrize(("expression", "params", "message"), ERRORS)
def test_errors_name_operands_shapes_and_dtypes(
    expression: str, params: dict[str, str], message: str
) -> None:
    check_error(expression, params, message)

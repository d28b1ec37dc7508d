"""Elementwise rows: every kernel against NumPy, and the errors."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import B, N, X, Y, check_error, check_kernel

UNARY = [
    "sigmoid",
    "silu",
    "tanh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "sqrt",
    "rsqrt",
    "erf",
    "sin",
    "cos",
    "tan",
    "ceil",
    "floor",
    "round",
    "trunc",
    "hard_sigmoid",
    "hard_swish",
    "softplus",
    "reciprocal",
    "relu",
    "abs",
    "negative",
    "sign",
    "square",
    "isnan",
    "isinf",
    "isfinite",
    "gelu",
    "leaky_relu",
    "elu",
]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "power",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "floor_divide",
    "floor_mod",
]
INTEGER = ("add", "divide", "floor_divide", "floor_mod", "equal")
CASES: list[tuple[str, dict[str, str]]] = [
    *[(f"R.{name}(x)", {"x": X}) for name in UNARY],
    *[(f"R.{name}(a, b)", {"a": X, "b": 'R.Tensor((1, 3), "float32")'}) for name in BINARY],
    *[(f"R.{name}(a, b)", {"a": N, "b": N}) for name in INTEGER],
    *[(f"R.logical_{name}(a, b)", {"a": B, "b": B}) for name in ("and", "or", "xor")],
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
]


@pytest.mark.parametrize(("expression", "params", "message"), ERRORS)
def test_errors_name_operands_shapes_and_dtypes(
    expression: str, params: dict[str, str], message: str
) -> None:
    check_error(expression, params, message)

"""Elementary rows: every kernel against NumPy, and the errors."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import B, N, X, Y, check_error, check_kernel

UNARY = ["asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "exp2", "log10", "erfc"]
CASES: list[tuple[str, dict[str, str]]] = [
    *[(f"R.{name}(x)", {"x": X}) for name in UNARY],
    *[(f"R.{n}(a, b)", {"a": X, "b": Y.replace('"m"', "2")}) for n in ("atan2", "hypot")],
    ("R.copysign(x, y)", {"x": Y, "y": Y}),
    *[(f"R.bitwise_{n}(a, b)", {"a": N, "b": N}) for n in ("and", "or", "xor")],
    *[(f"R.bitwise_{n}(a, b)", {"a": B, "b": B}) for n in ("and", "or", "xor")],
    ("R.bitwise_not(x)", {"x": N}),
    ("R.shift_left(a, b)", {"a": N, "b": 'R.Tensor((3,), "int32")'}),
    ("R.shift_right(a, b)", {"a": N, "b": N}),
]


@pytest.mark.parametrize(("expression", "params"), CASES)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


@pytest.mark.parametrize(
    ("expression", "params", "message"),
    [
        ("R.asin(x)", {"x": N}, "needs float operands"),
        ("R.atan2(x, y)", {"x": X, "y": N}, "needs float operands"),
        ("R.hypot(x, y)", {"x": X, "y": 'R.Tensor((4, 3), "float32")'}, "do not broadcast"),
        ("R.bitwise_and(x, x)", {"x": X}, "this operator works on bits"),
        ("R.shift_left(x, x)", {"x": B}, "this operator works on bits"),
        ("R.bitwise_or(x, y)", {"x": N, "y": B}, "different dtypes"),
    ],
)
def test_errors(expression: str, params: dict[str, str], message: str) -> None:
    check_error(expression, params, message)

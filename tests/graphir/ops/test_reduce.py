"""Reduction rows: every kernel against NumPy, and the errors."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import B, N, X, Y, check_error, check_kernel

CASES: list[tuple[str, dict[str, str]]] = [
    *[(f"R.{name}(x)", {"x": X}) for name in ("sum", "mean", "max", "min", "prod", "variance")],
    ("R.sum(x)", {"x": Y}),
    ("R.sum(x, axis=[0], keepdims=True)", {"x": X}),
    ("R.mean(x, axis=-1)", {"x": X}),
    ("R.mean(x, axis=0)", {"x": Y}),
    ("R.variance(x, axis=1, correction=1)", {"x": X}),
    ("R.max(x, axis=1)", {"x": N}),
]


@pytest.mark.parametrize(("expression", "params"), CASES)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


ERRORS: list[tuple[str, dict[str, str], str]] = [
    (
        "R.sum(x, axis=2)",
        {"x": X},
        "axis=2 is out of range (x: (2, 3) float32). Expected an int from -2 to 1.",
    ),
    ("R.sum(x, axis=[0, -2])", {"x": X}, "names an axis twice"),
    ("R.mean(x)", {"x": N}, "mean: this operator needs float operands (x: (2, 3) int32)"),
    ("R.variance(x, correction=-1)", {"x": X}, "correction=-1"),
    ("R.max(x)", {"x": B}, "a reduction needs numbers"),
]


@pytest.mark.parametrize(("expression", "params", "message"), ERRORS)
def test_errors_name_operands_shapes_and_dtypes(
    expression: str, params: dict[str, str], message: str
) -> None:
    check_error(expression, params, message)

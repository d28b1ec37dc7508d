"""Normalisation rows: every kernel against NumPy, and the errors."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import X, Y, check_error, check_kernel

CASES: list[tuple[str, dict[str, str]]] = [
    *[
        (f"R.{name}(x)", {"x": k})
        for name in ("softmax", "log_softmax", "layer_norm")
        for k in (X, Y)
    ],
    ("R.softmax(x, axis=0)", {"x": X}),
    (
        "R.layer_norm(x, g, b)",
        {"x": X, "g": 'R.Tensor((3,), "float32")', "b": 'R.Tensor((3,), "float32")'},
    ),
]


@pytest.mark.parametrize(("expression", "params"), CASES)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


ERRORS: list[tuple[str, dict[str, str], str]] = [
    ("R.softmax(x, axes=1)", {"x": X}, "unknown attribute 'axes'. Did you mean 'axis'?"),
    ("R.layer_norm(x, axes=[0])", {"x": X}, "Expected the last axes of x"),
    ("R.layer_norm(x, g)", {"x": X, "g": "R.Tensor((2,))"}, "gamma is (2,) float32"),
]


@pytest.mark.parametrize(("expression", "params", "message"), ERRORS)
def test_errors_name_operands_shapes_and_dtypes(
    expression: str, params: dict[str, str], message: str
) -> None:
    check_error(expression, params, message)

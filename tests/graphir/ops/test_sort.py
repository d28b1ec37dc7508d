"""Rows of argmax, argsort and the scans: kernels against NumPy, and the errors."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import B, N, X, Y, check_error, check_kernel

S = 'R.Tensor(("m", "n"), "float32")'
T = 'R.Tensor((2, 5, 3), "int32")'
CASES: list[tuple[str, dict[str, str]]] = [
    ("R.argmax(x, axis=1)", {"x": X}),
    ("R.argmin(x, axis=-2, keepdims=True)", {"x": T}),
    ("R.argmax(x, axis=1, last=True)", {"x": T}),
    ("R.argmin(x, axis=0)", {"x": B}),
    ("R.argmax(x, axis=0)", {"x": S}),
    ("R.argsort(x)", {"x": X}),
    ("R.argsort(x, axis=1, descending=True)", {"x": T}),
    ("R.argsort(x, axis=1, count=2)", {"x": T}),
    ("R.argsort(x, axis=0, count=1)", {"x": S}),
    ("R.argsort(x, axis=1, count=2, start=1)", {"x": T}),
    ("R.argsort(x, axis=-1, start=2)", {"x": T}),
    ("R.cumsum(x, axis=1)", {"x": X}),
    ("R.cumsum(x, axis=0, exclusive=True)", {"x": Y}),
    ("R.cumsum(x, axis=1, reverse=True)", {"x": T}),
    ("R.cumprod(x, axis=-1, exclusive=True, reverse=True)", {"x": T}),
    ("R.cummax(x, axis=1)", {"x": T}),
    ("R.cummin(x, axis=0)", {"x": S}),
    ("R.last_match(x, y, axis=-1)", {"x": X, "y": X}),
]


@pytest.mark.parametrize(("expression", "params"), CASES)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


@pytest.mark.parametrize(
    ("expression", "params", "message"),
    [
        ("R.argmax(x)", {"x": X}, "attribute 'axis' is missing"),
        ("R.argmax(x, axis=2)", {"x": X}, "axis=2 is out of range"),
        ("R.argmin(x, axis=0)", {"x": 'R.Tensor((0, 3), "float32")'}, "axis 0 of x is empty"),
        ("R.argmax(x, axis=0)", {"x": 'R.Tensor((), "float32")'}, "x is a scalar"),
        ("R.argsort(x, count=4)", {"x": X}, "count=4 (x: (2, 3) float32). Expected an int of at"),
        ("R.argsort(x, count=2, start=3)", {"x": X}, "start=3 (x: (2, 3) float32). Expected an"),
        ("R.argsort(x, axis=0, start=1)", {"x": S}, "count=None"),
        ("R.cumsum(x, axis=0)", {"x": B}, "x is (2, 3) bool"),
        ("R.cumprod(x, axis=-3)", {"x": N}, "axis=-3 is out of range"),
        ("R.cummax(x, axis=0)", {"x": B}, "x is (2, 3) bool"),
        ("R.last_match(x, y, axis=0)", {"x": X, "y": Y}, "Expected the shape of x"),
    ],
)
def test_errors(expression: str, params: dict[str, str], message: str) -> None:
    check_error(expression, params, message)

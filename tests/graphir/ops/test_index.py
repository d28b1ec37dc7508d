"""Rows of take and gather_elements: kernels against NumPy, and the errors."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import check_error, check_kernel

X, AT, E = 'R.Tensor((11, 5), "float32")', 'R.Tensor((2, 3), "int64")', 'R.Tensor((4, 5), "int32")'
T = 'R.Tensor((2, 11), "float32")'


@pytest.mark.parametrize(
    ("expression", "params"),
    [
        ("R.take(x, i)", {"x": X, "i": AT}),
        ("R.take(x, i, axis=1)", {"x": T, "i": AT}),
        ("R.take(x, i)", {"x": X, "i": 'R.Tensor(("n",), "int64")'}),
        ("R.take(x, i)", {"x": X, "i": 'R.Tensor((), "int32")'}),
        ("R.gather_elements(x, i)", {"x": X, "i": E}),
    ],
)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


@pytest.mark.parametrize(
    ("expression", "params", "message"),
    [
        ("R.take(x, x)", {"x": X}, "indices of an integer dtype"),
        ("R.take(x, i, axis=2)", {"x": X, "i": AT}, "axis=2 is out of range"),
        ("R.take(x, i)", {"x": 'R.Tensor((0, 5), "float32")', "i": AT}, "axis 0 of x is empty"),
        ("R.take(x, i)", {"x": 'R.Tensor((), "float32")', "i": AT}, "x is a scalar"),
        ("R.gather_elements(x, i)", {"x": X, "i": 'R.Tensor((4,), "int64")'}, "ranks of x and ind"),
        ("R.gather_elements(x, i)", {"x": X, "i": 'R.Tensor((4, 6), "int64")'}, "dim 1 of indices"),
    ],
)
def test_errors(expression: str, params: dict[str, str], message: str) -> None:
    check_error(expression, params, message)

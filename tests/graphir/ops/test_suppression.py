"""The row of non-maximum suppression: its kernel against NumPy, and the errors."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import check_error, check_kernel

CALL = "R.non_max_suppression(c, o, t, n, s)"
PARAMS = {
    "c": 'R.Tensor((2, 4, "k"), "float32")',
    "o": 'R.Tensor((2, 3, "k"), "int64")',
    "t": 'R.Tensor((2, 3, "k"), "bool")',
    "n": 'R.Tensor((), "int64")',
    "s": 'R.Tensor((), "float32")',
}


def test_kernel_computes_what_the_operator_means() -> None:
    check_kernel(CALL, PARAMS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"o": 'R.Tensor((2, 3, "k"), "int32")'}, "operand 1 is (2, 3, k) int32"),
        ({"c": 'R.Tensor((4, "k"), "float32")'}, "the ranks do not fit"),
        ({"t": 'R.Tensor((2, 1, "k"), "bool")'}, "operand 2 has another shape"),
        ({"n": 'R.Tensor((1,), "int64")'}, "operand 3 has another shape"),
        ({"s": 'R.Tensor((), "float64")'}, "the threshold is float64"),
    ],
)
def test_errors(changed: dict[str, str], message: str) -> None:
    check_error(CALL, PARAMS | changed, message)

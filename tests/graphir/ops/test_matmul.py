"""Product rows: every kernel against NumPy, and the errors."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import X, Y, check_error, check_kernel

CASES: list[tuple[str, dict[str, str]]] = [
    ("R.linear(x, w)", {"x": Y, "w": 'R.Tensor((4, 3), "float32")'}),
    (
        "R.linear(x, w, b)",
        {"x": 'R.Tensor((2, "m", 3))', "w": "R.Tensor((4, 3))", "b": "R.Tensor((4,))"},
    ),
    ("R.matmul(a, b)", {"a": Y, "b": "R.Tensor((3, 4))"}),
    ("R.matmul(a, b)", {"a": "R.Tensor((2, 1, 2, 3))", "b": "R.Tensor((2, 3, 2))"}),
    ("R.matmul(a, b)", {"a": "R.Tensor((3,))", "b": "R.Tensor((3, 2))"}),
    ("R.matmul(a, b)", {"a": X, "b": "R.Tensor((3,))"}),
    ("R.matmul(a, b, transpose_a=True)", {"a": "R.Tensor((3, 2))", "b": "R.Tensor((3, 4))"}),
    ("R.matmul(a, b, transpose_b=True)", {"a": "R.Tensor((2, 3, 2))", "b": "R.Tensor((2, 4, 2))"}),
    (
        "R.integer_matmul(a, b)",
        {"a": 'R.Tensor((2, "m", 3), "uint8")', "b": 'R.Tensor((3, 4), "int8")'},
    ),
    (
        "R.scaled_linear(x, w, s, bits=4)",
        {
            "x": 'R.Tensor((2, "m", 32))',
            "w": 'R.Tensor((5, 2, 2), "uint32")',
            "s": "R.Tensor((5, 2))",
        },
    ),
    (
        "R.scaled_linear(x, w, s, z)",
        {
            "x": "R.Tensor((8,))",
            "w": 'R.Tensor((5, 1, 2), "uint32")',
            "s": 'R.Tensor((5, 1), "float16")',
            "z": 'R.Tensor((5, 1), "uint8")',
        },
    ),
    ("R.integer_matmul(a, b)", {"a": 'R.Tensor((5,), "int8")', "b": 'R.Tensor((5, 2), "int8")'}),
]


@pytest.mark.parametrize(("expression", "params"), CASES)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


ERRORS: list[tuple[str, dict[str, str], str]] = [
    (
        "R.linear(x, w)",
        {"x": X, "w": "R.Tensor((4, 5))"},
        "the inner dims 3 and 5 are not proved equal (x: (2, 3) float32, w: (4, 5) float32)",
    ),
    (
        "R.linear(x, w, b)",
        {"x": X, "w": "R.Tensor((4, 3))", "b": "R.Tensor((5,))"},
        "the bias does not fit",
    ),
    ("R.matmul(a, b)", {"a": X, "b": X}, "matmul: the inner dims 3 and 2"),
    (
        "R.matmul(a, b)",
        {"a": "R.Tensor((2, 2, 3))", "b": "R.Tensor((3, 3, 1))"},
        "the batch shapes do not broadcast",
    ),
    (
        "R.matmul(a, b, transpose_b=True)",
        {"a": X, "b": "R.Tensor((3,))"},
        "transpose_b of a vector",
    ),
    ("R.linear(x, w)", {"x": X, "w": "R.Tensor((3,))"}, "the ranks do not fit"),
    (
        "R.scaled_linear(x, w, s)",
        {"x": "R.Tensor((8,))", "w": 'R.Tensor((5, 1, 2), "int8")', "s": "R.Tensor((5, 1))"},
        "the dtypes do not fit",
    ),
    (
        "R.scaled_linear(x, w, s)",
        {"x": "R.Tensor((8,))", "w": 'R.Tensor((5, 2), "uint32")', "s": "R.Tensor((5, 1))"},
        "the ranks do not fit",
    ),
    (
        "R.scaled_linear(x, w, s, bits=3)",
        {"x": "R.Tensor((8,))", "w": 'R.Tensor((5, 1, 2), "uint32")', "s": "R.Tensor((5, 1))"},
        "bits=3",
    ),
    (
        "R.scaled_linear(x, w, s, bits=4)",
        {"x": "R.Tensor((8,))", "w": 'R.Tensor((5, 1, 2), "uint32")', "s": "R.Tensor((5, 1))"},
        "the dims 8 and 16 are not proved equal",
    ),
    (
        "R.scaled_linear(x, w, s)",
        {"x": "R.Tensor((8,))", "w": 'R.Tensor((5, 1, 2), "uint32")', "s": "R.Tensor((1, 5))"},
        "the dims 1 and 5 are not proved equal",
    ),
    (
        "R.integer_matmul(a, b)",
        {"a": 'R.Tensor((2, 3), "int8")', "b": 'R.Tensor((3, 2), "int16")'},
        "an operand is not of bytes (a: (2, 3) int8, b: (3, 2) int16)",
    ),
    (
        "R.integer_matmul(a, b)",
        {"a": 'R.Tensor((2, 3), "int8")', "b": 'R.Tensor((2, 3), "int8")'},
        "the inner dims 3 and 2",
    ),
]


@pytest.mark.parametrize(("expression", "params", "message"), ERRORS)
def test_errors_name_operands_shapes_and_dtypes(
    expression: str, params: dict[str, str], message: str
) -> None:
    check_error(expression, params, message)

"""The row of attention: its kernel against NumPy, and the errors."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import check_error, check_kernel

Q, K = 'R.Tensor((2, 4, 3, 5), "float32")', 'R.Tensor((2, 2, 7, 5), "float32")'
V = 'R.Tensor((2, 2, 7, 6), "float32")'
OPERANDS = {"q": Q, "k": K, "v": V}


@pytest.mark.parametrize(
    ("expression", "params"),
    [
        ("R.attention(q, k, v)", OPERANDS),
        ("R.attention(q, k, v, scale=0.5, causal=True)", OPERANDS),
        ("R.attention(q, k, v, mask)", OPERANDS | {"mask": 'R.Tensor((3, 7), "bool")'}),
        ("R.attention(q, k, v, mask)", OPERANDS | {"mask": 'R.Tensor((2, 1, 1, 7), "float32")'}),
        ("R.attention(q, q, q)", {"q": 'R.Tensor((2, 4, "m", 5), "float32")'}),
        ("R.attention(q, q, q)", {"q": 'R.Tensor(("m", 4, 3, 5), "float32")'}),
    ],
)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


@pytest.mark.parametrize(
    ("expression", "params", "message"),
    [
        (
            "R.attention(q, q, q)",
            {"q": 'R.Tensor((4, 3, 5), "float32")'},
            "the ranks do not fit",
        ),
        (
            "R.attention(q, k, v)",
            OPERANDS | {"k": 'R.Tensor((2, 3, 7, 5), "float32")'},
            "heads of k and v, 3 and 2, are not proved equal",
        ),
        (
            "R.attention(q, k, k)",
            OPERANDS | {"k": 'R.Tensor((2, 3, 7, 5), "float32")'},
            "4 heads of q do not share 3 heads of k",
        ),
        ("R.attention(q, v, k)", OPERANDS, "sizes of queries and keys, 5 and 6, are not proved"),
        ("R.attention(q, k, v, scale='a')", OPERANDS, "scale='a' is no number"),
        ("R.attention(q, k, v, causal=1)", OPERANDS, "causal=1 is no bool"),
        (
            "R.attention(q, k, v, mask)",
            OPERANDS | {"mask": 'R.Tensor((3, 6), "bool")'},
            "the mask (3, 6) bool does not broadcast",
        ),
        (
            "R.attention(q, k, v, mask)",
            OPERANDS | {"mask": 'R.Tensor((3, 7), "int32")'},
            "a mask of bool or float32",
        ),
        (
            "R.attention(q, q, q)",
            {"q": 'R.Tensor((2, 4, 3, "d"), "float32")'},
            "the size of a head is symbolic",
        ),
    ],
)
def test_errors_name_operands_shapes_and_dtypes(
    expression: str, params: dict[str, str], message: str
) -> None:
    check_error(expression, params, message)

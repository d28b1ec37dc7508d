"""Rows of the scatters, of indexing by several tensors, and of padding by own elements."""

from __future__ import annotations

import pytest

from burnish.tests.graphir.ops.kernel_cases import B, X, check_error, check_kernel

BIG = 'R.Tensor((11, 12, 13), "float32")'
AT, J = 'R.Tensor((2, 1), "int64")', 'R.Tensor((3,), "int32")'
E_INT, E = 'R.Tensor((4, 12, 13), "int64")', 'R.Tensor((4, 12, 13), "float32")'
CASES: list[tuple[str, dict[str, str]]] = [
    ("R.advanced_index(x, i, j, axes=(0, 1))", {"x": BIG, "i": AT, "j": J}),
    ("R.advanced_index(x, i, j, axes=(0, 2))", {"x": BIG, "i": AT, "j": J}),
    ("R.advanced_index(x, i, j, axes=(1, -1))", {"x": BIG, "i": AT, "j": J}),
    ("R.advanced_index(x, i, axes=(1,))", {"x": 'R.Tensor(("n", 11), "int32")', "i": AT}),
    (
        'R.scatter_index(x, u, i, j, axes=(0, 1), reduction="add")',
        {"x": BIG, "u": 'R.Tensor((13,), "float32")', "i": AT, "j": J},
    ),
    ("R.scatter_index(x, u, i, axes=(1,))", {"x": BIG, "u": 'R.Tensor((), "float32")', "i": AT}),
    ('R.scatter_elements(x, i, u, reduction="max")', {"x": BIG, "i": E_INT, "u": E}),
    ("R.scatter_elements(x, i, u)", {"x": BIG, "i": E_INT, "u": 'R.Tensor((), "float32")'}),
    *[
        (f'R.pad_edges(x, pad_width=(1, 0, 2, 1), mode="{mode}")', {"x": kind})
        for mode in ("reflect", "replicate", "circular")
        for kind in (X, 'R.Tensor(("m", 3), "int32")')
    ],
]


@pytest.mark.parametrize(("expression", "params"), CASES)
def test_kernel_computes_what_the_operator_means(expression: str, params: dict[str, str]) -> None:
    check_kernel(expression, params)


@pytest.mark.parametrize(
    ("expression", "params", "message"),
    [
        ("R.advanced_index(x, x, axes=(0,))", {"x": X}, "indices are (2, 3) float32"),
        ("R.advanced_index(x, m, axes=(0,))", {"x": X, "m": B}, "indices of an integer dtype"),
        ("R.advanced_index(x, i, i, axes=(1, 0))", {"x": BIG, "i": AT}, "ascending axes"),
        ("R.advanced_index(x, i, axes=(3,))", {"x": BIG, "i": AT}, "axes=3 is out of range"),
        (
            "R.advanced_index(x, i, j, axes=(0, 1))",
            {"x": BIG, "i": 'R.Tensor((2,), "int64")', "j": J},
            "the indices do not broadcast",
        ),
        (
            "R.scatter_index(x, u, j, axes=(0,))",
            {"x": BIG, "u": 'R.Tensor((4,), "float32")', "j": J},
            "updates are (4,) float32",
        ),
        (
            'R.scatter_index(x, x, j, axes=(0,), reduction="sub")',
            {"x": BIG, "j": J},
            "reduction='sub'",
        ),
        ("R.scatter_elements(x, i, x)", {"x": BIG, "i": E_INT}, "updates of their shape"),
        (
            "R.scatter_elements(x, i, u)",
            {
                "x": X,
                "i": 'R.Tensor((2, 4), "int64")',
                "u": 'R.Tensor((2, 4), "float32")',
            },
            "dim 1 of indices is not at most that of x",
        ),
        ('R.pad_edges(x, pad_width=(1, 1), mode="reflect")', {"x": X}, "4 ints of at least 0"),
        ('R.pad_edges(x, pad_width=(0, 0, 0, 3), mode="reflect")', {"x": X}, "axis 1 has 3 elem"),
        ('R.pad_edges(x, pad_width=(0, 0, 0, 3), mode="edge")', {"x": X}, "mode='edge'"),
    ],
)
def test_errors(expression: str, params: dict[str, str], message: str) -> None:
    check_error(expression, params, message)

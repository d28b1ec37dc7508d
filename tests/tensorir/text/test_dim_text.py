from __future__ import annotations

import pytest

from burnish.tensorir.expr import Add, Cast, DType, Expr, IntImm, Mul, Sub, Var, maximum, minimum
from burnish.tensorir.text.dim_text import DimError, print_dim

m, n = Var("m"), Var("n")


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (IntImm(784), "784"),
        (m, "m"),
        ((m + 7) // 8 * 8, "(m + 7) // 8 * 8"),
        (m % 8 + 1, "m % 8 + 1"),
        (Sub(m, Sub(n, IntImm(1))), "m - (n - 1)"),
        (Mul(m, Mul(n, IntImm(2))), "m * (n * 2)"),
        (Add(m, Add(n, IntImm(1))), "m + (n + 1)"),
        (maximum(m, n * 4), "max(m, n * 4)"),
        (minimum(m + 1, 4), "min(m + 1, 4)"),
    ],
)
def test_python_arithmetic(dim: Expr, text: str) -> None:
    assert print_dim(dim) == text
    values = {"m": 13, "n": 5}
    assert eval(text, {"__builtins__": {}, "min": min, "max": max}, values) == evaluate(dim, values)


def evaluate(e: Expr, values: dict[str, int]) -> int:
    """The value of a dim, by its nodes."""
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, Var):
        return values[e.name]
    a, b = evaluate(e.a, values), evaluate(e.b, values)  # type: ignore[attr-defined]
    table = {"Add": a + b, "Sub": a - b, "Mul": a * b, "Min": min(a, b), "Max": max(a, b)}
    name = type(e).__name__
    if name in table:
        return table[name]
    return a // b if name == "FloorDiv" else a % b


def test_names_may_be_given() -> None:
    assert print_dim(m * 2, lambda v: f"{v.name}_1") == "m_1 * 2"


def test_other_nodes_are_no_dims() -> None:
    with pytest.raises(DimError, match="integer arithmetic over dims; found Cast"):
        print_dim(Cast(DType("int64"), Var("f", DType("float32"))))

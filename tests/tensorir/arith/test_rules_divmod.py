"""Rules for floor division and remainder: (before, after)."""

from __future__ import annotations

import pytest

from burnish.tensorir.arith import Analyzer
from burnish.tensorir.arith.rules_divmod import FLOORDIV_RULES, FLOORMOD_RULES
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import Expr, Var, as_expr
from burnish.tensorir.text.printer import print_expr

I0, I1, I2, X, M, N = (Var(n) for n in ("i0", "i1", "i2", "x", "m", "n"))
I_, J = Var("i"), Var("j")


@pytest.fixture
def analyzer() -> Analyzer:
    a = Analyzer()
    a.bind(I0, 16)
    a.bind(I1, 8)
    a.bind(I2, 4)
    a.declare_dim(M)
    a.declare_dim(N)
    a.bind(I_, Range(as_expr(0), N))
    a.bind(J, Range(as_expr(0), M))
    return a


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((I0 * 8 + I1) // 8, "i0"),
        ((I0 * 8 + I1) % 8, "i1"),
        ((I0 * 8 + I1 + 8) // 8, "i0 + 1"),
        (I1 // 8, "0"),
        (I1 % 8, "i1"),
        ((I1 + 8) % 8, "i1"),
        ((I1 - 8) // 8, "-1"),
        ((X * 8 + I2 * 4 + I1) // 4, "x * 2 + i2 + i1 // 4"),
        ((X * 16 + I1 * 4 + I2) // 8, "x * 2 + i1 // 2"),
        ((X * 16 + I1 * 4 + I2) % 8, "i1 % 2 * 4 + i2"),
        (X * 6 // 4, "x * 3 // 2"),
        ((X * 6 + 3) // 4, "(x * 3 + 1) // 2"),
        ((X * 6 + 3) % 4, "(x * 3 + 1) % 2 * 2 + 1"),
        (X // 4 // 8, "x // 32"),
        ((X // 4 + 1) // 8, "(x + 4) // 32"),
        (X % 32 % 8, "x % 8"),
        (X % 32 // 8, "x // 8 % 4"),
        ((X % 32 * 4 + I2) % 16, "x % 4 * 4 + i2"),
        ((X - 1) // 8, "(x + 7) // 8 - 1"),
        ((X - 1) % 8, "(x + 7) % 8"),
        ((I0 * 6 + I1) // 4, "(i0 * 6 + i1) // 4"),
        ((I0 * 6 + I1) % 4, "(i0 * 6 + i1) % 4"),
        (X // 1, "x"),
        ((M * 8) % 8, "0"),
    ],
)
def test_constant_divisors(analyzer: Analyzer, before: Expr, after: str) -> None:
    assert print_expr(analyzer.simplify(before)) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((I_ * M + J) // M, "i"),
        ((I_ * M + J) % M, "j"),
        ((I_ * M + X) // M, "i + x // m"),
        ((I_ * M + X) % M, "x % m"),
        (M // M, "1"),
        (J // M, "0"),
        ((J - M) // M, "-1"),
        ((M * 4 - 1) // M, "3"),
        ((I_ * (M + 1) + J) // (M + 1), "i"),
        ((X * M * N + I_ * M + J) // (M * N), "x"),
        ((X * N * M + I_ * M + J) % (M * N), "i * m + j"),
        ((I_ * M + J) // M // 4, "i // 4"),
        (0 // M, "0"),
        (X // M, "x // m"),
        (X // M // N, "x // (m * n)"),
        (X // 4 // M, "x // (m * 4)"),
    ],
)
def test_symbolic_divisors(analyzer: Analyzer, before: Expr, after: str) -> None:
    assert print_expr(analyzer.simplify(before)) == after


def test_nothing_is_assumed_of_an_undeclared_divisor() -> None:
    a = Analyzer()
    a.bind(J, Range(as_expr(0), M))
    assert print_expr(a.simplify(J // M)) == "j // m"
    assert print_expr(a.simplify(X // N // M)) == "x // n // m"
    assert print_expr(a.simplify((X * M + J) // M)) == "x + j // m"


def test_each_rule_states_itself() -> None:
    for rule in (*FLOORDIV_RULES, *FLOORMOD_RULES):
        assert " -> " in (rule.__doc__ or "")

"""Rules for sums: (before, after)."""

from __future__ import annotations

import pytest

from burnish.tensorir.arith import Analyzer
from burnish.tensorir.arith.rules_add import SUM_RULES
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import Expr, Var, as_expr
from burnish.tensorir.text.printer import print_expr

I_, J, M, N, X = Var("i"), Var("j"), Var("m"), Var("n"), Var("x")


@pytest.fixture
def analyzer() -> Analyzer:
    a = Analyzer()
    a.declare_dim(M)
    a.bind(I_, Range(as_expr(0), N))
    return a


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (X // 8 * 8 + X % 8, "x"),
        (X % 8 + 3 + X // 8 * 8 + J, "j + x + 3"),
        (X // 8 * 16 + X % 8 * 2, "x * 2"),
        ((X + 5) // 8 * 8 + (X + 5) % 8, "x + 5"),
        (X // M * M + X % M, "x"),
        ((X + J) // M * M + (X + J) % M, "x + j"),
        (X // M * M * N + X % M * N, "n * x"),
        (X // M * M * N + X % M * J, "m * n * (x // m) + j * (x % m)"),
        (X // 4 % 2 * 4 + X % 4, "x % 8"),
        (X // 8 * 8 + X // 4 % 2 * 4 + X % 4, "x"),
        (X - X // 8 * 8, "x % 8"),
        (J + X * 3 - X // 8 * 24, "j + x % 8 * 3"),
        (X // 8 * 8 + X % 4, "x // 8 * 8 + x % 4"),
        (X // 8 * 4 + X % 8, "x // 8 * 4 + x % 8"),
        (X - X % 8, "x // 8 * 8"),
        (X - (X + 3) % 8 + J, "j + (x + 3) // 8 * 8 - 3"),
        (X + (0 - X) % 8, "(x + 7) // 8 * 8"),
        (X + (8 - X % 8) % 8, "(x + 7) // 8 * 8"),
        ((X + (8 - X % 8) % 8) // ((X + (8 - X % 8) % 8) // 8), "8"),
        (X * 2 - X % 8, "x * 2 - x % 8"),
        ((I_ + 1) * M - M * I_, "m"),
        ((I_ + J) * (I_ - J) + J * J, "i * i"),
    ],
)
def test_table(analyzer: Analyzer, before: Expr, after: str) -> None:
    assert print_expr(analyzer.simplify(before)) == after


def test_an_exact_quotient_under_a_constraint(analyzer: Analyzer) -> None:
    with analyzer.constraint((M % 8).equal(0)):
        assert analyzer.simplify(M // 8 * 8) is M
        assert print_expr(analyzer.simplify(M // 8 * 16 + I_)) == "i + m * 2"
    with analyzer.constraint((M % 8).equal(3)):
        assert print_expr(analyzer.simplify(M // 8 * 8)) == "m - 3"
    assert print_expr(analyzer.simplify(M // 8 * 8)) == "m // 8 * 8"


def test_each_rule_states_itself() -> None:
    assert all(" -> " in (rule.__doc__ or "") for rule in SUM_RULES)

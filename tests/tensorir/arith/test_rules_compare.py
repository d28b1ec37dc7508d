"""Comparisons, minima and maxima: (before, after)."""

from __future__ import annotations

import pytest

from burnish.tensorir.arith import Analyzer
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import Expr, Var, as_expr, maximum, minimum
from burnish.tensorir.text.printer import print_expr

I0, I1, X, Y, M, N = (Var(n) for n in ("i0", "i1", "x", "y", "m", "n"))
I_, J = Var("i"), Var("j")
TRUE, FALSE = "T.bool(True)", "T.bool(False)"


@pytest.fixture
def analyzer() -> Analyzer:
    a = Analyzer()
    a.bind(I0, 16)
    a.bind(I1, 8)
    a.declare_dim(M)
    a.declare_dim(N)
    a.bind(I_, Range(as_expr(0), N))
    a.bind(J, Range(as_expr(0), M))
    return a


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (I0 < 16, TRUE),
        (I0 >= 16, FALSE),
        (I0 <= 14, "i0 <= 14"),
        (I0 * 8 + I1 < 128, TRUE),
        (I0 * 8 + I1 < M, "i0 * 8 + i1 < m"),
        (I0 * 8 + I1 < 100, "i0 * 8 + i1 < 100"),
        (I0 * 8 < 20, "i0 < 3"),
        (I0 * 8 <= 20, "i0 <= 2"),
        (I0 * 8 > 20, "i0 > 2"),
        (I0 * 8 >= 20, "i0 >= 3"),
        (X + 1 < Y + 3, "x < y + 2"),
        (X - Y <= 0, "x <= y"),
        (as_expr(4) - X <= 1, "3 <= x"),
        (X + Y < Y + X, FALSE),
        ((X * 2).equal(7), FALSE),
        ((X * 4 + 6).equal(Y * 4), FALSE),
        ((X * 4 + 8).equal(4), "x == -1"),
        ((I0 + 1).equal(0), FALSE),
        ((I0 + 1).not_equal(0), TRUE),
        (X.equal(X), TRUE),
        ((M + 7) // 8 * 8 >= M, TRUE),
        (M // 8 * 8 <= M, TRUE),
        (M // 8 * 8 > M - 8, TRUE),
        (M // 8 * 4 <= M, TRUE),
        (X // M * M <= X, TRUE),
        (I_ < N, TRUE),
        (I_ * M + J < M * N, TRUE),
        (I_ * M + J >= 0, TRUE),
        (M % 8 <= M, TRUE),
        (X % M < M, TRUE),
        ((X // 8).equal(X // 8), TRUE),
    ],
)
def test_comparisons(analyzer: Analyzer, before: Expr, after: str) -> None:
    assert print_expr(analyzer.simplify(before)) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (minimum(X, X + 3), "x"),
        (maximum(X, X + 3), "x + 3"),
        (minimum(I0, 16), "i0"),
        (minimum(I0 * 8 + 8, 100), "T.min(i0 * 8 + 8, 100)"),
        (minimum(minimum(X, Y), X + 1), "T.min(x, y)"),
        (maximum(maximum(X, 3), 5), "T.max(x, 5)"),
        (minimum(M // 8 * 8, M), "m // 8 * 8"),
        (minimum(X, Y) - minimum(Y, X), "0"),
        (maximum(I_, N), "n"),
    ],
)
def test_extrema(analyzer: Analyzer, before: Expr, after: str) -> None:
    assert print_expr(analyzer.simplify(before)) == after


def test_floats_are_left_alone() -> None:
    x = Var("x", as_expr(1.0).dtype)
    for e in (x < 1.0, x.equal(x), minimum(x, 1.0), x - x):
        assert Analyzer().simplify(e) is e


def test_equality_that_two_inequalities_say() -> None:
    x, y = Var("x"), Var("y")
    a = Analyzer()
    with a.constraint(x <= y), a.constraint(y <= x):
        assert a.can_prove(x.equal(y))
        assert not a.can_prove(x.not_equal(y))
    with a.constraint(x < y):
        assert a.can_prove(x.not_equal(y))
    assert not a.can_prove(x.equal(y))

"""Interval arithmetic: tables; soundness on random expressions is in test_analyzer."""

from __future__ import annotations

import pytest

from burnish.tensorir.arith import Analyzer, Interval
from burnish.tensorir.arith.bounds import EVERYTHING, intersect, multiply, union
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import (
    Cast,
    Div,
    DType,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Select,
    Var,
    maximum,
    minimum,
)

I_, J, K, M, U = Var("i"), Var("j"), Var("k"), Var("m"), Var("u")
B = Var("b", DType("uint8"))


@pytest.fixture
def analyzer() -> Analyzer:
    a = Analyzer()
    a.bind(I_, 8)
    a.bind(J, (-3, 4))
    a.bind(K, Range(IntImm(2), IntImm(5)))
    a.declare_dim(M)
    return a


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (I_, 0, 7),
        (K, 2, 6),
        (M, 0, None),
        (U, None, None),
        (I_ * 8 + J, -3, 60),
        (J * -2, -8, 6),
        (I_ - I_, 0, 0),
        (J * J, 0, 16),
        (I_ * M, 0, None),
        (I_ * J, -21, 28),
        (U // 4, None, None),
        (J // 2, -2, 2),
        (U % 4, 0, 3),
        (M // 8, 0, None),
        (I_ // M, 0, 7),
        (I_ % M, 0, 7),
        (U % M, 0, None),
        (minimum(M, 5), 0, 5),
        (maximum(U, 5), 5, None),
        (Select(U < 0, I_, J), -3, 7),
        (Cast(DType("int64"), B) + 1, 1, 256),
        (U < 3, 0, 1),
        (I_ < 9, 1, 1),
    ],
)
def test_bounds(analyzer: Analyzer, expr: Expr, low: int | None, high: int | None) -> None:
    assert analyzer.bounds(expr) == Interval(low, high)


def test_floats_have_no_bounds() -> None:
    assert Analyzer().bounds(Var("x", DType("float32"))) == EVERYTHING


def test_interval_sets() -> None:
    assert intersect(Interval(0, None), Interval(-4, 9)) == Interval(0, 9)
    assert union(Interval(0, 3), Interval(7, None)) == Interval(0, None)
    assert multiply(Interval(-2, 3), Interval(-5, 4)) == Interval(-15, 12)
    assert multiply(Interval(0, None), Interval(2, 3)) == Interval(0, None)
    assert multiply(Interval(None, -1), Interval(0, 3)) == Interval(None, 0)
    assert multiply(Interval(None, None), Interval(0, 3)) == EVERYTHING


def test_a_constraint_that_mentions_a_select_ends() -> None:
    a = Analyzer()
    chosen = Select(I_ < J, minimum(I_, J), maximum(I_, J) + 1)
    with a.constraint(chosen + I_ < 4), a.constraint(chosen - J > 2):
        assert a.bounds(chosen) == EVERYTHING


def test_operations_narrower_than_int64_have_bounds() -> None:
    """They are not taken apart as sums are; an index may be of them, as ``A[max(I[i], 0)]``."""
    x = Var("x", DType("int32"))

    def c(value: int) -> Expr:
        return IntImm(value, DType("int32"))

    low, high = -(1 << 31), (1 << 31) - 1
    clamped = maximum(minimum(x, c(39)), c(0))
    for e, expected in (
        (clamped, Interval(0, 39)),
        (minimum(x, c(3)), Interval(low, 3)),
        (maximum(x, c(3)), Interval(3, high)),
        (FloorDiv(clamped, c(4)), Interval(0, 9)),
        (FloorDiv(x, c(-4)), Interval(low, high)),
        (FloorMod(x, c(7)), Interval(0, 6)),
        (Div(maximum(x, c(0)), c(5)), Interval(0, high)),
    ):
        analyzer = Analyzer()
        assert analyzer.bounds(e) == expected
        assert analyzer.bounds(Cast(DType("int64"), e)) == expected
    assert Analyzer().can_prove(Cast(DType("int64"), clamped) < 40)

"""Conditions and conditionals: (before, after)."""

from __future__ import annotations

import pytest

from burnish.tensorir.arith import Analyzer
from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import (
    EQ,
    LE,
    LT,
    And,
    Call,
    DType,
    Expr,
    Not,
    Or,
    Select,
    Var,
    as_expr,
    const,
)
from burnish.tensorir.text.printer import print_expr

I_, X, Y = Var("i"), Var("x"), Var("y")
F, P = Var("f", DType("float32")), Var("p", DType("bool"))
TRUE, FALSE = const(True, "bool"), const(False, "bool")
A = make_buffer("A", (16,))
MASK = make_buffer("mask", (16,), "bool")


def if_then_else(c: Expr, a: Expr, b: Expr) -> Expr:
    return Call("if_then_else", (c, a, b), a.dtype)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (And(X < 4, X < 8), "x < 4"),
        (And(X < 8, X < 4), "x < 4"),
        (And(X < 4, X >= 8), "T.bool(False)"),
        (And(X < 4, Y < 4), "x < 4 and y < 4"),
        (And(X < Y, And(Y < 4, X < 4)), "x < y and y < 4"),
        (And(X < 4, X < 4), "x < 4"),
        (And(P, TRUE), "p"),
        (And(P, FALSE), "T.bool(False)"),
        (And(P, Not(P)), "T.bool(False)"),
        (Or(X < 4, X < 8), "x < 8"),
        (Or(X < 4, X >= 4), "T.bool(True)"),
        (Or(X < 4, X > 8), "x < 4 or x > 8"),
        (Or(P, TRUE), "T.bool(True)"),
        (Or(P, FALSE), "p"),
        (And(I_ < 8, X < 3), "x < 3"),
        (Not(X < 4), "x >= 4"),
        (Not(X.equal(4)), "x != 4"),
        (Not(Not(P)), "p"),
        (Not(And(X < 4, P)), "x >= 4 or not p"),
        (Not(F < 1.0), "not f < T.float32(1)"),
        (Not(TRUE), "T.bool(False)"),
    ],
)
def test_conditions(before: Expr, after: str) -> None:
    a = Analyzer()
    a.bind(I_, 8)
    assert print_expr(a.simplify(before)) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Select(TRUE, X, Y), "x"),
        (Select(I_ >= 8, X, Y), "y"),
        (Select(X < 4, Y, Y), "y"),
        (if_then_else(I_ < 8, A[I_], const(0.0, "float32")), "A[i]"),
        (if_then_else(X < 8, A[Select(X < 9, X, Y)], A[Y]), "T.if_then_else(x < 8, A[x], A[y])"),
        (Select(X < 8, Y, Select(X >= 8, X, Y)), "T.Select(x < 8, y, x)"),
        (Select(P, Select(P, X, Y), X), "x"),
    ],
)
def test_conditionals(before: Expr, after: str) -> None:
    a = Analyzer()
    a.bind(I_, 8)
    assert print_expr(a.simplify(before)) == after


def test_memory_is_not_remembered() -> None:
    a = Analyzer()
    with a.constraint(MASK[X]):
        assert not a.can_prove(MASK[X])
    index = make_buffer("index", (16,), "int64")[X]
    with a.constraint(index < 3):
        assert not a.can_prove(index < 3)


def test_a_bool_variable_is_remembered() -> None:
    a = Analyzer()
    with a.constraint(And(P, as_expr(3) > X)):
        assert a.can_prove(P)
        assert a.can_prove(X < 4)
    assert not a.can_prove(P)


def test_comparisons_of_other_dtypes() -> None:
    a = Analyzer()
    byte, number = Var("byte", DType("uint8")), Var("number", DType("float32"))
    assert a.can_prove(LE(byte, byte))
    assert not a.can_prove(LT(byte, byte))
    assert a.can_prove(Not(LT(byte, byte)))
    assert not a.can_prove(EQ(number, number)), "it may be NaN"

"""Bindings and constraints: what they say, and that they end."""

from __future__ import annotations

from burnish.tensorir.arith import Analyzer, Interval
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import BOOL, And, Not, Or, Var, as_expr
from burnish.tensorir.text.printer import print_expr

I_, J, M = Var("i"), Var("j"), Var("m")


def test_domains() -> None:
    a = Analyzer()
    a.bind(I_, 8)
    assert a.bounds(I_) == Interval(0, 7)
    a.bind(I_, (2, 5))
    assert a.bounds(I_) == Interval(2, 5)
    a.bind(I_, Range(as_expr(3), as_expr(4)))
    assert a.bounds(I_) == Interval(3, 6)


def test_an_interval_may_be_open() -> None:
    a = Analyzer()
    a.bind(I_, 8)
    a.simplifier.bind_interval(I_, Interval(None, 20))
    assert a.bounds(I_ + 1) == Interval(None, 21)
    assert a.can_prove(I_ < 21)
    assert not a.can_prove(I_ >= 0)


def test_a_symbolic_domain() -> None:
    a = Analyzer()
    a.declare_dim(M)
    a.bind(I_, Range(as_expr(0), M))
    a.bind(J, Range(I_, M - I_))
    assert a.bounds(I_) == Interval(0, None)
    assert a.can_prove(I_ < M)
    assert a.can_prove(J >= I_)
    assert a.can_prove(J < M)
    assert not a.can_prove(J > I_)


def test_a_variable_with_one_value_is_that_value() -> None:
    a = Analyzer()
    a.bind(I_, Range(M, as_expr(1)))
    assert print_expr(a.simplify(I_ + J)) == "m + j"
    a.bind(I_, 1)
    assert print_expr(a.simplify(I_ + J)) == "j"


def test_a_condition_that_does_not_hold() -> None:
    a = Analyzer()
    flag, other = Var("flag", BOOL), Var("other", BOOL)
    with a.constraint(Not(flag)):
        assert a.can_prove(Not(flag))
        assert print_expr(a.simplify(Or(flag, other))) == "other"
        assert not a.can_prove(other)
    with a.constraint(flag):
        assert a.can_prove(Or(other, flag))
    assert not a.can_prove(flag)


def test_bind_expr_substitutes() -> None:
    a = Analyzer()
    a.bind_expr(I_, J * 8 + 3)
    assert print_expr(a.simplify(I_ // 8)) == "j"
    a.bind(I_, 4)
    assert print_expr(a.simplify(I_ // 2)) == "i // 2"


def test_constraints_narrow_bounds_and_end() -> None:
    a = Analyzer()
    a.bind(I_, 16)
    a.bind(J, 8)
    with a.constraint(And(I_ * 8 + J < 100, J > 2)):
        assert a.bounds(I_) == Interval(0, 12)
        assert a.bounds(J) == Interval(3, 7)
        with a.constraint(I_.not_equal(0)):
            assert a.bounds(I_) == Interval(1, 12)
    assert a.bounds(I_) == Interval(0, 15)


def test_a_constraint_on_a_quotient_narrows_its_dividend() -> None:
    a = Analyzer()
    with a.constraint(And(I_ // 8 < 4, I_ // 8 >= 1)):
        assert a.bounds(I_) == Interval(8, 31)


def test_tiles_of_a_symbolic_size() -> None:
    a = Analyzer()
    a.declare_dim(M)
    with a.constraint(I_ < M // 8 * 8):
        assert a.can_prove(I_ < M)
        assert not a.can_prove(I_ < M - 7)
    assert not a.can_prove(I_ < M)


def test_an_equality_fixes_a_value() -> None:
    a = Analyzer()
    with a.constraint(I_.equal(3)):
        assert print_expr(a.simplify(I_ * 8 + J)) == "j + 24"


def test_scopes_end() -> None:
    a = Analyzer()
    a.bind(I_, 8)
    with a.scope():
        a.bind(I_, 4)
        a.bind_expr(J, I_)
        assert a.can_prove(J < 4)
    assert a.bounds(I_) == Interval(0, 7)
    assert a.bounds(J) == Interval(None, None)


def test_binding_inside_a_constraint_keeps_the_constraint() -> None:
    a = Analyzer()
    with a.constraint(I_ < 4):
        a.bind(J, 8)
        assert a.bounds(I_).max == 3
        assert a.can_prove(I_ + J < 11)

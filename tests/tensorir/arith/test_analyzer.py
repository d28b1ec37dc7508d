"""Laws of the analyzer on random index expressions, against a plain evaluator."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.tensorir.arith import Analyzer
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Div,
    DType,
    Expr,
    IntImm,
    Not,
    Or,
    Select,
    Var,
    as_expr,
    maximum,
    minimum,
)
from burnish.tests.tensorir.arith.evaluate import UndefinedError, evaluate

LAW = settings(max_examples=250, deadline=None, derandomize=True)
I_, J, K, M, R = Var("i"), Var("j"), Var("k"), Var("m"), Var("r")
DOMAINS = {I_: (0, 7), J: (0, 11), K: (-3, 4), M: (0, 9), R: (0, 8)}
"""``m`` is declared as a dimension only, so the analyzer does not know its upper end; ``r`` is in
``[0, m)``."""


def bound_analyzer() -> Analyzer:
    a = Analyzer()
    a.bind(I_, 8)
    a.bind(J, Range(IntImm(0), IntImm(12)))
    a.bind(K, (-3, 4))
    a.declare_dim(M)
    a.bind(R, Range(IntImm(0), M))
    return a


def points(count: int = 60) -> list[dict[Var, int]]:
    """A deterministic sample of the domain, corners included."""
    axes = [range(low, high + 1) for low, high in DOMAINS.values()]
    names = list(DOMAINS)
    everything = [p for p in itertools.product(*axes) if p[names.index(R)] < p[names.index(M)]]
    chosen = [*everything[:: max(1, len(everything) // count)], everything[-1]]
    return [dict(zip(DOMAINS, values, strict=True)) for values in chosen]


POINTS = points()
LEAVES = st.one_of(
    st.sampled_from([I_, J, K, M]), st.integers(-9, 17).map(as_expr), st.sampled_from([I_, J, R])
)
FACTORS = st.integers(1, 16)


def _extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.tuples(inner, inner)
    by_constant = st.tuples(inner, FACTORS)
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        by_constant.map(lambda p: p[0] * p[1]),
        by_constant.map(lambda p: p[0] // p[1]),
        by_constant.map(lambda p: p[0] % p[1]),
        st.tuples(inner, FACTORS, inner).map(lambda p: p[0] * p[1] + p[2]),
        st.tuples(inner, FACTORS).map(lambda p: p[0] // p[1] * p[1] + p[0] % p[1]),
        inner.map(lambda x: x * M),
        inner.map(lambda x: x * M + R),
        inner.map(lambda x: x // M),
        inner.map(lambda x: x % M),
        by_constant.map(lambda p: Div(p[0], as_expr(p[1] - 20))),
        pairs.map(lambda p: minimum(*p)),
        pairs.map(lambda p: maximum(*p)),
        st.tuples(inner, inner, inner).map(lambda p: Select(p[0] < p[1], p[1], p[2])),
    )


EXPRS = st.recursive(LEAVES, _extend, max_leaves=6)
KINDS = st.sampled_from([EQ, NE, LT, LE, GT, GE])
COMPARISONS = st.builds(lambda kind, a, b: kind(a, b), KINDS, EXPRS, EXPRS)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds(And, inner, inner), st.builds(Or, inner, inner), st.builds(Not, inner)
    ),
    max_leaves=3,
)


def values(e: Expr, where: Expr | None = None) -> list[tuple[dict[Var, int], int]]:
    """The values at the sampled points where ``e`` is defined (and ``where`` holds)."""
    found = []
    for env in POINTS:
        try:
            if where is None or evaluate(where, env):
                found.append((env, evaluate(e, env)))
        except UndefinedError:
            continue
    return found


@LAW
@given(st.one_of(EXPRS, CONDITIONS))
def test_simplify_keeps_the_value(e: Expr) -> None:
    simplified = bound_analyzer().simplify(e)
    assert simplified.dtype is e.dtype
    for env, value in values(e):
        assert evaluate(simplified, env) == value


@LAW
@given(st.one_of(EXPRS, CONDITIONS))
def test_simplify_is_idempotent_and_returns_the_same_object(e: Expr) -> None:
    a = bound_analyzer()
    once = a.simplify(e)
    assert a.simplify(once) is once
    assert bound_analyzer().simplify(once) is once


@LAW
@given(EXPRS)
def test_bounds_and_modulus_are_sound(e: Expr) -> None:
    a = bound_analyzer()
    low, high = a.bounds(e)
    coefficient, base = a.modular(e)
    for _, value in values(e):
        assert low is None or low <= value
        assert high is None or value <= high
        assert (value - base) % coefficient == 0 if coefficient else value == base


@LAW
@given(CONDITIONS)
def test_nothing_false_is_proved(c: Expr) -> None:
    if bound_analyzer().can_prove(c):
        assert all(value for _, value in values(c))


@LAW
@given(EXPRS, EXPRS)
def test_only_equals_are_proved_equal(x: Expr, y: Expr) -> None:
    if bound_analyzer().can_prove_equal(x, y):
        assert all(value == 0 for _, value in values(x - y))


@LAW
@given(CONDITIONS, st.one_of(EXPRS, CONDITIONS))
def test_constraints_hold_inside_and_end_outside(fact: Expr, e: Expr) -> None:
    a = bound_analyzer()
    before = a.simplify(e)
    with a.constraint(fact):
        simplified = a.simplify(e)
        interval = a.bounds(e)
    for env, value in values(e, where=fact):
        assert evaluate(simplified, env) == value
        assert interval.min is None or interval.min <= value
        assert interval.max is None or value <= interval.max
    assert a.simplify(e) is before


def test_difference() -> None:
    i, j = Var("i"), Var("j")
    a = Analyzer()
    a.bind(i, 8)
    a.bind(j, Range(IntImm(2), IntImm(3)))
    assert a.difference(i * 4 + j, i * 4) == (2, 4)
    assert a.difference(i, j) == (-4, 5)
    assert a.difference(Var("x"), i) == (None, None)
    assert a.difference(IntImm(5), Var("byte", DType("uint8"))) == (None, None)
    a.bind_expr(i, IntImm(3))
    assert a.difference(i, j) == (-1, 1)
    a.bind(i, 2)
    assert a.difference(i, j) == (-4, -1), "a binding replaces what stood for the variable"

"""Each rule of the tables by itself: where it applies it keeps the value, negative ones included.

The laws of the whole simplifier are in ``test_analyzer``; these tell which rule is wrong. int64
overflow is undefined in index arithmetic, so Python's unbounded integers are the model.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from burnish.tensorir.arith.linear import Linear, render
from burnish.tensorir.arith.rules_add import SUM_RULES
from burnish.tensorir.arith.rules_compare import decide, extremum
from burnish.tensorir.arith.rules_divmod import FLOORDIV_RULES, FLOORMOD_RULES
from burnish.tensorir.arith.simplify import Simplifier
from burnish.tensorir.expr import EQ, GE, GT, LE, LT, NE, Expr, Max, Min, Var, const
from burnish.tensorir.text.printer import print_expr

LAW = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
BOUNDED = {Var("i"): (0, 15), Var("j"): (0, 7), Var("k"): (-5, 3)}
X = Var("x")
VALUES = st.fixed_dictionaries(
    {v.name: st.integers(low, high) for v, (low, high) in BOUNDED.items()}
    | {"x": st.integers(-100, 100)}
)
COEFFICIENTS = st.sampled_from([0, 0, 0, 0, 1, 2, 4, 8, 16, 6, -1, -4, -8])
DIVISORS = st.sampled_from([2, 3, 4, 6, 8, 16, 32])


def simplifier() -> Simplifier:
    s = Simplifier()
    for v, domain in BOUNDED.items():
        s.bind(v, domain)
    return s


def value(e: Expr, env: dict[str, int]) -> int:
    """The value of an index expression, whose text is Python's but for min and max."""
    words = SimpleNamespace(min=min, max=max)
    return int(eval(print_expr(e), {"T": words}, env))  # the text is our own


def raw_sum(draw: Callable[[st.SearchStrategy[int]], int]) -> Linear:
    terms = {v: draw(COEFFICIENTS) for v in (*BOUNDED, X)}
    return Linear(
        {v: k for v, k in terms.items() if k},
        draw(st.sampled_from([0, 0, 1, 3, 4, 8, 16, -1, -8, -13])),
    )


@st.composite
def dividends(draw: Callable[[st.SearchStrategy[int]], int]) -> Linear:
    """Sums that mostly cannot be divided further."""
    v = (*BOUNDED, X, X)[draw(st.integers(0, 4))]
    return Linear({v: draw(st.sampled_from([1, 1, 3]))}, draw(st.integers(-3, 3)))


@st.composite
def sums(draw: Callable[..., Any], s: Simplifier, depth: int = 1) -> Linear:
    """A sum of variables, perhaps beside a quotient or a remainder, or one of those alone."""
    x = raw_sum(draw)
    if not depth or draw(st.booleans()):
        return x
    n, c = draw(dividends()), Linear({}, draw(DIVISORS))
    rounded: Linear = (s.floordiv if draw(st.booleans()) else s.floormod)(n, c)
    return rounded.shift(draw(st.integers(0, 3))) if draw(st.booleans()) else x + rounded


@pytest.mark.parametrize("rule", FLOORDIV_RULES, ids=lambda r: r.__name__)
@LAW
@given(st.data(), DIVISORS, VALUES)
def test_quotients(rule: object, data: st.DataObject, c: int, env: dict[str, int]) -> None:
    s = simplifier()
    x = data.draw(sums(s))
    made = rule(s, x, c)  # type: ignore[operator]
    if made is not None:
        assert value(render(made), env) == value(render(x), env) // c


@pytest.mark.parametrize("rule", FLOORMOD_RULES, ids=lambda r: r.__name__)
@LAW
@given(st.data(), DIVISORS, VALUES)
def test_remainders(rule: object, data: st.DataObject, c: int, env: dict[str, int]) -> None:
    s = simplifier()
    x = data.draw(sums(s))
    made = rule(s, x, c)  # type: ignore[operator]
    if made is not None:
        assert value(render(made), env) == value(render(x), env) % c


@st.composite
def rounded_sums(draw: Callable[..., Any], s: Simplifier) -> Linear:
    """Sums in which a quotient and the remainder of one dividend often meet."""
    n, c = draw(dividends()), draw(DIVISORS)
    k = draw(st.sampled_from([1, -1, 2, 4]))
    x: Linear = raw_sum(draw) if draw(st.booleans()) else Linear({}, draw(st.integers(-5, 5)))
    quotient, rest = s.floordiv(n, Linear({}, c)), s.floormod(n, Linear({}, c))
    match draw(st.integers(0, 3)):
        case 0:
            return x + quotient.scale(k * c) + rest.scale(k)
        case 1:
            return x + n.scale(k) - quotient.scale(k * c)
        case 2:
            digit = s.floormod(quotient, Linear({}, 2))
            return x + digit.scale(k * c) + rest.scale(k)
        case _:
            return x + quotient.scale(k * c)


@LAW
@given(st.data(), st.sampled_from([2, 4, 8]), st.integers(0, 7), VALUES)
def test_known_remainders(data: st.DataObject, c: int, r: int, env: dict[str, int]) -> None:
    """What a constraint says of ``x % c`` decides remainders and quotients."""
    s = simplifier()
    env = env | {"x": env["x"] // c * c + r % c}
    with s.assuming([EQ(X % c, const(r % c))]):
        x, divisor = data.draw(rounded_sums(s)), data.draw(DIVISORS)
        for rule in SUM_RULES:
            made = rule(s, x)
            assert made is None or value(render(made), env) == value(render(x), env)
        for rule in FLOORMOD_RULES:
            made = rule(s, x, divisor)
            assert made is None or value(render(made), env) == value(render(x), env) % divisor


@pytest.mark.parametrize("rule", SUM_RULES, ids=lambda r: r.__name__)
@LAW
@given(st.data(), VALUES)
def test_sums(rule: object, data: st.DataObject, env: dict[str, int]) -> None:
    s = simplifier()
    x = data.draw(rounded_sums(s))
    made = rule(s, x)  # type: ignore[operator]
    if made is not None:
        assert value(render(made), env) == value(render(x), env)


@LAW
@given(st.data(), st.sampled_from([Min, Max]), VALUES)
def test_extrema(data: st.DataObject, kind: type[Expr], env: dict[str, int]) -> None:
    s = simplifier()
    a, b = data.draw(sums(s, 0)), data.draw(sums(s, 0))
    expected = (min if kind is Min else max)(value(render(a), env), value(render(b), env))
    assert value(render(extremum(s, kind, a, b)), env) == expected


@pytest.mark.parametrize(
    ("kind", "holds"),
    [
        (EQ, lambda v: v == 0),
        (NE, lambda v: v != 0),
        (LT, lambda v: v < 0),
        (LE, lambda v: v <= 0),
        (GT, lambda v: v > 0),
        (GE, lambda v: v >= 0),
    ],
)
@LAW
@given(st.data(), VALUES)
def test_decisions(
    kind: type[Expr], holds: Callable[[int], bool], data: st.DataObject, env: dict[str, int]
) -> None:
    s = simplifier()
    d = data.draw(sums(s))
    known = decide(s, kind, d)
    if known is not None:
        assert holds(value(render(d), env)) is known

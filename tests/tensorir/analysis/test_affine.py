from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.tensorir.analysis.affine import (
    Bounds,
    is_independent,
    overlapping,
    steps_without_gap,
    sweep,
    undetermined,
)
from burnish.tensorir.arith import Analyzer
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import Expr, FloorDiv, FloorMod, IntImm, Var, minimum
from burnish.tensorir.text.printer import print_expr
from burnish.tests.tensorir.interpreter import _BINARY

X, Y, Z = Var("x"), Var("y"), Var("z")
VARS = (X, Y, Z)


def bounds_of(*extents: int) -> Bounds:
    return Bounds({v: Range(IntImm(0), IntImm(n)) for v, n in zip(VARS, extents, strict=False)})


def value(e: Expr, env: dict[Var, int]) -> int:
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, IntImm):
        return e.value
    return int(_BINARY[type(e)](value(e.a, env), value(e.b, env)))  # type: ignore[attr-defined]


def environments(extents: tuple[int, ...]) -> list[dict[Var, int]]:
    ranges = [range(n) for n in extents]
    return [dict(zip(VARS, point, strict=False)) for point in itertools.product(*ranges)]


def digit_exprs() -> st.SearchStrategy[Expr]:
    leaf: st.SearchStrategy[Expr] = st.sampled_from([X, Y, Z])
    constants = st.sampled_from([1, 2, 3, 4])
    cut = st.builds(
        lambda v, c, mod: FloorMod(v, IntImm(c)) if mod else FloorDiv(v, IntImm(c)),
        leaf,
        constants,
        st.booleans(),
    )
    term = st.builds(lambda e, k: e * k, st.one_of(leaf, cut), constants)
    return st.lists(term, min_size=1, max_size=3).map(lambda ts: sum(ts[1:], ts[0]))


EXTENTS = st.tuples(*[st.sampled_from([1, 2, 4, 6])] * 3)


@given(st.lists(digit_exprs(), min_size=1, max_size=2), EXTENTS)
@settings(max_examples=120, deadline=None, derandomize=True)
def test_independent_values_tell_their_digits_apart(
    values: list[Expr], extents: tuple[int, ...]
) -> None:
    bounds = bounds_of(*extents)
    if not is_independent(values, bounds):
        return
    seen: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for env in environments(extents):
        atoms = [a for v in values for a in bounds.linear(v).terms]
        digits = tuple(value(a, env) for a in atoms)
        seen.setdefault(tuple(value(v, env) for v in values), set()).add(digits)
    assert all(len(s) == 1 for s in seen.values())


@given(digit_exprs(), EXTENTS, st.sets(st.sampled_from(VARS), min_size=1))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_a_sweep_holds_every_value_and_exactly_if_it_says_so(
    e: Expr, extents: tuple[int, ...], moving: set[Var]
) -> None:
    bounds = bounds_of(*extents)
    s = sweep(e, Bounds({v: bounds.ranges[v] for v in moving}), bounds)
    assert s is not None
    for env in environments(extents):
        start, extent = value(s.start, env), value(s.extent, env)
        values = {
            value(e, other)
            for other in environments(extents)
            if all(other[v] == env[v] for v in VARS if v not in moving)
        }
        assert values <= set(range(start, start + extent))
        if s.exact and not overlapping(s.digits, bounds):
            assert values == set(range(start, start + extent))


def test_unit_loops_stay_when_simplifying() -> None:
    bounds = bounds_of(4, 1)
    assert print_expr(bounds.simplify(X + Y)) == "x + y"
    assert bounds.proves_equal(X + Y, X)


def test_symbolic_extents() -> None:
    m = Var("m")
    bounds = Bounds({X: Range(IntImm(0), m // 8), Y: Range(IntImm(0), IntImm(8))})
    assert bounds.proves_le(X * 8 + 8, m)
    assert bounds.proves_le(IntImm(0), m // 8 * 8)
    assert not bounds.proves_le(X * 8 + 9, m)
    assert is_independent([X * 8 + Y], bounds)
    assert not is_independent([X * 8 + Y * 9], bounds)
    s = sweep(X * 8 + Y, bounds, bounds)
    assert s is not None
    assert s.exact
    assert print_expr(s.extent) == "m // 8 * 8"
    for index, extent in ((X * 16 + Y, None), (X * 4 + minimum(Y, 3), "m // 8 * 4")):
        s = sweep(index, bounds, bounds)
        assert s is not None
        assert not s.exact, "there are holes, or nobody can tell"
        assert extent is None or print_expr(s.extent) == extent


@pytest.mark.parametrize(
    ("base", "offset", "places"),
    [(3, 0, 2), (3, 9, 2), (7, 0, 2), (3, 0, 3), (5, 0, 3), (3, 1, 2), (7, 3, 2)],
)
def test_a_sum_in_a_mixed_radix(base: int, offset: int, places: int) -> None:
    """Loops fused and then split: ``e // c`` and ``e % c`` tell what ``e`` tells."""
    bounds = bounds_of(40, 8)
    e = X * 8 + Y + offset
    values = [e // base, e % base]
    if places == 3:
        values = [e // (base * 3), e // base % 3, e % base]
    assert is_independent(values, bounds)
    assert not is_independent(values[:-1], bounds)
    assert not is_independent(values[1:], bounds)
    assert not is_independent([e // (base * 2), e % base], bounds)


def test_a_sum_of_values_that_coincide_stays_dependent_in_any_radix() -> None:
    bounds = bounds_of(40, 9)
    e = X * 8 + Y
    assert not is_independent([e // 3, e % 3], bounds)


def test_ranges_without_gaps() -> None:
    bounds = bounds_of(4, 3)
    assert steps_without_gap(X * 4, 4, bounds, bounds)
    assert not steps_without_gap(X * 4, 3, bounds, bounds)
    assert steps_without_gap(X * 6 + Y * 2, 2, bounds, bounds)
    assert not steps_without_gap(X * 7 + Y * 2, 2, bounds, bounds)


@given(st.lists(digit_exprs(), min_size=1, max_size=3), EXTENTS)
@settings(max_examples=120, deadline=None, derandomize=True)
def test_determined_variables_follow_from_the_values(
    values: list[Expr], extents: tuple[int, ...]
) -> None:
    lost = undetermined(values, bounds_of(*extents))
    if lost is None:
        return
    known = [v for v in VARS if all(v is not u for u in lost)]
    seen: dict[tuple[int, ...], tuple[int, ...]] = {}
    for env in environments(extents):
        point = tuple(env[v] for v in known)
        assert seen.setdefault(tuple(value(e, env) for e in values), point) == point


def test_variables_that_are_lost() -> None:
    bounds = bounds_of(4, 6, 2)
    assert undetermined([X * 6 + Y, Z], bounds) == []
    assert undetermined([X, Y], bounds) == [Z]
    assert undetermined([X, FloorDiv(Y, IntImm(2)), Z], bounds) == [Y]
    assert undetermined([FloorDiv(Y, IntImm(2)), FloorMod(Y, IntImm(2)), Z, X], bounds) == []
    assert undetermined([X * Y], bounds) is None


def test_a_remainder_takes_all_its_values_only_if_the_loop_reaches_them() -> None:
    m = Var("m")
    few = Bounds({X: Range(IntImm(0), m)})
    s = sweep(X % 8, few, few)
    assert s is not None
    assert print_expr(s.extent) == "8"
    assert overlapping(s.digits, few), "m may be 3"
    many = Bounds({X: Range(IntImm(0), m * 8)})
    s = sweep(X % 8, many, many)
    assert s is not None
    assert s.exact
    assert not overlapping(s.digits, many)
    quotient = sweep(X // 8, few, few)
    assert quotient is not None
    assert quotient.exact
    assert print_expr(quotient.extent) == "(m + 7) // 8"
    assert not overlapping(quotient.digits, few)


def test_loops_that_begin_elsewhere_are_bounded_and_tell_nothing() -> None:
    bounds = Bounds({X: Range(IntImm(2), IntImm(4)), Y: Range(IntImm(0), IntImm(3))})
    assert undetermined([X, Y], bounds) is None
    assert undetermined([Y], bounds) == []
    s = sweep(X + Y, bounds, bounds)
    assert s is not None
    assert (print_expr(s.start), print_expr(s.extent), s.exact) == ("2", "6", False)


def test_equal_ranges_share_one_analyzer() -> None:
    """Primitives ask about the same loops again and again; facts are bound once."""
    i, j = Var("i"), Var("j")
    first = Bounds({i: Range(IntImm(0), IntImm(4)), j: Range(IntImm(0), i)})
    again = Bounds({i: Range(IntImm(0), IntImm(4)), j: Range(IntImm(0), i)})
    assert first.prover is again.prover
    assert first.key() == again.key()
    other = Bounds({i: Range(IntImm(0), IntImm(5)), j: Range(IntImm(0), i)})
    assert other.prover is not first.prover
    assert not first.proves_le(i, IntImm(2))
    assert other.proves_le(i, IntImm(4))
    assert not other.proves_le(i, IntImm(3))


def test_what_bounds_refute_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    i, j = Var("i"), Var("j")
    bounds = Bounds({i: Range(IntImm(0), IntImm(4)), j: Range(IntImm(9), IntImm(4))})
    assert bounds.proves_le(i, j)
    assert not bounds.proves_le(i * 2, i)

    def search(*_: object) -> bool:
        raise AssertionError("bounds decide it")

    monkeypatch.setattr(Analyzer, "can_prove", search)
    assert not bounds.proves_le(j, i)
    assert not bounds.proves_le(j + 1, i + 3)

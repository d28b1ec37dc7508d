"""Decisions as data: what was drawn, and running a space function with other draws."""

from __future__ import annotations

import random
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import ScheduleError
from burnish.support.structural import structural_equal
from burnish.support.target import Target
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import matmul, tiled
from burnish.tests.tuner.spaces import doubled, four_levels, steered
from burnish.tuner.candidate import make_candidate
from burnish.tuner.rules.registry import RULES
from burnish.tuner.rules.trial import attempt
from burnish.tuner.search.decisions import DecidedSchedule, Draws, draws_of_trace, redraw_tile


def run(space: object, given: Draws = (), seed: int = 0) -> DecidedSchedule:
    sch = DecidedSchedule(doubled(), seed=seed, given=given)
    space(sch)  # type: ignore[operator]
    return sch


def test_draws_are_noted_with_their_domains() -> None:
    draws = run(four_levels).draws
    assert [(d.kind, d.domain, d.occurrence) for d in draws] == [
        ("tile", (256, 4, 64), 0),
        ("tile", (256, 4, 64), 1),
        ("category", (0, 16, 64), 0),
    ]
    assert not any(d.is_control or d.is_fixed for d in draws)


def test_given_draws_are_taken_whatever_the_seed() -> None:
    first = run(four_levels, seed=1)
    again = run(four_levels, first.draws, seed=2)
    assert structural_equal(first.func, again.func)
    assert again.draws == first.draws


def test_a_draw_that_is_not_given_is_sampled() -> None:
    first = run(four_levels, seed=1)
    others = {run(four_levels, first.draws[:1], seed=s).draws[1].decision for s in range(8)}
    assert len(others) > 1


# -- decisions of rules ----------------------------------------------------------------------------
CPU = Target("llvm -mcpu=haswell -cores=1")


def ruled(given: Draws = (), seed: int = 0) -> DecidedSchedule:
    sch = DecidedSchedule(matmul(64), seed=seed, given=given)
    sch.apply_rule("matmul", CPU)
    return sch


def test_a_field_of_a_rule_is_a_named_draw() -> None:
    assert "matmul" in [rule.name for rule in RULES]
    draws = {str(d.domain[0]): d for d in ruled().draws}
    vectors = draws["matmul.vectors"]
    assert vectors.domain[1:] == (1, 2, 3, 4)
    assert vectors.decision in vectors.domain[1:]
    assert all(d.kind == "field" and d.is_control for d in draws.values())


def test_given_fields_are_taken_whatever_the_seed() -> None:
    first = ruled(seed=1)
    assert structural_equal(ruled(first.draws, seed=2).func, first.func)
    assert ruled(first.draws, seed=2).draws == first.draws


def test_a_field_that_left_its_domain_is_drawn_anew() -> None:
    tall = next(s.draws for s in map(lambda i: ruled(seed=i), range(99)) if height(s.draws) > 6)
    four = [d.with_decision(4) if d.domain[0] == "matmul.vectors" else d for d in tall]
    found = {height(ruled(tuple(four), seed=seed).draws) for seed in range(20)}
    assert found == {1, 2}  # of three registers a vector, sixteen are few


def height(draws: Draws) -> int:
    return next(int(d.decision) for d in draws if d.domain[0] == "matmul.rows")  # type: ignore[arg-type]


def test_the_trace_of_a_rule_has_its_fields() -> None:
    sch = ruled(seed=4)
    found = draws_of_trace(make_candidate(sch).trace)
    assert {d.key for d in sch.draws} <= {d.key for d in found}
    assert ruled(found, seed=9).draws == sch.draws


def test_what_python_looks_at_is_control() -> None:
    draws = run(steered).draws
    assert [d.is_control for d in draws] == [True, False]


def test_a_decision_that_the_space_function_gives_is_fixed() -> None:
    def fixed(sch: Schedule) -> None:
        sch.split(
            sch.get_loops("B")[0], sch.sample_perfect_tile(sch.get_loops("B")[0], 2, 16, [32, 8])
        )

    draws = run(fixed).draws
    assert draws[0].is_fixed
    other = draws[0].with_decision((64, 4))
    assert run(fixed, (other,)).draws == draws


def test_trials_that_are_given_up_draw_the_same_again() -> None:
    def refused(sch: Schedule) -> None:
        (loop, _) = sch.get_loops("B")
        sch.split(loop, sch.sample_perfect_tile(loop, 2, 64))
        raise ScheduleError("refused", "always")

    def space(sch: Schedule) -> None:
        attempt(sch, refused)
        (loop, _) = sch.get_loops("B")
        sch.split(loop, sch.sample_perfect_tile(loop, 2, 64))

    first = run(space, seed=3)
    assert len(first.draws) == 2
    assert len(first.trace.decisions) == 1
    again = run(space, first.draws, seed=4)
    assert structural_equal(first.func, again.func)


def test_places_are_drawn_and_taken() -> None:
    def space(sch: Schedule) -> None:
        copy = sch.cache_write("B", 0, "global")
        sch.reverse_compute_at(copy, sch.get_loops("B")[0])
        sch.sample_compute_location("B")

    sch = run(space, seed=5)
    (place,) = sch.draws
    assert (place.kind, place.is_control) == ("place", True)
    assert run(space, sch.draws, seed=6).draws == sch.draws
    illegal = place.with_decision(99)
    assert run(space, (illegal,)).draws[0].decision != 99


def test_draws_of_a_recorded_trace() -> None:
    sch = DecidedSchedule(matmul(16), seed=2)
    tiled(sch)
    recorded = draws_of_trace(make_candidate(sch).trace)
    again = DecidedSchedule(matmul(16), seed=9, given=recorded)
    tiled(again)
    assert structural_equal(sch.func, again.func)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 5000), st.integers(1, 5), st.integers(1, 64), st.integers(0, 99))
def test_a_redrawn_tile_is_of_its_domain(extent: int, n: int, innermost: int, seed: int) -> None:
    factors = redraw_tile(extent, n, innermost, random.Random(seed))
    assert len(factors) == n
    assert prod(factors) == extent
    assert n == 1 or factors[-1] <= innermost


@pytest.mark.parametrize("seed", range(3))
def test_all_of_a_domain_is_drawn(seed: int) -> None:
    rng = random.Random(seed)
    assert {redraw_tile(4, 2, 4, rng) for _ in range(64)} == {(4, 1), (2, 2), (1, 4)}

"""Mutations and crossings stay in the space, change something, and are legal."""

from __future__ import annotations

import random
from math import prod

import pytest

from burnish.tests.tuner.spaces import doubled, four_levels, steered
from burnish.tuner.search.decisions import DecidedSchedule, Draw, Draws, redraw
from burnish.tuner.search.mutators import cross, move_factor, mutable, mutate, mutate_draw


def drawn(space: object, seed: int) -> Draws:
    sch = DecidedSchedule(doubled(), seed=seed)
    space(sch)  # type: ignore[operator]
    return sch.draws


@pytest.mark.parametrize("space", [four_levels, steered])
def test_mutations_are_candidates_of_the_space(space: object) -> None:
    rng = random.Random(1)
    draws = drawn(space, 0)
    for _ in range(30):
        changed = mutate(draws, rng)
        sch = DecidedSchedule(doubled(), seed=0, given=changed)
        space(sch)  # type: ignore[operator]
        # What was mutated is what the space function took (a new path may draw more).
        taken = {d.key: d.decision for d in sch.draws}
        assert all(taken[d.key] == d.decision for d in changed if d.key in taken)
        draws = sch.draws


def test_one_decision_changes_at_a_time() -> None:
    rng = random.Random(0)
    draws = drawn(four_levels, 0)
    for _ in range(40):
        changed = mutate(draws, rng)
        different = [i for i, (a, b) in enumerate(zip(draws, changed, strict=True)) if a != b]
        assert len(different) <= 1


def test_only_the_given_places_change() -> None:
    rng = random.Random(0)
    draws = drawn(four_levels, 0)
    for _ in range(20):
        assert mutate(draws, rng, only=[2])[:2] == draws[:2]


def test_a_factor_moves_between_two_levels() -> None:
    draw = Draw("tile", (64, 3, 8), 0, (4, 4, 4))
    rng = random.Random(3)
    for _ in range(50):
        moved = move_factor(draw, rng)
        assert isinstance(moved.decision, tuple)
        assert prod(moved.decision) == 64
        assert moved.decision[-1] <= 8
        assert sum(a != b for a, b in zip(moved.decision, (4, 4, 4), strict=True)) == 2


def test_a_tile_that_cannot_move_is_the_same() -> None:
    stuck = Draw("tile", (7, 2, 4), 0, (7, 1))
    assert move_factor(stuck, random.Random(0)) is stuck


def test_a_category_becomes_another() -> None:
    draw = Draw("category", (1, 2, 4), 0, 1)
    found = {mutate_draw(draw, random.Random(s)).decision for s in range(20)}
    assert found == {0, 2}


def test_fixed_draws_and_draws_without_a_choice_stay() -> None:
    draws = (
        Draw("tile", (1, 2, 4), 0, (1, 1)),
        Draw("category", (3,), 0, 0),
        Draw("tile", (8, 2, 4), 0, (4, 2), is_fixed=True),
    )
    assert mutable(draws) == []
    assert mutate(draws, random.Random(0)) is draws


def test_a_place_is_left_to_the_space_function() -> None:
    draws = (Draw("place", ("B",), 0, 1, is_control=True),)
    assert mutate(draws, random.Random(0)) == ()


def test_crossing_takes_each_decision_from_one_parent() -> None:
    a, b = drawn(four_levels, 1), drawn(four_levels, 2)
    children = [cross(a, b, random.Random(s)) for s in range(20)]
    for child in children:
        for d, x, y in zip(child, a, b, strict=True):
            assert d.key == x.key
            assert d.decision in (x.decision, y.decision)
    assert len({tuple([d.decision for d in c]) for c in children}) > 2


def test_crossing_leaves_what_the_other_does_not_have() -> None:
    a = (Draw("category", (1, 2), 0, 0), Draw("category", (3, 4), 0, 0))
    b = (Draw("category", (3, 4), 0, 1),)
    children = {tuple([d.decision for d in cross(a, b, random.Random(s))]) for s in range(20)}
    assert children == {(0, 0), (0, 1)}


def test_a_field_takes_another_member_of_its_domain() -> None:
    draw = Draw("field", ("matmul.rows", 1, 2, 4, 6), 0, 4, is_control=True)
    found = {mutate_draw(draw, random.Random(seed)).decision for seed in range(40)}
    assert found == {1, 2, 6}
    assert mutable((draw, Draw("field", ("matmul.group", 0), 0, 0))) == [0]
    assert {redraw(draw, random.Random(seed)) for seed in range(40)} == {1, 2, 4, 6}


def test_fields_cross_by_their_names() -> None:
    a = Draw("field", ("matmul.rows", 1, 2, 4, 6), 0, 4)
    b = Draw("field", ("matmul.rows", 1, 2), 0, 2)
    assert {cross((a,), (b,), random.Random(seed))[0].decision for seed in range(20)} == {2, 4}

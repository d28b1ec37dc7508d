"""The arithmetic's proofs against z3: some hundred claims here, 100,000 with ``make prove``."""

from __future__ import annotations

import itertools
import random

import pytest
import z3

from burnish.tensorir.arith import Analyzer
from burnish.tensorir.expr import Div, FloorDiv, FloorMod, IntImm, Var
from burnish.tests.fuzz import prove
from burnish.tests.fuzz.prove import Facts, Tally, Translation, ask_many
from burnish.tests.strategies.index_queries import Questions
from burnish.tests.tensorir.arith.evaluate import evaluate


def test_what_is_proved_holds() -> None:
    tally = ask_many(2026, 0, 60)
    assert tally.wrong == []
    assert tally.claims == 60 * prove.CLAIMS
    # Most of what is proved must be decided, or nothing is tested here.
    assert tally.proved["confirmed"] > 120
    assert tally.said["confirmed"] > 240
    assert tally.proved["z3 does not know"] + tally.said["z3 does not know"] < 20


def test_a_prover_that_believes_everything_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Analyzer, "can_prove", lambda self, claim: True)
    tally = ask_many(2026, 0, 3)
    assert tally.proved["wrong"] > 3
    assert len(tally.wrong) == tally.proved["wrong"]
    assert all(" known: " in text and " but: " in text for text in tally.wrong)


def test_bounds_that_are_too_narrow_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Analyzer, "bounds", lambda self, x: (3, 3))
    tally = ask_many(2026, 0, 3)
    assert tally.said["wrong"] >= 3


@pytest.mark.parametrize("kind", [FloorDiv, FloorMod, Div])
def test_divisions_are_those_of_the_ir(kind: type) -> None:
    x, y = Var("x"), Var("y")
    term = Translation()(kind(x, y))
    for a, b in itertools.product(range(-9, 10), (-4, -3, -1, 1, 2, 5)):
        point = [(z3.Int("x"), z3.IntVal(a)), (z3.Int("y"), z3.IntVal(b))]
        expected = evaluate(kind(x, y), {x: a, y: b})
        assert z3.simplify(z3.substitute(term, *point)).as_long() == expected
        by_constant = Translation()(kind(x, IntImm(b)))
        assert z3.simplify(z3.substitute(by_constant, point[0])).as_long() == expected


def test_divisors_are_not_zero() -> None:
    translate = Translation()
    x = Var("x")
    translate(FloorDiv(Var("a"), x) + FloorMod(Var("b"), x + 1))
    assert [str(d) for d in translate.divisors] == ["x", "x + 1"]


def test_facts_are_the_same_for_a_seed() -> None:
    first, second = (Facts("5/1") for _ in range(2))
    assert str(first.solver) == str(second.solver)
    assert first.ask() == second.ask()


def test_points_satisfy_what_is_known() -> None:
    for seed in range(40):
        q = Questions(random.Random(seed))
        for p in q.points:
            assert all(evaluate(c, p) for c in q.known.conditions())


def test_tallies_add_up() -> None:
    tally = Tally(claims=3)
    tally.proved["confirmed"] = 2
    tally.add(tally)
    assert tally.text().startswith("6 claims, 4 proved: 4 confirmed, 0 z3 does not know, 0 wrong\n")

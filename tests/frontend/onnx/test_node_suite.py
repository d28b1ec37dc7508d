"""A part of ONNX's own backend tests; ``make onnx-suite`` runs all of them (``node_suite.py``)."""

from __future__ import annotations

import pytest

from burnish.tests.frontend.onnx.node_suite import (
    FAILS,
    PASSES,
    cases,
    model_of,
    out_of_scope,
    outcome,
    read_list,
)

STEP = 40
"""One case of so many is run here."""
KNOWN = read_list()
PASSING = [name for name, what in KNOWN.items() if what == PASSES]


@pytest.mark.parametrize("name", PASSING[::STEP])
def test_a_case_that_passed_passes(name: str) -> None:
    assert outcome(name) == ""


def test_the_list_knows_every_case() -> None:
    assert set(KNOWN) == set(cases())


def test_cases_out_of_scope_are_listed_with_their_reason() -> None:
    reasons = {n: out_of_scope(model_of(cases()[n])) for n in list(KNOWN)[::STEP]}
    assert {n: r for n, r in reasons.items() if r is not None} == {
        n: KNOWN[n] for n in reasons if KNOWN[n] not in (PASSES, FAILS)
    }


def test_nearly_all_cases_in_scope_pass() -> None:
    what = list(KNOWN.values())
    assert what.count(PASSES) >= 0.95 * (what.count(PASSES) + what.count(FAILS))

"""A part of ONNX's own backend tests; ``make onnx-suite`` runs all of them (``node_suite.py``)."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.tests.frontend.onnx.node_suite import (
    ANEW,
    FAILS,
    PASSES,
    VARIANTS,
    cases,
    heading,
    is_lost,
    model_of,
    out_of_scope,
    outcome,
    read_list,
    swapped,
    symbolic,
)

STEP = 40
"""One case of so many is run here."""
KNOWN = read_list()
PASSING = [name for name, what in KNOWN.items() if what == PASSES and ":" not in name]
VARIED = [name for name, what in KNOWN.items() if what in (PASSES, ANEW) and ":" in name]


@pytest.mark.parametrize("name", PASSING[::STEP])
def test_a_case_that_passed_passes(name: str) -> None:
    assert outcome(name) == ""


@pytest.mark.parametrize("name", VARIED[::STEP])
def test_with_symbolic_shapes_and_with_inputs_as_weights(name: str) -> None:
    """One program for all shapes stays one."""
    assert outcome(name) in (("",) if KNOWN[name] == PASSES else ("", ANEW))


def test_sizes_that_must_be_known_are_asked_for_once() -> None:
    """Of an If whose branches want known sizes, the same question was asked without end."""
    assert outcome("symbolic:node/affine_grid_2d") in (PASSES, ANEW)


def test_the_list_knows_every_case() -> None:
    assert {n for n in KNOWN if ":" not in n} == set(cases())
    assert {n.partition(":")[0] for n in VARIED} == set(VARIANTS)


def test_variants_of_a_case() -> None:
    case = cases()["node/add_bcast"]
    made = symbolic(model_of(case))
    dims = [[d.dim_param for d in v.type.tensor_type.shape.dim] for v in made.graph.input]
    assert dims == [["x_0", "x_1", "x_2"], ["y_0"]]
    x, y = (np.ones(n, np.float32) for n in ((3, 4, 5), (5,)))
    made, given = swapped(model_of(case), [x, y])
    assert [v.name for v in made.graph.input] == ["x"]
    assert [t.name for t in made.graph.initializer] == ["y"]
    assert given == [x]


def test_what_is_worse_than_it_was() -> None:
    assert is_lost(PASSES, "error")
    assert is_lost(PASSES, ANEW)
    assert is_lost(ANEW, "error")
    assert not is_lost(ANEW, "")
    assert not is_lost(FAILS, "error")
    assert not is_lost(None, "error")
    assert [heading(None, t) for t in ("", ANEW, "error")] == [PASSES, ANEW, FAILS]
    assert heading(PASSES, "error") == PASSES


def test_cases_out_of_scope_are_listed_with_their_reason() -> None:
    plain = [n for n in KNOWN if ":" not in n]
    reasons = {n: out_of_scope(model_of(cases()[n])) for n in plain[::STEP]}
    assert {n: r for n, r in reasons.items() if r is not None} == {
        n: KNOWN[n] for n in reasons if KNOWN[n] not in (PASSES, FAILS)
    }


def test_nearly_all_cases_in_scope_pass() -> None:
    what = [w for n, w in KNOWN.items() if ":" not in n]
    assert what.count(PASSES) >= 0.95 * (what.count(PASSES) + what.count(FAILS))

"""The built-in design space: what random search draws from, and what it begins with."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.host import native_target
from burnish.support.structural import structural_hash
from burnish.tensorir import operators as op
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te.compute import Tensor
from burnish.tests.strategies.schedules import CORPUS
from burnish.tests.tuner.rules.checking import Workload
from burnish.tuner.analytic import schedule_analytically
from burnish.tuner.cost.analytic_model import AnalyticModel
from burnish.tuner.search.evolution import EvolutionarySearch
from burnish.tuner.search.search import RandomSearch
from burnish.tuner.search.space import analytic_choices, default_space


def softmax(a: Tensor) -> Tensor:
    return op.softmax(a)


@pytest.mark.parametrize(
    "func",
    [
        CORPUS["linear_relu"](),
        CORPUS["symbolic_matmul"](),
        Workload(softmax, np.abs, (40, 1000)).func,
        Workload(lambda a: op.permute_dims(a, (1, 0)), np.abs, (1000, 40)).func,
        Workload(op.relu, np.abs, (40, 1000)).func,
    ],
)
def test_the_space_holds_many_candidates(func: PrimFunc) -> None:
    search = RandomSearch(func, default_space(func, native_target()), seed=0)
    assert len(search.propose(3)) == 3


def test_the_first_candidate_is_the_analytic_one() -> None:
    func, target = CORPUS["linear_relu"](), native_target()
    first = analytic_choices(func, target)
    search = RandomSearch(func, default_space(func, target), seed=0, first=first)
    (candidate,) = search.propose(1)
    assert candidate.hash == structural_hash(schedule_analytically(func, target))


def test_analytic_choices_need_no_luck() -> None:
    func, target = CORPUS["softmax"](), native_target()
    found = []
    for seed in (1, 2):
        sch = Schedule(func, seed=seed)
        (apply,) = analytic_choices(func, target)
        apply(sch)
        found.append(structural_hash(sch.func))
    assert found[0] == found[1]


def test_the_analytic_choice_is_a_member_that_evolution_begins_with() -> None:
    func, target = CORPUS["matmul"](), native_target()
    search = EvolutionarySearch(
        func,
        default_space(func, target),
        seed=0,
        target=target,
        model=AnalyticModel(),
        first=analytic_choices(func, target),
    )
    (candidate,) = search.propose(1)
    search.observe([(candidate.hash, 1.0)])
    ((seconds, individual),) = search.elite
    assert seconds == 1.0
    assert all(str(draw.domain[0]).startswith("matmul.") for draw in individual.draws)
    found = {c.hash for c in search.propose(4)}
    assert len(found - {candidate.hash}) == 4

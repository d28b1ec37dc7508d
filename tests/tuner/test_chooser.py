"""One design space, two ways to choose in it."""

from __future__ import annotations

import pytest

from burnish.support.errors import InternalError
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import matmul
from burnish.tuner.chooser import Chooser


@pytest.mark.parametrize(("best", "chosen"), [(4, 4), (5, 4), (100, 8), (0, 1)])
def test_the_analytic_choice_is_the_nearest_candidate(best: int, chosen: int) -> None:
    sch = Schedule(matmul(), seed=0)
    assert Chooser().value(sch, [1, 2, 4, 8], best) == chosen
    assert sch.get(Chooser().choose(sch, [1, 2, 4, 8], best)) == chosen


def test_every_choice_is_a_decision_of_the_trace() -> None:
    sch = Schedule(matmul(), seed=0)
    Chooser().value(sch, [1, 2, 4, 8], 4)
    Chooser(analytic=False).value(sch, [3, 5], 3)
    first, second = sch.trace.decisions.values()
    assert first == 2
    assert second in (0, 1)


def test_what_is_no_choice_is_no_decision() -> None:
    sch = Schedule(matmul(), seed=0)
    assert Chooser().value(sch, [7], 1) == 7
    assert Chooser(analytic=False).value(sch, [7, 7], 1) == 7
    assert not sch.trace.decisions


def test_random_choices_follow_the_seed_and_reach_every_candidate() -> None:
    def draw(seed: int) -> list[int]:
        sch = Schedule(matmul(), seed=seed)
        return [Chooser(analytic=False).value(sch, [1, 2, 4, 8], 1) for _ in range(20)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert {x for seed in range(5) for x in draw(seed)} == {1, 2, 4, 8}


def test_a_decision_without_candidates_is_a_defect() -> None:
    with pytest.raises(InternalError, match="without candidates"):
        Chooser().choose(Schedule(matmul(), seed=0), [], 1)

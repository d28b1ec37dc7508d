"""A rule that refuses leaves nothing behind."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import LoopKindError, ScheduleValueError
from burnish.tensorir import operators as op
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.rules.checking import Workload
from burnish.tuner.rules.trial import attempt, refusal_of


def test_what_succeeds_is_kept_with_its_trace() -> None:
    sch = Schedule(Workload(op.relu, np.abs, (4, 8)).func, seed=0)
    assert attempt(sch, lambda s: s.vectorize(s.get_loops("relu")[1]))
    assert sch.get(sch.get_loops("relu")[1]).kind == "vectorized"
    assert "vectorize" in str(sch.trace)


def test_what_fails_leaves_function_and_trace() -> None:
    sch = Schedule(Workload(op.relu, np.abs, (4, 8)).func, seed=0)
    before, text = sch.func, str(sch.trace)

    def split_vectors(s: Schedule) -> None:
        loop = s.get_loops("relu")[1]
        s.vectorize(loop)
        s.split(loop, [None, 2])

    assert not attempt(sch, split_vectors)
    assert sch.func is before
    assert str(sch.trace) == text
    with pytest.raises(LoopKindError):
        split_vectors(sch)


def test_defects_are_not_hidden() -> None:
    sch = Schedule(Workload(op.relu, np.abs, (4, 8)).func, seed=0)

    def defect(s: Schedule) -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        attempt(sch, defect)


def test_the_refusal_says_why() -> None:
    def refused(sch: Schedule) -> None:
        raise ScheduleValueError("split", "No.")

    sch = Schedule(Workload(op.relu, np.abs, (4, 8)).func, seed=0)
    error = refusal_of(sch, refused)
    assert error is not None
    assert (error.primitive, error.found) == ("split", "No.")
    assert refusal_of(sch, lambda trial: trial.unroll(trial.get_loops("relu")[1])) is None
    assert "unroll" in str(sch.trace)

"""A rule that refuses leaves nothing behind."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import LoopKindError, ScheduleValueError
from burnish.support.host import native_target
from burnish.tensorir import operators as op
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.rules.checking import Workload
from burnish.tuner.analytic import apply_rules
from burnish.tuner.rules.trial import attempt
from burnish.tuner.schedule_log import recorded, steps_given_up


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
    with steps_given_up() as steps:
        assert not attempt(sch, refused)
        assert not attempt(sch, refused)
        assert attempt(sch, lambda trial: trial.unroll(trial.get_loops("relu")[1]))
    assert steps == [("refused", "split: No.")]
    assert "unroll" in str(sch.trace)


def test_what_a_rule_did_without_stands_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that begin nowhere near a vector's width, whose terms no lane can have."""

    def refused(*_: object) -> None:
        raise ScheduleValueError("split", "No.")

    func = Workload(lambda x: op.sum(x, [1]), np.abs, (70, 90)).func
    monkeypatch.setattr("burnish.tuner.rules.reduction.schedule_nests", refused)
    sch = Schedule(func, seed=0)
    with recorded() as log:
        apply_rules(sch, native_target())
    (found,) = log
    assert ("refused", "split: No.") in found.given_up
    assert str(found).endswith("; without refused (split: No.)")

"""What a model learns from records of other tasks and machines."""

from __future__ import annotations

import time

import pytest

from burnish.support.errors import InternalError
from burnish.support.host import resolve
from burnish.support.target import Target
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.text.printer import print_func
from burnish.tests.tuner.programs import forged, matmul, tiled
from burnish.tuner.cost.cost_model import LearnedModel
from burnish.tuner.cost.features import Machine
from burnish.tuner.cost.warm_start import group_name, teach_records
from burnish.tuner.records.database import TuningDatabase, TuningRecord
from burnish.tuner.search.search import RandomSearch
from burnish.tuner.task import TuneTask

TARGET = Target("native -threads=1")
MACHINE = Machine.of(resolve(TARGET))


def fill(db: TuningDatabase, n: int, count: int, target: str = "other machine") -> str:
    task = TuneTask("main", matmul(n), TARGET)
    source = db.add_workload(task.workload, "main", print_func(task.stripped), task.flop)
    for i, c in enumerate(RandomSearch(task.stripped, [tiled], seed=0).propose(count)):
        times = () if i == 0 else (1e-3 * i,)
        db.add(
            TuningRecord(task.workload, target, c.hash, source, c.trace, times, "" if i else "x")
        )
    return task.workload


def test_records_of_all_groups_teach() -> None:
    with TuningDatabase() as db:
        one, two = fill(db, 32, 9), fill(db, 64, 12)
        model = LearnedModel(enough=8)
        assert teach_records(model, db, MACHINE) == 21
        assert set(model.groups) == {group_name(w, "other machine") for w in (one, two)}
        assert model.is_trained
        assert teach_records(model, db, MACHINE) == 0  # it knows them


def test_records_that_do_not_replay_are_left_out() -> None:
    with TuningDatabase() as db:
        workload = fill(db, 32, 4)
        source = db.records()[0].source
        db.add(TuningRecord(workload, "other machine", "bad", source, "[[3]]", (1.0,)))
        db.add(TuningRecord(workload, "other machine", "another", source, "[]", (1.0,)))
        assert teach_records(LearnedModel(), db, MACHINE) == 4


def test_a_trace_may_break_any_primitive(monkeypatch: pytest.MonkeyPatch) -> None:
    def apply_to(self: Trace, sch: Schedule) -> None:
        raise error

    error: Exception = ZeroDivisionError("split")
    monkeypatch.setattr(Trace, "apply_to", apply_to)
    with TuningDatabase() as db:
        fill(db, 32, 4)
        assert teach_records(LearnedModel(), db, MACHINE) == 0
        error = InternalError("ours")
        with pytest.raises(InternalError, match="ours"):
            teach_records(LearnedModel(), db, MACHINE)


def test_a_schedule_without_its_proofs_teaches_nothing() -> None:
    def overlapping(sch: Schedule) -> None:
        sch.parallel(sch.get_loops("C")[2])

    with TuningDatabase() as db:
        forged(db, matmul(32), overlapping)
        assert teach_records(LearnedModel(), db, MACHINE) == 0


def test_a_deadline_ends_the_lesson() -> None:
    with TuningDatabase() as db:
        fill(db, 32, 4)
        assert teach_records(LearnedModel(), db, MACHINE, deadline=time.monotonic()) == 0

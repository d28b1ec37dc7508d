"""What a model learns from records of other tasks and machines."""

from __future__ import annotations

import time

from burnish.support.target import Target
from burnish.tensorir.codegen.host import resolve
from burnish.tensorir.printer import print_func
from burnish.tests.tuner.programs import matmul, tiled
from burnish.tuner.cost_model import LearnedModel
from burnish.tuner.database import TuningDatabase, TuningRecord
from burnish.tuner.features import Machine
from burnish.tuner.search import RandomSearch
from burnish.tuner.task import TuneTask
from burnish.tuner.warm_start import group_name, teach_records

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
        assert teach_records(LearnedModel(), db, MACHINE) == 4


def test_a_deadline_ends_the_lesson() -> None:
    with TuningDatabase() as db:
        fill(db, 32, 4)
        assert teach_records(LearnedModel(), db, MACHINE, deadline=time.monotonic()) == 0

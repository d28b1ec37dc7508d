"""Records of other machines: where a search begins, measured anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from burnish.support.errors import InternalError
from burnish.support.target import Target
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tests.tuner.programs import InlineExecutor, matmul, tiled
from burnish.tuner.candidate import make_candidate
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.records.transfer import transferred
from burnish.tuner.session import tune_task
from burnish.tuner.task import TuneTask

TASK = TuneTask("main", matmul(16), Target("native -threads=1"))


@pytest.fixture
def database() -> TuningDatabase:
    """Four records of a machine that is not this one."""
    db, here = TuningDatabase(), TuningDatabase()
    tune_task(
        TASK, here, max_trials=4, space=tiled, seed=0, executor=InlineExecutor(), seconds=0.0,
        strategy="random",
    )  # fmt: skip
    for record, text in here.entries():
        db.add_all([(replace(record, target="elsewhere"), text)])
    return db


def test_the_best_of_elsewhere_replay_here(database: TuningDatabase) -> None:
    hashes = []
    for apply in transferred(database, TASK, 2):
        sch = Schedule(TASK.stripped, seed=0)
        apply(sch)
        hashes.append(make_candidate(sch).hash)
    ranked = sorted(database.records(), key=lambda r: r.best or 0.0)
    assert hashes == [r.candidate for r in ranked[:2]]
    elsewhere = TuneTask("main", matmul(8), TASK.target)
    assert transferred(database, elsewhere) == []


def test_records_that_do_not_replay_are_left_out(database: TuningDatabase) -> None:
    record = database.records()[0]
    database.add(replace(record, candidate="x", target="moon", trace='[["fly"]]'))
    renamed = TuneTask("other", matmul(16, names="XYZ"), TASK.target)
    assert renamed.workload == TASK.workload
    assert transferred(database, renamed) == []  # the block C is called Z there
    assert len(transferred(database, TASK)) == 4


def test_a_trace_may_break_any_primitive(
    database: TuningDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def apply_to(self: Trace, sch: Schedule) -> None:
        raise errors[len(self) % 2]

    errors: list[Exception] = [ZeroDivisionError("split"), KeyError("b7")]
    monkeypatch.setattr(Trace, "apply_to", apply_to)
    assert transferred(database, TASK) == []
    errors[:] = [InternalError("ours")] * 2
    with pytest.raises(InternalError, match="ours"):
        transferred(database, TASK)


@pytest.mark.parametrize("strategy", ["random", "evolutionary"])
def test_a_search_begins_with_them(database: TuningDatabase, strategy: str) -> None:
    progress = tune_task(
        TASK, database, max_trials=3, space=tiled, seed=1, executor=InlineExecutor(), seconds=0.0,
        strategy=strategy,
    )  # fmt: skip
    assert progress.done == 3
    ranked = sorted(database.records(target="elsewhere"), key=lambda r: r.best or 0.0)
    here = database.records(target=TASK.target_key)
    assert {r.candidate for r in here} == {r.candidate for r in ranked[:3]}
    assert all(r.best is not None for r in here)


def test_what_the_model_expected_is_recorded() -> None:
    with TuningDatabase() as db:
        tune_task(
            TASK, db, max_trials=3, space=tiled, seed=1, executor=InlineExecutor(), seconds=0.0,
            model="analytic",
        )  # fmt: skip
        assert all(isinstance(r.predicted, float) for r in db.records())
    with TuningDatabase() as db:
        tune_task(
            TASK, db, max_trials=2, space=tiled, seed=1, executor=InlineExecutor(), seconds=0.0,
            strategy="random",
        )  # fmt: skip
        assert [r.predicted for r in db.records()] == [None, None]

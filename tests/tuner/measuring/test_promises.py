"""Promises that traces make: withdrawn where nothing needs them, else compared once."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from burnish.support.errors import MeasureTimeout, TuningError, WorkerDied, WorkerFailed
from burnish.support.structural import structural_hash
from burnish.support.target import Target
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import InlineExecutor, forged, matmul, record
from burnish.tuner.best_record import best_schedule, set_aside_notes
from burnish.tuner.measuring.promises import without_promises
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.task import TuneTask, strip_attrs

HERE = Target("native -threads=1")


def harmless(sch: Schedule) -> None:
    """Writes the zeros twice."""
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    unit = sch.add_unit_loop(sch.get_loops("C_init")[0])
    sch.split(unit, [2, 1], disable_predication=True)


def exact(sch: Schedule) -> None:
    """Nothing overshoots."""
    sch.split(sch.get_loops("C")[0], [4, 8], disable_predication=True)


def exact_parts(sch: Schedule) -> None:
    """Promises nothing."""
    sch.split(sch.get_loops("C")[0], [3, 4])


def twice(sch: Schedule) -> None:
    """Adds every term twice."""
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    unit = sch.add_unit_loop(sch.get_loops("C_update")[0])
    sch.split(unit, [2, 1], disable_predication=True)


def test_a_promise_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = TuneTask("main", matmul(12), HERE)

    with TuningDatabase() as db:
        forged(db, matmul(12), twice, 1.0)
        made = record(db, matmul(12), harmless, 2.0)
        notes: list[str] = []
        sch = best_schedule(db, asked, note=notes.append)
        assert structural_hash(strip_attrs(sch.func)) == made.hash
        assert "wrong result" in notes[0]
        monkeypatch.setattr("burnish.tuner.measuring.promises.measure_candidate", None)
        best_schedule(db, asked)


def test_a_promise_that_is_not_needed_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnish.tuner.measuring.promises.measure_candidate", None)
    with TuningDatabase() as db:
        made = record(db, matmul(), exact)
        sch = best_schedule(db, TuneTask("main", matmul(), HERE))
        assert structural_hash(strip_attrs(sch.func)) == made.hash


def test_other_instructions_keep_what_they_say() -> None:
    sch = Schedule(matmul(), seed=0)
    sch.split(sch.get_loops("C")[0], [4, 8], preserve_unit_iters=False)
    trace = sch.trace
    assert without_promises(trace) is trace
    sch.split(sch.get_loops("C")[2], [4, 8], disable_predication=True)
    *same, last = without_promises(sch.trace)
    assert all(a is b for a, b in zip(same, sch.trace, strict=False))
    assert dict(last.attrs) == {"preserve_unit_iters": True, "disable_predication": False}


def test_a_function_for_another_machine_cannot_be_compared() -> None:
    """That says nothing against the record, which keeps its times."""
    there = Target("llvm -mcpu=haswell -threads=1")
    with TuningDatabase() as db:
        forged(db, matmul(12), twice, 1.0, target=there)
        before = db.records()
        notes: list[str] = []
        with pytest.raises(TuningError, match="is another machine than this one"):
            best_schedule(db, TuneTask("main", matmul(12), there), note=notes.append)
        assert "was passed over" in notes[0]
        assert db.records() == before
        assert not set_aside_notes(db, TuneTask("main", matmul(12), there))


@pytest.mark.parametrize(
    "error",
    [
        MeasureTimeout("no answer"),
        WorkerDied("killed"),
        WorkerFailed("MemoryError"),
        TuningError("does not start"),
        OSError("too many open files"),
    ],
)
def test_a_worker_that_does_not_answer_says_nothing_of_the_record(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next record is taken, and the first one the next time."""

    class Pool(InlineExecutor):
        fault: Exception | None = error

        def __init__(self, *_: object, **__: object) -> None:
            super().__init__()

        def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(self.fault)
            return super().submit(*args, **kwargs) if self.fault is None else future

    monkeypatch.setattr("burnish.tuner.measuring.promises.WorkerPool", Pool)
    asked = TuneTask("main", matmul(12), HERE)
    with TuningDatabase() as db:
        first = record(db, matmul(12), harmless, 1.0)
        second = record(db, matmul(12), exact_parts, 2.0)
        with pytest.warns(UserWarning, match="was passed over, for it cannot be compared"):
            sch = best_schedule(db, asked)
        assert structural_hash(strip_attrs(sch.func)) == second.hash
        Pool.fault = None
        assert structural_hash(strip_attrs(best_schedule(db, asked).func)) == first.hash

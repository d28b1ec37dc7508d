"""Promises that traces make: withdrawn where nothing needs them, else compared once."""

from __future__ import annotations

import pytest

from burnish.support.errors import TuningError
from burnish.support.structural import structural_hash
from burnish.support.target import Target
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import forged, matmul, record
from burnish.tuner.apply import best_schedule
from burnish.tuner.database import TuningDatabase
from burnish.tuner.promises import without_promises
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
        monkeypatch.setattr("burnish.tuner.promises.measure_candidate", None)
        best_schedule(db, asked)


def test_a_promise_that_is_not_needed_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burnish.tuner.promises.measure_candidate", None)
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
    there = Target("llvm -mcpu=haswell -threads=1")
    with TuningDatabase() as db:
        forged(db, matmul(12), twice, 1.0, target=there)
        notes: list[str] = []
        with pytest.raises(TuningError, match="is another machine than this one"):
            best_schedule(db, TuneTask("main", matmul(12), there), note=notes.append)

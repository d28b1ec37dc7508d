"""model.tune: the division of the budget, the verdict, and one real run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import burnish
from burnish import errors
from burnish.driver import tune as driver_tune
from burnish.driver.compile import CompiledModel
from burnish.driver.kernels import resolve_target
from burnish.driver.timing import Timing
from burnish.driver.tune import TuneResult, scheduled_by, tune_tasks
from burnish.support.structural import structural_equal
from burnish.tests.tuner.programs import matmul
from burnish.tuner.analytic import schedule_analytically
from burnish.tuner.database import TuningDatabase
from burnish.tuner.session import TuningProgress
from burnish.tuner.task import TuneTask

NATIVE = resolve_target("native -threads=1")


class Recorder:
    """Stands in for a tuning session: notes what it is given, spends its trials."""

    def __init__(self, spend: int | None = None) -> None:
        self.spend = spend
        self.calls: list[tuple[str, int, float | None]] = []

    def __call__(self, task: TuneTask, database: TuningDatabase, **options: Any) -> TuningProgress:
        deadline = options["deadline"]
        left = None if deadline is None else deadline - time.monotonic()
        self.calls.append((task.name, options["max_trials"], left))
        progress = TuningProgress(task, options["max_trials"])
        progress.done = options["max_trials"] if self.spend is None else self.spend
        if options["on_progress"] is not None:
            options["on_progress"](progress)
        return progress


@pytest.fixture
def tasks() -> list[TuneTask]:
    """16, 32, 64: each takes eight times the work of the one before."""
    return [TuneTask(f"n{n}", matmul(n), NATIVE) for n in (16, 32, 64)]


def budgets(recorder: Recorder) -> dict[str, int]:
    return {name: trials for name, trials, _ in recorder.calls}


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(driver_tune, "tune_task", made)
    return made


def test_trials_are_divided_by_work(tasks: list[TuneTask], recorder: Recorder) -> None:
    database = TuningDatabase()
    tune_tasks(tasks, database, trials=73, minutes=None)
    assert recorder.calls == [("n64", 64, None), ("n32", 8, None), ("n16", 1, None)]


def test_the_most_work_comes_first_where_trials_are_few(
    tasks: list[TuneTask], recorder: Recorder
) -> None:
    tune_tasks(tasks, TuningDatabase(), trials=1, minutes=None)
    assert budgets(recorder) == {"n64": 1, "n32": 0, "n16": 0}


def test_what_one_leaves_goes_to_the_next(tasks: list[TuneTask], recorder: Recorder) -> None:
    recorder.spend = 1
    tune_tasks(tasks, TuningDatabase(), trials=73, minutes=None)
    assert budgets(recorder) == {"n64": 64, "n32": 64, "n16": 71}


def test_minutes_are_divided_too(tasks: list[TuneTask], recorder: Recorder) -> None:
    tune_tasks(tasks, TuningDatabase(), trials=None, minutes=73 / 60)
    times = {name: left for name, _, left in recorder.calls}
    assert times["n64"] == pytest.approx(64, abs=1)
    assert times["n16"] == pytest.approx(73, abs=1)  # nothing was used up


def test_progress_counts_over_all_tasks(tasks: list[TuneTask], recorder: Recorder) -> None:
    seen: list[tuple[int, str]] = []
    progress: Any = lambda done, text: seen.append((done, text))  # noqa: E731
    tune_tasks(tasks, TuningDatabase(), trials=73, minutes=None, on_progress=progress)
    assert seen == [(n, f"{k}: best none yet") for n, k in ((64, "n64"), (72, "n32"), (73, "n16"))]


@pytest.mark.parametrize("budget", [{"trials": 0}, {"trials": -1}, {"minutes": 0.0}])
def test_a_budget_of_nothing_is_refused(static: CompiledModel, budget: dict[str, Any]) -> None:
    with pytest.raises(errors.TuningError, match="expected"):
        static.tune(**budget)


def test_symbolic_models_are_not_tuned(dynamic: CompiledModel) -> None:
    with pytest.raises(errors.TuningError, match="compile it without dynamic_shapes"):
        dynamic.tune(trials=1)


def test_the_verdict() -> None:
    fast, slow = Timing(1e-6, 1e-6), Timing(2e-6, 2e-6)
    assert TuneResult().verdict == "no schedule was found that is better than the present ones"
    assert TuneResult([], slow, fast, kept=True).verdict == (
        "the tuned model is 2.00 times as fast; it is in use"
    )
    assert "no gain; the old one stays" in TuneResult([], fast, slow).verdict


def test_without_records_the_schedule_is_the_analytic_one() -> None:
    func = matmul(16)
    found = scheduled_by(TuningDatabase())(func, NATIVE)
    assert structural_equal(found, schedule_analytically(func, NATIVE))


def test_the_same_schedules_are_not_timed_again(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder
) -> None:
    """No new record: the program stays, however the clock may run."""
    model = burnish.compile(nn.Linear(5, 3).eval(), (torch.rand(2, 5),))
    monkeypatch.setattr("burnish.driver.compile.time_interleaved", None)
    before = model.executable
    result = model.tune(trials=3)
    assert (result.kept, result.before) == (False, None)
    assert model.executable is before


@pytest.mark.tuning
@pytest.mark.parametrize("kept", [True, False])
def test_a_tuned_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(96, 80), nn.ReLU()).eval()
    x = torch.rand(4, 96)
    model = burnish.compile(module, (x,), threads=1)
    wanted = model(x)
    before = model.executable

    def timed(contenders: dict[str, Any], **_: Any) -> dict[str, Timing]:
        for run in contenders.values():
            run()
        new = 1.0 if kept else 3.0
        return {"before": Timing(2.0, 2.0), "after": Timing(new, new)}

    monkeypatch.setattr("burnish.driver.compile.time_interleaved", timed)
    path = tmp_path / "records.db"
    # A record that says one candidate beats the analytic schedule: which one does not matter here.
    result = model.tune(trials=4, database=path)
    assert sum(p.done + p.failed for p in result.tasks) == 4
    assert all(p.failed == 0 for p in result.tasks)
    assert result.kept in (kept, False)
    assert (model.executable is before) == (not result.kept)
    torch.testing.assert_close(model(x), wanted, rtol=1e-5, atol=1e-5)
    assert model.compilations == 1
    for stage in model.executable.stages.values():
        back = burnish.parse(stage.script(), constants=stage.constants)
        burnish.assert_structural_equal(back, stage)
    # The records are kept: another model of this shape starts from them.
    again = burnish.compile(module, (x,), threads=1)
    database = TuningDatabase(path)
    task = result.tasks[0].task
    assert database.best(task.workload, task.target_key) is not None
    assert torch.allclose(again(x), wanted, atol=1e-5)

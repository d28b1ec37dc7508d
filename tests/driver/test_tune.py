"""model.tune: what the scheduler and the sessions are given, the verdict, and one real run."""

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
from burnish.driver.compiled_model import CompiledModel
from burnish.driver.executable import Executable
from burnish.driver.kernels import resolve_target
from burnish.driver.stages import recompile
from burnish.driver.tasks import extract_tasks
from burnish.driver.timing import Timing
from burnish.driver.tune import ScheduledBy, TuneResult, tune_tasks
from burnish.support.structural import structural_equal, structural_hash
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tests.cluster import running_machines, running_scheduler
from burnish.tests.tuner.programs import forged, matmul, record
from burnish.tuner.analytic import schedule_analytically
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.session import TuningProgress
from burnish.tuner.task import TuneTask, strip_attrs
from burnish.tuner.task_scheduler import TaskState

NATIVE = resolve_target("native -threads=1")


def out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is as fast as the machine allows, whatever machine it is: no search ends early."""
    monkeypatch.setattr(driver_tune, "_floors", lambda tasks: {t.workload: 0.0 for t in tasks})


class Recorder:
    """Stands in for a tuning session: notes what it is given, spends its trials."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.options: dict[str, Any] = {}
        self.models: list[Any] = []

    def __call__(self, task: TuneTask, database: TuningDatabase, **options: Any) -> TuningProgress:
        self.calls.append((task.name, options["max_trials"]))
        self.options = options
        self.models.append(options["model"])
        progress = TuningProgress(task, options["max_trials"], best=1.0)
        progress.done = options["max_trials"]
        options["on_progress"](progress)
        return progress


@pytest.fixture
def tasks() -> list[TuneTask]:
    """16, 32, 64: each takes eight times the work of the one before."""
    return [TuneTask(f"n{n}", matmul(n), NATIVE) for n in (16, 32, 64)]


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(driver_tune, "tune_task", made)
    return made


def test_the_budget_goes_to_the_scheduler(tasks: list[TuneTask], recorder: Recorder) -> None:
    result = tune_tasks(tasks, TuningDatabase(), trials=48, minutes=None, seed=7, strategy="random")
    assert recorder.calls[:3] == [("n64", 8), ("n32", 8), ("n16", 8)]
    assert sum(s.trials for s in result.tasks) == 48
    assert (recorder.options["seed"], recorder.options["strategy"]) == (7, "random")
    assert recorder.options["deadline"] is None
    assert not result.interrupted
    assert all(s.floor > 0 for s in result.tasks)


def test_tasks_may_take_turns(tasks: list[TuneTask], recorder: Recorder) -> None:
    tune_tasks(tasks, TuningDatabase(), trials=96, minutes=None, task_scheduler="round-robin")
    assert [name for name, _ in recorder.calls] == ["n64", "n32", "n16"] * 2


def test_minutes_become_a_deadline(tasks: list[TuneTask], recorder: Recorder) -> None:
    """Of the search; the final heats of the three tasks have the rest."""
    tune_tasks(tasks, TuningDatabase(), trials=48, minutes=2.0)
    assert 100 < recorder.options["deadline"] - time.monotonic() < 118


def test_one_model_learns_from_all(tasks: list[TuneTask], recorder: Recorder) -> None:
    tune_tasks(tasks, TuningDatabase(), trials=3, minutes=None)
    assert len(recorder.models) == 3
    assert len({id(m) for m in recorder.models}) == 1
    assert recorder.models[0] is not None


def test_progress_counts_over_all_tasks(tasks: list[TuneTask], recorder: Recorder) -> None:
    seen: list[tuple[int, str]] = []
    progress: Any = lambda done, text: seen.append((done, text))  # noqa: E731
    tune_tasks(tasks[:1], TuningDatabase(), trials=3, minutes=None, on_progress=progress)
    assert seen[0] == (1, "n16: best 1000000.00 us")
    assert seen[-1][0] == 3


def test_an_interrupt_is_told_and_what_was_found_counts(
    tasks: list[TuneTask], recorder: Recorder
) -> None:
    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    result = tune_tasks(tasks, TuningDatabase(), trials=48, minutes=None, watch=interrupt)
    assert result.interrupted
    assert [s.trials for s in result.tasks] == [8, 0, 0]


def test_an_interrupt_of_a_final_heat_is_told(
    tasks: list[TuneTask], recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(driver_tune, "final_heat", interrupt)
    result = tune_tasks(tasks, TuningDatabase(), trials=24, minutes=None)
    assert result.interrupted
    assert sum([s.trials for s in result.tasks]) == 24


def test_another_machine_is_refused_before_any_work(recorder: Recorder) -> None:
    cpu = "haswell" if NATIVE.cpu != "haswell" else "znver4"
    other = TuneTask("n16", matmul(16), resolve_target(f"llvm -mcpu={cpu}"))
    with pytest.raises(errors.TuningError, match="is another machine than this one"):
        tune_tasks([other], TuningDatabase(), trials=1, minutes=None)
    assert recorder.calls == []


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"trials": 0}, "trials=0: expected at least 1"),
        ({"trials": -1}, "trials=-1: expected at least 1"),
        ({"minutes": 0.0}, "minutes=0.0: expected more than 0"),
        ({"trials": 1, "task_scheduler": "fair"}, "no strategy 'fair'"),
        ({"trials": 1, "strategy": "luck"}, "no search strategy 'luck'"),
        ({"trials": 1, "patience": 0}, "patience=0"),
    ],
)
def test_budgets_that_are_none(static: CompiledModel, budget: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.TuningError, match=message):
        static.tune(**budget)


def test_symbolic_models_are_not_tuned(dynamic: CompiledModel) -> None:
    with pytest.raises(errors.TuningError, match=r"as in tune\(sizes=\[{'batch': 1}\]\)"):
        dynamic.tune(trials=1)
    with pytest.raises(errors.ArgumentError, match="no input has a size 'rows'"):
        dynamic.tune(trials=1, sizes=[{"rows": 1}])


def test_a_model_of_named_sizes_is_tuned_for_some(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One program for all sizes, measured at two, with a real worker."""
    module = nn.Sequential(nn.Linear(24, 16), nn.ReLU()).eval()
    model = burnish.compile(module, (torch.rand(2, 24),), dynamic_shapes=({0: "batch"},), threads=1)
    sizes = [{"batch": 1}, {"batch": 20}]
    shapes: list[int] = []

    def time_interleaved(contenders: dict[str, Any], **_: Any) -> dict[str, Timing]:
        shapes.append(contenders["after"]().shape[0])
        return {"before": SLOWER, "after": FASTER}

    monkeypatch.setattr("burnish.driver.compiled_model.time_interleaved", time_interleaved)
    result = model.tune(trials=4, sizes=sizes, database=tmp_path / "records.db")
    (state,) = result.tasks
    assert (state.task.sizes, state.done) == (((1,), (20,)), 4)
    assert result.kept == bool(shapes)  # not timed where the analytic schedule was the best
    assert shapes in ([], [1, 20])
    for n in (1, 3, 20, 50):
        x = torch.rand(n, 24)
        torch.testing.assert_close(model(x), module(x))
    # What was measured serves a model that is compiled with the records.
    with TuningDatabase(tmp_path / "records.db") as database:
        assert database.best(state.task.workload, state.task.target_key) is not None


def test_the_verdict() -> None:
    fast, slow = Timing(1e-6, 1e-6), Timing(2e-6, 2e-6)
    assert TuneResult().verdict == "no schedule was found that is better than the present ones"
    assert TuneResult([], slow, fast, kept=True).verdict == (
        "the tuned model is 2.00 times as fast; it is in use"
    )
    waiting = TaskState(TuneTask("n16", matmul(16), NATIVE))
    assert TuneResult([waiting], seconds=1.0).verdict == (
        "nothing was measured in the time that was given: give it more"
    )
    stopped = TuneResult([waiting], seconds=1.0, interrupted=True)
    assert stopped.verdict == "nothing was measured before it was interrupted"
    hardly = Timing(0.999e-6, 0.999e-6)
    assert TuneResult([], fast, hardly, kept=True).verdict == (
        "the tuned model is as fast within the noise; it is in use"
    )
    assert "the present schedules stay in use" in TuneResult([], fast, slow).verdict


def test_without_records_the_schedule_is_the_analytic_one() -> None:
    func = matmul(16)
    found = ScheduledBy(TuningDatabase())(func, NATIVE)
    assert structural_equal(found, schedule_analytically(func, NATIVE))


def test_the_same_schedules_are_not_timed_again(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder
) -> None:
    """No new record: the program stays, however the clock may run."""
    model = burnish.compile(nn.Linear(5, 3).eval(), (torch.rand(2, 5),))
    monkeypatch.setattr("burnish.driver.compiled_model.time_interleaved", None)
    before = model.executable
    result = model.tune(trials=3)
    assert (result.kept, result.before) == (False, None)
    assert model.executable is before


FASTER, SLOWER = Timing(1.0, 2.0), Timing(3.0, 4.0)


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (SLOWER, FASTER, True),
        (FASTER, SLOWER, False),
        (FASTER, FASTER, False),
        (Timing(2.0, 2.0), Timing(1.0, 3.0), False),
        (Timing(2.0, 2.0), Timing(3.0, 1.0), False),
    ],
)
def test_a_tuned_model_is_used_exactly_if_it_is_faster(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder, before: Timing, after: Timing, kept: bool
) -> None:
    """Both programs are timed: the one with the records' schedules wins by the clock, or goes."""
    module = nn.Sequential(nn.Linear(24, 16), nn.ReLU()).eval()
    model = burnish.compile(module, threads=1)
    x = torch.rand(4, 24)
    wanted = model(x)
    old = model.executable
    asked: list[str] = []
    timed: list[str] = []

    def tuned(_: ScheduledBy, func: PrimFunc, __: Target) -> PrimFunc:
        asked.append(func.name)
        return func.with_attr("is_scheduled", True)

    def recompiled(executable: Executable, choice: Any) -> Executable:
        made.append(recompile(executable, choice))
        return made[-1]

    made: list[Executable] = []

    def time_interleaved(contenders: dict[str, Any], **_: Any) -> dict[str, Timing]:
        for name, run in contenders.items():
            run()
            timed.append(name)
        return {"before": before, "after": after}

    monkeypatch.setattr(ScheduledBy, "__call__", tuned)
    monkeypatch.setattr("burnish.driver.compiled_model.recompile", recompiled)
    monkeypatch.setattr("burnish.driver.compiled_model.time_interleaved", time_interleaved)
    result = model.tune(trials=8)
    assert timed == ["before", "after"]
    assert (result.before, result.after, result.kept) == (before, after, kept)
    assert old.program.objects != made[0].program.objects
    assert model.executable is (made[0] if kept else old)
    torch.testing.assert_close(model(x), wanted, rtol=1e-5, atol=1e-5)
    # Signatures that come later are scheduled the way that won.
    asked.clear()
    model(torch.rand(5, 24))
    assert bool(asked) is kept


def test_a_model_is_compiled_with_the_records_of_a_file(tmp_path: Path) -> None:
    layer, x = nn.Linear(24, 16).eval(), torch.rand(4, 24)
    plain = burnish.compile(layer, (x,), threads=1)
    ((name, func),) = plain.executable.stages["30-fused"].prim_funcs.items()
    path = tmp_path / "records.db"
    burnish.tune_tir(func, "native", max_trials=1, work_dir=tmp_path).close()
    model = burnish.compile(layer, (x,), threads=1, database=path)
    assert f"rules: matmul from records ({name})" in model.report.facts
    assert not model.report.notes
    torch.testing.assert_close(model(x), plain(x))
    with TuningDatabase(path) as database:
        lazy = burnish.compile(layer, database=database)
        lazy(x)
        assert lazy.report.schedules[name].is_recorded
        lazy(torch.rand(5, 24))
        (note,) = lazy.report.notes
        assert "no tuning record applies" in note
        assert "The database has records for: v" in note


def test_a_database_that_is_none() -> None:
    layer = nn.Linear(8, 4)
    with pytest.raises(errors.TuningError, match=r"There is no file 'nowhere\.db'"):
        burnish.compile(layer, database="nowhere.db")
    with pytest.raises(errors.TuningError, match="or the path of its file; found int"):
        burnish.compile(layer, database=3)  # type: ignore[arg-type]


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

    monkeypatch.setattr("burnish.driver.compiled_model.time_interleaved", timed)
    out_of_reach(monkeypatch)
    path = tmp_path / "records.db"
    # A record that says one candidate beats the analytic schedule: which one does not matter here.
    result = model.tune(trials=4, database=path)
    assert sum(p.done + p.failed for p in result.tasks) == 4
    assert all(p.failed == 0 for p in result.tasks)
    # Where the analytic schedule was the best of the four there is no other program to time.
    assert result.kept is (kept and result.before is not None)
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


def test_a_cluster_builds_and_times(
    recorder: Recorder, tasks: list[TuneTask], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, str | None]] = []

    class Machines:
        runner, builder = object(), object()

        def __init__(self, address: str, *, cpu: str | None) -> None:
            opened.append((address, cpu))

        def __enter__(self) -> Machines:
            return self

        def __exit__(self, *_: object) -> None:
            opened.append(("closed", None))

    monkeypatch.setattr(driver_tune, "Cluster", Machines)
    with TuningDatabase() as database:
        tune_tasks(tasks, database, trials=4, minutes=None, cluster="tcp://host:8786")
    assert opened == [("tcp://host:8786", NATIVE.cpu), ("closed", None)]
    assert recorder.options["executor"] is Machines.runner
    assert recorder.options["builder"] is Machines.builder


@pytest.mark.tuning
@pytest.mark.slow
def test_a_model_is_tuned_on_other_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    out_of_reach(monkeypatch)
    module = nn.Sequential(nn.Linear(24, 16), nn.ReLU()).eval()
    x = torch.randn(2, 24)
    model = burnish.compile(module, (x,), threads=1)
    path = tmp_path / "records.db"
    with running_scheduler() as address, running_machines(address, 2):
        result = model.tune(trials=4, database=path, cluster=address)
    (state,) = result.tasks
    assert (state.done, state.failed) == (4, 0)
    with TuningDatabase(path) as database:
        assert len({r.candidate for r in database.records()}) == 4
    torch.testing.assert_close(model(x), module(x), rtol=1e-5, atol=1e-5)


def test_a_record_that_fails_its_checks_is_told_and_does_no_harm(recorder: Recorder) -> None:
    """The fastest record of the database computes something else, and its hash fits it."""
    layer = nn.Linear(16, 16, bias=False).eval()
    x = torch.rand(8, 16)
    model = burnish.compile(layer, (x,))
    (task,) = extract_tasks(model.executable.stages["30-fused"], model.executable.target)

    def twice(sch: Schedule) -> None:
        """Adds every term twice."""
        block = sch.get_child_blocks(sch.get_block("root"))[0]
        unit = sch.add_unit_loop(sch.get_loops(block)[0])
        outer, _ = sch.split(unit, [2, 1], disable_predication=True)
        sch.decompose_reduction(block, outer)

    with TuningDatabase() as db:
        forged(db, task.func, twice, target=model.executable.target)
        result = model.tune(trials=1, database=db)
        assert result.verdict == "no schedule was found that is better than the present ones"
        (note,) = model.report.notes
        assert note.startswith(f"a tuning record of {task.name!r} was set aside: its trace does")
        assert f"note: {note}" in str(model.report)
    torch.testing.assert_close(model(x), layer(x))


def test_a_refresh_keeps_the_tuned_schedules(
    monkeypatch: pytest.MonkeyPatch, recorder: Recorder
) -> None:
    """And works on when the database is closed, which the report says."""
    monkeypatch.setattr("burnish.driver.compiled_model._time_both", faster)
    layer = nn.Linear(16, 16, bias=False).eval()
    x = torch.rand(8, 16)
    model = burnish.compile(layer)
    model(x)
    (task,) = extract_tasks(model.executable.stages["30-fused"], model.executable.target)

    def split(sch: Schedule) -> None:
        block = sch.get_child_blocks(sch.get_block("root"))[0]
        sch.split(sch.get_loops(block)[0], [2, None])

    with TuningDatabase() as db:
        made = record(db, task.func, split, target=model.executable.target)
        assert model.tune(trials=1, database=db).kept
        for _ in range(2):
            (func,) = model.module.prim_funcs.values()
            assert structural_hash(strip_attrs(func)) == made.hash
            with torch.no_grad():
                layer.weight.mul_(2)
            model.refresh()
            torch.testing.assert_close(model(x), layer(x))
    model(torch.rand(3, 16))
    (note,) = model.report.notes
    assert "has its analytic schedule: :memory: " in note


def faster(*_: object) -> list[Timing]:
    return [Timing(2.0, 2.0), Timing(1.0, 1.0)]

"""Tasks with a log file: definitions, options, what a search records, and what comes of a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnish
from burnish import auto_scheduler, te
from burnish.auto_scheduler import (
    ComputeDAG,
    RecordReader,
    RecordToFile,
    SearchTask,
    TuningOptions,
    load_records,
    register_workload,
)
from burnish.faces import search_task
from burnish.support.errors import ScheduleValueError, TuningError
from burnish.tensorir.schedule import Schedule
from burnish.tests.tuner.programs import InlineExecutor
from burnish.tuner.records.records_io import append_records
from burnish.tuner.session import tune_task

TARGET = "native -threads=1"


def matmul_add(n: int, dtype: str) -> list[te.Tensor]:
    a, b, c = (te.placeholder((n, n), name=x, dtype=dtype) for x in "ABC")
    k = te.reduce_axis((0, n), name="k")
    matmul = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="matmul")
    out = te.compute((n, n), lambda i, j: matmul[i, j] + c[i, j], name="out")
    return [a, b, c, out]


def tiled(sch: Schedule) -> None:
    i, j, k = sch.get_loops("matmul")
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, 2, 8))
    sch.reorder(i0, k, i1, j)
    sch.vectorize(j)


@pytest.fixture
def task() -> SearchTask:
    return SearchTask(func=matmul_add, args=(16, "float32"), target=TARGET)


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> InlineExecutor:
    """Measurements happen in this process: quick."""
    made = InlineExecutor()

    def tune(*args: Any, **options: Any) -> Any:
        return tune_task(*args, **options, executor=made, seconds=0.0)

    monkeypatch.setattr(search_task, "tune_task", tune)
    return made


def options(log: Path | None = None, trials: int = 3, **settings: Any) -> TuningOptions:
    callbacks = [RecordToFile(log)] if log is not None else []
    return TuningOptions(trials, measure_callbacks=callbacks, **{"verbose": 0, **settings})


# -- definitions ----------------------------------
def test_the_definitions_print(task: SearchTask) -> None:
    assert str(task.compute_dag) == (
        "A = PLACEHOLDER [16, 16]\n"
        "B = PLACEHOLDER [16, 16]\n"
        "matmul(i, j) += A[i, k] * B[k, j]\n"
        "C = PLACEHOLDER [16, 16]\n"
        "out(i, j) = matmul[i, j] + C[i, j]"
    )
    assert [op.name for op in task.compute_dag.ops] == ["matmul", "out"]


def test_other_reductions_print() -> None:
    a = te.placeholder((4, 8), name="A")
    k, r = te.reduce_axis((0, 8), name="k"), te.reduce_axis((0, 8), name="r")
    top = te.compute((4,), lambda i: te.max(a[i, k], axis=k), name="top")
    pair = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] * y[1]),
        lambda x, y: (te.const(0, x), te.const(1, y)),
        "pair",
    )
    both = te.compute((4,), lambda i: pair((a[i, r], a[i, r]), axis=r), name="both")
    assert str(ComputeDAG([top, *both])).splitlines()[1:] == [
        "top(i) max= A[i, k]",
        "both_v0(i) = reduce[0](A[i, r], A[i, r])",
        "both_v1(i) = reduce[1](A[i, r], A[i, r])",
    ]


def test_workloads_are_registered_by_name() -> None:
    @register_workload
    def doubled(n: int) -> list[te.Tensor]:
        a = te.placeholder((n,), name="A")
        return [a, te.compute((n,), lambda i: a[i] * 2.0, name="B")]

    assert register_workload("twice")(doubled) is doubled
    for name in ("doubled", "twice"):
        assert SearchTask(name, (4,), TARGET).task.workload == (
            SearchTask(doubled, [4], TARGET).task.workload
        )
    register_workload("twice", doubled)
    with pytest.raises(TuningError, match=r"'twice' is registered already.*override=True"):
        register_workload("twice", matmul_add)
    register_workload("twice", matmul_add, override=True)
    with pytest.raises(TuningError, match=r"No workload is registered as 'twic'.*twice"):
        SearchTask("twic", (4,))


def test_a_workload_returns_tensors() -> None:
    with pytest.raises(TuningError, match=r"must return the list of its tensors.*returned 3"):
        SearchTask(lambda: 3)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"num_measure_trials": -1},
            "num_measure_trials=-1: expected a whole number of at least 0",
        ),
        ({"num_measures_per_round": 0}, "num_measures_per_round=0"),
        ({"early_stopping": 0}, "early_stopping=0"),
        ({"verbose": "2"}, "verbose='2'"),
        ({"measure_callbacks": ["log"]}, r"functions such as RecordToFile\(name\); found 'log'"),
    ],
)
def test_options_that_are_none(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TuningError, match=message):
        TuningOptions(**settings)


# -- searching ----------------------------------
def test_a_search_writes_a_log(task: SearchTask, executor: InlineExecutor, tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    done = task.tune(options(log), space=tiled, seed=0)
    assert (done.done, done.failed) == (3, 0)
    records = [r for r, _ in load_records(log)]
    assert min(r.best or 9.0 for r in records) == done.best == task.best_record(log).best
    assert RecordReader(log).read_lines(1, 1) == RecordReader(log).read_lines()[1:2]
    assert [r for r, _ in RecordReader(log)] == records


def test_a_search_goes_on_from_its_log(
    task: SearchTask, executor: InlineExecutor, tmp_path: Path
) -> None:
    log = tmp_path / "log.json"
    task.tune(options(log), space=tiled, seed=0)
    done = task.tune(options(log, trials=50), preload=log, space=tiled, seed=0)
    candidates = [r.candidate for r, _ in load_records(log)]
    assert len(candidates) == len(set(candidates)) == done.done + 3 == 4  # all tiles of 16
    assert done.best == task.best_record(log).best


def test_several_logs_may_be_preloaded(
    task: SearchTask, executor: InlineExecutor, tmp_path: Path
) -> None:
    logs = [tmp_path / "one", tmp_path / "two"]
    for seed, log in enumerate(logs):
        task.tune(options(log), space=tiled, seed=seed)
    known = {r.candidate for log in logs for r, _ in load_records(log)}
    assert task.tune(options(trials=9), preload=logs, space=tiled).done == 4 - len(known)


def test_a_search_policy_says_what_is_known(
    task: SearchTask, executor: InlineExecutor, tmp_path: Path
) -> None:
    log = tmp_path / "log.json"
    task.tune(options(log), space=tiled, seed=0)
    model = auto_scheduler.RandomModel()
    policy = auto_scheduler.SketchPolicy(
        task, model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)]
    )
    assert task.tune(options(log, trials=50), search_policy=policy, space=tiled).done == 1
    other = SearchTask(matmul_add, (8, "float32"), TARGET)
    with pytest.raises(TuningError, match="was made for another task"):
        other.tune(options(), search_policy=policy)


def test_early_stopping(
    task: SearchTask, executor: InlineExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([5.0, 4.0, 6.0, 6.0, 1.0])
    answer = {"build_seconds": 0.0}
    monkeypatch.setattr(
        "burnish.tuner.measuring.pipeline.measure_candidate",
        lambda **_: {**answer, "seconds": [next(times)]},
    )
    settings = options(trials=5, early_stopping=2, num_measures_per_round=1)
    assert task.tune(settings, space=tiled).done == 4


@pytest.mark.parametrize(("verbose", "lines"), [(0, 0), (1, 1), (2, 3)])
def test_verbosity(
    task: SearchTask,
    executor: InlineExecutor,
    capsys: pytest.CaptureFixture[str],
    verbose: int,
    lines: int,
) -> None:
    task.tune(options(trials=2, verbose=verbose), space=tiled)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == lines
    if lines:
        assert said[-1].startswith("2 of 2: best ")
        assert said[-1].endswith(" GFLOP/s")


# -- what comes of a log ----------------------------------
def test_the_best_of_a_log_is_lowered_and_built(
    task: SearchTask, executor: InlineExecutor, tmp_path: Path
) -> None:
    log = tmp_path / "log.json"
    task.tune(options(log), space=tiled, seed=0)
    sch, args = task.apply_best(log)
    assert args == task.tensors
    text = burnish.lower(sch, args, simple_mode=True)
    assert "produce matmul {" in text
    assert "vectorized (j, 0, 16)" in text
    assert burnish.lower(sch, args)["main"] is sch.func
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(size=(16, 16)).astype("float32") for _ in range(3))
    out = np.empty((16, 16), "float32")
    burnish.build(sch, args, TARGET)["main"](a, b, c, out)
    np.testing.assert_allclose(out, a @ b + c, rtol=1e-5)


def test_the_equivalent_python_runs(
    task: SearchTask, executor: InlineExecutor, tmp_path: Path
) -> None:
    log = tmp_path / "log.json"
    task.tune(options(log), space=tiled, seed=0)
    text = task.print_best(log)
    assert "sch.vectorize(" in text
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    sch = burnish.Schedule(task.mod)
    namespace["apply_trace"](sch)
    burnish.assert_structural_equal(sch.func, task.apply_best(log)[0].func)
    with pytest.raises(TuningError, match="print_mode is 'schedule'; found 'cuda'"):
        task.print_best(log, "cuda")


def test_a_log_without_this_task(
    task: SearchTask, executor: InlineExecutor, tmp_path: Path
) -> None:
    log = tmp_path / "log.json"
    with pytest.raises(TuningError, match="There is no file"):
        task.apply_best(log)
    SearchTask(matmul_add, (8, "float32"), TARGET).tune(options(log), space=tiled)
    with pytest.raises(TuningError, match="There is no record for 'matmul_add'") as caught:
        task.apply_best(log)
    assert "A: float32[8, 8]" in str(caught.value)
    append_records(log, [])
    log.write_text("hello\n")
    with pytest.raises(TuningError, match="line 1 is no JSON"):
        task.tune(options(log), preload=log)


def test_arguments_that_do_not_fit_the_schedule(task: SearchTask) -> None:
    sch = burnish.Schedule(task.mod)
    for args in (None, task.tensors[:3], [*task.tensors[:3], te.placeholder((16, 4), name="D")]):
        with pytest.raises(ScheduleValueError, match=r"takes A: float32\[16, 16\], .*Pass the"):
            burnish.lower(sch, args)
    with pytest.raises(ScheduleValueError, match=r"^build: .*the arguments are A: float32"):
        burnish.build(sch, task.tensors[:1])


def test_the_names_of_older_programs() -> None:
    made = auto_scheduler.create_task(matmul_add, (8, "float32"), TARGET)
    assert made.task.name == "matmul_add"

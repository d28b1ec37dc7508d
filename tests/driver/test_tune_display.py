"""The live view: a table on a terminal, lines elsewhere, the same numbers in both."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from burnish.driver.tune_display import format_clock, summary, task_row, tune_display
from burnish.support.target import Target
from burnish.tests.tuner.programs import matmul
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.session import TuningProgress
from burnish.tuner.task import TuneTask
from burnish.tuner.task_scheduler import TaskScheduler, TaskState

TASK = TuneTask("linear", matmul(64), Target("native -threads=1"), weight=3)


def run(verbose: int, trials: int = 2) -> TaskScheduler:
    times = iter([2e-3, 1e-3])

    def tune(task: TuneTask, database: TuningDatabase, **options: Any) -> TuningProgress:
        progress = TuningProgress(task, options["max_trials"])
        for _ in range(options["max_trials"]):
            progress.best, progress.done = next(times), progress.done + 1
            options["on_progress"](progress)
        return progress

    with tune_display(verbose) as show:
        scheduler = TaskScheduler(
            [TASK], TuningDatabase(), trials=trials, tune=tune, watch=show, trials_per_round=2,
            floors={TASK.workload: 0.25e-3},
        )  # fmt: skip
        scheduler.run()
    return scheduler


def test_a_row_of_the_table() -> None:
    assert task_row(TaskState(TASK)) == [
        *("linear", "5.243e+05", "3", "0", "0", "-", "0.0", "-", "-", "waiting")
    ]
    state = TaskState(TASK, 1e-6, 8e-6, 4e-6, 7, 2, status="plateau")
    assert task_row(state) == [
        *("linear", "5.243e+05", "3", "9", "2", "4 us", "131.1", "25 %", "2.00x", "plateau")
    ]


@pytest.mark.parametrize(("seconds", "text"), [(7, "0:07"), (754.4, "12:34"), (3723, "1:02:03")])
def test_clocks(seconds: float, text: str) -> None:
    assert format_clock(seconds) == text


def test_off_a_terminal_there_is_a_line_a_round(capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = run(1)
    (first, second) = capsys.readouterr().err.splitlines()
    assert first.startswith("linear: 1 trials, best 2 ms, 0.3 GFLOP/s, 12 % of the roofline | 1 of")
    assert second.startswith(
        "linear: 2 trials, best 1 ms, 0.5 GFLOP/s, 25 % of the roofline | 2 of"
    )
    assert "kernels 3 ms a call, 0:00 left" in second
    assert "2 of 2 measured in 0:0" in summary(scheduler)


def test_a_line_a_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    run(2)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1].split(",")[0] for line in lines[:2]] == [" 1 trials", " 1 trials"]
    assert len(lines) == 4


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "120")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    run(1)
    for text in ("tuning", "linear", "roofline", "1 ms", "25 %", "2.00x", "of 2 measured"):
        assert text in screen.getvalue()


def test_without_rich_a_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setitem(sys.modules, "rich.live", None)
    run(1)
    assert len(screen.getvalue().splitlines()) == 2

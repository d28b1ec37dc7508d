"""The report: its text, what the time bought, and the files."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from burnish.driver.timing import Timing
from burnish.driver.tune import TuneResult
from burnish.driver.tune_report import report_text, save_report, what_time_bought
from burnish.support.errors import TuningError
from burnish.support.target import Target
from burnish.tests.tuner.programs import matmul
from burnish.tuner.records.database import TuningDatabase, TuningRecord
from burnish.tuner.task import TuneTask
from burnish.tuner.task_scheduler import Moment, TaskState

TASK = TuneTask("linear", matmul(64), Target("native -threads=1"))
TIMELINE = [
    Moment(1.0, 1, None, "linear"),
    Moment(30.0, 8, 8e-6, "linear"),
    Moment(70.0, 20, 6e-6, "linear"),
    Moment(100.0, 30, 4e-6, "linear"),
    Moment(170.0, 50, 4e-6, "linear"),
    Moment(190.0, 60, 2e-6, "linear"),
]


@pytest.fixture
def result() -> TuneResult:
    state = TaskState(
        TASK, 1e-6, 8e-6, 2e-6, 58, 2, status="plateau", curve=[(8, 8e-6), (60, 2e-6)]
    )
    before, after = Timing(9e-6, 10e-6), Timing(3e-6, 4e-6)
    return TuneResult([state], before, after, kept=True, timeline=TIMELINE, seconds=200.0)


def test_the_text(result: TuneResult) -> None:
    assert (
        report_text(result)
        == """\
60 measured in 3:20; 2 failed

Tasks
  task         FLOP  calls  trials  failed  best  GFLOP/s  roofline   gain    state
  linear  5.243e+05      1      60       2  2 us    262.1      50 %  4.00x  plateau

What the time bought
  until  measured  kernels, a call   gain
  0:30          8             8 us      -
  1:40         30             4 us  2.00x
  3:10         60             2 us  2.00x

Inside the model:
  before minimum 9 us, median 10 us a call
  after  minimum 3 us, median 4 us a call
  the tuned model is 3.00 times as fast; it is in use"""
    )


def test_it_prints_the_text_and_a_line_stands_for_it(result: TuneResult) -> None:
    assert str(result) == report_text(result)
    assert repr(result) == (
        "<tuning of 1 kernels, 60 measured: the tuned model is 3.00 times as fast; it is in use>"
    )


def test_a_notebook_shows_the_text(result: TuneResult) -> None:
    assert result._repr_html_().startswith("<pre>60 measured in 3:20")


def test_nothing_found() -> None:
    text = report_text(TuneResult([TaskState(TASK)], interrupted=True))
    assert text.startswith("0 measured in 0:00, interrupted; 0 failed\n")
    assert "What the time bought" not in text
    assert text.endswith("Inside the model:\n  nothing was measured before it was interrupted")


def test_nothing_better_found(result: TuneResult) -> None:
    result.before = result.after = None
    assert report_text(result).endswith(
        "Inside the model:\n  no schedule was found that is better than the present ones"
    )


def test_short_runs_have_shorter_rows(result: TuneResult) -> None:
    result.seconds = 120.0
    result.timeline = [Moment(float(n), n, 1.0 / n, "linear") for n in range(1, 101)]
    rows = what_time_bought(result)
    assert len(rows) == 12
    assert rows[0] == ["0:01", "1", "1 s", "-"]


def test_the_files(result: TuneResult, tmp_path: Path) -> None:
    files = save_report(result, tmp_path / "deep" / "report")
    assert [f.name for f in files] == [
        "report.txt",
        "time_over_trials.svg",
        "model_over_time.svg",
    ]
    assert files[0].read_text() == report_text(result) + "\n"
    for file in files[1:]:
        ElementTree.parse(file)


def test_predictions_are_plotted_where_there_are_some(result: TuneResult, tmp_path: Path) -> None:
    with TuningDatabase() as db:
        for n, predicted in enumerate((0.1, None, 0.9)):
            db.add(
                TuningRecord(TASK.workload, TASK.target_key, str(n), 1, "[]", (1.0 + n,),
                             predicted=predicted)
            )  # fmt: skip
        files = save_report(result, tmp_path, db)
    assert files[-1].name == "predicted_measured.svg"
    assert files[-1].read_text().count("<circle") == 2


def test_a_place_that_cannot_be_written(result: TuneResult, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TuningError, match="The report cannot be written into"):
        save_report(result, tmp_path / "file")

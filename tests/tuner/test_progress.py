"""What a session has done, counted."""

from __future__ import annotations

from burnish.support.target import Target
from burnish.tests.tuner.programs import matmul
from burnish.tuner.progress import TuningProgress
from burnish.tuner.records.database import TuningRecord
from burnish.tuner.task import TuneTask


def test_answers_are_counted() -> None:
    progress = TuningProgress(TuneTask("main", matmul(16), Target("native")), 5)
    assert (progress.gflops, progress.left) == (0.0, 5)
    for seconds, error in [((3.0, 2.0), ""), ((), "wrong"), ((4.0,), ""), ((1.0,), "")]:
        progress.count(TuningRecord("w", "t", "c", 1, "[]", seconds, error))
    assert (progress.done, progress.failed, progress.left) == (3, 1, 1)
    assert progress.best == 1.0
    assert [best for _, best in progress.history] == [2.0, 1.0]
    assert progress.gflops == 2 * 16**3 / 1e9

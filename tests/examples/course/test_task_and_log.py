"""A search with a log file: the task, the log, what comes of it, and its resumption."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from burnish import auto_scheduler

pytest.importorskip("xgboost")


@pytest.mark.tuning
def test_it_runs(program: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    log = tmp_path / "matmul.json"
    program.main(["--size", "64", "--trials", "2", "--log", str(log)])
    captured = capsys.readouterr()
    assert "matmul(i, j) += A[i, k] * B[k, j]" in captured.out
    assert "produce " in captured.out
    assert "def apply_trace(sch)" in captured.out
    assert float(re.findall(r"this operator: (\S+) ms", captured.out)[0]) > 0
    assert captured.out.rstrip().endswith(f"3 records in {log}")
    assert "2 of 2: best " in captured.err
    candidates = [r.candidate for r, _ in auto_scheduler.load_records(log)]
    assert len(set(candidates)) == 3

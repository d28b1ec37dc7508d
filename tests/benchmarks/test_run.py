"""The whole table: written as data once all rows are there, resumed, never a row twice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from burnish.benchmarks import run
from burnish.benchmarks.cases import CASES
from burnish.benchmarks.processes import Way

NAMES = ("mlp-784x128x10-1", "matmul-256", "softmax-128x1000")


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cases that were measured; ``run`` sees three, and an empty folder."""
    seen: list[str] = []

    def measure(case, contenders, threads, rounds, seconds) -> list[Way]:
        seen.append(case.name)
        if seen.count(case.name) == 1 and len(seen) == 2:
            raise KeyboardInterrupt
        return [Way(c, "plain", times=[1e-3 * (2 + threads + i)]) for i, c in enumerate(contenders)]

    monkeypatch.setattr(run, "measure", measure)
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    monkeypatch.setattr(run, "CASES", {name: CASES[name] for name in NAMES})
    monkeypatch.setattr(run, "fma_peak", lambda: 100.0)
    monkeypatch.setattr(run, "copy_bandwidth", lambda: 20.0)
    return seen


def test_an_interrupted_run_goes_on_and_no_row_is_timed_twice(
    measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run.main(["--threads", "1"])
    assert [p.name.endswith(".part.json") for p in tmp_path.iterdir()] == [True]
    run.main(["--threads", "1"])
    assert measured == [NAMES[0], NAMES[1], NAMES[1], NAMES[2]]
    path = tmp_path / f"{run.llvm_name()}-1.json"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    data = json.loads(path.read_text())
    assert [row["case"] for row in data["rows"]] == list(NAMES) == data["cases"]
    assert list(data["rows"][0]["results"]) == list(run.PUBLISHED)
    assert "from the run that was interrupted" in capsys.readouterr().out


def test_tables_that_were_done_before_an_interruption_stay(
    measured: list[str], tmp_path: Path
) -> None:
    measured += ["earlier", "earlier"]
    run.main(["--threads", "1,2"])
    partial = tmp_path / f"{run.llvm_name()}-2.part.json"
    partial.write_text(json.dumps(run.resumed(partial, run.header(2))))
    run.main(["--threads", "1,2,4"])
    assert measured[2:] == list(NAMES) * 4
    partial.write_text("{}")
    run.main(["--threads", "1,2"])
    assert measured[2:] == list(NAMES) * 6
    assert len(list(tmp_path.iterdir())) == 3


def test_the_state_of_the_source() -> None:
    assert re.fullmatch(r"[0-9a-f]{10,}\+?|unknown", run.commit())


def test_a_run_that_has_ended_is_replaced_whole(measured: list[str], tmp_path: Path) -> None:
    measured += ["earlier", "earlier"]
    run.main(["--threads", "1,2"])
    run.main(["--threads", "1"])
    assert measured[2:] == list(NAMES) * 3
    assert len(list(tmp_path.iterdir())) == 2


def test_rows_of_another_state_are_not_taken_over(
    measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run.main(["--threads", "1"])
    monkeypatch.setattr(run, "commit", lambda: "another")
    run.main(["--threads", "1"])
    assert measured == [NAMES[0], NAMES[1], *NAMES]


def test_a_look_writes_nothing(
    measured: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured += ["earlier", "earlier"]
    run.main(["--threads", "1", "--cases", "matmul-256"])
    run.main(["--threads", "1", "--rounds", "3"])
    run.main(["--threads", "1", "--contenders", "burnish,eager"])
    assert measured[2:] == ["matmul-256", *NAMES, *NAMES]
    assert list(tmp_path.iterdir()) == []
    assert "PyTorch eager / burnish: 1.33 of minima" in capsys.readouterr().out

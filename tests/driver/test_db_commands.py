"""``burnish db``: each command on small databases, and on files that are none."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from burnish import Schedule
from burnish.driver.cli import main
from burnish.support.target import Target
from burnish.tests.tuner.programs import InlineExecutor, matmul, tiled
from burnish.tuner.best_record import verify_best
from burnish.tuner.records.database import TuningDatabase, TuningRecord
from burnish.tuner.records.records_io import open_records
from burnish.tuner.session import tune_task
from burnish.tuner.task import TuneTask

TASK = TuneTask("linear", matmul(16), Target("native -threads=1"))


@pytest.fixture(scope="module")
def tuned() -> TuningDatabase:
    """Three measured records of a product, one of another machine, and a failure."""
    db = TuningDatabase()
    tune_task(
        TASK, db, max_trials=3, space=tiled, seed=0, executor=InlineExecutor(), seconds=0.0,
        strategy="random",
    )  # fmt: skip
    first = db.records()[0]
    db.add(TuningRecord(TASK.workload, "elsewhere", "x", first.source, first.trace, (1.0,)))
    db.add(TuningRecord(TASK.workload, TASK.target_key, "y", first.source, "[]", error="it hung"))
    return db


@pytest.fixture
def path(tuned: TuningDatabase, tmp_path: Path) -> Path:
    with TuningDatabase(tmp_path / "records.db") as db:
        db.merge(tuned)
    return tmp_path / "records.db"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["db", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_stats(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "stats", path)
    assert code == 0
    assert out.startswith(f"{path}: 5 records of 1 workloads\nWorkloads\n")
    rows = [line.split() for line in out.splitlines()]
    line = next(r for r in rows if "elsewhere" in r)
    assert line[0] == TASK.workload[:8]
    assert line[-6:] == ["1", "0", "1", "s", "1", "s", "0.0"][-6:]
    assert rows[-1] == ["it", "hung", "1"]


def test_stats_tell_what_was_set_aside(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with TuningDatabase(path) as db:
        leader = db.best(TASK.workload, TASK.target_key)
        assert leader is not None
        db.add(replace(leader, trace="[]", seconds=(1e-9,)))  # leads for certain, no tie
        verify_best(db, TASK, lambda _: None)
    _, out, _ = run(capsys, "stats", path)
    assert "set aside: its trace makes another function than the one it names" in out


def test_best(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "best", path)
    assert (code, len(out.splitlines())) == (0, 4)
    code, out, _ = run(capsys, "best", path, "--target", "elsewhere")
    assert out.splitlines()[-1].split()[-3:] == ["1", "s", "0.0"]
    code, _, err = run(capsys, "best", path, "--target", "moon")
    assert code == 2
    assert "has no measured record on a target with 'moon'" in err


def test_show_prints_python_that_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "show", path, "linear", "--target", "threads=1")
    assert code == 0
    assert out.startswith(f"# {TASK.workload[:12]} on {TASK.target_key}\n# ")
    namespace: dict[str, object] = {}
    exec(out, namespace)
    sch = Schedule(TASK.func)
    namespace["apply_trace"](sch)  # type: ignore[operator]
    assert sch.trace
    code, out, _ = run(capsys, "show", path, TASK.workload[:6], "--rank", "4", "--text")
    assert "on elsewhere\n# 1 s a call\n" in out
    assert "def main(A: T.Buffer((16, 16)" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("conv",), "has no workload for 'conv'; give a name, or the first digits of a hash"),
        (("--rank", "5"), "has 4 measured records of"),
        (("--rank", "2", "--target", "elsewhere"), "on a target with 'elsewhere'; asked for num"),
    ],
)
def test_show_of_what_is_not_there(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = run(capsys, "show", path, *arguments)
    assert code == 2
    assert message in err


def test_out_in_and_merge(path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines, copy, both = tmp_path / "out.json", tmp_path / "copy.db", tmp_path / "both.db"
    assert run(capsys, "export", path, lines)[:2] == (0, f"5 records in {lines}\n")
    assert run(capsys, "import", copy, lines)[:2] == (0, f"5 records from {lines}\n")
    assert run(capsys, "export", copy, tmp_path / "again.json")[0] == 0
    assert (tmp_path / "again.json").read_text() == lines.read_text()
    code, out, _ = run(capsys, "merge", both, path, lines, copy)
    assert code == 0
    assert out == f"5 records from {path}\n0 records from {lines}\n0 records from {copy}\n"
    with open_records(path) as one, open_records(both) as other:
        assert [r for r, _ in one.entries()] == [r for r, _ in other.entries()]
    assert run(capsys, "stats", lines)[0] == 0


def test_prune(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "prune", path, "--keep", "2")[:2] == (0, "2 records dropped, 3 kept\n")
    assert run(capsys, "prune", path)[:2] == (0, "1 records dropped, 2 kept\n")
    with pytest.raises(SystemExit):
        run(capsys, "prune", path, "--keep", "0")
    assert "--keep: expected a whole number of at least 1" in capsys.readouterr().err


# -- files that are no databases ----------------------------------
def test_a_bad_source_is_found_before_anything_changes(
    path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bad = tmp_path / "notes"
    bad.write_text("my notes\n")
    ours = tmp_path / "ours.db"
    code, _, err = run(capsys, "merge", ours, path, bad)
    assert code == 2
    assert "notes, line 1 is no JSON" in err
    assert not ours.exists()
    code, _, err = run(capsys, "merge", path, path)
    assert code == 2
    assert "cannot be merged into itself" in err


@pytest.mark.parametrize("command", ["stats", "best", "show", "prune"])
def test_a_file_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    code, _, err = run(capsys, command, tmp_path / "none.db")
    assert code == 2
    assert "There is no file" in err
    assert list(tmp_path.iterdir()) == []


def test_foreign_and_other_versions(
    path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    songs = tmp_path / "songs.db"
    connection = sqlite3.connect(songs)
    connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    code, _, err = run(capsys, "stats", songs)
    assert code == 2
    assert "is another program's database (it holds songs)" in err
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value='1'")
    connection.commit()
    connection.close()
    code, _, err = run(capsys, "merge", tmp_path / "ours.db", path)
    assert code == 2
    assert "has schema version 1; this burnish reads version 2. The file is left as it is" in err
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT COUNT(*) FROM records").fetchone() == (5,)
    connection.close()

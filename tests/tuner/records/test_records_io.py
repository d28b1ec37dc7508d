"""Records as JSON lines: both ways, appended by many, cut off by a kill, and what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.support.errors import TuningError
from burnish.tuner.records.database import TuningDatabase, TuningRecord, WorkloadText
from burnish.tuner.records.records_io import (
    append_records,
    export_records,
    import_records,
    open_records,
    read_entries,
)

TEXT = WorkloadText("w", "main", "def main(): 1", 2.0)


def record(candidate: str, *seconds: float, **fields: Any) -> TuningRecord:
    made = TuningRecord("w", "t", candidate, 1, "[]", tuple(seconds), created=7.0)
    return replace(made, **fields)


@pytest.fixture
def database() -> TuningDatabase:
    db = TuningDatabase()
    source = db.add_workload(TEXT.workload, TEXT.name, TEXT.text, TEXT.flop)
    other = db.add_workload("x", "other", "def other(): 1", 0.0)
    db.add(record("a", 3e-6, 2e-6, predicted=0.5, source=source))
    db.add(record("b", error="wrong result: é", source=source))
    db.add(record("c", 1.0, workload="x", source=other))
    return db


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rewrite(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    lines = rows(path)
    change(lines)
    path.write_text("".join([json.dumps(line) + "\n" for line in lines]))


def test_what_goes_out_comes_in(database: TuningDatabase, tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    assert export_records(database, path) == 3
    assert [r["kind"] for r in rows(path)] == ["workload", "record", "record", "workload", "record"]
    back = TuningDatabase()
    assert import_records(back, path) == 3
    assert back.entries() == database.entries()
    assert [r.created for r in back.records()] == [7.0] * 3
    assert import_records(back, path) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["records.json"]


def test_two_files_one_after_the_other_are_a_file(database: TuningDatabase, tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    export_records(database, path)
    path.write_bytes(path.read_bytes() * 2)
    assert len(open_records(path)) == 3


def test_both_forms_open(database: TuningDatabase, tmp_path: Path) -> None:
    with TuningDatabase(tmp_path / "records.db") as kept:
        kept.merge(database)
    export_records(database, tmp_path / "log")
    for name in ("records.db", "log"):
        with open_records(tmp_path / name) as found:
            assert found.entries() == database.entries()
    with pytest.raises(TuningError, match=r"There is no file '.*nowhere'"):
        open_records(tmp_path / "nowhere")
    with pytest.raises(TuningError, match="cannot be read"):
        open_records(tmp_path)


def test_a_text_stands_once_in_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for n in range(3):
        append_records(log, [(record(str(n), 1.0), TEXT)])
    assert [r["kind"] for r in rows(log)] == ["workload", "record", "record", "record"]
    assert [r.candidate for r, _ in read_entries(log)] == ["0", "1", "2"]


WRITER = """
import sys
from burnish.tests.tuner.records.test_records_io import TEXT, record
from burnish.tuner.records.records_io import append_records
n = 0
while n < int(sys.argv[3]):
    append_records(sys.argv[1], [(record(f"{sys.argv[2]}.{n}", 1.0), TEXT)])
    print(n, flush=True)
    n += 1
"""


def writer(log: Path, who: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(log), who, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_several_processes_log_to_one_file_and_one_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    one, two, killed = writer(log, "a", 40), writer(log, "b", 40), writer(log, "c", 10**6)
    assert killed.stdout is not None
    done = [int(line) for line, _ in zip(killed.stdout, range(20), strict=False)]
    killed.send_signal(signal.SIGKILL)
    assert one.wait() == two.wait() == 0
    killed.wait()
    append_records(log, [(record("last", 1.0), TEXT)])
    found = {r.candidate for r, _ in read_entries(log)}
    assert {f"{who}.{n}" for who in "ab" for n in range(40)} <= found
    assert {f"c.{n}" for n in done} <= found
    for process in (one, two, killed):
        assert process.stdout is not None
        process.stdout.close()


def test_a_line_without_an_end_is_passed_over_and_then_removed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    append_records(log, [(record("a", 1.0), TEXT)])
    with log.open("a") as file:
        file.write('{"kind":"record","sche')
    with pytest.warns(UserWarning, match="line 3 has no end: its writer was stopped"):
        assert len(list(read_entries(log))) == 1
    append_records(log, [(record("b", 1.0), TEXT)])
    assert [r.candidate for r, _ in read_entries(log)] == ["a", "b"]


# -- what is refused ----------------------------------
def remove_source(lines: list[dict[str, Any]]) -> None:
    del lines[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[1].update(schema=99), "line 2 has schema version 99; .* Nothing was taken"),
        (lambda x: x[1].pop("target"), "line 2: the record lacks 'target'"),
        (lambda x: x[1].update(error=3), "line 2: 'error' of the record is no str; found 3"),
        (lambda x: x[0].update(flop="1"), "line 1: 'flop' of the workload is no number"),
        (lambda x: x[1].update(seconds=[-1.0]), r"line 2: 'seconds' are times .* found \[-1.0\]"),
        (lambda x: x[1].update(seconds=[]), "line 2: the record has neither times nor the reason"),
        (lambda x: x[1].update(trace=[["fly"]]), "line 2: 'trace' is no trace: "),
        (lambda x: x[0].update(text="def main(): 2"), "line 1: the text of 'main' was changed"),
        (lambda x: x[1].update(workload="x"), "line 2: the record's workload is in no line before"),
        (remove_source, "line 1: the record's workload is in no line before it"),
        (lambda x: x.insert(1, {"i": [1]}), "line 2 is no tuning record of burnish: expected an"),
    ],
)
def test_a_bad_line_is_named_and_nothing_taken(
    database: TuningDatabase, tmp_path: Path, change: Callable[[Any], object], message: str
) -> None:
    path = tmp_path / "records.json"
    export_records(database, path)
    rewrite(path, change)
    before = path.read_bytes()
    with TuningDatabase() as back:
        with pytest.raises(TuningError, match=message):
            import_records(back, path)
        assert len(back) == 0
    assert path.read_bytes() == before


def test_text_that_is_no_json(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("my notes\n")
    with pytest.raises(TuningError, match=r"notes, line 1 is no JSON: .* lines of tuning records"):
        open_records(path)


def test_sqlite_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    TuningDatabase(path).close()
    with pytest.raises(TuningError, match=r"is a SQLite database; a log is a file of JSON lines"):
        append_records(path, [(record("a", 1.0), TEXT)])
    with pytest.raises(TuningError, match="where JSON lines were expected"):
        list(read_entries(path))


def test_a_place_that_cannot_be_written(database: TuningDatabase, tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="cannot be written"):
        export_records(database, tmp_path / "no" / "folder")
    with pytest.raises(TuningError, match="cannot be written"):
        append_records(tmp_path, [])

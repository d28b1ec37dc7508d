"""The database: records in and out, several writers, and files that are no such database."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.support.errors import TuningError
from burnish.tensorir.text.printer import print_func
from burnish.tests.tuner.programs import matmul
from burnish.tuner.records import database
from burnish.tuner.records.database import TuningDatabase, TuningRecord, signature


def record(
    candidate: str, *seconds: float, target: str = "t", workload: str = "w", error: str = ""
) -> TuningRecord:
    return TuningRecord(workload, target, candidate, 1, "[]", tuple(seconds), error)


def test_a_record_comes_back_as_it_was() -> None:
    with TuningDatabase() as db:
        first, second = record("a", 3e-6, 2e-6, 4e-6), record("b", error="it died")
        db.add(first)
        db.add(second)
        assert db.records() == [first, second]
        assert len(db) == 2
    assert first.best == 2e-6
    assert first.median == 3e-6
    assert second.best is second.median is None


def test_when_a_record_was_made_is_kept_and_does_not_tell_records_apart() -> None:
    with TuningDatabase() as db:
        db.add(record("a", 1.0))
        db.add(replace(record("b", 1.0), created=12.0))
        now, then = db.records()
        assert now.created > 1e9
        assert then.created == 12.0
    assert replace(now, created=3.0) == now == record("a", 1.0)


def test_the_best_time() -> None:
    with TuningDatabase() as db:
        db.add(record("a", 5.0, 3.0))
        assert db.best_seconds("w", "t") == 3.0
        assert db.best_seconds("w", "u") is None


def test_a_file_in_folders_that_are_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "records.db"
    with pytest.raises(TuningError, match="There is no file"):
        TuningDatabase(path, must_exist=True)
    with TuningDatabase(path) as db:
        db.add(record("a", 1.0))
    with TuningDatabase(path, must_exist=True) as db:
        assert len(db) == 1
    with closing(sqlite3.connect(path)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    assert mode == "wal", "readers and writers do not wait for each other"


class Busy:
    """A connection whose mode another process is just changing, some times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.asked = 0

    def execute(self, _: str) -> None:
        self.asked += 1
        if self.asked <= self.times:
            raise sqlite3.OperationalError("database is locked")


def test_a_file_that_another_process_opens_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(database.time, "sleep", lambda _: None)
    monkeypatch.setattr(database.time, "monotonic", lambda: float(next(clock)))
    busy = Busy(3)
    database._use_log(busy)  # type: ignore[arg-type]
    assert busy.asked == 4
    with pytest.raises(sqlite3.OperationalError):
        database._use_log(Busy(1000))  # type: ignore[arg-type]


def test_the_best_is_the_fastest_that_was_measured() -> None:
    with TuningDatabase() as db:
        assert db.best("w", "t") is None
        db.add(record("a", error="wrong result"))
        assert db.best("w", "t") is None
        for r in (record("b", 5.0, 3.0), record("c", 4.0, 2.0), record("d", 2.0), record("e", 9.0)):
            db.add(r)
        db.add(record("f", 1.0, target="other"))
        db.add(record("g", 1.0, workload="other"))
        best = db.best("w", "t")
        assert best is not None
        assert best.candidate == "c"  # of two equals the earlier


def test_records_are_chosen_by_workload_and_target() -> None:
    with TuningDatabase() as db:
        db.add(record("a", 1.0))
        db.add(record("b", 1.0, target="u"))
        db.add(record("c", 1.0, workload="x"))
        assert [r.candidate for r in db.records("w")] == ["a", "b"]
        assert [r.candidate for r in db.records(target="t")] == ["a", "c"]
        assert [r.candidate for r in db.records("w", "u")] == ["b"]
        assert db.seen("w", "t") == {"a"}
        assert db.seen("w", "v") == set()


def test_a_second_record_of_a_candidate_replaces_the_first() -> None:
    with TuningDatabase() as db:
        db.add(record("a", 1.0))
        db.add(record("a", 2.0))
        db.add(record("a", 3.0, target="u"))
        assert [(r.target, r.best) for r in db.records()] == [("t", 2.0), ("u", 3.0)]


def test_a_workload_may_have_several_texts() -> None:
    with TuningDatabase() as db:
        first = db.add_workload("w", "main", "def main(): 1", 2.0)
        second = db.add_workload("w", "other", "def other(): 1", 2.0)
        assert db.add_workload("w", "main", "def main(): 1", 2.0) == first != second
        assert db.add_workload("x", "main", "def main(): 1", 2.0) not in (first, second)
        assert db.text(second) == "def other(): 1"
        assert db.workloads() == {"w": "main", "x": "main"}
        with pytest.raises(TuningError, match="lacks the text 77"):
            db.text(77)


def test_the_nearest_are_those_with_like_signatures() -> None:
    texts = [print_func(matmul(n, dtype)) for n in (32, 64) for dtype in ("float32", "float64")]
    with TuningDatabase() as db:
        for n, text in enumerate(texts):
            source = db.add_workload(str(n), "main", text, 1.0)
            times = (1.0,) if n != 1 else ()
            db.add(TuningRecord(str(n), "t", f"c{n}", source, "[]", times, "" if times else "x"))
        assert db.nearest(print_func(matmul(66)))[0] == (
            "main(A: float32[64, 64], B: float32[64, 64], C: float32[64, 64])"
        )
        assert len(db.nearest(texts[1])) == 3


def test_a_signature_is_short_in_any_case() -> None:
    assert signature('def f(A: T.Buffer((8,), "int8"), s: T.float32):') == (
        "f(A: int8[8], s: T.float32)"
    )
    assert signature('@T.prim_func\ndef f(A: T.Buffer((), "int8", align=64)):\n  pass') == (
        "f(A: int8[])"
    )
    assert signature("nothing") == "nothing"


def test_a_file_keeps_what_was_added(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "records.db"
    with TuningDatabase(path) as db:
        db.add(record("a", 1.0))
    with TuningDatabase(path) as db:
        assert [r.candidate for r in db.records()] == ["a"]
        assert db.path == str(path)


def test_two_connections_write_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    barrier = threading.Barrier(4)

    def write(who: int) -> None:
        barrier.wait()  # also the first to make the tables
        with TuningDatabase(path) as db:
            for n in range(20):
                db.add_workload("w", "main", f"text {n}", 1.0)
                db.add(record(f"{who}.{n}", 1.0))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    with TuningDatabase(path) as db:
        assert len(db) == 80
        assert len({r.candidate for r in db.records()}) == 80


def test_one_connection_serves_many_threads() -> None:
    with TuningDatabase() as db, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: db.add(record(str(n), 1.0)), range(40)))
        assert len(db) == 40


def test_what_one_connection_adds_the_other_sees(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with TuningDatabase(path) as one, TuningDatabase(path) as other:
        one.add(record("a", 1.0))
        assert other.seen("w", "t") == {"a"}


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with TuningDatabase(tmp_path / "records.db") as db:

        def write() -> None:
            with db._write() as connection:
                connection.execute("INSERT INTO meta VALUES ('a', 'b')")
                connection.execute("INSERT INTO nowhere VALUES (1)")

        with pytest.raises(TuningError, match="no such table: nowhere"):
            write()
        assert db._read("SELECT key FROM meta") == [("schema",)]
        db.add(record("a", 1.0))


# -- files that are no tuning database ----------------------------------
def test_a_file_that_is_not_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    path.write_text("these are my records\n" * 200)
    with pytest.raises(TuningError, match=r"records.db is no tuning database: .* Move it away"):
        TuningDatabase(path)
    assert path.read_text().startswith("these are my records")


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with TuningDatabase(path) as db:
        for n in range(200):
            db.add(record(str(n), 1.0))
    data = bytearray(path.read_bytes())
    data[2000:] = b"\xa5" * (len(data) - 2000)
    path.write_bytes(data)

    def read() -> None:
        with TuningDatabase(path) as db:
            db.records()

    with pytest.raises(TuningError, match=r"records\.db is no tuning database"):
        read()


def test_another_programs_database(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (name TEXT)")
    connection.close()
    with pytest.raises(TuningError, match=r"another program's database \(it holds songs\)"):
        TuningDatabase(path)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("songs",)]
    connection.close()


@pytest.mark.parametrize(
    ("change", "found"),
    [("UPDATE meta SET value='99'", "schema version 99"), ("DELETE FROM meta", "version none")],
)
def test_another_schema_version(tmp_path: Path, change: str, found: str) -> None:
    path = tmp_path / "records.db"
    TuningDatabase(path).close()
    connection = sqlite3.connect(path)
    connection.execute(change)
    connection.commit()
    connection.close()
    with pytest.raises(TuningError, match=f"{found}; this burnish reads version 2"):
        TuningDatabase(path)


def test_a_folder_that_is_not_to_be_made(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match=r"no folder '.*missing' for the records of"):
        TuningDatabase(tmp_path / "missing" / "records.db", makes_folders=False)
    assert not (tmp_path / "missing").exists()
    TuningDatabase(tmp_path / "records.db", makes_folders=False).close()


def test_a_place_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="cannot be used as a tuning database"):
        TuningDatabase(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(TuningError, match="cannot hold a tuning database"):
        TuningDatabase(tmp_path / "file" / "records.db")


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    path.write_text("")
    with TuningDatabase(path) as db:
        assert len(db) == 0


def test_a_file_that_must_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match=r"There is no file '.*records\.db' to read records from"):
        TuningDatabase(tmp_path / "records.db", must_exist=True)
    assert list(tmp_path.iterdir()) == []


# -- killed writers ----------------------------------
WRITER = """
import sys
from burnish.tuner.records.database import TuningDatabase, TuningRecord
who = sys.argv[2]
with TuningDatabase(sys.argv[1]) as db:
    n = 0
    while True:
        source = db.add_workload("w", "main", f"text {n % 7}", 1.0)
        db.add(TuningRecord("w", "t", f"{who}.{n}", source, "[]", (1.0 + n,)))
        print(n, flush=True)
        n += 1
"""


def test_a_killed_writer_loses_nothing_it_had_added(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    committed: set[str] = set()
    for who, enough in (("a", 15), ("b", 40), ("c", 83)):
        command = [sys.executable, "-c", WRITER, str(path), who]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for line in writer.stdout:
            committed.add(f"{who}.{line.strip()}")
            if int(line) >= enough:
                writer.send_signal(signal.SIGKILL)
                break
        committed |= {f"{who}.{line.strip()}" for line in writer.stdout if line.endswith("\n")}
        assert writer.wait() == -signal.SIGKILL
        writer.stdout.close()
        with TuningDatabase(path, must_exist=True) as db:
            assert db._read("PRAGMA integrity_check") == [("ok",)]
            known = db.seen("w", "t")
            assert committed <= known
            assert len(known - committed) <= 1  # added, and killed before it could say so
            committed = known
            assert all(text.text.startswith("text ") for _, text in db.entries())


# -- records of other files and other machines ----------------------------------
def filled(*records: TuningRecord, text: str = "def main(): 1") -> TuningDatabase:
    db = TuningDatabase()
    for r in records:
        source = db.add_workload(r.workload, "main", text + r.workload, 2.0)
        db.add(replace(r, source=source))
    return db


def test_merging_keeps_what_is_measured_and_what_is_newer() -> None:
    ours = filled(
        replace(record("same", 1.0), created=5.0),
        replace(record("measured", 1.0), created=5.0),
        replace(record("failed", error="hung"), created=9.0),
        replace(record("older", 1.0), created=5.0),
    )
    theirs = filled(
        replace(record("new", 3.0), created=1.0),
        replace(record("same", 1.0), created=5.0),
        replace(record("measured", error="hung"), created=9.0),
        replace(record("failed", 2.0), created=1.0),
        replace(record("older", 4.0), created=6.0),
        text="def other(): 1",
    )
    assert ours.merge(theirs) == 3
    found = {r.candidate: r.best for r in ours.records()}
    assert found == {"same": 1.0, "measured": 1.0, "failed": 2.0, "older": 4.0, "new": 3.0}
    assert ours.text(ours.records()[-1].source) == "def other(): 1w"
    assert ours.merge(theirs) == 0
    assert len(theirs) == 5


def test_a_merge_that_fails_takes_over_nothing() -> None:
    ours, theirs = filled(record("a", 1.0)), filled(record("b", 1.0))
    theirs.add(replace(record("c", 1.0), source=99))
    with pytest.raises(TuningError, match="is damaged: it lacks the text 99 of a record"):
        ours.merge(theirs)
    assert [r.candidate for r in ours.records()] == ["a"]


def test_pruning_keeps_the_best_of_each_workload_and_target() -> None:
    db = filled(
        *(record(c, s) for c, s in (("a", 3.0), ("b", 1.0), ("c", 2.0))),
        record("f", error="wrong"),
        record("d", 9.0, target="u"),
        record("e", 4.0, workload="x"),
        record("g", error="wrong", workload="y"),
    )
    assert db.prune(2) == 3
    assert [r.candidate for r in db.records()] == ["b", "c", "d", "e"]
    assert set(db.workloads()) == {"w", "x"}
    assert db.prune(1) == 1
    assert [r.candidate for r in db.records("w", "t")] == ["b"]
    with pytest.raises(TuningError, match="keeps at least 1 record of a workload; found 0"):
        db.prune(0)


def test_records_of_other_targets_come_the_best_of_each_first() -> None:
    db = filled(
        record("here", 0.1),
        record("slow", 5.0, target="u"),
        record("slower", 6.0, target="u"),
        record("fast", 1.0, target="v"),
        record("also", 2.0, target="v"),
        record("failed", target="v", error="x"),
        record("other", 1.0, target="v", workload="x"),
    )
    assert [r.candidate for r in db.elsewhere("w", "t", 3)] == ["fast", "slow", "also"]
    assert db.elsewhere("x", "v", 3) == []

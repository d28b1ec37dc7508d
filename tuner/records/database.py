"""TuningDatabase: workloads and measured schedules in SQLite.

SQLite is the embedded default because it takes many writers and survives a kill at any moment. A
record holds the workload's hash, the target key, the schedule's trace as JSON, and either the
measured times or the reason of its failure. The workload's text is kept with it, so that a record
can be replayed without the program that made it: traces speak of blocks by name, and two texts of
one workload may name them differently.

A write is one transaction, committed before ``add`` returns: a process killed at any moment loses
nothing that was added, and what it was adding is there whole or not at all.
"""

from __future__ import annotations

import difflib
import json
import re
import sqlite3
import statistics
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...support.errors import TuningError
from ..task import SCHEMA_VERSION

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE workloads (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    hash TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL, flop REAL NOT NULL,
    UNIQUE (hash, text));
CREATE TABLE records (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workload TEXT NOT NULL, target TEXT NOT NULL, candidate TEXT NOT NULL,
    source INTEGER NOT NULL REFERENCES workloads (id),
    trace TEXT NOT NULL, seconds TEXT NOT NULL, best REAL, error TEXT NOT NULL,
    predicted REAL, created REAL NOT NULL,
    UNIQUE (workload, target, candidate));
CREATE INDEX by_best ON records (workload, target, best);
"""
_FIELDS = "workload, target, candidate, source, trace, seconds, error, predicted, created"
_INSERT = f"INSERT OR REPLACE INTO records ({_FIELDS}, best) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
SET_ASIDE = "set aside: "
"""How the reason of a record begins that was measured once and is not believed any more."""
_BUSY_SECONDS = 30.0
_NEAREST = 5
_BUFFER = re.compile(r'T\.Buffer\(\(([^)]*?),?\), "(\w+)"[^)]*\)')


@dataclass(frozen=True)
class TuningRecord:
    """``candidate`` is the structural hash of the scheduled function, ``source`` the number of the
    text that ``trace`` was recorded on; ``seconds`` are the measured times of a call, empty where
    ``error`` says why there are none. ``predicted`` is the cost model's score at the time (larger
    is faster), None where none was asked; ``created`` is when the record was made (``time.time``),
    0 for now."""

    workload: str
    target: str
    candidate: str
    source: int
    trace: str
    seconds: tuple[float, ...] = ()
    error: str = ""
    predicted: float | None = None
    created: float = field(default=0.0, compare=False)

    @property
    def best(self) -> float | None:
        """The smallest time of a call in seconds."""
        return min(self.seconds) if self.seconds else None

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None


@dataclass(frozen=True)
class WorkloadText:
    """A text of a workload: what traces are recorded on."""

    workload: str
    name: str
    text: str
    flop: float


class TuningDatabase:
    """Records of tuning, in a file or in memory (``path=None``). Safe for many threads and
    processes. ``must_exist`` refuses to make a file that is not there, ``makes_folders=False`` the
    folder of one.

    Raises TuningError for a file that is no database, is another program's, has another schema
    version, or cannot be read or written.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        must_exist: bool = False,
        makes_folders: bool = True,
    ) -> None:
        if must_exist and path is not None and not Path(path).exists():
            raise TuningError(f"There is no file {str(path)!r} to read records from.")
        folder = Path(path).parent if path is not None else None
        if folder is not None and not makes_folders and not folder.exists():
            raise TuningError(
                f"There is no folder {str(folder)!r} for the records of {str(path)!r}: make it, or "
                "correct the path."
            )
        self.path = str(path) if path is not None else ":memory:"
        self._lock = threading.Lock()
        with self._explained():
            if path is not None:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
        try:
            with self._explained():
                self._open()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        """Check what is there; make the tables where there is nothing."""
        db = self._connection
        if self._is_empty():
            _use_log(db)
            with self._write():
                if self._is_empty():  # no other process was faster
                    for statement in _TABLES.split(";\n"):
                        db.execute(statement)
                    db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA_VERSION),))
        version = db.execute("SELECT value FROM meta WHERE key='schema'").fetchone()
        if version != (str(SCHEMA_VERSION),):
            raise TuningError(
                f"{self.path} has schema version {version[0] if version else 'none'}; this burnish "
                f"reads version {SCHEMA_VERSION}. The file is left as it is: name another one, or "
                "read it with the burnish that wrote it."
            )

    def _is_empty(self) -> bool:
        tables = {n for (n,) in self._connection.execute("SELECT name FROM sqlite_master")}
        if tables and not {"meta", "workloads", "records"} <= tables:
            raise TuningError(
                f"{self.path} is another program's database (it holds "
                f"{', '.join(sorted(tables))}). Name another file."
            )
        return not tables

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise TuningError(
                f"{self.path} cannot be used as a tuning database: {error}."
            ) from error
        except sqlite3.DatabaseError as error:
            raise TuningError(
                f"{self.path} is no tuning database: {error}. Move it away, or name another file."
            ) from error
        except OSError as error:
            raise TuningError(f"{self.path} cannot hold a tuning database: {error}.") from error

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is there for others at once, or not at all."""
        with self._explained(), self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # Where the disk is full, SQLite has taken everything back itself.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _read(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        with self._explained(), self._lock:
            return self._connection.execute(query, values).fetchall()

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def __enter__(self) -> TuningDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing -----------------------------------------------------------------------------------
    def add_workload(self, workload: str, name: str, text: str, flop: float) -> int:
        """Keep a text of a workload; its number, the old one where the text is there."""
        with self._write() as db:
            return _keep_text(db, WorkloadText(workload, name, text, flop))

    def add(self, record: TuningRecord) -> None:
        """Keep a record; a second one of the same candidate replaces the first."""
        with self._write() as db:
            db.execute(_INSERT, _values(record))

    def set_aside(self, record: TuningRecord, reason: str) -> None:
        """Offer a measured record no more: its times make place for the reason. A search may
        measure the candidate anew."""
        self.add(replace(record, seconds=(), error=f"{SET_ASIDE}{reason}", created=0.0))

    def remember(self, key: str) -> None:
        """Keep a fact under a key of the caller's making; it stays with this file."""
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES (?, '')", (key,))

    def add_all(self, entries: Iterable[tuple[TuningRecord, WorkloadText]]) -> int:
        """Keep records that come with the texts of their workloads, all of them or none; how many
        are new or better here than what was known.

        Where a candidate has a record already, a measured one stands before a failed one, and of
        two alike the later one.
        """
        count = 0
        sources: dict[WorkloadText, int] = {}
        with self._write() as db:
            for record, text in entries:
                if text not in sources:
                    sources[text] = _keep_text(db, text)
                key = (record.workload, record.target, record.candidate)
                known = db.execute(
                    "SELECT best IS NOT NULL, created FROM records "
                    "WHERE workload=? AND target=? AND candidate=?",
                    key,
                ).fetchone()
                if known is None or known < (record.best is not None, record.created):
                    db.execute(_INSERT, _values(replace(record, source=sources[text])))
                    count += 1
        return count

    def merge(self, other: TuningDatabase) -> int:
        """Take over the records of another database, as ``add_all`` does; how many."""
        return self.add_all(other.entries())

    def prune(self, keep: int) -> int:
        """Keep the ``keep`` fastest records of each workload on each target and drop the others,
        failures too, and the texts that no record needs any more; how many records went.

        Raises TuningError for ``keep`` below 1.
        """
        if keep < 1:
            raise TuningError(f"prune keeps at least 1 record of a workload; found {keep}.")
        with self._write() as db:
            ranked = (
                "SELECT id FROM (SELECT id, best, ROW_NUMBER() OVER "
                "(PARTITION BY workload, target ORDER BY best IS NULL, best, id) AS place "
                "FROM records) WHERE place <= ? AND best IS NOT NULL"
            )
            gone = db.execute(f"DELETE FROM records WHERE id NOT IN ({ranked})", (keep,)).rowcount
            db.execute("DELETE FROM workloads WHERE id NOT IN (SELECT source FROM records)")
        with self._explained(), self._lock:
            self._connection.execute("VACUUM")
        return int(gone)

    # -- reading -----------------------------------------------------------------------------------
    def _records(self, where: str, values: tuple[object, ...]) -> list[TuningRecord]:
        rows: list[tuple[object, ...]] = self._read(
            f"SELECT {_FIELDS} FROM records {where}", values
        )
        return [_record(row) for row in rows]

    def best(
        self, workload: str, target: str, *, without: Collection[str] = ()
    ) -> TuningRecord | None:
        """The fastest measured record of a workload on a target, some candidates left out."""
        marks = ", ".join("?" * len(without))
        found = self._records(
            "WHERE workload=? AND target=? AND best IS NOT NULL "
            f"AND candidate NOT IN ({marks}) ORDER BY best, id LIMIT 1",
            (workload, target, *without),
        )
        return found[0] if found else None

    def remembers(self, key: str) -> bool:
        """Whether ``remember`` was called with the key."""
        return bool(self._read("SELECT 1 FROM meta WHERE key=?", (key,)))

    def set_aside_reasons(self, workload: str, target: str) -> list[str]:
        """Why records of a workload on a target were set aside, in order of measurement."""
        rows = self._read(
            "SELECT error FROM records WHERE workload=? AND target=? AND substr(error, 1, ?)=? "
            "ORDER BY id",
            (workload, target, len(SET_ASIDE), SET_ASIDE),
        )
        return [str(error).removeprefix(SET_ASIDE) for (error,) in rows]

    def best_seconds(self, workload: str, target: str) -> float | None:
        """The time of the fastest record, None without one."""
        record = self.best(workload, target)
        return None if record is None else record.best

    def records(self, workload: str | None = None, target: str | None = None) -> list[TuningRecord]:
        """Records in order of measurement, failures included."""
        given = [
            (c, v) for c, v in (("workload=?", workload), ("target=?", target)) if v is not None
        ]
        where = f"WHERE {' AND '.join([c for c, _ in given])} " if given else ""
        return self._records(where + "ORDER BY id", tuple([v for _, v in given]))

    def elsewhere(self, workload: str, target: str, count: int) -> list[TuningRecord]:
        """The fastest records of a workload on *other* targets, ``count`` at most, the fastest of
        each target first: where a search on this target may begin. Their times hold elsewhere."""
        rows = self._records(
            "WHERE workload=? AND target<>? AND best IS NOT NULL ORDER BY best, id",
            (workload, target),
        )
        places: dict[str, int] = {}
        ranked: list[tuple[int, int, TuningRecord]] = []
        for i, row in enumerate(rows):
            places[row.target] = places.get(row.target, 0) + 1
            ranked.append((places[row.target], i, row))
        found = {r.candidate: r for _, _, r in sorted(ranked, key=lambda entry: entry[:2])}
        return list(found.values())[:count]

    def entries(self) -> list[tuple[TuningRecord, WorkloadText]]:
        """Every record with the text that its trace was recorded on."""
        texts = self.texts()
        return [(r, self._text_of(r, texts)) for r in self.records()]

    def _text_of(self, record: TuningRecord, texts: dict[int, WorkloadText]) -> WorkloadText:
        if record.source not in texts:
            raise TuningError(_lacks_text(self.path, record.source))
        return texts[record.source]

    def texts(self) -> dict[int, WorkloadText]:
        """The texts of workloads by number."""
        rows = self._read("SELECT id, hash, name, text, flop FROM workloads ORDER BY id")
        return {
            int(str(i)): WorkloadText(str(key), str(name), str(text), float(str(flop)))
            for i, key, name, text, flop in rows
        }

    def seen(self, workload: str, target: str) -> set[str]:
        """The candidates already measured or failed. One that was set aside is in neither state:
        the record may have named it falsely."""
        rows = self._read(
            "SELECT candidate FROM records "
            "WHERE workload=? AND target=? AND substr(error, 1, ?)<>?",
            (workload, target, len(SET_ASIDE), SET_ASIDE),
        )
        return {str(candidate) for (candidate,) in rows}

    def targets(self) -> list[str]:
        """The target keys that have a measured record."""
        query = "SELECT DISTINCT target FROM records WHERE best IS NOT NULL ORDER BY target"
        rows = self._read(query)
        return [str(target) for (target,) in rows]

    def workloads(self) -> dict[str, str]:
        """Workload hashes and the names of the functions they were first made from."""
        rows = self._read(
            "SELECT hash, name, MIN(id) FROM workloads GROUP BY hash ORDER BY MIN(id)"
        )
        return {str(key): str(name) for key, name, _ in rows}

    def text(self, source: int) -> str:
        """The text number ``source``; TuningError where there is none."""
        rows = self._read("SELECT text FROM workloads WHERE id=?", (source,))
        if not rows:
            raise TuningError(_lacks_text(self.path, source))
        return str(rows[0][0])

    def nearest(self, text: str) -> list[str]:
        """The signatures of the workloads with records whose signatures are most like a text's."""
        rows = self._read(
            "SELECT DISTINCT w.text FROM workloads w JOIN records r ON r.source = w.id "
            "WHERE r.best IS NOT NULL ORDER BY w.id"
        )
        wanted = signature(text)
        known = dict.fromkeys([signature(str(t)) for (t,) in rows])
        ranked = sorted(known, key=lambda s: -difflib.SequenceMatcher(None, wanted, s).ratio())
        return ranked[:_NEAREST]

    def __len__(self) -> int:
        return int(str(self._read("SELECT COUNT(*) FROM records")[0][0]))


def signature(text: str) -> str:
    """``main(A: float32[32, 32], ...)``: the header of a workload's text, in short."""
    header = next((line for line in text.splitlines() if line.startswith("def ")), text)
    return _BUFFER.sub(r"\2[\1]", header.removeprefix("def ").rstrip(":"))


def _record(row: tuple[object, ...]) -> TuningRecord:
    workload, target, candidate, source, trace, seconds, error, predicted, created = row
    return TuningRecord(
        workload=str(workload),
        target=str(target),
        candidate=str(candidate),
        source=int(str(source)),
        trace=str(trace),
        seconds=tuple([float(s) for s in json.loads(str(seconds))]),
        error=str(error),
        predicted=None if predicted is None else float(str(predicted)),
        created=float(str(created)),
    )


def _values(record: TuningRecord) -> tuple[object, ...]:
    return (
        *(record.workload, record.target, record.candidate, record.source, record.trace),
        *(json.dumps(record.seconds), record.error, record.predicted),
        *(record.created or time.time(), record.best),
    )


def _keep_text(db: sqlite3.Connection, text: WorkloadText) -> int:
    """The number of a text, which is kept where it is new."""
    db.execute(
        "INSERT OR IGNORE INTO workloads (hash, name, text, flop) VALUES (?, ?, ?, ?)",
        (text.workload, text.name, text.text, text.flop),
    )
    key = (text.workload, text.text)
    found = db.execute("SELECT id FROM workloads WHERE hash=? AND text=?", key)
    return int(found.fetchone()[0])


def _lacks_text(path: str, source: int) -> str:
    return f"{path} is damaged: it lacks the text {source} of a record."


def _use_log(db: sqlite3.Connection) -> None:
    """Write-ahead logging: readers and writers do not wait for each other. SQLite does not wait for
    a lock when it changes the mode, so another process that is just doing so must be waited for
    here."""
    deadline = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.01)

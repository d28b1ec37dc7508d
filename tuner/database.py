"""TuningDatabase: workloads and measured schedules in SQLite.

SQLite is the embedded default because it takes many writers and survives a kill at any moment. A record
holds the workload's hash, the target key, the schedule's trace as JSON, and either the measured times
or the reason of its failure. The workload's text is kept, so that a record can be replayed without the
program that made it.
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..support.errors import TuningError
from ..tensorir.function import PrimFunc
from .task import SCHEMA_VERSION

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS workloads (
    hash TEXT PRIMARY KEY, name TEXT NOT NULL, text TEXT NOT NULL, flop REAL NOT NULL);
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    workload TEXT NOT NULL REFERENCES workloads(hash), target TEXT NOT NULL,
    candidate TEXT NOT NULL, trace TEXT NOT NULL, seconds TEXT NOT NULL,
    best REAL, error TEXT NOT NULL, created REAL NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS by_candidate ON records (workload, target, candidate);
CREATE INDEX IF NOT EXISTS by_best ON records (workload, target, best);
"""


@dataclass(frozen=True)
class TuningRecord:
    """``candidate`` is the structural hash of the scheduled function; ``seconds`` are the measured
    times of a call, empty where ``error`` says why there are none."""

    workload: str
    target: str
    candidate: str
    trace: str
    seconds: tuple[float, ...] = ()
    error: str = ""

    @property
    def best(self) -> float | None:
        """The smallest time of a call in seconds."""
        return min(self.seconds) if self.seconds else None

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None


class TuningDatabase:
    """Records of tuning, in a file or in memory (``path=None``). Safe for many threads and processes."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = str(path) if path is not None else ":memory:"
        if path is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(self.path, timeout=30, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.executescript(_TABLES)
            self._connection.execute(
                "INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (str(SCHEMA_VERSION),)
            )
            self._connection.commit()
            (version,) = self._connection.execute("SELECT value FROM meta WHERE key='schema'").fetchone()
        except sqlite3.DatabaseError as error:
            raise TuningError(
                f"{self.path} is no tuning database: {error}. Move it away, or name another file."
            ) from error
        if version != str(SCHEMA_VERSION):
            raise TuningError(
                f"{self.path} has schema version {version}; this burnish reads version {SCHEMA_VERSION}. "
                "Name another file."
            )

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._connection:
            yield self._connection

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def __enter__(self) -> TuningDatabase:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing ------------------------------------------------------------------------------------
    def add_workload(self, workload: str, func: PrimFunc, text: str, flop: float) -> None:
        """Keep a workload's text; nothing happens if it is there."""
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO workloads VALUES (?, ?, ?, ?)", (workload, func.name, text, flop))

    def add(self, record: TuningRecord) -> None:
        """Keep a record; a second one of the same candidate replaces the first."""
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO records (workload, target, candidate, trace, seconds, best, error, created) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    record.workload,
                    record.target,
                    record.candidate,
                    record.trace,
                    json.dumps(list(record.seconds)),
                    record.best,
                    record.error,
                    time.time(),
                ),
            )

    # -- reading ------------------------------------------------------------------------------------
    def _records(self, where: str, values: tuple[object, ...]) -> list[TuningRecord]:
        with self._lock:
            rows = self._connection.execute(
                f"SELECT workload, target, candidate, trace, seconds, error FROM records {where}", values
            ).fetchall()
        return [TuningRecord(w, t, c, trace, tuple(json.loads(s)), e) for w, t, c, trace, s, e in rows]

    def best(self, workload: str, target: str) -> TuningRecord | None:
        """The fastest measured record of a workload on a target."""
        found = self._records(
            "WHERE workload=? AND target=? AND best IS NOT NULL ORDER BY best, id LIMIT 1", (workload, target)
        )
        return found[0] if found else None

    def records(self, workload: str | None = None, target: str | None = None) -> list[TuningRecord]:
        """Records in order of measurement, failures included."""
        conditions = [c for c, v in (("workload=?", workload), ("target=?", target)) if v is not None]
        where = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        return self._records(where + "ORDER BY id", tuple(v for v in (workload, target) if v is not None))

    def seen(self, workload: str, target: str) -> set[str]:
        """The candidates already measured or failed."""
        return {r.candidate for r in self.records(workload, target)}

    def workloads(self) -> dict[str, str]:
        """Workload hashes and the names of the functions they were made from."""
        with self._lock:
            return dict(self._connection.execute("SELECT hash, name FROM workloads ORDER BY rowid").fetchall())

    def text(self, workload: str) -> str | None:
        """The text of a workload."""
        with self._lock:
            row = self._connection.execute("SELECT text FROM workloads WHERE hash=?", (workload,)).fetchone()
        return row[0] if row else None

    def __len__(self) -> int:
        with self._lock:
            (count,) = self._connection.execute("SELECT COUNT(*) FROM records").fetchone()
        return int(count)

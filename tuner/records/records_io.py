"""Records as JSON lines: the text form of a tuning database, and the log file of a search.

A file is a sequence of lines, each a JSON object on its own::

    {"kind": "workload", "schema": 2, "id": "9f..", "workload": "3c..", "name": ..., "text": ...}
    {"kind": "record", "schema": 2, "source": "9f..", "workload": "3c..", "trace": [...], ...}

The ``id`` of a workload's text is a hash of it, so that two files one after the other are a file
again. Appending takes a lock and writes whole lines: any number of processes may log to one file,
and a process that is killed leaves at most one line without an end, which the next writer removes
and a reader passes over with a warning.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ...support.caller import callers_level
from ...support.errors import TraceError, TuningError
from ...support.whole_file import written_whole
from ...tensorir.schedule import Trace
from ..task import SCHEMA_VERSION
from .database import TuningDatabase, TuningRecord, WorkloadText

Entry = tuple[TuningRecord, WorkloadText]

_SQLITE = b"SQLite format 3\0"
_WORKLOAD_KEYS = {"id": str, "workload": str, "name": str, "text": str, "flop": (int, float)}
_RECORD_KEYS = {
    "source": str,
    "workload": str,
    "target": str,
    "candidate": str,
    "trace": list,
    "seconds": list,
    "error": str,
    "created": (int, float),
}


def is_sqlite(path: str | Path) -> bool:
    """Whether a file is a SQLite database; TuningError where there is no file to read."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except FileNotFoundError:
        raise TuningError(f"There is no file {str(path)!r} to read records from.") from None
    except OSError as error:
        raise TuningError(f"{path} cannot be read: {error}.") from error


def open_records(path: str | Path) -> TuningDatabase:
    """The records of a file for reading, whichever of the two forms it has; those of JSON lines in
    memory.

    Raises TuningError for a file that is not there or is neither.
    """
    if is_sqlite(path):
        return TuningDatabase(path, must_exist=True)
    database = TuningDatabase()
    try:
        database.add_all(read_entries(path))
    except BaseException:
        database.close()
        raise
    return database


def as_records(database: TuningDatabase | str | Path) -> TuningDatabase:
    """A database itself, or the records of the file of that path; TuningError for neither."""
    if isinstance(database, TuningDatabase):
        return database
    if not isinstance(database, (str, Path)):
        raise TuningError(
            f"Expected a TuningDatabase or the path of its file; found {type(database).__name__}."
        )
    return open_records(database)


def export_records(database: TuningDatabase, path: str | Path) -> int:
    """Write all records of a database as JSON lines in place of what the file held; how many.

    The file appears whole or not at all. Raises TuningError where it cannot be written.
    """
    entries = database.entries()
    try:
        with written_whole(Path(path)) as file:
            file.write("".join(_lines(entries, set())).encode())
    except OSError as error:
        raise TuningError(f"{path} cannot be written: {error}.") from error
    return len(entries)


def import_records(database: TuningDatabase, path: str | Path) -> int:
    """Take over the records of a JSON-lines file, all of them or none; how many were new or better.

    Raises TuningError, naming the line, for what is no record of this schema.
    """
    return database.add_all(list(read_entries(path)))


def append_records(path: str | Path, entries: Iterable[Entry]) -> None:
    """Add records to the end of a JSON-lines file, which is made where there is none."""
    try:
        with open(path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _refuse_sqlite(file, path)
            known = _known_texts(file)
            file.write("".join(_lines(entries, known)).encode())
            file.flush()
    except OSError as error:
        raise TuningError(f"{path} cannot be written: {error}.") from error


def read_entries(path: str | Path) -> Iterator[Entry]:
    """The records of a JSON-lines file with their texts, in order.

    A last line without an end was cut off by a kill: it is passed over with a UserWarning. Raises
    TuningError for any other line that is no record, naming it.
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise TuningError(f"There is no file {str(path)!r} to read records from.") from None
    except OSError as error:
        raise TuningError(f"{path} cannot be read: {error}.") from error
    if data.startswith(_SQLITE):
        raise TuningError(
            f"{path} is a SQLite database, where JSON lines were expected. Take over its records "
            "with `burnish db merge`."
        )
    *lines, rest = data.split(b"\n")
    texts: dict[str, WorkloadText] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield from _entry(line, f"{path}, line {number}", texts)
    if rest.strip():
        warnings.warn(
            f"{path}, line {len(lines) + 1} has no end: its writer was stopped in the middle. "
            "It is passed over; the next writer removes it.",
            UserWarning,
            stacklevel=callers_level(),
        )


def _entry(line: bytes, where: str, texts: dict[str, WorkloadText]) -> Iterator[Entry]:
    """The record of a line; nothing for a workload, which is added to ``texts``."""
    row = _row(line, where)
    if row["kind"] == "workload":
        _check_keys(row, _WORKLOAD_KEYS, where)
        found = WorkloadText(row["workload"], row["name"], row["text"], float(row["flop"]))
        if row["id"] != text_id(found):
            raise TuningError(f"{where}: the text of {found.name!r} was changed after it was kept.")
        texts[row["id"]] = found
        return
    _check_keys(row, _RECORD_KEYS, where)
    text = texts.get(row["source"])
    if text is None or text.workload != row["workload"]:
        raise TuningError(
            f"{where}: the record's workload is in no line before it. Lines may be added, "
            "not reordered or taken out."
        )
    yield _record(row, where), text


def _record(row: dict[str, Any], where: str) -> TuningRecord:
    if not all(isinstance(s, (int, float)) and s > 0 for s in row["seconds"]):
        raise TuningError(f"{where}: 'seconds' are times of a call; found {row['seconds']}.")
    if not row["seconds"] and not row["error"]:
        raise TuningError(f"{where}: the record has neither times nor the reason of a failure.")
    try:
        Trace.from_json(row["trace"])
    except TraceError as error:
        raise TuningError(f"{where}: 'trace' is no trace: {error}") from error
    predicted = row.get("predicted")
    return TuningRecord(
        workload=row["workload"],
        target=row["target"],
        candidate=row["candidate"],
        source=0,
        trace=json.dumps(row["trace"], separators=(",", ":")),
        seconds=tuple([float(s) for s in row["seconds"]]),
        error=row["error"],
        predicted=None if predicted is None else float(predicted),
        created=float(row["created"]),
    )


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise TuningError(
            f"{where} is no JSON: {error}. Expected lines of tuning records."
        ) from None
    kinds = ("workload", "record")
    if not isinstance(row, dict) or row.get("kind") not in kinds:
        raise TuningError(
            f"{where} is no tuning record of burnish: expected an object whose 'kind' is "
            f"'workload' or 'record'; found {line[:60].decode(errors='replace')}"
        )
    if row.get("schema") != SCHEMA_VERSION:
        raise TuningError(
            f"{where} has schema version {row.get('schema')}; this burnish reads version "
            f"{SCHEMA_VERSION}. Nothing was taken over, and the file is left as it is."
        )
    return row


def _check_keys(row: dict[str, Any], expected: dict[str, Any], where: str) -> None:
    for key, kind in expected.items():
        if key not in row:
            raise TuningError(f"{where}: the {row['kind']} lacks {key!r}.")
        if not isinstance(row[key], kind) or isinstance(row[key], bool):
            names = kind.__name__ if isinstance(kind, type) else "number"
            raise TuningError(
                f"{where}: {key!r} of the {row['kind']} is no {names}; found {row[key]!r}."
            )


def text_id(text: WorkloadText) -> str:
    """The name of a workload's text within files."""
    content = "\0".join((text.workload, text.name, text.text))
    return hashlib.sha256(content.encode()).hexdigest()[:24]


def _lines(entries: Iterable[Entry], known: set[str]) -> Iterator[str]:
    """The lines of some records, each after that of its workload's text where the file does not
    have it."""
    for record, text in entries:
        source = text_id(text)
        if source not in known:
            known.add(source)
            yield _line(
                {
                    "kind": "workload",
                    "schema": SCHEMA_VERSION,
                    "id": source,
                    "workload": text.workload,
                    "name": text.name,
                    "flop": text.flop,
                    "text": text.text,
                }
            )
        yield _line(
            {
                "kind": "record",
                "schema": SCHEMA_VERSION,
                "source": source,
                "workload": record.workload,
                "target": record.target,
                "candidate": record.candidate,
                "seconds": list(record.seconds),
                "error": record.error,
                "predicted": record.predicted,
                "created": record.created,
                "trace": json.loads(record.trace),
            }
        )


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":")) + "\n"


def _refuse_sqlite(file: BinaryIO, path: str | Path) -> None:
    file.seek(0)
    if file.read(len(_SQLITE)) == _SQLITE:
        raise TuningError(
            f"{path} is a SQLite database; a log is a file of JSON lines. Name another file."
        )


def _known_texts(file: BinaryIO) -> set[str]:
    """The texts that an open log has; a last line without an end is cut off."""
    known: set[str] = set()
    end = 0
    file.seek(0)
    for line in file:
        if not line.endswith(b"\n"):
            file.truncate(end)
            break
        end += len(line)
        if line.startswith(b'{"kind":"workload"'):
            known.add(str(json.loads(line)["id"]))
    file.seek(0, os.SEEK_END)
    return known


__all__ = [
    "Entry",
    "append_records",
    "export_records",
    "import_records",
    "is_sqlite",
    "open_records",
    "read_entries",
    "text_id",
]

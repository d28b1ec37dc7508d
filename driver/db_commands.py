"""What the commands of ``burnish db`` do: look into a tuning database, take records out of it and
into it."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..support.errors import TuningError
from ..tensorir.schedule import Trace
from ..tuner.records.database import TuningDatabase, TuningRecord
from ..tuner.records.records_io import export_records, import_records, open_records, read_entries
from ..tuner.records.stats import WorkloadStats, database_stats, failure_reasons, find_workload
from .console import format_seconds, print_table


def run_stats(options: argparse.Namespace) -> int:
    with open_records(options.file) as database:
        rows = [_row(s) for s in database_stats(database)]
        reasons = failure_reasons(database)
        print(f"{options.file}: {len(database)} records of {len(database.workloads())} workloads")
    if rows:
        columns = ["workload", "target", "measured", "failed", "first", "best", "GFLOP/s"]
        print_table("Workloads", columns, rows)
    if reasons:
        print_table("Failures", ["reason", "times"], [[r[:100], str(n)] for r, n in reasons])
    return 0


def _row(s: WorkloadStats) -> list[str]:
    times = [format_seconds(t) if t is not None else "-" for t in (s.first, s.best)]
    name = f"{s.workload[:8]} {s.signature}"
    return [name, s.target, str(s.measured), str(s.failed), *times, f"{s.gflops:.1f}"]


def run_best(options: argparse.Namespace) -> int:
    with open_records(options.file) as database:
        stats = [s for s in database_stats(database) if (options.target or "") in s.target]
    rows = [
        [f"{s.workload[:8]} {s.signature}", s.target, format_seconds(s.best), f"{s.gflops:.1f}"]
        for s in stats
        if s.best is not None
    ]
    if not rows:
        raise TuningError(f"{options.file} has no measured record{_on(options)}.")
    print_table("Best records", ["workload", "target", "best", "GFLOP/s"], rows)
    return 0


def run_show(options: argparse.Namespace) -> int:
    with open_records(options.file) as database:
        workload = find_workload(database, options.workload, options.file)
        record = _ranked(database, workload, options)
        text = database.text(record.source)
    print(f"# {record.workload[:12]} on {record.target}")
    print(f"# {format_seconds(record.best or 0.0)} a call")
    if options.text:
        print(text)
    print(str(Trace.from_json(record.trace).simplified()), end="")
    return 0


def _ranked(database: TuningDatabase, workload: str, options: argparse.Namespace) -> TuningRecord:
    """The record of a rank among those of a workload."""
    measured = [
        r
        for r in database.records(workload)
        if r.best is not None and (options.target or "") in r.target
    ]
    if not 1 <= options.rank <= len(measured):
        raise TuningError(
            f"{options.file} has {len(measured)} measured records of {workload[:12]}"
            f"{_on(options)}; asked for number {options.rank}."
        )
    return sorted(measured, key=lambda r: r.best or 0.0)[int(options.rank) - 1]


def _on(options: argparse.Namespace) -> str:
    return f" on a target with {options.target!r}" if options.target else ""


def run_export(options: argparse.Namespace) -> int:
    with open_records(options.file) as database:
        print(f"{export_records(database, options.output)} records in {options.output}")
    return 0


def run_import(options: argparse.Namespace) -> int:
    # All are read before any is taken over: a bad one is found before anything is changed.
    for source in options.source:
        for _ in read_entries(source):
            pass
    with TuningDatabase(options.file) as database:
        for source in options.source:
            print(f"{import_records(database, source)} records from {source}")
    return 0


def run_merge(options: argparse.Namespace) -> int:
    # All are opened before any is written to: a bad one is found before anything is changed.
    sources = []
    try:
        for name in options.source:
            if (
                Path(name).exists()
                and Path(options.file).exists()
                and Path(name).samefile(options.file)
            ):
                raise TuningError(f"{name} cannot be merged into itself.")
            sources.append((name, open_records(name)))
        with TuningDatabase(options.file) as database:
            for name, source in sources:
                print(f"{database.merge(source)} records from {name}")
    finally:
        for _, source in sources:
            source.close()
    return 0


def run_prune(options: argparse.Namespace) -> int:
    with TuningDatabase(options.file, must_exist=True) as database:
        gone = database.prune(options.keep)
        print(f"{gone} records dropped, {len(database)} kept")
    return 0

"""Run the benchmarks.

    python -m burnish.benchmarks.run                              the whole table, with data
    python -m burnish.benchmarks.run --cases matmul-256 [...]     a look: printed and forgotten

The whole table is written to ``benchmarks/results/CPU-THREADS.json``, from which
``benchmarks/RESULTS.md`` and the README's figures are generated (``docs/build.py``). There is no
way to time a row of it again: a run that is interrupted goes on where it stopped, with the rows it
has, and a run that has ended is replaced by a whole one. Each contender lives in a process of its
own; rounds take turns between them. Everything else than the whole table with its settings is a
look, and writes nothing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from .cases import CASES, Case
from .contenders import CONTENDERS, PUBLISHED
from .machine import copy_bandwidth, fma_peak, llvm_name
from .processes import Way, measure
from .results import FOLDER, Row, best_peer, geometric_mean

ROUNDS, SECONDS = 15, 0.1
"""The settings of published tables."""
PACKAGES = ("burnish", "llvmlite", "torch", "onnxruntime", "openvino", "numpy")


def cpu_name() -> str:
    """The CPU as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, IndexError):
        return platform.processor() or "unknown CPU"


def version_of(package: str) -> str:
    """The version of a package, or that it is absent."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


def versions() -> str:
    """The versions of everything that is compared."""
    return ", ".join(f"{name} {version_of(name)}" for name in PACKAGES)


def commit() -> str:
    """The state of the source, by git; a ``+`` says that files have changed since, other than those
    that a run writes."""
    written = (":!benchmarks/results", ":!benchmarks/RESULTS.md", ":!README.md")
    commands = (
        ["git", "rev-parse", "--short=10", "HEAD"],
        ["git", "status", "--porcelain", "--untracked-files=no", "--", ":/", *written],
    )
    root = Path(__file__).resolve().parent.parent
    try:
        found, changed = (
            subprocess.run(c, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
            for c in commands
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{found}+" if changed else found


def header(threads: int) -> dict[str, Any]:
    """What a table is a table of; a run goes on only where all of this is the same."""
    return {
        "cpu": cpu_name(),
        "llvm": llvm_name(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": threads,
        "versions": {name: version_of(name) for name in PACKAGES},
        "commit": commit(),
        "rounds": ROUNDS,
        "seconds": SECONDS,
        "contenders": list(PUBLISHED),
        "cases": list(CASES),
    }


def show(case: Case, ways: Sequence[Way], threads: int) -> None:
    """Print one case."""
    print(f"\n{case.name}, {threads} thread{'s' if threads > 1 else ''}")
    print(f"  {'':24} {'min us':>10} {'median us':>10} {'GFLOP/s':>8} {'prepare s':>9}")
    for way in ways:
        if way.error:
            print(f"  {way.title:24} failed: {way.error[:200]}")
            continue
        best = min(way.times)
        print(
            f"  {way.title:24} {best * 1e6:10.2f} {statistics.median(way.times) * 1e6:10.2f} "
            f"{case.flop / best / 1e9:8.1f} {way.prepare_seconds:9.2f}"
        )
    row = row_of(case, ways)
    peer = best_peer(row)
    if peer is not None and row.ratio is not None:
        print(f"  {peer.title} / burnish: {row.ratio:.2f} of minima", flush=True)


def row_of(case: Case, ways: Sequence[Way]) -> Row:
    """What a table keeps of a case."""
    return Row.of(case.name, case.flop, case.group, ways)


def paths(threads: int) -> tuple[Path, Path]:
    """Where a table is written, and where while it lacks rows."""
    path = FOLDER / f"{llvm_name()}-{threads}.json"
    return path, path.with_suffix(".part.json")


def left(threads: Sequence[int]) -> Sequence[int]:
    """The tables that an interrupted run has left: the one it was at, and those behind."""
    at = [k for k, count in enumerate(threads) if interrupted(paths(count)[1], header(count))]
    return threads[at[0] :] if at else threads


def whole_table(threads: int) -> Path:
    """Measure every case, or those that an interrupted run has left, and write the table."""
    head = header(threads)
    path, partial = paths(threads)
    data = resumed(partial, head)
    for number, case in enumerate(CASES.values(), 1):
        if any(row["case"] == case.name for row in data["rows"]):
            print(f"{case.name}: from the run that was interrupted", flush=True)
            continue
        begin = time.perf_counter()
        ways = measure(case, PUBLISHED, threads, ROUNDS, SECONDS)
        show(case, ways, threads)
        spent = time.perf_counter() - begin
        print(f"  row {number} of {len(CASES)}, {spent:.0f} s", flush=True)
        data["rows"].append(row_of(case, ways).to_json())
        write(partial, data)
    write(path, data)
    partial.unlink()
    return path


def interrupted(partial: Path, head: dict[str, Any]) -> dict[str, Any] | None:
    """The rows of an interrupted run of the same things, if there are any."""
    if not partial.exists():
        return None
    data: dict[str, Any] = json.loads(partial.read_text(encoding="utf-8"))
    return data if {name: data.get(name) for name in head} == head else None


def resumed(partial: Path, head: dict[str, Any]) -> dict[str, Any]:
    """The rows of an interrupted run of the same things, or a table without rows."""
    return interrupted(partial, head) or {
        **head,
        "date": datetime.date.today().isoformat(),
        "load": round(os.getloadavg()[0], 2),
        "fma_peak": round(fma_peak(), 1),
        "copies": round(copy_bandwidth(), 1),
        "rows": [],
    }


def write(path: Path, data: dict[str, Any]) -> None:
    """Write a table, all of it or nothing."""
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".tmp")
    part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def look(cases: Sequence[str], contenders: Sequence[str], options: argparse.Namespace) -> None:
    """Print some cases; nothing is kept."""
    ratios = []
    print(cpu_name(), versions(), sep="\n")
    for threads in map(int, options.threads.split(",")):
        for name in cases:
            ways = measure(CASES[name], contenders, threads, options.rounds, options.seconds)
            show(CASES[name], ways, threads)
            ratio = row_of(CASES[name], ways).ratio
            ratios += [ratio] if ratio is not None else []
    if ratios:
        print(f"\nGeometric mean of peer / burnish: {geometric_mean(ratios):.2f}")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", default="1,2", help="comma-separated thread counts")
    parser.add_argument("--cases", help="a look at some cases, comma-separated")
    parser.add_argument("--contenders", help="a look at some contenders, comma-separated")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of a look")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a round of a look")
    options = parser.parse_args(argv)
    is_look = options.cases or options.contenders
    if is_look or (options.rounds, options.seconds) != (ROUNDS, SECONDS):
        cases = options.cases.split(",") if options.cases else list(CASES)
        chosen = options.contenders.split(",") if options.contenders else list(CONTENDERS)
        look(cases, chosen, options)
        return
    begin = time.perf_counter()
    for threads in left([int(count) for count in options.threads.split(",")]):
        print(f"\nwritten: {whole_table(threads)}", flush=True)
    print(f"{(time.perf_counter() - begin) / 60:.0f} minutes; now python docs/build.py")


if __name__ == "__main__":
    main()

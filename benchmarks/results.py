"""Tables of benchmarks as data, and as the text of ``RESULTS.md`` and the README.

A table is a file ``benchmarks/results/CPU-THREADS.json`` that ``run`` wrote. What is said of it is
derived here alone: best peer, ratio, geometric mean, which rows are lost. ``docs/build.py`` puts
the texts into the documents, and the tests compare. Nothing here imports what is measured.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .processes import Way

FOLDER = Path(__file__).resolve().parent / "results"
OURS = "burnish"
PEERS = {
    "torch.compile": "torch.compile",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "eager": "PyTorch eager",
}
"""The columns of a table beside ours, and their titles."""
TIE = 0.03
"""Ratios within so much of 1 are called ties: runs differ by more."""


@dataclass(frozen=True)
class Result:
    """One way of a contender: seconds a call, or why it failed."""

    contender: str
    way: str
    least: float = math.inf
    median: float = math.inf
    prepare_seconds: float = 0.0
    error: str = ""

    @property
    def title(self) -> str:
        name = PEERS.get(self.contender, self.contender)
        return name if self.way == "plain" else f"{name}, {self.way}"


@dataclass(frozen=True)
class Row:
    """One case: every way of every contender, those that failed included."""

    case: str
    flop: float
    group: str
    results: tuple[Result, ...]

    @classmethod
    def of(cls, case: str, flop: float, group: str, ways: Iterable[Way]) -> Row:
        """A row of what was measured."""
        results = [
            Result(w.contender, w.name, prepare_seconds=w.prepare_seconds, error=w.error)
            if w.error
            else Result(
                w.contender, w.name, min(w.times), statistics.median(w.times), w.prepare_seconds
            )
            for w in ways
        ]
        return cls(case, flop, group, tuple(results))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Row:
        """The row that ``to_json`` wrote."""
        results = [
            Result(contender, way, **values)
            for contender, ways in data["results"].items()
            for way, values in ways.items()
        ]
        return cls(data["case"], data["flop"], data["group"], tuple(results))

    def to_json(self) -> dict[str, Any]:
        """Plain data, with seconds to five figures."""
        results: dict[str, dict[str, Any]] = {}
        for r in self.results:
            values: dict[str, Any] = {"prepare_seconds": round(r.prepare_seconds, 2)}
            if r.error:
                values["error"] = r.error
            else:
                values |= {"least": float(f"{r.least:.5g}"), "median": float(f"{r.median:.5g}")}
            results.setdefault(r.contender, {})[r.way] = values
        return {"case": self.case, "flop": self.flop, "group": self.group, "results": results}

    def best_of(self, contender: str) -> Result | None:
        """The better way of a contender; a failure where all failed, None where none was asked."""
        ways = [r for r in self.results if r.contender == contender]
        return min(ways, key=lambda r: (bool(r.error), r.least), default=None)

    @property
    def ratio(self) -> float | None:
        """The best peer's time over ours; None where we or all peers failed."""
        ours, peer = self.best_of(OURS), best_peer(self)
        if ours is None or ours.error or peer is None:
            return None
        return peer.least / ours.least


def best_peer(row: Row) -> Result | None:
    """The fastest way of all peers; None where all failed."""
    found = [r for r in (row.best_of(peer) for peer in PEERS) if r is not None and not r.error]
    return min(found, key=lambda r: r.least, default=None)


@dataclass(frozen=True)
class Table:
    """A run of all cases on one CPU with one number of threads."""

    head: dict[str, Any]
    rows: tuple[Row, ...]

    @property
    def threads(self) -> int:
        return int(self.head["threads"])

    @property
    def date(self) -> str:
        return str(self.head["date"])

    @property
    def mean(self) -> float:
        """The geometric mean of all ratios."""
        return geometric_mean([row.ratio for row in self.rows if row.ratio is not None])


def load_tables(folder: Path = FOLDER) -> list[Table]:
    """All tables, the newest CPU first, then by threads."""
    tables = []
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(".part.json"):
            continue
        data = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(Row.from_json(row) for row in data.pop("rows"))
        tables.append(Table(data, rows))
    newest = {t.head["llvm"]: max(o.date for o in tables if o.head["llvm"] == t.head["llvm"])
              for t in tables}  # fmt: skip
    tables.sort(key=lambda t: (t.head["llvm"], t.threads))
    return sorted(tables, key=lambda t: newest[t.head["llvm"]], reverse=True)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; not a number where there are no values."""
    return statistics.geometric_mean(values) if values else math.nan


def time_text(seconds: float) -> str:
    """A time with its unit, to four figures or fewer."""
    return f"{seconds * 1e6:.2f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3f} ms"


# -- text -----------------------------------------------------------------------------------------
def all_results() -> str:
    """The tables of ``RESULTS.md``, a section for each CPU."""
    parts: list[str] = []
    shown = ""
    for table in load_tables():
        if table.head["llvm"] != shown:
            shown = table.head["llvm"]
            parts.append(f"## {table.head['cpu']} ({shown}), {table.date}")
        parts.append(section(table))
    return "\n\n".join(parts)


def section(table: Table) -> str:
    """One table with what it was measured with, what failed, and where we lose."""
    head = table.head
    threads = f"{table.threads} thread{'s' if table.threads > 1 else ''}"
    packages = ", ".join(f"{name} {version}" for name, version in head["versions"].items())
    about = (
        f"{threads} of {head['cores']} cores, {table.date}, source {head['commit']}, "
        f"{head['rounds']} rounds of {head['seconds']} s, load before {head['load']}; {packages}; "
        f"FMA peak {head['fma_peak']} GFLOP/s and copies {head['copies']} GB/s on one thread."
    )
    columns = ["case", OURS, *PEERS.values(), "best peer / burnish", "GFLOP/s"]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    failures: list[str] = []
    for row in table.rows:
        found = [row.best_of(c) for c in (OURS, *PEERS)]
        ours = found[0]
        speed = f"{row.flop / ours.least / 1e9:.1f}" if ours and not ours.error else "-"
        ratio = f"{row.ratio:.2f}" if row.ratio is not None else "-"
        cells = [row.case, *map(cell, found), ratio, speed]
        lines.append("| " + " | ".join(cells) + " |")
        failures += [f"- {row.case}, {r.title}: {r.error}" for r in row.results if r.error]
    parts = [f"### {threads}", about, "\n".join(lines), verdict(table)]
    if failures:
        parts.append("Failed:\n\n" + "\n".join(failures))
    return "\n\n".join(parts)


def cell(result: Result | None) -> str:
    """A time, with the way where it is not the plain one."""
    if result is None:
        return "-"
    if result.error:
        return "failed"
    text = time_text(result.least)
    return text if result.way == "plain" else f"{text} ({result.way})"


def verdict(table: Table) -> str:
    """The geometric mean over all rows, and the rows that are lost or tied."""
    ratios = {row.case: row.ratio for row in table.rows if row.ratio is not None}
    lost = [f"{case} ({r:.2f})" for case, r in ratios.items() if r < 1 - TIE]
    tied = [f"{case} ({r:.2f})" for case, r in ratios.items() if abs(r - 1) <= TIE]
    text = f"Geometric mean of the best peer over burnish, {len(ratios)} rows: {table.mean:.2f}."
    text += f" Slower than the best peer: {', '.join(lost) or 'none'}."
    return f"{text} Within {TIE:.0%}: {', '.join(tied) or 'none'}."


def headline() -> str:
    """The README's table: the models of the newest run, with every number of threads."""
    tables = load_tables()
    tables = [t for t in tables if t.head["llvm"] == tables[0].head["llvm"]]
    if not tables:
        return "No table has been measured yet: `make bench` writes one."
    first = tables[0]
    titles = [f"{t.threads} thread{'s' if t.threads > 1 else ''}" for t in tables]
    columns = ["model", "burnish", "best peer", "its time", *titles]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in first.rows:
        ours, peer = row.best_of(OURS), best_peer(row)
        if row.group != "models":
            continue
        ratios = [next((r.ratio for r in t.rows if r.case == row.case), None) for t in tables]
        cells = [row.case, cell(ours), peer.title if peer else "-",
                 time_text(peer.least) if peer else "-",
                 *[f"{r:.2f}" if r is not None else "-" for r in ratios]]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    means = " and ".join(f"{t.mean:.2f} with {x}" for t, x in zip(tables, titles, strict=True))
    rows = len(first.rows)
    return (
        f"{first.head['cpu']} ({first.head['llvm']}), {first.date}, float32, batch 1 but where the "
        f"name says otherwise; times with {titles[0]}, and the best peer's time over burnish's:\n\n"
        + "\n".join(lines)
        + f"\n\nGeometric mean over all {rows} rows, kernels included: {means}."
    )

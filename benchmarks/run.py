"""Run the benchmarks: ``python -m benchmarks.run [--cases mlp-1,mlp-256] [--threads 1]``.

Each contender lives in a process of its own; rounds take turns between them, so that a change of
the machine's speed hits all alike. Printed: minimum and median of the time of a call, and the
ratio of the best peer's minimum to ours (above 1: burnish is faster).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .cases import CASES, Case
from .contenders import CONTENDERS, OURS
from .machine import copy_bandwidth, fma_peak


@dataclass
class Contender:
    """A running worker and the times it has given, in seconds a call."""

    name: str
    process: subprocess.Popen[str]
    error: str = ""
    prepare_seconds: float = 0.0
    times: list[float] = field(default_factory=list)

    def ask(self, message: dict[str, int]) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        answer: dict[str, float] = json.loads(self.process.stdout.readline())
        return answer


def start(case: Case, name: str, threads: int) -> Contender:
    """Start a worker and wait until its model is ready (or has failed)."""
    spec = json.dumps({"case": case.name, "contender": name, "threads": threads})
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker", spec],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=Path(__file__).resolve().parent.parent,
    )
    contender = Contender(name, process)
    assert process.stdout is not None
    line = process.stdout.readline()
    ready: dict[str, Any] = json.loads(line) if line else {"error": "the worker died"}
    contender.prepare_seconds = float(ready.get("prepare_seconds", 0.0))
    contender.error = str(ready.get("error", ""))
    return contender


def measure(
    case: Case, names: list[str], threads: int, rounds: int, seconds: float
) -> list[Contender]:
    """Time all contenders of a case, interleaved; each round lasts about ``seconds`` a
    contender."""
    contenders = [start(case, name, threads) for name in names]
    running = [c for c in contenders if not c.error]
    calls: dict[str, int] = {}
    for c in running:  # warm up, and find how many calls fill a round
        count = 1
        while (elapsed := c.ask({"calls": count})["seconds"]) < seconds / 4:
            count *= 2
        calls[c.name] = max(1, round(count * seconds / elapsed))
    for turn in range(rounds):
        for c in running[turn % len(running) :] + running[: turn % len(running)]:
            c.times.append(c.ask({"calls": calls[c.name]})["seconds"] / calls[c.name])
    for c in contenders:
        c.process.stdin.close()  # type: ignore[union-attr]
        c.process.wait(timeout=30)
    return contenders


def cpu_name() -> str:
    """The CPU as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(
            line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, IndexError):
        return platform.processor() or "unknown CPU"


def versions() -> str:
    """The versions of everything that is compared."""
    from importlib import metadata

    names = ("burnish", "llvmlite", "torch", "onnxruntime", "openvino", "numpy")
    found = []
    for name in names:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} absent")
    return ", ".join(found)


def report(case: Case, contenders: list[Contender], threads: int) -> dict[str, float]:
    """Print one case and return the ratio best peer / ours of minima for each of ours."""
    print(f"\n{case.name}, {threads} thread{'s' if threads > 1 else ''}")
    print(f"  {'':16} {'min us':>10} {'median us':>10} {'GFLOP/s':>8} {'prepare s':>9}")
    for c in contenders:
        if c.error:
            print(f"  {c.name:16} {c.error[:100]}")
            continue
        best = min(c.times)
        print(
            f"  {c.name:16} {best * 1e6:10.2f} {statistics.median(c.times) * 1e6:10.2f} "
            f"{case.flop / best / 1e9:8.1f} {c.prepare_seconds:9.2f}"
        )
    peers = [c for c in contenders if c.name not in OURS and c.times]
    ratios: dict[str, float] = {}
    if peers:
        best_peer = min(peers, key=lambda c: min(c.times))
        for c in contenders:
            if c.name in OURS and c.times:
                ratios[c.name] = min(best_peer.times) / min(c.times)
                medians = statistics.median(best_peer.times) / statistics.median(c.times)
                print(
                    f"  {best_peer.name} / {c.name}: {ratios[c.name]:.2f} of minima, "
                    f"{medians:.2f} of medians"
                )
    return ratios


@dataclass
class Row:
    """One line of the table at the end; times in seconds."""

    case: Case
    threads: int
    ours: float
    peer: str
    best: float
    ratio: float

    @property
    def cells(self) -> list[str]:
        return [
            self.case.name, str(self.threads), _time(self.ours), self.peer, _time(self.best),
            f"{self.ratio:.2f}", f"{self.case.flop / self.ours / 1e9:.1f}",
        ]  # fmt: skip


HEADER = ["case", "threads", "burnish", "best peer", "its time", "peer / burnish", "GFLOP/s"]


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3f} ms"


def row_of(case: Case, contenders: list[Contender], threads: int) -> Row | None:
    """Ours against the best peer, by minima."""
    ours = next((c for c in contenders if c.name == OURS[0] and c.times), None)
    peers = [c for c in contenders if c.name not in OURS and c.times]
    if ours is None or not peers:
        return None
    peer = min(peers, key=lambda c: min(c.times))
    best, own = min(peer.times), min(ours.times)
    return Row(case, threads, own, peer.name, best, best / own)


def table(rows: list[Row]) -> str:
    """All rows as a Markdown table, and the geometric mean of the ratios."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(r.cells) + " |" for r in rows]
    mean = statistics.geometric_mean([r.ratio for r in rows]) if rows else float("nan")
    return "\n".join([*lines, "", f"Geometric mean of peer / burnish: {mean:.2f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--threads", default="1", help="comma-separated thread counts")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.1, help="length of a round")
    parser.add_argument("--out", help="write the table to this file, as Markdown")
    options = parser.parse_args()
    rows: list[Row] = []
    limits = f"FMA peak {fma_peak():.0f} GFLOP/s, copies {copy_bandwidth():.1f} GB/s, one thread"
    print(cpu_name(), versions(), limits, sep="\n")
    for threads in map(int, options.threads.split(",")):
        for name in options.cases.split(","):
            case = CASES[name]
            contenders = measure(
                case, options.contenders.split(","), threads, options.rounds, options.seconds
            )
            report(case, contenders, threads)
            row = row_of(case, contenders, threads)
            rows += [row] if row is not None else []
    print("\n" + table(rows))
    if options.out:
        head = f"{cpu_name()}; {versions()}; {limits}."
        text = f"# Results\n\n`make bench` printed this.\n\n{head}\n\n{table(rows)}\n"
        Path(options.out).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

"""The command behind ``make opinfo``: every operator of PyTorch's database through burnish.

Worker processes check an operator with a dtype after the other. One that crashes or hangs costs a
sample: another goes on behind it. The outcome is compared with ``supported.txt``, which only grows:
``--write`` adds what is new to it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import IO, Any

from burnish.tests.frontend.torch.opinfo.check import CRASHED, PASSED, SKIPPED
from burnish.tests.frontend.torch.opinfo.database import DTYPES, entries, pairs, why_not

LIST = Path(__file__).with_name("supported.txt")
QUICK = 6
"""Samples of each operator and dtype without ``--all``."""
LIMIT = 300.0
"""Seconds that the samples of one program may take."""


@dataclass
class Result:
    """The outcomes of an operator with a dtype: (kind, why, sample)."""

    name: str
    dtype: str
    outcomes: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def failures(self) -> list[tuple[str, str, str]]:
        return [o for o in self.outcomes if o[0] not in (PASSED, SKIPPED)]

    @property
    def is_asked(self) -> bool:
        return any(kind != SKIPPED for kind, _, _ in self.outcomes)


class _Died(Exception):
    """A worker gave no answer."""


class Worker:
    """A process that is started when it is needed, again after a crash."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.log: IO[bytes] | None = None

    def start(self) -> subprocess.Popen[str]:
        if self.process is None:
            self.log = tempfile.TemporaryFile()  # noqa: SIM115
            self.process = subprocess.Popen(
                [sys.executable, "-m", "burnish.tests.frontend.torch.opinfo.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"},
            )
        return self.process

    def ask(self, job: Sequence[Any]) -> None:
        stdin = self.start().stdin
        assert stdin is not None
        stdin.write(json.dumps(job) + "\n")
        stdin.flush()

    def read(self) -> dict[str, Any]:
        process = self.start()
        assert process.stdout is not None
        timer = threading.Timer(LIMIT, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        if not line:
            raise _Died(self.end())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> str:
        """Stop the process; how it ended."""
        process, self.process = self.process, None
        if process is None or self.log is None:
            return ""
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        code = process.wait()
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        self.log.close()
        last = lines[-1] if lines else "without a word"
        return f"no answer in {LIMIT:.0f} s" if code == -signal.SIGKILL else f"{code}: {last}"


def run_pair(worker: Worker, name: str, dtype: str, most: int | None) -> Result:
    """All samples of a pair, whatever crashes."""
    result = Result(name, dtype)
    first, alone = 0, False
    while True:
        begun = first
        try:
            worker.ask((name, dtype, most, first, alone))
            while "done" not in (answer := worker.read()):
                begun = answer.get("begin", begun)
                result.outcomes += [(k, w, s) for k, w, s in answer.get("outcomes", ())]
            return result
        except (_Died, BrokenPipeError) as death:
            worker.end()
            first = begun
            if alone or len(result.outcomes) < begun:
                result.outcomes.append((CRASHED, str(death), f"sample {begun}"))
                first = begun + 1
            alone = True


def run_all(
    asked: Sequence[tuple[str, str]],
    most: int | None,
    jobs: int,
    show: Callable[[Result], None],
) -> list[Result]:
    """Every pair, in ``jobs`` processes; in the order of ``asked``.
    ``show`` is called for each as it comes."""
    queue: Queue[int] = Queue()
    for i in range(len(asked)):
        queue.put(i)
    found: dict[int, Result] = {}
    lock = threading.Lock()

    def work() -> None:
        worker = Worker()
        try:
            while True:
                i = queue.get_nowait()
                found[i] = run_pair(worker, *asked[i], most)
                with lock:
                    show(found[i])
        except Empty:
            worker.end()

    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(work) for _ in range(jobs)]:
            done.result()
    return [found[i] for i in range(len(asked))]


# -- the list --------------------------------------------------------------------------------------
Table = dict[str, dict[str, bool]]
"""Whether each dtype passes, by operator."""


def read_list() -> Table:
    """Behind a bar stand the dtypes that do not pass."""
    table: Table = {}
    for line in LIST.read_text().splitlines():
        name, *words = line.split()
        if name != "#" and words[0] != "--":
            passing, _, failing = " ".join(words).partition("|")
            table[name] = {d: d in passing.split() for d in (passing + failing).split()}
    return table


def merged(table: Table, results: Iterable[Result]) -> Table:
    """The table with what was found now: what passes stays, and more may come to it."""
    new = {name: dict(row) for name, row in table.items()}
    for r in results:
        if r.is_asked:
            row = new.setdefault(r.name, {})
            row[r.dtype] = row.get(r.dtype, False) or not r.failures
    return new


def list_text(table: Table) -> str:
    """A line an operator, with the reason for those out of scope; the counts come first."""
    rows = [d for row in table.values() for d in row.items()]
    counts = [
        f"# {dtype}: {rows.count((dtype, True))} of {sum(d == dtype for d, _ in rows)}"
        for dtype in DTYPES
    ]
    whole = sum(ok for _, ok in rows)
    lines = [*counts, f"# all: {whole} of {len(rows)} ({100 * whole / max(len(rows), 1):.1f} %)"]
    for name in sorted(entries()):
        row, why = table.get(name, {}), why_not(name)
        passing = [d for d in DTYPES if row.get(d) is True]
        failing = [d for d in DTYPES if row.get(d) is False]
        if why:
            lines.append(f"{name} -- {why}")
        elif row:
            lines.append(" ".join([name, *passing, *(["|", *failing] if failing else [])]))
    return "\n".join(lines) + "\n"


def cause(why: str) -> str:
    """What failures are sorted by."""
    named = re.search(r"(aten|prims|operator|burnish)\.[\w.]+", why)
    return named.group(0) if named else why[:100]


def summary(results: Iterable[Result]) -> str:
    """How many pass by dtype, and the causes of the others, most first."""
    asked, passed = Counter[str](), Counter[str]()
    causes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for r in results:
        if not r.is_asked:
            continue
        asked[r.dtype] += 1
        passed[r.dtype] += not r.failures
        for kind, why, _ in r.failures:
            causes[kind, cause(why)].add(f"{r.name}:{r.dtype}")
    lines = [f"{d}: {passed[d]} of {asked[d]}" for d in DTYPES if asked[d]]
    share = 100 * passed.total() / max(asked.total(), 1)
    whole = f"{passed.total()} of {asked.total()} ({share:.1f} %)"
    ranked = sorted(causes.items(), key=lambda item: -len(item[1]))
    rows = [
        f"{len(names):4} {kind} {why}: {' '.join(sorted(names)[:4])}"
        for (kind, why), names in ranked
    ]
    return "\n".join([*lines, whole, *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help=f"all samples, not {QUICK} of each")
    parser.add_argument("--only", default="", help="a pattern of operators")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--most", type=int, default=QUICK, help="samples of each without --all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", help="every failure, as lines of JSON")
    parser.add_argument("--write", action="store_true", help="add what passes to the list")
    given = parser.parse_args()
    asked = [
        (n, d) for n, d in pairs() if d in given.dtypes.split(",") and re.search(given.only, n)
    ]
    with open(given.out or os.devnull, "w", encoding="utf-8") as out:

        def show(result: Result) -> None:
            for kind, why, sample in result.failures:
                row = {"name": result.name, "dtype": result.dtype, "kind": kind}
                print(json.dumps(row | {"why": why, "sample": sample}), file=out, flush=True)
            if given.write:
                table = merged(read_list(), [result])
                LIST.write_text(list_text(table), encoding="utf-8")

        results = run_all(asked, None if given.all else given.most, given.jobs, show)
    print(summary(results))
    table = read_list()
    lost = [
        f"{r.name} {r.dtype}: {r.failures[0]}"
        for r in results
        if r.failures and table.get(r.name, {}).get(r.dtype)
    ]
    if lost:
        sys.exit("In the list, and failing:\n" + "\n".join(lost))


if __name__ == "__main__":
    main()

"""The command behind ``make fuzz-schedules``: many random schedules, in processes that may die.

Sequences go to worker processes in chunks of one function. A worker that crashes or hangs costs one
sequence: the rest of its chunk goes to a new one. Each failure is printed with a shrunk trace that
runs as Python, and ``--out`` writes the summary.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from burnish.tensorir.schedule import Trace
from burnish.tests.fuzz.shrink import shrink
from burnish.tests.strategies.random_programs import PREFIX
from burnish.tests.strategies.schedules import PRIMITIVES, PROGRAMS

CHUNK = 200
"""Sequences a process: enough to forget the second that it takes to start."""
LIMIT = 30.0
"""Seconds of the processor that a sequence may take."""
SHRUNK_CRASHES = 10
"""How many crashes are shrunk: each attempt is a process."""
ATTEMPTS = 60
"""Processes for the shrinking of one crash."""
RANDOM = 40
"""Sequences of one random function; half of all sequences are of such."""
SEEDS_APART = 1_000_000
"""SEED numbers a range of sequences; ranges do not overlap."""


@dataclass
class Summary:
    """What happened in all sequences."""

    sequences: int = 0
    lost: int = 0
    functions: set[str] = field(default_factory=set)
    applied: Counter[str] = field(default_factory=Counter)
    refused: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    no_code: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    times: Counter[str] = field(default_factory=Counter)

    def add(self, report: dict[str, Any]) -> None:
        self.sequences += 1
        self.applied.update(report["applied"])
        for name, kind, count in report["refused"]:
            self.refused[name][kind] += count
        if report["no_code"]:
            self.no_code[_reason(report["no_code"])] += 1
        if report["failure"] is not None:
            self.failures.append(report["failure"])


_EXCHANGES = {
    "threads exchange values through the shared memory": (
        "threads exchange values inside of a block or of loops of different lengths"
    ),
    "the blocks of threads of the loop": (
        "blocks of threads exchange values, and none waits for another"
    ),
    "threads of the loop": "threads read what others wrote to memory of each thread's own",
}
"""Errors that name loops and buffers, and their kinds."""


def _reason(message: str) -> str:
    """The kind of a CodegenError."""
    if message.startswith("Register buffer"):
        return "an index of a register buffer is not constant after unrolling"
    for start, kind in _EXCHANGES.items():
        if f": {start}" in message:
            return kind
    return message.split(";")[0].split(". ")[0][:90]


# -- workers ---------------------------------------------------------------------------------------
def _worker(*arguments: object, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return run_worker("burnish.tests.fuzz.worker", *arguments, given=given)


def run_worker(
    module: str, *arguments: object, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """A process that runs a module and says what it found, a line of JSON each."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    return subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, env=environment
    )


def lines_of(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What a worker said; a last line that it did not finish is dropped."""
    found = []
    for line in done.stdout.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def ending_of(done: subprocess.CompletedProcess[str]) -> str:
    """How a process ended that should not have."""
    if done.returncode == -signal.SIGPROF or "Timeout (" in done.stderr:
        return f"hangs: no end in {LIMIT:.0f} s"
    if done.returncode < 0:
        return f"crashes: {signal.Signals(-done.returncode).name}"
    return f"crashes: exit code {done.returncode}"


def run_chunk(name: str, first: int, count: int) -> list[dict[str, Any]]:
    """The reports of a chunk's sequences. Where a process ends too early, the sequence it was in
    failed, and another process goes on after it."""
    reports: list[dict[str, Any]] = []
    last = first + count
    while first < last:
        done = _worker("run", name, first, last - first, LIMIT)
        said = lines_of(done)
        reports += [line for line in said if "end" in line or "times" in line]
        begun = [line["begin"] for line in said if "begin" in line]
        if done.returncode == 0:
            break
        seed = begun[-1] if begun else first
        failure = {
            "program": name,
            "seed": seed,
            "signature": ending_of(done),
            "message": done.stderr[-1500:],
            "trace": "",
            "after": "",
        }
        reports.append(
            {"end": seed, "applied": {}, "refused": [], "no_code": "", "failure": failure}
        )
        if not begun:  # the function itself cannot be tried
            break
        first = seed + 1
    return reports


def shrink_crash(failure: dict[str, Any]) -> None:
    """Find the trace of a sequence that ended its process, and shrink it, in processes."""
    name, seed = failure["program"], failure["seed"]
    said = lines_of(_worker("trace", name, seed))
    if not said:
        return
    trace = Trace.from_json(said[0]["trace"])

    def fails(candidate: Trace) -> bool:
        done = _worker("check", name, seed, LIMIT, given=json.dumps(candidate.as_json()))
        return done.returncode != 0 and ending_of(done) == failure["signature"]

    failure["trace"] = str(shrink(trace, fails, limit=ATTEMPTS))


# -- the run ---------------------------------------------------------------------------------------
def chunks(names: Sequence[str], count: int, seed: int) -> Iterator[tuple[str, int, int]]:
    """``count`` sequences over the functions, in chunks of one function each."""
    each, more = divmod(count, len(names))
    for start in range(0, each + 1, CHUNK):
        for i, name in enumerate(names):
            size = min(CHUNK, each + (i < more) - start)
            if size > 0:
                yield name, seed * SEEDS_APART + start, size


def random_chunks(count: int, seed: int) -> Iterator[tuple[str, int, int]]:
    """``count`` sequences over as many random functions as that takes, no two runs the same."""
    for start in range(0, count, RANDOM):
        number = seed * SEEDS_APART + start // RANDOM
        yield f"{PREFIX}{number}", seed * SEEDS_APART, min(RANDOM, count - start)


def run(planned: Iterable[tuple[str, int, int]], jobs: int) -> Summary:
    """Run chunks of sequences in ``jobs`` processes and print each failure as it is found."""
    summary = Summary()
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [(chunk[0], pool.submit(run_chunk, *chunk)) for chunk in planned]
        try:
            for name, done in waiting:
                _take(summary, done.result())
                summary.functions.add(name)
        except KeyboardInterrupt:
            print("Interrupted: what follows is about the sequences so far.", flush=True)
            pool.shutdown(wait=False, cancel_futures=True)
    return summary


def _take(summary: Summary, reports: Sequence[dict[str, Any]]) -> None:
    """Enter the reports of a chunk, and print its failures."""
    for report in reports:
        if "times" in report:
            summary.times.update(report["times"])
            continue
        failure = report["failure"]
        if failure is not None and not failure["trace"] and summary.lost < SHRUNK_CRASHES:
            summary.lost += 1
            shrink_crash(failure)
        if failure is not None:
            print(_described(failure), flush=True)
        summary.add(report)


def _described(failure: dict[str, Any]) -> str:
    name, seed = failure["program"], failure["seed"]
    parts = [
        f"== {name}, seed {seed}: {failure['signature']}",
        f"   again: python -m burnish.tests.fuzz.worker run {name} {seed} 1 60",
        failure["message"].rstrip(),
        failure["trace"],
    ]
    return "\n".join([p for p in parts if p]) + "\n"


def table(summary: Summary, seconds: float, *, seed: int, jobs: int) -> str:
    """The summary as Markdown."""
    failures = Counter(
        [f"{f['signature']} | {f['program']} | {f['seed']}" for f in summary.failures]
    )
    lines = [
        f"{summary.sequences} sequences over {len(summary.functions)} functions, seed {seed}, "
        f"{seconds:.0f} s in {jobs} processes; {sum(summary.applied.values())} primitives applied, "
        f"{sum(sum(c.values()) for c in summary.refused.values())} refused; "
        f"{sum(summary.no_code.values())} schedules without machine code; "
        f"{len(summary.failures)} failures.",
        "",
        "| primitive | applied | refused | why |",
        "|---|---:|---:|---|",
    ]
    for name in sorted({*PRIMITIVES, *summary.applied, *summary.refused}):
        kinds = summary.refused.get(name, Counter())
        why = ", ".join([f"{kind} {n}" for kind, n in kinds.most_common()])
        lines.append(f"| `{name}` | {summary.applied[name]} | {sum(kinds.values())} | {why} |")
    if summary.no_code:
        lines += ["", "| no machine code because | schedules |", "|---|---:|"]
        lines += [f"| {why} | {n} |" for why, n in summary.no_code.most_common()]
    total = max(summary.sequences, 1)
    lines += ["", "| part | ms a sequence |", "|---|---:|"]
    lines += [f"| {part} | {1e3 * t / total:.2f} |" for part, t in summary.times.most_common()]
    if failures:
        lines += ["", "| failure | function | seed |", "|---|---|---:|"]
        lines += [f"| {line} |" for line in sorted(failures)]
    return "\n".join(lines) + "\n"


INTRODUCTION = """\
# Random schedules

`make fuzz-schedules N=20000 SEED=0` applies random primitives to small functions (matrix products,
convolutions, pools, softmax, scans, gathers, nested blocks, symbolic shapes ...), half of them
random ones (`tests/strategies/random_programs.py`: conditions in bodies and around blocks,
predicates, nested blocks that declare more than they write, updates at other elements than the
init, indices of every integer type and out of memory, views, blocks without axes, threads that hand
values to one another). A function must be one that `build` takes, parse back from its text, and
compute the same whatever memory held before. Every resulting schedule is checked:

- the function is well formed, in bounds, and declares what it touches;
- its text parses back to an equal function;
- its trace gives an equal function again from JSON, as Python, and simplified without checks;
- its machine code computes what the unscheduled function's does (to 2e-5 relative and 1e-5
  absolute: reductions may reassociate), and writes nothing else: outputs hold something before
  the call, and what the function leaves alone stays as it was.

A primitive may refuse with a ScheduleError and must then leave the schedule as it was; any other
error is a failure. Sequences run in processes of their own, so that a crash or a hang costs one
sequence. A failure is printed with a trace as Python, shrunk to the instructions that it needs.
`JOBS=` sets the number of processes, `PROGRAM=` picks one function, `OUT=` writes this page.

Kinds of arguments that are rare by chance are made on the way: copies in another layout before
`reverse_compute_at`, copies of what a sum gives before `reverse_compute_inline`, operands and
results copied before `pad_einsum`, readers between two writers for `cache_read`, parts that name
every extent, pad values that are expressions, layouts that no analysis finds to be injective
(`assume_injective_transform`), copies in shared memory whose loop is bound to the threads around
it. Where parameters get another layout the call passes arrays of it, and what the
layout leaves unused is nothing that inputs could have.

## The last run

"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="fuzz-schedules", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many sequences")
    parser.add_argument("--seed", type=int, default=0, help="which sequences")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--program", help="only this function, by name; random_17 is one too")
    parser.add_argument("--out", type=Path, help="where to write the summary as Markdown")
    options = parser.parse_args()
    if options.program:
        planned = list(chunks([options.program], options.count, options.seed))
    else:
        known = options.count - options.count // 2
        named = chunks(list(PROGRAMS), known, options.seed)
        random = random_chunks(options.count // 2, options.seed)
        planned = [c for pair in zip_longest(named, random) for c in pair if c is not None]
    begin = time.perf_counter()
    summary = run(planned, options.jobs)
    text = table(summary, time.perf_counter() - begin, seed=options.seed, jobs=options.jobs)
    print(text)
    if options.out is not None:
        options.out.write_text(INTRODUCTION + text, encoding="utf-8")
    sys.exit(bool(summary.failures))


if __name__ == "__main__":
    main()

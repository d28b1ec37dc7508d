"""Compile models of others and compare them with eager PyTorch: ``make coverage``.

Each case runs in a process of its own, forked from one that has the libraries loaded, under a
time limit and a limit of memory: one that hangs or crashes is a line of the table like any other.
What was found is kept in ``docs/coverage.json``, from which ``docs/coverage.md`` is written.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import resource
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from .case import Case, Outcome, check_dynamic, check_static, prepared
from .cases import BY_NAME, CASES

LIMIT_SECONDS = 600
LIMIT_BYTES = 12 << 30
DATA = Path(__file__).parents[2] / "docs" / "coverage.json"
_FORK = multiprocessing.get_context("fork")


def reason(error: BaseException) -> str:
    """An error in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: " + " ".join(lines[:3])
    return re.sub(r"\S*/(?=[\w.]+/[\w.]+\.py)", "", text)[:400]


def run_case(case: Case, *, static_only: bool = False, trace: bool = False) -> Outcome:
    """The outcome of a case, in this process."""
    outcome = Outcome(case.name)
    torch.set_num_threads(1)
    module = prepared(case)
    outcome.parameters = sum(p.numel() for p in module.parameters())
    checks = (("static", check_static), ("dynamic", check_dynamic))
    for field, check in checks[:1] if static_only else checks:
        try:
            check(case, module, outcome)
        except BaseException as error:  # whatever it is, it is this case's result
            setattr(outcome, field, reason(error))
            if trace:
                traceback.print_exc()
    return outcome


def _work(name: str, options: dict[str, Any], answer: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    try:
        outcome = run_case(BY_NAME[name], **options)
    except BaseException as error:  # the case itself is at fault
        outcome = Outcome(name, static=reason(error))
        traceback.print_exc()
    answer.send(asdict(outcome))


def run_all(
    names: Sequence[str], jobs: int, options: dict[str, Any], seconds: float = LIMIT_SECONDS
) -> dict[str, dict[str, Any]]:
    """The outcomes of cases by name, ``jobs`` at a time."""
    found: dict[str, dict[str, Any]] = {}
    waiting, running = list(names), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            mine, theirs = _FORK.Pipe(duplex=False)
            process = _FORK.Process(target=_work, args=(name, options, theirs))
            process.start()
            theirs.close()
            running[mine] = (name, process, time.monotonic() + seconds)
        ready = wait(list(running), timeout=1.0)
        for pipe, (name, process, deadline) in list(running.items()):
            late = time.monotonic() > deadline
            if pipe not in ready and not late:
                continue
            try:
                result = pipe.recv() if pipe in ready else None
            except EOFError:
                result = None
            if result is None:
                process.kill()
            process.join()
            if result is None:
                why = f"took over {seconds:.0f} s" if late else f"ended with {process.exitcode}"
                result = asdict(Outcome(name, static=why, dynamic=why))
            found[name] = result
            del running[pipe]
            print(line(result), flush=True)
    return found


def line(result: dict[str, Any]) -> str:
    """An outcome in a line, for whoever waits."""
    seconds = f"{result['frontend_seconds']:6.1f} {result['compile_seconds']:6.1f}"
    times = f"{result['burnish_ms']:8.1f} {result['eager_ms']:8.1f}"
    wrong = " | ".join(f"{k}: {result[k]}" for k in ("static", "dynamic") if result[k])
    return f"{result['name']:45} {seconds} {times}  {wrong or 'agrees'}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--match", default="", help="cases whose names contain this (regex)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--static", action="store_true", help="leave dynamic dims out")
    parser.add_argument("--trace", action="store_true", help="show where errors come from")
    parser.add_argument("--seconds", type=float, default=LIMIT_SECONDS)
    parser.add_argument("--data", type=Path, default=DATA)
    given = parser.parse_args(argv)
    names = [case.name for case in CASES if re.search(given.match, case.name)]
    options = {"static_only": given.static, "trace": given.trace}
    found = run_all(names, given.jobs, options, given.seconds)
    known = json.loads(given.data.read_text()) if given.data.exists() else {}
    known |= found
    ordered = {case.name: known[case.name] for case in CASES if case.name in known}
    given.data.write_text(json.dumps(ordered, indent=1) + "\n")
    bad = [n for n, r in found.items() if r["static"] or r["dynamic"]]
    print(f"{len(found) - len(bad)} of {len(found)} agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())

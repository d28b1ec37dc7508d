"""Compile models of others and compare them with eager PyTorch: ``make coverage``.

Each case runs in a process of its own, forked from one that has the libraries loaded, under a
time limit and a limit of memory: one that hangs or crashes is a line of the table like any other.
What was found is kept beside this file, from one call to the next, and ``docs/coverage.md`` is
written from it.
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
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from .case import TOLERANCE, Case, Outcome, check_dynamic, check_static, prepared
from .cases import BY_NAME, CASES
from .cold import PAGE, parted

LIMIT_SECONDS = 600
LIMIT_BYTES = 12 << 30
DATA = Path(__file__).with_name("outcomes.json")
HEAD = """# Models that others wrote

`make coverage` compiles models of torchvision, timm and transformers and compares them with eager
PyTorch. Weights are random and disturbed, so that no output is constant. A model agrees where no
element of an output is further from eager's than {tolerance} times the largest of that output, or
where it is at most twice as far from float64's as eager's own.
It is compiled for one shape and, by itself, for any batch (of texts and waves any length too).
Compilation and calls take place under nothing, under `no_grad` or under `inference_mode`, by
the model's name; with `train()` left on a model is refused by name where that changes its result,
and compiled otherwise. Export is torch.export and the import behind it, compile is what comes
after, on two cores, with kernels from the cache that an earlier model of the run had; a call is
timed on one thread. The run that wrote this{machine} had {count} of {all} models, of which {agree}
agree both ways.
"""
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
) -> Iterator[dict[str, Any]]:
    """The outcomes of cases, ``jobs`` at a time, as they come."""
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
            del running[pipe]
            yield result


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
    parser.add_argument("--machine", default="", help="what the page calls the machine")
    given = parser.parse_args(argv)
    names = [case.name for case in CASES if re.search(given.match, case.name)]
    options = {"static_only": given.static, "trace": given.trace}
    known = json.loads(given.data.read_text()) if given.data.exists() else {}
    for result in run_all(names, given.jobs, options, given.seconds):
        print(line(result), flush=True)
        known[result["name"]] = result
        ordered = {case.name: known[case.name] for case in CASES if case.name in known}
        given.data.write_text(json.dumps(ordered, indent=1) + "\n")
    _, cold = parted(PAGE.read_text())
    PAGE.write_text(page(json.loads(given.data.read_text()), given.machine) + "\n" + cold)
    return 0


def page(outcomes: dict[str, dict[str, Any]], machine: str = "") -> str:
    """The document: how many agree, and a line for each model."""
    rows = list(outcomes.values())
    agree = sum(not r["static"] and not r["dynamic"] for r in rows)
    where = f", on {machine}" if machine else ""
    parts = [
        HEAD.format(
            tolerance=TOLERANCE, agree=agree, count=len(rows), all=len(CASES), machine=where
        )
    ]
    parts += [
        "| model | one shape | any batch (and length) | export, s | compile, s | ms | eager, ms |"
    ]
    parts += ["|---|---|---|---:|---:|---:|---:|"]
    parts += [_row(r) for r in rows]
    return "\n".join(parts) + "\n"


def _row(r: dict[str, Any]) -> str:
    words = [(r[kind] or "agrees").replace("|", "/")[:160] for kind in ("static", "dynamic")]
    numbers = [f"{r[key]:.1f}" for key in ("frontend_seconds", "compile_seconds")]
    numbers += [f"{r[key]:.2f}" for key in ("burnish_ms", "eager_ms")]
    return f"| {r['name']} | {' | '.join([*words, *numbers])} |"


if __name__ == "__main__":
    sys.exit(main())

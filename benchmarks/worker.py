"""One contender in its own process: prepares a model, then times batches of calls on command.

Reads one JSON command a line: ``{"way": W, "calls": N}`` runs N calls and answers ``{"seconds":
s}``. Its own process keeps the thread pools of the contenders apart; the parent takes turns between
the processes. The first answer says of each way whether it is ready, and why not: what it raised,
or that its result is not that of eager PyTorch.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .cases import case_named
from .contenders import CONTENDERS, Prepared

TOLERANCE = 1e-3
"""The most that a result may differ from eager PyTorch's, relative to the largest element."""


def arrays(result: Any) -> list[np.ndarray]:
    """What a contender gave, as NumPy arrays."""
    if isinstance(result, np.ndarray):
        return [result]
    if hasattr(result, "detach"):
        return [result.detach().numpy()]
    parts = result.values() if hasattr(result, "values") else result
    return [a for part in parts for a in arrays(part)]


def disagreement(found: Any, wanted: Sequence[np.ndarray]) -> str:
    """Why a result is not that of eager PyTorch; empty where it is."""
    got = arrays(found)
    shapes = [a.shape for a in got], [a.shape for a in wanted]
    if shapes[0] != shapes[1]:
        return f"wrong result: shapes {shapes[0]} where eager PyTorch has {shapes[1]}"
    for a, b in zip(got, wanted, strict=True):
        error = float(np.max(abs(a - b), initial=0)) / max(float(np.max(abs(b), initial=0)), 1e-30)
        if not error <= TOLERANCE:
            return f"wrong result: {error:.1e} off from eager PyTorch"
    return ""


def prepare(
    name: str, module: Any, inputs: tuple[np.ndarray, ...], threads: int
) -> tuple[dict[str, Prepared], dict[str, dict[str, Any]]]:
    """The ways that are ready, and a report of each: ``prepare_seconds``, and ``error`` if it
    failed."""
    wanted = arrays(CONTENDERS["eager"](module, inputs, threads)["plain"]()())
    runs: dict[str, Prepared] = {}
    report: dict[str, dict[str, Any]] = {}
    start = time.perf_counter()
    try:
        ways = CONTENDERS[name](module, inputs, threads)
    except Exception as error:  # a row of the table, whatever it is
        return {}, {"plain": {"error": describe(error)}}
    for way, make in ways.items():
        error_text, run = attempt(make, wanted)
        report[way] = {"prepare_seconds": time.perf_counter() - start}
        if run is None:
            report[way]["error"] = error_text
        else:
            runs[way] = run
        start = time.perf_counter()
    return runs, report


def attempt(
    make: Callable[[], Prepared], wanted: Sequence[np.ndarray]
) -> tuple[str, Prepared | None]:
    """One way, run once and compared: why it failed, or what runs it."""
    try:
        run = make()
        wrong = disagreement(run(), wanted)
    except Exception as error:  # a row of the table, whatever it is
        return describe(error), None
    return (wrong, None) if wrong else ("", run)


def describe(error: Exception) -> str:
    """An error in a line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def main() -> None:
    spec = json.loads(sys.argv[1])
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not end up between our answers

    def say(message: dict[str, Any]) -> None:
        answer.write(json.dumps(message) + "\n")
        answer.flush()

    module, inputs = case_named(spec["case"]).build()
    runs, report = prepare(spec["contender"], module, inputs, spec["threads"])
    say({"ways": report})
    for line in sys.stdin:
        command = json.loads(line)
        run, calls = runs[command["way"]], command["calls"]
        start = time.perf_counter()
        for _ in range(calls):
            run()
        say({"seconds": time.perf_counter() - start})


if __name__ == "__main__":
    main()

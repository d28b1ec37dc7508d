"""One contender in its own process: prepares a model, then times batches of calls on command.

Reads one JSON command a line: ``{"way": W, "calls": N}`` runs N calls and answers ``{"seconds":
s}``. Its own process keeps the thread pools of the contenders apart; the parent takes turns between
the processes. The first answer says of each way whether it is ready, and why not: what it raised,
or that its result is not that of eager PyTorch.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .cases import case_named
from .contenders import CONTENDERS, Inputs, Prepared, Ways
from .reduced import REDUCED

TOLERANCE = 1e-3
"""The most that a result may differ from eager PyTorch's, relative to the largest element."""
LOOSE = 0.5
"""The same where each contender rounds as it likes, and says how far it is off."""


def arrays(result: Any) -> list[np.ndarray]:
    """What a contender gave, as NumPy arrays."""
    if isinstance(result, np.ndarray):
        return [result]
    if hasattr(result, "detach"):
        return [result.detach().numpy()]
    parts = result.values() if hasattr(result, "values") else result
    return [a for part in parts for a in arrays(part)]


def difference(found: Any, wanted: Sequence[np.ndarray]) -> float:
    """The largest difference of results of the same shapes, relative to the largest element."""
    errors = [
        float(np.max(abs(a - b), initial=0)) / max(float(np.max(abs(b), initial=0)), 1e-30)
        for a, b in zip(arrays(found), wanted, strict=True)
    ]
    return float(np.max(errors, initial=0.0))  # not a number where one is


def disagreement(found: Any, wanted: Sequence[np.ndarray], tolerance: float = TOLERANCE) -> str:
    """Why a result is not that of eager PyTorch; empty where it is."""
    got = arrays(found)
    shapes = [a.shape for a in got], [a.shape for a in wanted]
    if shapes[0] != shapes[1]:
        return f"wrong result: shapes {shapes[0]} where eager PyTorch has {shapes[1]}"
    error = difference(got, wanted)
    return "" if error <= tolerance else f"wrong result: {error:.1e} off from eager PyTorch"


def contender_named(name: str) -> Callable[[Any, Inputs, int], Ways]:
    """One of CONTENDERS, or one that rounds."""
    known = {k: v for table in REDUCED.values() for k, v in table.items()} | CONTENDERS
    return known[name]


def in_float64(module: Any, inputs: Inputs) -> list[np.ndarray]:
    """What the module gives in float64, NumPy's."""
    import torch

    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs]
    with torch.inference_mode():
        return arrays(copy.deepcopy(module).double()(*map(torch.from_numpy, wide)))


def prepare(
    name: str, module: Any, inputs: Inputs, threads: int, *, rounds: bool = False
) -> tuple[dict[str, Prepared], dict[str, dict[str, Any]]]:
    """The ways that are ready, and a report of each: ``prepare_seconds``, and ``error`` if it
    failed. Where contenders may round, what they give is compared with float64, and the report has
    the ``difference``."""
    tolerance = LOOSE if rounds else TOLERANCE
    if rounds:
        wanted = in_float64(module, inputs)
    else:
        wanted = arrays(CONTENDERS["eager"](module, inputs, threads)["plain"]()())
    runs: dict[str, Prepared] = {}
    report: dict[str, dict[str, Any]] = {}
    start = time.perf_counter()
    try:
        ways = contender_named(name)(module, inputs, threads)
    except Exception as error:  # a row of the table, whatever it is
        return {}, {"plain": {"error": describe(error)}}
    for way, make in ways.items():
        error_text, off, run = attempt(make, wanted, tolerance)
        report[way] = {"prepare_seconds": time.perf_counter() - start}
        if run is None:
            report[way]["error"] = error_text
        else:
            runs[way] = run
            if rounds:
                report[way]["difference"] = off
        start = time.perf_counter()
    return runs, report


def attempt(
    make: Callable[[], Prepared], wanted: Sequence[np.ndarray], tolerance: float
) -> tuple[str, float, Prepared | None]:
    """One way, run once and compared: why it failed, or how far it is off and what runs it."""
    try:
        run = make()
        found = run()
        wrong = disagreement(found, wanted, tolerance)
        return (wrong, 0.0, None) if wrong else ("", difference(found, wanted), run)
    except Exception as error:  # a row of the table, whatever it is
        return describe(error), 0.0, None


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
    runs, report = prepare(
        spec["contender"], module, inputs, spec["threads"], rounds=spec["rounds"]
    )
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

"""What a model weighs: memory of the process beside the weights that the caller holds.

    python -m burnish.benchmarks.memory --models bert,resnet50

Each model is measured in a process of its own, which holds the torch module and its exported
program (they share the weights) when the measurement begins. In MiB of resident memory and in
multiples of the weights: what compiling adds at most, what is left when it is done, what the first
call adds at most to that, and what is left after some calls. The compiler's own code and LLVM are
loaded before, by a compilation of a model of three operations, and are not counted.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from .compile_time import MODELS, resident

CALLS = 3
"""Calls after the first."""
COLUMNS = ("peak", "kept", "call", "after")
MIB = 1024 * 1024


def measure(name: str) -> dict[str, Any]:
    """Compile and run one model in this process; a row of the table, in bytes."""
    import torch

    import burnish

    folder, make = MODELS[name]
    module, inputs = make(importlib.import_module(f"burnish.models.{folder}"))
    held = [*module.parameters(), *module.buffers()]
    weights = sum(t.numel() * t.element_size() for t in held)
    program = torch.export.export(module, inputs)
    warm_up(burnish, torch)
    gc.collect()
    reset_peak()
    before = resident()
    model = burnish.compile(program)
    peak = resident(peak=True)
    gc.collect()
    kept = resident()
    reset_peak()
    with torch.no_grad():
        model(*inputs)
        first = resident(peak=True)
        for _ in range(CALLS):
            model(*inputs)
    gc.collect()
    row = {"peak": peak - before, "kept": kept - before, "call": first - kept}
    return {"model": name, "weights": weights, **row, "after": resident() - before}


def warm_up(burnish: Any, torch: Any) -> None:
    """Load what every compilation loads."""
    small = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()
    x = torch.zeros(2, 8)
    burnish.compile(torch.export.export(small, (x,)))(x)


def reset_peak() -> None:
    """Let the peak of this process's memory begin anew (Linux)."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def in_process(name: str) -> dict[str, Any]:
    """``measure`` in a fresh interpreter."""
    command = [sys.executable, "-m", f"{__package__}.memory", "--measure", name]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as text: MiB, and multiples of the weights."""
    lines = [f"{'model':12}{'weights':>9}" + "".join(f"{c:>16}" for c in COLUMNS)]
    for row in rows:
        line = f"{row['model']:12}{row['weights'] / MIB:9.1f}"
        for column in COLUMNS:
            line += f"{row[column] / MIB:9.1f}{row[column] / row['weights']:6.1f}x"
        lines.append(line)
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the models one after another and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.memory", description=__doc__)
    parser.add_argument("--models", default=",".join(MODELS), help="names separated by commas")
    parser.add_argument("--measure", choices=tuple(MODELS), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure:
        os.environ["BURNISH_CACHE"] = "0"
        print(json.dumps(measure(options.measure)))
        return 0
    names = options.models.split(",")
    unknown = [n for n in names if n not in MODELS]
    if unknown:
        parser.error(f"there is no model {unknown[0]!r}; there are {', '.join(MODELS)}.")
    print(table([in_process(name) for name in names]))
    return 0


if __name__ == "__main__":
    sys.exit(main())

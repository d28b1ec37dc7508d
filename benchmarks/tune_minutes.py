"""What do some minutes of tuning gain? Whole models, timed before and after.

    python -m burnish.benchmarks.tune_minutes [--models resnet18 ...] [--minutes 10] [--threads 1]
                                              [--seed N] [--records DIR] [--out FILE.md]

Each model is compiled twice. One of the two is tuned with ``model.tune`` from nothing (or from the
records in DIR, to go on), and then both run in turns on the same inputs: the gain is that of whole
calls, from arrays to arrays. Where tuning won nothing the tuned model is the untuned one, and the
gain shows the noise. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import burnish
from burnish.driver.timing import Timing, time_interleaved

from .cases import CASES, Case
from .run import cpu_name, versions
from .tune_model import geometric_mean

MODELS = ("mlp-784x128x10-1", "mobilenetv2-224", "resnet18-224", "bert-6x384-128")
ROUNDS, SECONDS = 40, 0.1


@dataclass(frozen=True)
class Outcome:
    """A model's tuning: how much was measured, whether it was kept, and times of whole calls."""

    name: str
    tasks: int
    trials: int
    minutes: float
    kept: bool
    untuned: Timing
    tuned: Timing

    @property
    def gain(self) -> float:
        """Untuned over tuned, of minima."""
        return self.untuned.minimum / self.tuned.minimum


def tune(case: Case, minutes: float, threads: int, records: Path | None) -> Outcome:
    """Tune a model, and time it beside one that is not tuned."""
    import torch

    module, arrays = case.build()
    inputs = tuple([torch.from_numpy(a) for a in arrays])
    models = {
        name: burnish.compile(module, inputs, threads=threads) for name in ("untuned", "tuned")
    }
    path = None if records is None else records / f"{case.name}.db"
    start = time.monotonic()
    result = models["tuned"].tune(minutes=minutes, database=path)
    taken = (time.monotonic() - start) / 60
    times = time_interleaved(
        {name: partial(model, *arrays) for name, model in models.items()},
        rounds=ROUNDS,
        seconds=SECONDS,
    )
    trials = sum([state.done for state in result.tasks])
    tasks = len(result.tasks)
    return Outcome(case.name, tasks, trials, taken, result.kept, times["untuned"], times["tuned"])


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as Markdown, with the geometric mean of the gains."""
    lines = [
        "| model | kernels | measured | minutes | untuned ms | tuned ms | gain | of medians |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for o in outcomes:
        medians = o.untuned.median / o.tuned.median
        kept = "" if o.kept else " (the untuned stays)"
        lines.append(
            f"| {o.name} | {o.tasks} | {o.trials} | {o.minutes:.1f} "
            f"| {o.untuned.minimum * 1e3:.4g} | {o.tuned.minimum * 1e3:.4g} "
            f"| {o.gain:.3f}{kept} | {medians:.3f} |"
        )
    mean = geometric_mean([o.gain for o in outcomes])
    return "\n".join([*lines, "", f"Geometric mean of the gains: {mean:.3f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(CASES))
    parser.add_argument("--minutes", type=float, default=10.0, help="for each model")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, help="of the search (BURNISH_SEED)")
    parser.add_argument("--records", type=Path, metavar="DIR", help="databases, one a model")
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="where the table is written")
    options = parser.parse_args()
    if options.seed is not None:
        os.environ["BURNISH_SEED"] = str(options.seed)
    if options.records is not None:
        options.records.mkdir(parents=True, exist_ok=True)
    print(cpu_name(), versions(), sep="\n")
    print(f"threads: {options.threads}, load before: {os.getloadavg()[0]:.1f}", flush=True)
    outcomes: list[Outcome] = []
    for name in options.models:
        found = tune(CASES[name], options.minutes, options.threads, options.records)
        outcomes.append(found)
        print(
            f"{name}: {found.trials} candidates of {found.tasks} kernels in {found.minutes:.1f} "
            f"min, {found.gain:.3f} times as fast, {'kept' if found.kept else 'not kept'}",
            flush=True,
        )
    text = table(outcomes)
    print("\n" + text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Does the learned cost model earn its place? Searches at equal numbers of trials.

    python -m burnish.benchmarks.tune_model [--out FILE.md] [--resume FILE.json] [--seeds N]
                                            [--checkpoints N ...] [--tasks NAME ...] [--all]

Evolutionary search with the learned model against the same search with random scores, each from
nothing: neither begins with the analytic schedule, whose time is given beside them. One search to
the last checkpoint gives the best time at all of them. Every finished search is kept in the file of
``--resume`` (next to ``--out`` by default), and a later run with the same options goes on from
there. Candidates are timed for a few milliseconds each. ``--all`` adds random search and the
analytic model. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from burnish.benchmarks.bench_tune import linear, product, product_add
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tuner.measuring.pipeline import Pools, local_pools
from burnish.tuner.measuring.reference_pool import ReferencePool
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.session import tune_task
from burnish.tuner.task import TuneTask

TARGET = Target("native -threads=1")
CHECKPOINTS = (64, 256)
BATCH = 32
SECONDS = 0.006
"""Seconds a candidate is timed for; what is compared are times ten percent and more apart."""
CONTENDERS = {
    "learned": ("evolutionary", "learned"),
    "random": ("evolutionary", "random"),
    "analytic": ("evolutionary", "analytic"),
    "random search": ("random", None),
}


def rectangle(rows: int, columns: int, reduce: int) -> PrimFunc:
    """``C = A @ B``."""
    a = te.placeholder((rows, reduce), name="A")
    b = te.placeholder((reduce, columns), name="B")
    k = te.reduce_axis((0, reduce), "k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name="C")
    return te.create_prim_func([a, b, c])


def multi_level_tiling(sch: Schedule) -> None:
    """Tiles in four levels, a copy of the result's tile, vectors, unrolling."""
    i, j, k = sch.get_loops("C")
    i0, i1, i2, i3 = sch.split(i, sch.sample_perfect_tile(i, 4, 16))
    j0, j1, j2, j3 = sch.split(j, sch.sample_perfect_tile(j, 4, 64))
    k0, k1 = sch.split(k, sch.sample_perfect_tile(k, 2, 16))
    sch.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    copy = sch.cache_write("C", 0, "global")
    sch.reverse_compute_at(copy, j1, preserve_unit_loops=True)
    sch.vectorize(j3)
    sch.unroll(i3)
    sch.vectorize(sch.get_loops(copy)[-1])
    sch.decompose_reduction("C", k0)


TASKS: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], None] | None]] = {
    "tiling, matmul 128x128x128": (lambda: product(128), multi_level_tiling),
    "rules, matmul 128x128x128": (lambda: product(128), None),
    "rules, linear 1x784x128": (lambda: linear(1, 784, 128), None),
    "rules, matmul and add 256": (lambda: product_add(256), None),
}


@dataclass(frozen=True)
class Outcome:
    """A search: the best seconds at each checkpoint, how many failed, and its wall time."""

    task: str
    contender: str
    seed: int
    best: tuple[float, ...]
    failed: int
    wall: float


def search(
    name: str, contender: str, seed: int, checkpoints: Sequence[int], pools: Pools
) -> Outcome:
    """One search from nothing; a task that has fewer candidates ends with those."""
    start = time.perf_counter()
    make, space = TASKS[name]
    strategy, model = CONTENDERS[contender]
    done: list[float | None] = []
    with TuningDatabase() as database:
        progress = tune_task(
            TuneTask(name, make(), TARGET),
            database,
            max_trials=checkpoints[-1],
            trials_per_iter=BATCH,
            space=space,
            seed=seed,
            seconds=SECONDS,
            executor=pools.runner,
            builder=pools.builder,
            strategy=strategy,
            model=model,
            analytic_first=False,
            on_progress=lambda p: done.append(p.best),
        )
    best = [done[min(n, len(done)) - 1] if done else None for n in checkpoints]
    seconds = tuple([math.inf if b is None else b for b in best])
    return Outcome(name, contender, seed, seconds, progress.failed, time.perf_counter() - start)


def analytic_time(name: str, pools: Pools) -> float:
    """The time of the built-in schedule."""
    task = TuneTask(name, TASKS[name][0](), TARGET)
    with TuningDatabase() as database:
        progress = tune_task(
            task,
            database,
            max_trials=1,
            seconds=0.1,
            executor=pools.runner,
            builder=pools.builder,
            strategy="random",
        )
    return progress.best if progress.best is not None else math.inf


class Results:
    """Finished searches, in a file if there is one: what is in it need not be run again."""

    def __init__(self, path: Path | None, options: dict[str, object]) -> None:
        """Raises SystemExit where the file is of a run with other options."""
        self.path, self.options = path, options
        self.analytic: dict[str, float] = {}
        self.outcomes: list[Outcome] = []
        if path is None or not path.exists():
            return
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["options"] != options:
            raise SystemExit(
                f"{path} holds searches with {data['options']}, not {options}. Pass those options "
                "to go on with it, or another file."
            )
        self.analytic = data["analytic"]
        self.outcomes = [Outcome(**{**o, "best": tuple(o["best"])}) for o in data["outcomes"]]

    def find(self, task: str, contender: str, seed: int) -> Outcome | None:
        """The search, if it is finished."""
        wanted = (task, contender, seed)
        found = [o for o in self.outcomes if (o.task, o.contender, o.seed) == wanted]
        return found[0] if found else None

    def save(self) -> None:
        """Write the file; the old one is there until the new one is complete."""
        if self.path is None:
            return
        data = {
            "options": self.options,
            "analytic": self.analytic,
            "outcomes": [asdict(o) for o in self.outcomes],
        }
        part = self.path.with_name(self.path.name + ".part")
        part.write_text(json.dumps(data, indent=1), encoding="utf-8")
        part.replace(self.path)


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; infinite where a value is."""
    if any(math.isinf(v) for v in values):
        return math.inf
    return math.exp(sum(math.log(v) for v in values) / len(values))


def table(results: Results, contenders: Sequence[str], checkpoints: Sequence[int]) -> str:
    """The results as Markdown: geometric means over seeds, in microseconds, and in how many seeds
    the first contender was faster than each other one."""
    first, *others = contenders
    head = ["task", "analytic schedule", "trials", *contenders]
    head += [f"{first} wins against {c}" for c in others]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    ratios: dict[tuple[int, str], list[float]] = {}
    for task in dict.fromkeys(o.task for o in results.outcomes):
        for i, trials in enumerate(checkpoints):
            found = {
                c: {
                    o.seed: o.best[i]
                    for o in results.outcomes
                    if (o.task, o.contender) == (task, c)
                }
                for c in contenders
            }
            means = {c: geometric_mean(list(f.values())) for c, f in found.items() if f}
            cells = [task, f"{results.analytic.get(task, math.nan) * 1e6:.1f}", str(trials)]
            cells += [f"{means[c] * 1e6:.1f}" if c in means else "-" for c in contenders]
            for other in others:
                both = [s for s in found[first] if s in found[other]]
                wins = sum([found[first][s] < found[other][s] for s in both])
                cells.append(f"{wins} of {len(both)}")
                for s in both:
                    ratios.setdefault((trials, other), []).append(found[other][s] / found[first][s])
            lines.append("| " + " | ".join(cells) + " |")
    summary = [
        f"After {trials} trials the best of {other} takes {geometric_mean(values):.2f} times as "
        f"long as that of {first} (geometric mean over tasks and seeds)."
        for (trials, other), values in ratios.items()
    ]
    return "\n".join(
        ["Microseconds of a call, geometric means over seeds.", "", *lines, "", *summary]
    )


def main(options: argparse.Namespace) -> None:
    checkpoints = sorted(options.checkpoints)
    contenders = list(CONTENDERS) if options.all else ["learned", "random"]
    path = options.resume or (options.out.with_suffix(".json") if options.out else None)
    results = Results(path, {"checkpoints": checkpoints, "seconds": SECONDS, "batch": BATCH})
    jobs = [
        (task, contender, seed)
        for seed in range(options.seeds)
        for task in options.tasks
        for contender in contenders
    ]
    todo = [job for job in jobs if results.find(*job) is None]
    print(f"{len(jobs)} searches to {checkpoints[-1]} trials, {len(jobs) - len(todo)} are finished")
    start = time.perf_counter()
    with ExitStack() as stack:
        pools = local_pools(TuneTask("first", product(16), TARGET).target, stack, ReferencePool)
        pools.start()
        for number, (task, contender, seed) in enumerate(todo, start=1):
            if task not in results.analytic:
                results.analytic[task] = analytic_time(task, pools)
            found = search(task, contender, seed, checkpoints, pools)
            results.outcomes.append(found)
            results.save()
            best = " ".join(f"{b * 1e6:.1f}" for b in found.best)
            left = (time.perf_counter() - start) / number * (len(todo) - number) / 60
            print(
                f"{task:28} {contender:14} seed {seed}: {best} us   {found.failed} failed, "
                f"{found.wall:.0f} s; about {left:.0f} min left",
                flush=True,
            )
    text = table(results, contenders, checkpoints)
    print("\n" + text)
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")
        print(f"\nwrote {options.out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="FILE.md", help="where the table is written")
    parser.add_argument("--resume", type=Path, metavar="FILE.json", help="finished searches")
    parser.add_argument("--checkpoints", type=int, nargs="+", default=list(CHECKPOINTS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    parser.add_argument(
        "--all", action="store_true", help="random search and the analytic model too"
    )
    main(parser.parse_args())

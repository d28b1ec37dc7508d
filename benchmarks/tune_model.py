"""Does the learned cost model earn its place? Searches at equal numbers of trials.

    python -m burnish.benchmarks.tune_model [--trials N] [--batch N] [--seeds N] [--tasks NAME ...]

For each task and seed, the best time after N measured candidates of random search, and of
evolutionary search with the learned, the analytic and no model (random scores). None of them starts
from the analytic schedule, whose time is given beside them. Printed are geometric means over seeds;
nothing is asserted.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence

from burnish.support.target import Target
from burnish.tensorir import compute as te
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tuner.database import TuningDatabase
from burnish.tuner.session import tune_task
from burnish.tuner.task import TuneTask
from burnish.tuner.worker_pool import WorkerPool

TARGET = Target("native -threads=1")
CONTENDERS = (
    ("random search", "random", None),
    ("evolution, random scores", "evolutionary", "random"),
    ("evolution, analytic", "evolutionary", "analytic"),
    ("evolution, learned", "evolutionary", "learned"),
)


def product(rows: int, columns: int, reduce: int) -> PrimFunc:
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
    "tiling 128x128x128": (lambda: product(128, 128, 128), multi_level_tiling),
    "tiling 64x256x192": (lambda: product(64, 256, 192), multi_level_tiling),
    "rules 96x160x128": (lambda: product(96, 160, 128), None),
}


def best_of(
    name: str,
    strategy: str,
    model: str | None,
    seed: int,
    trials: int,
    batch: int,
    pool: WorkerPool,
) -> float:
    """The best seconds a search finds."""
    make, space = TASKS[name]
    with TuningDatabase() as database:
        progress = tune_task(
            TuneTask(name, make(), TARGET),
            database,
            max_trials=trials,
            trials_per_iter=batch,
            space=space,
            seed=seed,
            seconds=0.03,
            executor=pool,
            strategy=strategy,
            model=model,
            analytic_first=False,
        )
    return progress.best if progress.best is not None else math.inf


def analytic_time(name: str, pool: WorkerPool) -> float:
    """The time of the built-in schedule."""
    task = TuneTask(name, TASKS[name][0](), TARGET)
    with TuningDatabase() as database:
        progress = tune_task(
            task, database, max_trials=1, seconds=0.1, executor=pool, strategy="random"
        )
    return progress.best if progress.best is not None else math.inf


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values))


def main(trials: int, batch: int, seeds: int, names: Sequence[str]) -> None:
    print(f"best microseconds after {trials} trials (batches of {batch}), {seeds} seeds")
    with WorkerPool(1, limit=60.0) as pool:
        for name in names:
            analytic = analytic_time(name, pool)
            print(f"\n{name}   (analytic schedule: {analytic * 1e6:.1f})")
            baseline: list[float] = []
            for title, strategy, model in CONTENDERS:
                start = time.perf_counter()
                found = [
                    best_of(name, strategy, model, seed, trials, batch, pool)
                    for seed in range(seeds)
                ]
                baseline = baseline or found
                gain = geometric_mean(baseline) / geometric_mean(found)
                wins = sum(f < b for f, b in zip(found, baseline, strict=True))
                each = " ".join(f"{f * 1e6:8.1f}" for f in found)
                print(
                    f"  {title:26} {geometric_mean(found) * 1e6:8.1f}   {gain:5.2f}x   "
                    f"wins {wins}/{seeds}   [{each}]   {time.perf_counter() - start:.0f} s",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    options = parser.parse_args()
    main(options.trials, options.batch, options.seeds, options.tasks)

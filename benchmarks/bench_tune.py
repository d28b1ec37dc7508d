"""How long does tuning take? Four workloads on one thread, at the numbers of trials for which
figures of TVM are known.

    python -m burnish.benchmarks.bench_tune [--cases NAME ...] [--trials N] [--seed N]

A trial is a distinct lowered program that was built, gave the right result, and was then timed for
at least 50 ms; failures are counted beside the trials, and nothing stops a search early. The wall
time holds all there is: starting the workers, running the unscheduled function, proposing,
building and timing. TVM's figures (0.26, ``tune_tir``) are from another machine and its times of a
call compare with ours no further than the two machines do. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from burnish import te
from burnish.support.target import Target
from burnish.tensorir.function import PrimFunc
from burnish.tuner.measuring.pipeline import local_pools
from burnish.tuner.records.database import TuningDatabase
from burnish.tuner.search.strategies import make_model
from burnish.tuner.session import tune_task
from burnish.tuner.task import TuneTask

TARGET = "native -threads=1"
TIMED_SECONDS = 0.05


def product(n: int) -> PrimFunc:
    """``C = A @ B``, square."""
    a, b = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.create_prim_func([a, b, c])


def linear(rows: int, depth: int, columns: int) -> PrimFunc:
    """``Y = X @ W.T + B``."""
    x = te.placeholder((rows, depth), name="X")
    w = te.placeholder((columns, depth), name="W")
    b = te.placeholder((columns,), name="B")
    k = te.reduce_axis((0, depth), name="k")
    s = te.compute((rows, columns), lambda i, j: te.sum(x[i, k] * w[j, k], axis=k), name="S")
    y = te.compute((rows, columns), lambda i, j: s[i, j] + b[j], name="Y")
    return te.create_prim_func([x, w, b, y])


def product_add(n: int) -> PrimFunc:
    """``E = A @ B + D``, square."""
    a, b, d = (te.placeholder((n, n), name=name) for name in "ABD")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    e = te.compute((n, n), lambda i, j: c[i, j] + d[i, j], name="E")
    return te.create_prim_func([a, b, d, e])


def chain(m: int, k: int, p: int, n: int) -> PrimFunc:
    """``F = exp(A @ B) @ E``, one function."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, p), name="B")
    e = te.placeholder((p, n), name="E")
    first, second = te.reduce_axis((0, k), name="rk"), te.reduce_axis((0, p), name="rp")
    c = te.compute((m, p), lambda i, j: te.sum(a[i, first] * b[first, j], axis=first), name="C")
    d = te.compute((m, p), lambda i, j: te.exp(c[i, j]), name="D")
    f = te.compute((m, n), lambda i, j: te.sum(d[i, second] * e[second, j], axis=second), name="F")
    return te.create_prim_func([a, b, e, f])


@dataclass(frozen=True)
class Case:
    """A workload, and what TVM took for ``trials`` of it: wall seconds, best seconds of a call."""

    make: Callable[[], PrimFunc]
    trials: int
    tvm_wall: float
    tvm_best: float


CASES = {
    "matmul 128x128x128": Case(lambda: product(128), 64, 44.0, 30.8e-6),
    "linear 1x784x128": Case(lambda: linear(1, 784, 128), 128, 78.0, 8.1e-6),
    "matmul, add 1024": Case(lambda: product_add(1024), 192, 525.0, 11.3e-3),
    "matmul, exp, matmul": Case(lambda: chain(1024, 2048, 1024, 3072), 64, 483.0, 104e-3),
}


@dataclass(frozen=True)
class Outcome:
    wall: float
    done: int
    failed: int
    best: float | None
    flop: float
    proposing: float
    building: float
    running: float


def search(name: str, trials: int, seed: int) -> Outcome:
    """Measure ``trials`` candidates; where some fail, others in their place."""
    start = time.perf_counter()
    task = TuneTask(name, CASES[name].make(), Target(TARGET))
    model = make_model(None, seed)
    done = failed = 0
    proposing = building = running = 0.0
    with TuningDatabase() as database, ExitStack() as stack:
        pools = local_pools(task.target, stack)
        pools.start()
        while done < trials:
            progress = tune_task(
                task,
                database,
                max_trials=trials - done,
                trials_per_iter=16,
                seed=seed,
                seconds=TIMED_SECONDS,
                model=model,
                executor=pools.runner,
                builder=pools.builder,
            )
            done, failed = done + progress.done, failed + progress.failed
            proposing += progress.propose_seconds
            building, running = building + progress.times.build, running + progress.times.run
            if progress.done == 0:
                break  # the space has no more
        best = database.best(task.workload, task.target_key)
    wall = time.perf_counter() - start
    seconds = best.best if best is not None else None
    return Outcome(wall, done, failed, seconds, task.flop, proposing, building, running)


def main(names: Sequence[str], trials: int | None, seed: int) -> None:
    print("Tuning on one thread. TVM's figures are of another machine, at as many trials.")
    print(f"Load of this machine before: {os.getloadavg()[0]:.1f} (of {os.cpu_count()} CPUs)\n")
    head = (
        f"{'':22}{'trials':>8}{'failed':>8}{'wall s':>9}{'TVM s':>8}{'best us':>11}{'TVM us':>11}"
    )
    print(f"{head}{'GFLOP/s':>9}   proposing / building / timing, s")
    for name in names:
        case = CASES[name]
        found = search(name, trials or case.trials, seed)
        theirs = f"{case.tvm_wall:8.0f}" if found.done == case.trials else f"{'-':>8}"
        best = f"{found.best * 1e6:11.1f}" if found.best is not None else f"{'-':>11}"
        rate = found.flop / found.best / 1e9 if found.best is not None else 0.0
        print(
            f"{name:22}{found.done:8}{found.failed:8}{found.wall:9.1f}{theirs}{best}"
            f"{case.tvm_best * 1e6:11.1f}{rate:9.1f}   "
            f"{found.proposing:.1f} / {found.building:.1f} / {found.running:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--trials", type=int, default=None, help="other than TVM's numbers")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    main(options.cases, options.trials, options.seed)

"""A small workload, a design space for it, and executors that stand in for the worker pool."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from burnish.support.target import Target
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.printer import print_func
from burnish.tuner.candidate import Candidate, SpaceFunction, make_candidate
from burnish.tuner.records.database import TuningDatabase, TuningRecord
from burnish.tuner.task import TuneTask

HERE = Target("native -threads=1")


def matmul(
    n: int | Var = 32, dtype: str = "float32", names: str = "ABC", func_name: str = "main"
) -> PrimFunc:
    """``C = A @ B``, square; the output's block has the output's name."""
    a, b = (te.placeholder((n, n), dtype, name=x) for x in names[:2])
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=[k]), name=names[2])
    return te.create_prim_func([a, b, c], func_name)


def tiled(sch: Schedule, block_name: str = "C") -> None:
    """The design space of the tests: tiles of both output axes, the inner one vectorized."""
    block = sch.get_block(block_name)
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, 2, 8))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, 16))
    sch.reorder(i0, j0, k, i1, j1)
    sch.decompose_reduction(block, k)
    sch.vectorize(j1)


def wrong(sch: Schedule) -> None:
    """A space whose functions compute something else: every term is added twice."""
    sch.enable_checks = False
    i, j, _ = sch.get_loops("C")
    sch.split(j, sch.sample_perfect_tile(j, 2, 16))
    twice, _ = sch.split(sch.add_unit_loop(i), [2, 1], disable_predication=True)
    sch.decompose_reduction("C", twice)


def unbuildable(sch: Schedule) -> None:
    """A space whose functions do not lower: registers cannot be indexed by loops."""
    sch.cache_write("C", 0, "register")
    j = sch.get_loops("C")[1]
    sch.split(j, sch.sample_perfect_tile(j, 2, 16))


class InlineExecutor(Executor):
    """Runs each job at once, here: quick, and open to monkeypatching. ``calls`` are their
    keywords."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls.append({"job": fn.__name__, **kwargs})
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def die(*_: object) -> None:
    """A job that takes its worker along."""
    os.kill(os.getpid(), signal.SIGKILL)


def is_gone(pid: int, seconds: float = 120.0) -> bool:
    """Whether a process has ended, or does so in time (one that nobody reaps counts as ended)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (ProcessLookupError, FileNotFoundError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False


# -- records ---------------------------------------------------------------------------------------
def record(
    db: TuningDatabase,
    func: PrimFunc,
    space: SpaceFunction,
    seconds: float = 1.0,
    *,
    target: Target = HERE,
) -> Candidate:
    """A record as a session makes it, but for the time."""
    task = TuneTask(func.name, func, target)
    sch = Schedule(task.stripped, seed=2)
    space(sch)
    made = make_candidate(sch)
    source = db.add_workload(task.workload, task.name, print_func(task.stripped), task.flop)
    key = (task.workload, task.target_key, made.hash)
    db.add(TuningRecord(*key, source, made.trace, (seconds,)))
    return made


def forged(
    db: TuningDatabase,
    func: PrimFunc,
    space: SpaceFunction,
    seconds: float = 1e-9,
    *,
    target: Target = HERE,
) -> Candidate:
    """A record of a schedule that was made without the proofs; its hash fits its trace."""

    def unchecked(sch: Schedule) -> None:
        sch.enable_checks = False
        space(sch)

    return record(db, func, unchecked, seconds, target=target)

"""Tuning at the front door: ``tune_tir`` and ``compile_tir`` for PrimFuncs, tasks of a whole
module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..graphir.module import IRModule
from ..graphir.passes.legalize import LEGALIZED
from ..support.errors import TuningError
from ..support.node import walk
from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tuner.records.apply import best_schedule
from ..tuner.records.database import TuningDatabase
from ..tuner.session import Space, TuningProgress, database_path, tune_task
from ..tuner.task import TuneTask
from .kernels import resolve_target
from .schedule import Schedule

ONE_THREAD = "native -threads=1"


def tune_tir(
    mod: IRModule | PrimFunc,
    target: Target | str = ONE_THREAD,
    max_trials: int = 64,
    trials_per_iter: int = 64,
    space: Space = None,
    work_dir: str | Path | None = None,
    task_name: str = "main",
    seed: int | None = None,
    *,
    strategy: str = "evolutionary",
    cost_model: str | None = None,
    on_progress: Callable[[TuningProgress], None] | None = None,
) -> TuningDatabase:
    """Tune one PrimFunc and return the database with its records.

    ``max_trials`` candidates are built and timed in worker processes and compared with the
    unscheduled function; wrong, crashing and hanging ones are recorded with their reason and never
    offered. Those that lead are timed once more beside the analytic choice. ``space`` is a function
    on a Schedule (or a list of them); None is the built-in design space. With ``work_dir`` the
    records are kept in ``work_dir/records.db`` and a later call goes on from them. ``strategy`` is
    ``evolutionary``, ``random`` or ``replay_trace``, ``cost_model`` what the first ranks by:
    ``learned``, ``analytic`` or ``random``; None is the learned one where xgboost is installed.
    ``seed`` (or BURNISH_SEED, or 0) fixes the search. Raises TuningError for a function with
    symbolic sizes, a target that is not this machine, a space that never applies, a file that is no
    database.
    """
    task = make_task(mod, target, task_name)
    task.verify_tunable()
    database = TuningDatabase(database_path(work_dir))
    try:
        tune_task(
            task,
            database,
            max_trials=max_trials,
            trials_per_iter=trials_per_iter,
            space=space,
            seed=seed,
            strategy=strategy,
            model=cost_model,
            on_progress=on_progress,
            heat=True,
        )
    except BaseException:
        database.close()
        raise
    return database


def compile_tir(
    database: TuningDatabase,
    mod: IRModule | PrimFunc,
    target: Target | str = ONE_THREAD,
    *,
    name: str = "main",
) -> Schedule:
    """A schedule of ``mod`` with the best record applied: ``sch.mod``, ``sch.trace``.

    The record may have been made for a function with other names: the result has those of ``mod``.
    Raises TuningError, naming the nearest records, where there is none for this function and
    target.
    """
    task = make_task(mod, target, name)
    task.verify_tunable()
    module = IRModule.from_expr(mod) if isinstance(mod, PrimFunc) else mod
    key = next(n for n, f in module.prim_funcs.items() if f is task.func)

    def make(func: PrimFunc) -> Schedule:
        held = module.copy()
        held[key] = func
        sch = Schedule(held)
        sch.work_on(key)
        return sch

    sch = best_schedule(database, task, make)
    assert isinstance(sch, Schedule)
    return sch


def make_task(mod: IRModule | PrimFunc, target: Target | str, name: str) -> TuneTask:
    """The task of one PrimFunc of a module; TuningError where it is not clear which one."""
    if not isinstance(mod, (IRModule, PrimFunc)):
        raise TuningError(
            f"Expected an IRModule or a PrimFunc to tune; found {type(mod).__name__}."
        )
    return TuneTask(name, prim_func_of(mod, name), resolve_target(target))


def prim_func_of(mod: IRModule | PrimFunc, name: str) -> PrimFunc:
    """The PrimFunc of that name, or the only one."""
    if isinstance(mod, PrimFunc):
        return mod
    functions = mod.prim_funcs
    if name in functions:
        return functions[name]
    if len(functions) == 1:
        return next(iter(functions.values()))
    raise TuningError(
        f"The module has {len(functions)} PrimFuncs ({', '.join(functions) or 'none'}) and none is "
        f"called {name!r}. Take one out with IRModule.from_expr(mod[name]), or give its name "
        "(tune_tir: task_name=, compile_tir: name=)."
    )


def extract_tasks(module: IRModule, target: Target) -> list[TuneTask]:
    """A task for each distinct PrimFunc that legalisation made, weighted by the number of its
    calls."""
    found: dict[str, TuneTask] = {}
    for name, func in module.prim_funcs.items():
        if not func.attr(LEGALIZED) or func.attr("is_scheduled") or func.shape_vars:
            continue
        calls = _count_calls(module, name)
        task = TuneTask(name, func, target, weight=max(calls, 1))
        known = found.get(task.workload)
        weight = task.weight + (known.weight if known else 0)
        first = known or task
        found[task.workload] = TuneTask(first.name, first.func, target, weight=weight)
    return list(found.values())


def _count_calls(module: IRModule, name: str) -> int:
    count = 0
    for func in module.graph_functions.values():
        for n in walk(func):
            callee: Any = getattr(n, "func", None)
            if getattr(callee, "name", None) == name:
                count += 1
    return count

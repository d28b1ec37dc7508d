"""Tuning at the front door: ``tune_tir`` and ``compile_tir`` for PrimFuncs, tasks of a whole
module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..graphir.analysis import solve_shape_vars
from ..graphir.dim import substitute_dim
from ..graphir.expr import CallDPS
from ..graphir.module import IRModule
from ..graphir.op import type_of
from ..graphir.passes.legalize import LEGALIZED
from ..support.errors import TuningError
from ..support.keywords import hinted
from ..support.node import walk
from ..support.target import Target
from ..tensorir.expr import Expr, IntImm
from ..tensorir.expr import Var as DimVar
from ..tensorir.function import PrimFunc
from ..tensorir.visitor import free_vars
from ..tuner.best_record import best_schedule, task_on_record
from ..tuner.records.database import TuningDatabase
from ..tuner.records.records_io import as_records
from ..tuner.session import Space, TuningProgress, database_path, tune_task
from ..tuner.task import TuneTask
from .given_sizes import Sizes, whole_sizes
from .kernels import resolve_target
from .schedule import Schedule
from .written_programs import verify_written_program

ONE_THREAD = "native -threads=1"


@hinted
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
    sizes: Sizes | Sequence[Sizes] = (),
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
    A function of symbolic sizes is measured at each of ``sizes``, as in ``[{"n": 1}, {"n": 64}]``,
    and its one schedule is judged by the geometric mean of the times. ``seed`` (or BURNISH_SEED, or
    0) fixes the search. Raises ArgumentError for sizes that the function has not, TuningError for a
    function with symbolic sizes without any, a target that is not this machine, a space that never
    applies, a file that is no database.
    """
    task = make_task(mod, target, task_name, sizes)
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


@hinted
def compile_tir(
    database: TuningDatabase | str | Path,
    mod: IRModule | PrimFunc,
    target: Target | str = ONE_THREAD,
    *,
    name: str = "main",
) -> Schedule:
    """A schedule of ``mod`` with the best record of a database (or of a file, by its path)
    applied: ``sch.mod``, ``sch.trace``.

    The record may have been made for a function with other names: the result has those of ``mod``.
    Of a function of symbolic sizes it is a record at the sizes that were measured last. Raises
    TuningError, naming the nearest records, where there is none for this function and target.
    """
    if not isinstance(database, TuningDatabase):
        with as_records(database) as records:
            return compile_tir(records, mod, target, name=name)
    task = task_on_record(database, make_task(mod, target, name))
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


def make_task(
    mod: IRModule | PrimFunc,
    target: Target | str,
    name: str,
    sizes: Sizes | Sequence[Sizes] = (),
) -> TuneTask:
    """The task of one PrimFunc of a module; TuningError where it is not clear which one,
    ArgumentError for sizes that it does not have."""
    if not isinstance(mod, (IRModule, PrimFunc)):
        raise TuningError(
            f"Expected an IRModule or a PrimFunc to tune; found {type(mod).__name__}."
        )
    func = verify_written_program(prim_func_of(mod, name))
    names = [v.name for v in func.shape_vars]
    values = [tuple([given[n] for n in names]) for given in whole_sizes(sizes, "sizes", names)]
    return TuneTask(name, func, resolve_target(target), sizes=tuple(dict.fromkeys(values)))


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


def extract_tasks(module: IRModule, target: Target, sizes: Sequence[Sizes] = ()) -> list[TuneTask]:
    """A task for each distinct PrimFunc that legalisation made, weighted by the number of its
    calls. Functions of symbolic sizes are measured at what each of ``sizes``, values of the
    module's named sizes, makes of these; left out where ``sizes`` do not tell them."""
    found: dict[str, TuneTask] = {}
    for name, func in module.prim_funcs.items():
        if not func.attr(LEGALIZED) or func.attr("is_scheduled"):
            continue
        calls = _calls(module, name)
        task = TuneTask(name, func, target, weight=max(len(calls), 1))
        known = found.get(task.workload, replace(task, weight=0))
        values: list[tuple[int, ...]] = []
        if func.shape_vars:
            values = [v for call in calls for v in _sizes_at(func, call, sizes)]
            if not values:
                continue
        found[task.workload] = replace(
            known,
            weight=known.weight + task.weight,
            sizes=tuple(dict.fromkeys([*known.sizes, *values])),
        )
    return list(found.values())


def _calls(module: IRModule, name: str) -> list[CallDPS]:
    """The calls of a PrimFunc."""
    nodes = [n for func in module.graph_functions.values() for n in walk(func)]
    return [n for n in nodes if isinstance(n, CallDPS) and n.func.name == name]


def _sizes_at(func: PrimFunc, call: CallDPS, sizes: Sequence[Sizes]) -> list[tuple[int, ...]]:
    """The callee's sizes at one call where the model's are ``sizes``; those left out that are empty
    or not told."""
    solved = solve_shape_vars(func, [type_of(a) for a in call.args], call.out_type)
    found = []
    for given in sizes:
        known: dict[DimVar, Expr] = {}
        for dim in solved.values():
            known |= {v: IntImm(given[v.name]) for v in free_vars([dim]) if v.name in given}
        dims = [substitute_dim(solved[v], known) for v in func.shape_vars]
        values = [d.value for d in dims if isinstance(d, IntImm) and d.value > 0]
        if len(values) == len(dims):
            found.append(tuple(values))
    return found

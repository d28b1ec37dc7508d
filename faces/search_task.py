"""A search that keeps a log file: what an auto-scheduler's user writes.

    @auto_scheduler.register_workload
    def matmul_add(N, L, M, dtype): ...; return [A, B, C, out]

    task = auto_scheduler.SearchTask(func=matmul_add, args=(64, 64, 64, "float32"), target="native")
    task.tune(TuningOptions(num_measure_trials=10, measure_callbacks=[RecordToFile("log.json")]))
    sch, args = task.apply_best("log.json")

The definition is made a PrimFunc and searched over as any other; the log is JSON lines of records
(``tuner.records.records_io``), and everything about the result can be had from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..driver.console import format_seconds
from ..driver.kernels import resolve_target
from ..driver.schedule import Schedule
from ..graphir.module import IRModule
from ..support.errors import TuningError, nearest
from ..support.target import Target
from ..tensorir.expr import Reduce
from ..tensorir.function import PrimFunc
from ..tensorir.te.create_prim_func import create_prim_func, dependency_order
from ..tensorir.te.tensor import ComputeOp, Tensor, TupleReduce
from ..tensorir.text.printer import print_expr
from ..tuner.best_record import best_record, best_schedule
from ..tuner.cost.cost_model import CostModel
from ..tuner.records.database import TuningDatabase, TuningRecord
from ..tuner.records.records_io import Entry, append_records, open_records, read_entries
from ..tuner.search.strategies import make_model
from ..tuner.session import Space, TuningProgress, default_seed, tune_task
from ..tuner.task import TuneTask
from .search_policy import SketchPolicy

Workload = Callable[..., Sequence[Tensor]]
MeasureCallback = Callable[[TuneTask, Entry], object]
"""Called with each new record and the text it was made on."""
Logs = str | Path | Sequence[str | Path] | None

_REDUCTIONS = {"sum": "+=", "prod": "*=", "max": "max=", "min": "min="}
_registered: dict[str, Workload] = {}


def register_workload(
    func_name: str | Workload, f: Workload | None = None, override: bool = False
) -> Any:
    """Give a function that returns tensors a name to make tasks with: ``@register_workload``,
    ``@register_workload("name")``, or ``register_workload("name", f)``.

    Raises TuningError for a name that is taken by another function, unless ``override``.
    """
    if not isinstance(func_name, str):
        return register_workload(func_name.__name__, func_name, override)
    if f is None:
        return lambda function: register_workload(func_name, function, override)
    known = _registered.get(func_name)
    if known is not None and known is not f and not override and not _same_place(known, f):
        raise TuningError(
            f"The workload {func_name!r} is registered already. Take another name, or pass "
            "override=True."
        )
    _registered[func_name] = f
    return f


def _same_place(one: Workload, other: Workload) -> bool:
    """Whether a definition was run again, as notebooks do."""
    places = [(getattr(f, "__module__", 0), getattr(f, "__qualname__", 1)) for f in (one, other)]
    return places[0] == places[1]


@dataclass(frozen=True)
class RecordToFile:
    """A measure callback that adds every record to a log file as it is made."""

    filename: str | Path

    def __call__(self, task: TuneTask, entry: Entry) -> None:
        append_records(self.filename, [entry])


@dataclass(frozen=True)
class TuningOptions:
    """What a search may spend, and who hears of it.

    ``num_measure_trials`` candidates are measured, ``num_measures_per_round`` of them between two
    looks at the results; with ``early_stopping`` the search ends after so many candidates without
    an improvement. ``verbose`` is 0 for silence, 1 for a line a round, 2 for a line a candidate (on
    stderr).
    """

    num_measure_trials: int = 64
    early_stopping: int | None = None
    num_measures_per_round: int = 64
    verbose: int = 1
    measure_callbacks: Sequence[MeasureCallback] = ()

    def __post_init__(self) -> None:
        limits = {
            "num_measure_trials": (self.num_measure_trials, 0),
            "num_measures_per_round": (self.num_measures_per_round, 1),
            "early_stopping": (1 if self.early_stopping is None else self.early_stopping, 1),
            "verbose": (self.verbose, 0),
        }
        for name, (value, least) in limits.items():
            if not isinstance(value, int) or value < least:
                raise TuningError(f"{name}={value!r}: expected a whole number of at least {least}.")
        for callback in self.measure_callbacks:
            if not callable(callback):
                raise TuningError(
                    "measure_callbacks are functions such as RecordToFile(name); found "
                    f"{callback!r}."
                )


class ComputeDAG:
    """The definitions of a workload, in order of need; prints as a line each."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tuple(tensors)

    @property
    def ops(self) -> list[ComputeOp]:
        """The definitions, each after those it reads."""
        return dependency_order([t.op for t in self.tensors if t.op is not None])

    def __str__(self) -> str:
        lines: list[str] = []
        seen: set[int] = set()
        for op in self.ops:
            for t in op.inputs:
                if t.op is None and id(t) not in seen:
                    seen.add(id(t))
                    shape = ", ".join([print_expr(d) for d in t.shape])
                    lines.append(f"{t.name} = PLACEHOLDER [{shape}]")
            lines += [_definition(op, i) for i in range(op.num_outputs)]
        return "\n".join(lines)


def _definition(op: ComputeOp, index: int) -> str:
    axes = ", ".join([v.var.name for v in op.axis])
    name = op.outputs[index].name if op.outputs else op.name
    body = op.bodies[index]
    if isinstance(body, TupleReduce):
        sources = ", ".join([print_expr(s) for s in body.sources])
        return f"{name}({axes}) = reduce[{index}]({sources})"
    if isinstance(body, Reduce):
        sign = _REDUCTIONS.get(body.combiner, f"{body.combiner}=")
        return f"{name}({axes}) {sign} {print_expr(body.source)}"
    return f"{name}({axes}) = {print_expr(body)}"


@dataclass
class SearchTask:
    """One definition at certain sizes, to be searched over for a target.

    ``func`` is a function registered by ``register_workload`` (or its name) that returns the
    tensors of a call, inputs and outputs; ``args`` are its arguments. Raises TuningError for an
    unknown name and for a function that returns no tensors.
    """

    func: Workload | str
    args: Sequence[Any] = ()
    target: Target | str = "native"
    tensors: list[Tensor] = field(init=False, repr=False)
    compute_dag: ComputeDAG = field(init=False, repr=False)
    task: TuneTask = field(init=False, repr=False)

    def __post_init__(self) -> None:
        function = _workload(self.func)
        made = function(*self.args)
        name = str(getattr(function, "__name__", "main"))
        if not isinstance(made, (list, tuple)) or not all(isinstance(t, Tensor) for t in made):
            raise TuningError(
                f"{name!r} must return the list of its tensors, inputs and outputs, such as "
                f"[A, B, C]; it returned {made!r}."
            )
        self.tensors = list(made)
        self.compute_dag = ComputeDAG(self.tensors)
        self.task = TuneTask(name, create_prim_func(self.tensors), resolve_target(self.target))

    @property
    def mod(self) -> IRModule:
        """The definition as a module with the function ``main``, nothing scheduled."""
        return IRModule.from_expr(self.task.func)

    def tune(
        self,
        tuning_options: TuningOptions | None = None,
        search_policy: SketchPolicy | None = None,
        *,
        preload: Logs = None,
        space: Space = None,
        seed: int | None = None,
        strategy: str = "evolutionary",
        cost_model: CostModel | str | None = None,
    ) -> TuningProgress:
        """Search, by the ``strategy`` and the ``cost_model`` that ``tune_tir`` takes.

        Records of ``preload`` (a log or several) are not measured again and tell the search where
        it stands: with the log that is written to, it goes on from there. A ``search_policy``
        says the same in other words: logs, model and seed are taken from it.

        Raises TuningError for a target that is not this machine, and for a log that is none.
        """
        options = tuning_options or TuningOptions()
        logs = [preload] if isinstance(preload, (str, Path)) else list(preload or ())
        if search_policy is not None:
            if search_policy.task is not self:
                raise TuningError("The search policy was made for another task; make one for this.")
            logs += search_policy.logs
            seed, cost_model = search_policy.seed, search_policy.cost_model
        if cost_model is None or isinstance(cost_model, str):
            cost_model = make_model(cost_model, default_seed() if seed is None else seed)
        with _Observed(self.task, options.measure_callbacks) as database:
            for log in logs:
                with open_records(log) as known:
                    database.merge(known)
            search = partial(
                tune_task,
                self.task,
                database,
                space=space,
                seed=seed,
                strategy=strategy,
                model=cost_model,
                on_progress=_say_candidate if options.verbose >= 2 else None,
            )
            return self._rounds(options, database, search)

    def _rounds(
        self,
        options: TuningOptions,
        database: TuningDatabase,
        search: Callable[..., TuningProgress],
    ) -> TuningProgress:
        known = database.best(self.task.workload, self.task.target_key)
        best, fruitless = known.best if known else None, 0
        total = TuningProgress(self.task, options.num_measure_trials, best=best)
        while total.left > 0:
            count = min(
                total.left, options.num_measures_per_round, options.early_stopping or 1 << 30
            )
            done = search(max_trials=count, trials_per_iter=count)
            total.done += done.done
            total.failed += done.failed
            is_better = done.best is not None and (total.best is None or done.best < total.best)
            fruitless = 0 if is_better else fruitless + done.done + done.failed
            total.best = done.best if is_better else total.best
            total.history += done.history
            if options.verbose:
                _say(f"{total.done + total.failed} of {total.trials}: {_best_text(total)}")
            if done.done + done.failed < count:
                break  # the space is exhausted
            if options.early_stopping is not None and fruitless >= options.early_stopping:
                break
        return total

    def apply_best(self, log_file: str | Path) -> tuple[Schedule, list[Tensor]]:
        """The best schedule of a log, and the tensors of a call: for ``burnish.lower`` and
        ``burnish.build``.

        Raises TuningError where the log has no record for this workload and target.
        """
        with open_records(log_file) as database:
            sch = best_schedule(database, self.task, _schedule)
        assert isinstance(sch, Schedule)
        return sch, list(self.tensors)

    def print_best(self, log_file: str | Path, print_mode: str = "schedule") -> str:
        """The best record of a log as a Python function on a Schedule; it runs as it stands."""
        if print_mode != "schedule":
            raise TuningError(f"print_mode is 'schedule'; found {print_mode!r}.")
        sch, _ = self.apply_best(log_file)
        return str(sch.trace.simplified())

    def best_record(self, log_file: str | Path) -> TuningRecord:
        """The fastest record of a log; TuningError where there is none for this task."""
        with open_records(log_file) as database:
            return best_record(database, self.task)


def create_task(
    func: Workload | str, args: Sequence[Any] = (), target: Target | str = "native"
) -> SearchTask:
    """``SearchTask`` under the name that older programs know."""
    return SearchTask(func, args, target)


@dataclass(frozen=True)
class RecordReader:
    """The records of a log file (or of a database), in order."""

    filename: str | Path

    def __iter__(self) -> Iterator[Entry]:
        return load_records(self.filename)

    def read_lines(self, max_lines: int | None = None, skip_lines: int = 0) -> list[Entry]:
        """Some of the records; all of them by default."""
        end = None if max_lines is None or max_lines < 0 else skip_lines + max_lines
        return list(load_records(self.filename))[skip_lines:end]


def load_records(filename: str | Path) -> Iterator[Entry]:
    """The records of a log file with the texts of their workloads, in order."""
    yield from read_entries(filename)


class _Observed(TuningDatabase):
    """A database in memory that tells callbacks of each record as it is added."""

    def __init__(self, task: TuneTask, callbacks: Sequence[MeasureCallback]) -> None:
        super().__init__()
        self._task, self._callbacks = task, list(callbacks)

    def add(self, record: TuningRecord) -> None:
        super().add(record)
        entry = record, self.texts()[record.source]
        for callback in self._callbacks:
            callback(self._task, entry)


def _workload(func: Workload | str) -> Workload:
    if not isinstance(func, str):
        return func
    if func not in _registered:
        raise TuningError(
            f"No workload is registered as {func!r}.{nearest(func, _registered)} Decorate the "
            "function with @auto_scheduler.register_workload, or pass the function itself."
        )
    return _registered[func]


def _schedule(func: PrimFunc) -> Schedule:
    return Schedule(IRModule.from_expr(func))


def _say_candidate(progress: TuningProgress) -> None:
    _say(f"  candidate {progress.done + progress.failed}: {_best_text(progress)}")


def _best_text(p: TuningProgress) -> str:
    failed = f", {p.failed} failed" if p.failed else ""
    if p.best is None:
        return f"none measured{failed}"
    return f"best {format_seconds(p.best)}, {p.task.flop / p.best / 1e9:.2f} GFLOP/s{failed}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


__all__ = [
    "ComputeDAG",
    "RecordReader",
    "RecordToFile",
    "SearchTask",
    "TuningOptions",
    "create_task",
    "load_records",
    "register_workload",
]

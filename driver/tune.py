"""model.tune: tune the kernels of a compiled model, and keep the new schedules where it wins.

The search itself is ``tuner.session``, the budget's division ``tuner.task_scheduler``; here they
meet a model, and here is the verdict: whatever was measured of a kernel alone, the new schedules
are used only where the whole model is faster with them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from html import escape

from ..support.errors import TuningError
from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tuner.analytic import schedule_analytically
from ..tuner.best_record import explain_unused, set_aside_notes, task_on_record
from ..tuner.measuring.pipeline import CANDIDATE_LIMIT, Pools, local_pools
from ..tuner.measuring.reference_pool import ReferencePool
from ..tuner.measuring.remote import Cluster
from ..tuner.measuring.roofline import measure_peaks, roofline_seconds
from ..tuner.records.database import TuningDatabase
from ..tuner.search.final_heat import final_heat
from ..tuner.search.strategies import make_model, verify_strategy
from ..tuner.session import default_seed, tune_task
from ..tuner.task import TuneTask
from ..tuner.task_scheduler import PATIENCE, Moment, TaskScheduler, TaskState
from .console import format_seconds
from .report import CompileReport
from .timing import Timing
from .transform import best_of_task
from .tune_display import tune_display

_HEAT_SECONDS = 1.5
"""What a task's final heat takes, about."""

Watch = Callable[[TaskScheduler], object]


@dataclass(repr=False)
class TuneResult:
    """What a ``model.tune`` did: how far each task is, what happened when, and the model's time
    before and after (None where the best schedules are those the model has). ``print`` it for the
    report; ``driver.tune_report`` writes it to files."""

    tasks: list[TaskState] = field(default_factory=list)
    before: Timing | None = None
    after: Timing | None = None
    kept: bool = False
    """Whether the tuned schedules are in use: they are where they made the model faster."""
    timeline: list[Moment] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False
    """Whether Ctrl-C ended the search; what was measured until then counts."""

    def __repr__(self) -> str:
        trials = sum([s.trials for s in self.tasks])
        return f"<tuning of {len(self.tasks)} kernels, {trials} measured: {self.verdict}>"

    def __str__(self) -> str:
        from .tune_report import report_text

        return report_text(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the report."""
        return f"<pre>{escape(str(self))}</pre>"

    @property
    def verdict(self) -> str:
        """The outcome in words."""
        if self.before is None or self.after is None:
            if any(s.is_open for s in self.tasks) and not any(s.trials for s in self.tasks):
                if self.interrupted:
                    return "nothing was measured before it was interrupted"
                return "nothing was measured in the time that was given: give it more"
            return "no schedule was found that is better than the present ones"
        gain = self.before.minimum / self.after.minimum
        if self.kept and f"{gain:.2f}" == "1.00":
            return "the tuned model is as fast within the noise; it is in use"
        if self.kept:
            return f"the tuned model is {gain:.2f} times as fast; it is in use"
        before, after = (format_seconds(t.minimum) for t in (self.before, self.after))
        return (
            f"no faster schedules were found (a call takes {before}, and {after} with the best "
            "candidates): the present schedules stay in use"
        )


@dataclass(frozen=True)
class ScheduledBy:
    """A ScheduleChoice: the best record of a database that stands the checks where there is one,
    else the analytic schedule. ``notes`` has what was set aside of the functions asked for since
    ``take_notes``, a sentence each."""

    database: TuningDatabase
    notes: list[str] = field(default_factory=list)

    def __call__(self, func: PrimFunc, target: Target) -> PrimFunc:
        found = None
        try:
            task = task_on_record(self.database, TuneTask(func.name, func, target))
            found = best_of_task(task, self.database, self._note)
            # What a search or an earlier compilation has set aside is news to this one too.
            for text in set_aside_notes(self.database, task):
                self._note(text)
        except TuningError as error:  # closed or gone since: a model still compiles
            self._note(f"{func.name!r} has its analytic schedule: {error.message}")
        return found or schedule_analytically(func, target)

    def take_notes(self) -> list[str]:
        """The notes, which are forgotten here."""
        taken = self.notes.copy()
        self.notes.clear()
        return taken

    def explain(self, report: CompileReport, target: Target) -> list[str]:
        """The notes on a compilation: those that are taken here, and where no record applied."""
        taken = self.take_notes()
        if report.schedules and not any(s.is_recorded for s in report.schedules.values()):
            with suppress(TuningError):  # closed or gone since, which has been said
                taken.append(explain_unused(self.database, target))
        return taken

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def tune_tasks(
    tasks: Sequence[TuneTask],
    database: TuningDatabase,
    *,
    trials: int | None,
    minutes: float | None,
    strategy: str = "evolutionary",
    task_scheduler: str = "gradient",
    patience: int | None = PATIENCE,
    seed: int | None = None,
    cluster: str | None = None,
    verbose: int = 0,
    on_progress: Callable[[int, str], None] | None = None,
    watch: Watch | None = None,
) -> TuneResult:
    """Tune tasks within a budget, which ``task_scheduler`` (``gradient`` or ``round-robin``)
    divides between them; one cost model learns from all. Candidates are built and timed by worker
    processes of this machine, or, with the address of a dask scheduler as ``cluster``, by the
    machines there. Here the leading candidates of each task are timed once more in turns
    (``tuner.search.final_heat``), within the minutes, before anything is made of them.

    ``verbose`` shows a table or lines on stderr; ``on_progress`` gets the number of measurements
    and a line of text, ``watch`` the scheduler itself. Raises TuningError for a budget that is
    none, for names that are none, and for a cluster where nobody answers, builds or times.
    """
    verify_budget(trials, minutes)
    verify_strategy(strategy)
    seed = default_seed() if seed is None else seed
    tune = partial(tune_task, strategy=strategy, model=make_model(None, seed))
    display = tune_display(verbose) if verbose else nullcontext(None)
    with ExitStack() as stack, display as show:
        pools = _pools(tasks, stack) if cluster is None else _machines(cluster, tasks, stack)
        tune = partial(tune, builder=pools.builder)
        watchers = [w for w in (show, _reporter(on_progress), watch) if w is not None]
        end = None if minutes is None else time.monotonic() + minutes * 60
        scheduler = TaskScheduler(
            tasks,
            database,
            trials=trials,
            deadline=None if end is None else end - _heats_last(tasks, end - time.monotonic()),
            strategy=task_scheduler,
            patience=patience,
            floors=_floors(tasks),
            floor_again=lambda t: roofline_seconds(t, measure_peaks(t.target, again=True)),
            tune=tune,
            executor=pools.runner,
            seed=seed,
            watch=lambda s: [w(s) for w in watchers],
        )
        scheduler.run()
        interrupted = scheduler.interrupted
        if cluster is None and not interrupted:
            try:
                _run_heats(scheduler.states, database, pools, end)
            except KeyboardInterrupt:
                interrupted = True
    return TuneResult(
        scheduler.states,
        timeline=scheduler.timeline,
        seconds=scheduler.seconds,
        interrupted=interrupted,
    )


def _run_heats(
    states: Sequence[TaskState], database: TuningDatabase, pools: Pools, end: float | None
) -> None:
    """The final heat of each task, as far as the time goes."""
    for state in states:
        task = state.task
        if final_heat(task, database, pools, deadline=end):
            state.best = database.best_seconds(task.workload, task.target_key)


def _heats_last(tasks: Sequence[TuneTask], seconds: float) -> float:
    """How many of the seconds are left to the final heats: a tenth at most."""
    return min(0.1 * seconds, _HEAT_SECONDS * len(tasks))


def _pools(tasks: Sequence[TuneTask], stack: ExitStack) -> Pools:
    """Worker processes for all tasks, which share the references of earlier rounds. The task with
    the most threads says which cores time."""
    most = max(tasks, key=lambda t: t.target.threads or t.target.cores, default=None)
    if most is None:
        return Pools(stack.enter_context(ReferencePool(1, limit=CANDIDATE_LIMIT)))
    return local_pools(most.target, stack, ReferencePool)


def _machines(address: str, tasks: Sequence[TuneTask], stack: ExitStack) -> Pools:
    """The machines of a cluster that build, and those that time for the tasks' CPU."""
    cpu = tasks[0].target.cpu if tasks else None
    cluster = stack.enter_context(Cluster(address, cpu=cpu))
    return Pools(cluster.runner, cluster.builder)


def verify_budget(trials: int | None, minutes: float | None) -> None:
    """Raise TuningError for a budget of nothing."""
    if trials is not None and trials < 1:
        raise TuningError(f"trials={trials}: expected at least 1.")
    if minutes is not None and minutes <= 0:
        raise TuningError(f"minutes={minutes}: expected more than 0.")


def _floors(tasks: Sequence[TuneTask]) -> dict[str, float]:
    """The tasks' roofline times; none for targets that are not this machine (the session refuses
    them with a reason of its own)."""
    floors: dict[str, float] = {}
    for task in tasks:
        task.verify_tunable()
        task.verify_measurable()
        floors[task.workload] = roofline_seconds(task, measure_peaks(task.target))
    return floors


def _reporter(on_progress: Callable[[int, str], None] | None) -> Watch | None:
    """``on_progress`` as a watcher."""
    if on_progress is None:
        return None

    def report(scheduler: TaskScheduler) -> None:
        state = scheduler.current
        if state is not None:
            best = f"{state.best * 1e6:.2f} us" if state.best is not None else "none yet"
            on_progress(scheduler.done, f"{state.task.name}: best {best}")

    return report

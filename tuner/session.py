"""A tuning session: propose, build and measure in worker processes, record; always resumable.

Every answer is recorded as it arrives, failures with their reason. Interrupting a session loses nothing
that was reported: the next one on the same database does not measure those candidates again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from ..support.config import flag
from ..support.errors import ScheduleError, TuningError
from ..tensorir.function import PrimFunc
from ..tensorir.printer import print_func
from ..tensorir.schedule import Schedule, Trace
from .database import TuningDatabase, TuningRecord
from .search import Candidate, RandomSearch, SpaceFunction
from .space import analytic_choices, default_space
from .task import TuneTask
from .worker_pool import WorkerPool

Space = SpaceFunction | Sequence[SpaceFunction] | None


@dataclass
class TuningProgress:
    """What a session has done; handed to ``on_progress`` after every answer."""

    task: TuneTask
    trials: int
    done: int = 0
    failed: int = 0
    best: float | None = None
    """Smallest time of a call so far, in seconds."""
    started: float = field(default_factory=time.monotonic)
    history: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the start, best so far) at each improvement."""

    @property
    def gflops(self) -> float:
        return self.task.flop / self.best / 1e9 if self.best else 0.0


def tune_task(
    task: TuneTask,
    database: TuningDatabase,
    *,
    max_trials: int,
    trials_per_iter: int = 64,
    space: Space = None,
    seed: int | None = None,
    executor: Executor | None = None,
    seconds: float = 0.05,
    deadline: float | None = None,
    on_progress: Callable[[TuningProgress], None] | None = None,
) -> TuningProgress:
    """Measure up to ``max_trials`` new candidates of one task and record them.

    ``space`` is a function on a Schedule, a list of them, or None for the built-in design space, whose
    analytic choice is measured first. ``seconds`` is the time each candidate is run for; ``deadline``
    (of ``time.monotonic``) ends the session early. Raises TuningError where no candidate can be made.
    """
    seed = default_seed() if seed is None else seed
    functions, first = _space_functions(space, task)
    database.add_workload(task.workload, task.func, print_func(task.func), task.flop)
    known = database.best(task.workload, task.target_key)
    progress = TuningProgress(task, max_trials, best=known.best if known else None)
    search = RandomSearch(
        task.func, functions, seed=seed, first=first, seen=database.seen(task.workload, task.target_key)
    )
    own = None if executor is not None else WorkerPool(1, limit=60.0)
    pool: Executor = own if own is not None else executor  # type: ignore[assignment]
    try:
        while progress.done + progress.failed < max_trials:
            if deadline is not None and time.monotonic() >= deadline:
                break
            left = max_trials - progress.done - progress.failed
            batch = search.propose(min(trials_per_iter, left))
            if not batch:
                break
            _measure_batch(task, database, batch, pool, seconds, progress, on_progress, deadline)
    finally:
        if own is not None:
            own.shutdown(wait=True, cancel_futures=True)
    return progress


def _measure_batch(
    task: TuneTask,
    database: TuningDatabase,
    batch: Sequence[Candidate],
    pool: Executor,
    seconds: float,
    progress: TuningProgress,
    on_progress: Callable[[TuningProgress], None] | None,
    deadline: float | None,
) -> None:
    text = print_func(task.func)
    futures = {}
    for c in batch:
        request = {"text": text, "trace": c.trace, "target": str(task.target), "seconds": seconds, "seed": 0}
        futures[pool.submit("measure", request)] = c  # type: ignore[arg-type]
    for future in as_completed(futures):
        candidate = futures[future]
        if future.cancelled():
            continue
        error = future.exception()
        times = () if error is not None else tuple(future.result()["seconds"])
        record = TuningRecord(
            task.workload, task.target_key, candidate.hash, candidate.trace, times, str(error) if error else ""
        )
        database.add(record)
        if record.best is None:
            progress.failed += 1
        else:
            progress.done += 1
            if progress.best is None or record.best < progress.best:
                progress.best = record.best
                progress.history.append((time.monotonic() - progress.started, record.best))
        if on_progress is not None:
            on_progress(progress)
        if deadline is not None and time.monotonic() >= deadline:
            for other in futures:
                other.cancel()


def _space_functions(space: Space, task: TuneTask) -> tuple[list[SpaceFunction], list[SpaceFunction]]:
    if space is None:
        functions = default_space(task.func, task.target)
        if not functions:
            raise TuningError(f"the built-in design space has nothing for {task.name!r}; pass space=.")
        return functions, analytic_choices(task.func, task.target)
    functions = list(space) if isinstance(space, Sequence) else [space]
    if not functions or not all(callable(f) for f in functions):
        raise TuningError(f"space= takes a function on a Schedule or a list of them; found {space!r}.")
    return functions, []


def default_seed() -> int:
    """The seed of BURNISH_SEED, or 0: every search is repeatable."""
    value = flag("BURNISH_SEED")
    return int(value) if value is not None else 0


def best_schedule(database: TuningDatabase, task: TuneTask) -> Trace:
    """The trace of the fastest record of a task; TuningError naming the nearest records if none."""
    record = database.best(task.workload, task.target_key)
    if record is None:
        raise TuningError(_explain_missing(database, task))
    return Trace.from_json(record.trace)


def _explain_missing(database: TuningDatabase, task: TuneTask) -> str:
    same = [r for r in database.records(task.workload) if r.best is not None]
    message = f"no record for {task.name!r} (workload {task.workload[:12]}) on {task.target_key!r}."
    if same:
        others = sorted({r.target for r in same})
        return f"{message} There are records for other targets: {'; '.join(others)}. Tune for this one."
    known = [f"{name} ({key[:12]})" for key, name in database.workloads().items()]
    nearest = f" The database holds: {', '.join(known[:8])}." if known else " The database is empty."
    return f"{message}{nearest} Tune it first."


def apply_best(database: TuningDatabase, task: TuneTask, sch: Schedule) -> None:
    """Replay the best record on a schedule of the task's function."""
    trace = best_schedule(database, task)
    try:
        trace.apply_to(sch)
    except ScheduleError as error:
        raise TuningError(f"the best record of {task.name!r} does not replay: {error}") from error


def database_path(work_dir: str | Path | None) -> Path | None:
    """Where ``work_dir`` keeps its records; None (in memory) without one."""
    return Path(work_dir) / "records.db" if work_dir is not None else None

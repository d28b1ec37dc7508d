"""A tuning session: propose, build and measure in worker processes, record; always resumable.

Every answer is recorded as it arrives, failures with their reason. Interrupting a session loses
nothing that was reported: the next one on the same database does not measure those candidates
again. What went wrong with the machinery, and not with a candidate, ends the session and is
recorded nowhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..support.config import flag
from ..support.errors import BuildError, MeasureTimeout, TuningError
from ..tensorir.printer import print_func
from .candidate import Candidate, SpaceFunction
from .cost_model import CostModel, LearnedModel
from .database import TuningDatabase, TuningRecord
from .evolution import EvolutionarySearch
from .features import Machine
from .measure import measure_candidate, save_reference
from .search import SearchStrategy
from .space import analytic_choices, default_space
from .strategies import make_model, make_strategy, verify_strategy
from .task import TuneTask
from .transfer import transferred
from .warm_start import group_name, teach_records
from .worker_pool import WorkerPool

Space = SpaceFunction | Sequence[SpaceFunction] | None

CANDIDATE_LIMIT = 60.0
"""Seconds a candidate may take to build, check and time."""
ELITE_RECORDS = 16
"""Records of a task that a search starts from."""
REFERENCE_LIMIT = 900.0
"""Seconds the unscheduled function may take; it is run twice."""


@dataclass
class TuningProgress:
    """What a session has done; handed to ``on_progress`` after every answer."""

    task: TuneTask
    trials: int
    done: int = 0
    failed: int = 0
    best: float | None = None
    """Smallest time of a call so far, in seconds; records of earlier sessions count."""
    started: float = field(default_factory=time.monotonic)
    history: list[tuple[float, float]] = field(default_factory=list)
    """(seconds since the start, best so far) at each improvement."""

    @property
    def gflops(self) -> float:
        return self.task.flop / self.best / 1e9 if self.best else 0.0

    @property
    def left(self) -> int:
        return self.trials - self.done - self.failed

    def count(self, record: TuningRecord) -> None:
        """Take an answer into account."""
        if record.best is None:
            self.failed += 1
            return
        self.done += 1
        if self.best is None or record.best < self.best:
            self.best = record.best
            self.history.append((time.monotonic() - self.started, record.best))


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
    strategy: str = "evolutionary",
    model: CostModel | str | None = None,
    analytic_first: bool = True,
) -> TuningProgress:
    """Measure up to ``max_trials`` new candidates of one task and record them.

    ``space`` is a function on a Schedule, a list of them, or None for the built-in design space,
    whose analytic choice is measured first. ``executor`` runs the measurements (a WorkerPool of one
    worker by default; one worker measures what another would disturb). ``seconds`` is the time each
    candidate is run for; ``deadline`` (of ``time.monotonic``) ends the session early, in the middle
    of a measurement. ``strategy`` is ``evolutionary``, ``random`` or ``replay_trace``; the first
    ranks by ``model``, a CostModel or the name of one (None: the learned one where xgboost is
    installed, else the analytic one), which goes on learning and which records of other tasks teach
    beforehand. ``analytic_first=False`` leaves the analytic choice out, for experiments. Raises
    TuningError before any work for a function that cannot be tuned or a
    target that is not this machine, and where no candidate can be made or no worker runs.
    """
    if trials_per_iter < 1:
        raise TuningError(f"trials_per_iter is at least 1; found {trials_per_iter}.")
    task.verify_tunable()
    task.verify_measurable()
    verify_strategy(strategy)
    functions, first = _space_functions(space, task)
    first = [*first, *transferred(database, task)]
    seed = default_seed() if seed is None else seed
    if model is None or isinstance(model, str):
        model = make_model(model, seed)
    search = make_strategy(
        strategy,
        task.stripped,
        functions,
        seed=seed,
        target=task.target,
        model=model,
        first=first if analytic_first else (),
        seen=database.seen(task.workload, task.target_key),
        group=group_name(task.workload, task.target_key),
    )
    if max_trials > 0:
        _resume(search, model, task, database, deadline)
    known = database.best(task.workload, task.target_key)
    progress = TuningProgress(task, max_trials, best=known.best if known else None)
    with ExitStack() as stack:
        run: _Run | None = None
        while progress.left > 0 and not _is_over(deadline):
            batch = search.propose(min(trials_per_iter, progress.left), deadline=deadline)
            if not batch:
                break
            if run is None:
                run = _Run(
                    task, database, progress, seconds, deadline, on_progress, executor, stack
                )
            run.predicted = search.predictions(batch)
            search.observe(run.measure(batch))
    return progress


def _resume(
    search: SearchStrategy,
    model: CostModel,
    task: TuneTask,
    database: TuningDatabase,
    deadline: float | None,
) -> None:
    """Teach model and search what the database knows."""
    if not isinstance(search, EvolutionarySearch):
        return
    if isinstance(model, LearnedModel):
        teach_records(model, database, Machine.of(task.target), deadline=deadline)
    measured = [
        (r.best, r.candidate, r.trace)
        for r in database.records(task.workload, task.target_key)
        if r.best is not None
    ]
    fastest = sorted(measured)[:ELITE_RECORDS]
    search.resume([(candidate, trace, best) for best, candidate, trace in fastest])


class _Run:
    """The measurements of a session: where they run, the reference they share, what they report
    to."""

    def __init__(
        self,
        task: TuneTask,
        database: TuningDatabase,
        progress: TuningProgress,
        seconds: float,
        deadline: float | None,
        on_progress: Callable[[TuningProgress], None] | None,
        executor: Executor | None,
        stack: ExitStack,
    ) -> None:
        self.task, self.database, self.progress = task, database, progress
        self.seconds, self.deadline, self.on_progress = seconds, deadline, on_progress
        self.text = print_func(task.stripped)
        self.source = database.add_workload(task.workload, task.name, self.text, task.flop)
        folder = stack.enter_context(TemporaryDirectory(prefix="burnish-tune-"))
        self.reference = str(Path(folder) / "reference.npz")
        if executor is None:
            executor = WorkerPool(1, limit=CANDIDATE_LIMIT)
            stack.callback(executor.kill)
        self.executor = executor
        self.predicted: dict[str, float] = {}
        """What the search expects of the batch, by candidate."""
        self._has_reference = False

    def measure(self, batch: Sequence[Candidate]) -> list[tuple[str, float | None]]:
        """Measure candidates and record each answer; at the deadline the rest is dropped. An error
        of the machinery is raised after what was answered until then is recorded. The answers, in
        the batch's order: a candidate's hash and its best seconds, None where it failed."""
        if not self._has_reference and not self._make_reference():
            return []
        answers: dict[str, float | None] = {}
        futures = {self._submit(c): c for c in batch}
        broken: BaseException | None = None
        try:
            for future in self._answers(futures):
                if future.cancelled():
                    continue
                error = future.exception()
                if error is None or isinstance(error, (BuildError, MeasureTimeout)):
                    record = self._record(futures[future], future)
                    answers[record.candidate] = record.best
                elif broken is None:
                    broken = error
                    _cancel(futures)
        finally:
            _cancel(futures)
        if broken is not None:
            raise broken
        return [(c.hash, answers[c.hash]) for c in batch if c.hash in answers]

    def _answers(self, futures: Iterable[Future[Any]]) -> Iterator[Future[Any]]:
        """The futures as they are answered, until the deadline."""
        with suppress(TimeoutError):
            yield from as_completed(futures, self._time_left())

    def _submit(self, candidate: Candidate) -> Future[Any]:
        return self.executor.submit(
            measure_candidate,
            text=self.text,
            trace=candidate.trace,
            candidate=candidate.hash,
            target=str(self.task.target),
            reference=self.reference,
            seconds=self.seconds,
        )

    def _make_reference(self) -> bool:
        """Run the unscheduled function; false where the deadline passes first."""
        request: dict[str, Any] = {"text": self.text, "target": str(self.task.target), "seed": 0}
        request["path"] = self.reference
        if isinstance(self.executor, WorkerPool):
            future = self.executor.submit_within(REFERENCE_LIMIT, save_reference, **request)
        else:
            future = self.executor.submit(save_reference, **request)
        try:
            future.result(self._time_left())
        except TimeoutError:
            future.cancel()
            return False
        except TuningError as error:
            raise TuningError(
                f"{self.task.name!r} does not run even unscheduled: {error}"
            ) from error
        self._has_reference = True
        return True

    def _record(self, candidate: Candidate, future: Future[Any]) -> TuningRecord:
        error = future.exception()
        times = tuple(future.result()["seconds"]) if error is None else ()
        record = TuningRecord(
            workload=self.task.workload,
            target=self.task.target_key,
            candidate=candidate.hash,
            source=self.source,
            trace=candidate.trace,
            seconds=times,
            error="" if error is None else str(error),
            predicted=self.predicted.get(candidate.hash),
        )
        self.database.add(record)
        self.progress.count(record)
        if self.on_progress is not None:
            self.on_progress(self.progress)
        return record

    def _time_left(self) -> float | None:
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())


def _cancel(futures: Iterable[Future[Any]]) -> None:
    for future in futures:
        future.cancel()


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _space_functions(
    space: Space, task: TuneTask
) -> tuple[list[SpaceFunction], list[SpaceFunction]]:
    if space is None:
        functions = default_space(task.stripped, task.target)
        if not functions:
            raise TuningError(
                f"The built-in design space has nothing for {task.name!r}; pass space=."
            )
        return functions, analytic_choices(task.stripped, task.target)
    functions = list(space) if isinstance(space, Sequence) else [space]
    if not functions or not all(callable(f) for f in functions):
        raise TuningError(
            f"space= takes a function on a Schedule or a list of them; found {space!r}."
        )
    return functions, []


def default_seed() -> int:
    """The seed of BURNISH_SEED, or 0: every search is repeatable."""
    value = flag("BURNISH_SEED")
    return int(value) if value is not None else 0


def database_path(work_dir: str | Path | None) -> Path | None:
    """Where ``work_dir`` keeps its records; None (in memory) without one."""
    return Path(work_dir) / "records.db" if work_dir is not None else None

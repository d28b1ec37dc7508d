"""A tuning session: propose, build and measure in worker processes, record; always resumable.

Every answer is recorded as it arrives, failures with their reason. Interrupting a session loses
nothing that was reported: the next one on the same database does not measure those candidates
again. What went wrong with the machinery, and not with a candidate, ends the session and is
recorded nowhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path

from ..support.config import flag
from ..support.errors import TuningError
from ..tensorir.schedule import Schedule
from .best_record import verify_best
from .candidate import SpaceFunction
from .cost.cost_model import CostModel, LearnedModel
from .cost.features import Machine
from .cost.warm_start import group_name, teach_records
from .measuring.pipeline import CANDIDATE_LIMIT, Pools, local_pools
from .progress import TuningProgress
from .records.database import TuningDatabase
from .records.transfer import transferred
from .search.evolution import EvolutionarySearch
from .search.final_heat import final_heat
from .search.measurements import Measuring
from .search.search import SearchStrategy
from .search.space import analytic_choices, default_space
from .search.strategies import make_model, make_strategy, verify_strategy
from .task import TuneTask, largest

Space = SpaceFunction | Sequence[SpaceFunction] | None

ELITE_RECORDS = 16
"""Records of a task that a search starts from."""


def tune_task(
    task: TuneTask,
    database: TuningDatabase,
    *,
    max_trials: int,
    trials_per_iter: int = 64,
    space: Space = None,
    seed: int | None = None,
    executor: Executor | None = None,
    builder: Executor | None = None,
    seconds: float = 0.05,
    deadline: float | None = None,
    on_progress: Callable[[TuningProgress], None] | None = None,
    strategy: str = "evolutionary",
    model: CostModel | str | None = None,
    analytic_first: bool = True,
    heat: bool = False,
) -> TuningProgress:
    """Measure up to ``max_trials`` new candidates of one task and record them.

    ``space`` is a function on a Schedule, a list of them, or None for the built-in design space,
    whose analytic choice is measured first. ``executor`` times the candidates and ``builder``
    compiles the next ones meanwhile; by default both are worker processes of this machine, on cores
    of their own, and an ``executor`` alone does both, by turns. ``seconds`` is the time each
    candidate is run for; ``deadline`` (of ``time.monotonic``) ends the session early, in the middle
    of a measurement. ``strategy`` is ``evolutionary``, ``random`` or ``replay_trace``; the first
    ranks by ``model``, a CostModel or the name of one (None: the learned one where xgboost is
    installed, else the analytic one), which goes on learning and which records of other tasks teach
    beforehand. ``analytic_first=False`` leaves the analytic choice out, for experiments. With
    ``heat`` the records that lead at the end are timed once more (``final_heat``). Raises
    TuningError before any work for a function that cannot be tuned or a target that is not this
    machine, and where no candidate can be made or no worker runs.
    """
    if trials_per_iter < 1:
        raise TuningError(f"trials_per_iter is at least 1; found {trials_per_iter}.")
    task.verify_tunable()
    task.verify_measurable()
    verify_strategy(strategy)
    functions, first = _space_functions(space, task)
    first = [*first, *transferred(database, task)]
    seed = default_seed() if seed is None else seed
    verify_best(database, task)
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
        sizes=largest(task.sizes),
    )
    progress = TuningProgress(
        task, max_trials, best=database.best_seconds(task.workload, task.target_key)
    )
    if max_trials <= 0 or _is_over(deadline):
        return progress
    with ExitStack() as stack:
        pools = _pools(executor, builder, task, stack)
        _resume(search, model, task, database, deadline)
        measuring = Measuring(
            task,
            database,
            progress,
            pools,
            stack,
            seconds=seconds,
            deadline=deadline,
            on_progress=on_progress,
        )
        if pools.builder is None:
            measuring.take_turns(search, trials_per_iter)
        else:
            measuring.overlap(search, trials_per_iter)
        if heat and final_heat(task, database, pools, deadline=deadline):
            progress.best = database.best_seconds(task.workload, task.target_key)
    return progress


def _pools(
    executor: Executor | None, builder: Executor | None, task: TuneTask, stack: ExitStack
) -> Pools:
    if executor is not None:
        return Pools(executor, builder)
    if builder is not None:
        raise TuningError("builder= compiles for an executor= that times; pass both, or none.")
    pools = local_pools(task.target, stack)
    pools.start()
    return pools


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
    # What is sampled may fill some vectors of the target, whatever the machine that samples.
    widest = max(16, 4 * task.target.vector_bits // 32)
    return [_within(f, widest) for f in functions], []


def _within(space: SpaceFunction, widest: int) -> SpaceFunction:
    """The space function, with factors of innermost loops up to ``widest`` where it gives no
    limit."""

    def apply(sch: Schedule) -> None:
        sch.innermost_factor = widest
        space(sch)

    return apply


def default_seed() -> int:
    """The seed of BURNISH_SEED, or 0: every search is repeatable."""
    value = flag("BURNISH_SEED")
    return int(value) if value is not None else 0


def database_path(work_dir: str | Path | None) -> Path | None:
    """Where ``work_dir`` keeps its records; None (in memory) without one."""
    return Path(work_dir) / "records.db" if work_dir is not None else None


__all__ = [
    "CANDIDATE_LIMIT",
    "Space",
    "TuningProgress",
    "database_path",
    "default_seed",
    "tune_task",
]

"""The budget of a search between tasks: who gets the next round of measurements.

Every task has a first round. After that the *gradient* strategy gives the next round to the task
from which the whole program is expected to gain most::

    gain = calls * (0.2 * what the last rounds gained, a round
                    + 0.8 * min(best / rounds, best - roofline))

the second line being what Ansor expects of a task that was tuned little, bounded by what the
machine leaves to gain. *round-robin* gives rounds in turn. A task ends where nothing was gained in
its last ``patience`` measurements, where it is at the roofline, or where its space is exhausted.

Nothing is decided by the clock but the end: the same times give the same rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from ..support.choices import TASK_SCHEDULERS
from ..support.errors import TuningError, nearest
from .records.database import TuningDatabase
from .session import TuningProgress, tune_task
from .task import TuneTask

PATIENCE = 96
"""Measurements without a gain after which a task is left alone."""
ROUND = 16

_BACKWARD = 0.2
_WINDOW = 3
_GAIN = 0.99
"""A time is a gain where it is below this part of the best one."""
_AT_ROOFLINE = 1.05
_FAILING_ROUNDS = 2

TuneRound = Callable[..., TuningProgress]
"""``tune_task``, or what stands in for it."""


@dataclass
class TaskState:
    """How far a task is. ``best`` is the smallest time of a call, ``first`` the first one (of the
    analytic schedule, where the task was not tuned before), ``floor`` the roofline's."""

    task: TuneTask
    floor: float = 0.0
    first: float | None = None
    best: float | None = None
    done: int = 0
    failed: int = 0
    rounds: int = 0
    seconds: float = 0.0
    status: str = "waiting"
    bests: list[float | None] = field(default_factory=list)
    """The best time after each round."""
    curve: list[tuple[int, float]] = field(default_factory=list)
    """(measurements, best so far) at each improvement."""
    fruitless: int = 0
    """Measurements since the last gain."""

    @property
    def trials(self) -> int:
        return self.done + self.failed

    @property
    def is_open(self) -> bool:
        """Whether the task may get another round."""
        return self.status in ("waiting", "tuning")

    @property
    def gflops(self) -> float:
        return self.task.flop / self.best / 1e9 if self.best else 0.0

    @property
    def roofline(self) -> float:
        """The floor, or 0 where it is no floor: peaks that were measured while the machine had
        other work are exceeded later."""
        return self.floor if self.best is None or self.best >= self.floor else 0.0

    @property
    def of_roofline(self) -> float | None:
        """The roofline's time as a part of the best one; None where one of them is not known."""
        return self.roofline / self.best if self.best and self.roofline else None

    @property
    def gain(self) -> float:
        """Seconds a call of the whole program that another round is expected to gain."""
        if self.best is None:
            return float("inf")
        known = [b for b in self.bests if b is not None]
        window = min(_WINDOW, len(known) - 1)
        backward = (known[-1 - window] - known[-1]) / window if window > 0 else 0.0
        forward = min(self.best / max(self.rounds, 1), self.best - self.roofline)
        return self.task.weight * (_BACKWARD * backward + (1 - _BACKWARD) * forward)


@dataclass(frozen=True)
class Moment:
    """A point of the timeline: what a call of the program was expected to take then."""

    seconds: float
    trials: int
    latency: float | None
    task: str


class TaskScheduler:
    """Divides ``trials`` measurements, and the time until ``deadline`` (of ``time.monotonic``),
    between tasks.

    ``floors`` are the tasks' roofline times by workload, ``floor_again`` measures one anew.
    ``patience=None`` never leaves a task
    alone before its space is exhausted. ``watch`` is called with the scheduler whenever something
    was measured. Raises TuningError for a strategy or a budget that is none.
    """

    def __init__(
        self,
        tasks: Sequence[TuneTask],
        database: TuningDatabase,
        *,
        trials: int | None = None,
        deadline: float | None = None,
        strategy: str = "gradient",
        patience: int | None = PATIENCE,
        trials_per_round: int = ROUND,
        floors: Mapping[str, float] | None = None,
        floor_again: Callable[[TuneTask], float] | None = None,
        tune: TuneRound = tune_task,
        executor: Executor | None = None,
        seed: int | None = None,
        watch: Callable[[TaskScheduler], object] | None = None,
    ) -> None:
        if strategy not in TASK_SCHEDULERS:
            raise TuningError(
                f"There is no strategy {strategy!r}; there are {' and '.join(TASK_SCHEDULERS)}."
                f"{nearest(strategy, TASK_SCHEDULERS)}"
            )
        if trials is not None and trials < 1:
            raise TuningError(f"trials={trials}: expected at least 1.")
        if patience is not None and patience < 1:
            raise TuningError(f"patience={patience}: expected at least 1, or None for no end.")
        if trials_per_round < 1:
            raise TuningError(f"trials_per_round={trials_per_round}: expected at least 1.")
        if trials is None and deadline is None and patience is None:
            raise TuningError("A search without an end: give trials, a deadline or a patience.")
        self.database, self.trials, self.deadline = database, trials, deadline
        self.strategy, self.patience = strategy, patience
        self.trials_per_round = trials_per_round
        self.interrupted = False
        self.timeline: list[Moment] = []
        self._tune, self._executor, self._seed, self._watch = tune, executor, seed, watch
        self._started = time.monotonic()
        self._current: TaskState | None = None
        known = floors or {}
        self._floor_again = floor_again or (lambda task: known.get(task.workload, 0.0))
        self.states = [
            TaskState(task, known.get(task.workload, 0.0)) for task in sorted(tasks, key=_by_work)
        ]
        for state in self.states:
            record = database.best(state.task.workload, state.task.target_key)
            state.best = state.first = record.best if record else None

    # -- what is known -----------------------------------------------------------------------------
    @property
    def done(self) -> int:
        """Measurements so far, failures included."""
        return sum([s.trials for s in self.states])

    @property
    def left(self) -> int:
        return (1 << 30) if self.trials is None else self.trials - self.done

    @property
    def seconds(self) -> float:
        """How long the search has been running."""
        return time.monotonic() - self._started

    @property
    def latency(self) -> float | None:
        """The tasks' best times, each as often as it is called; None until all have one."""
        return weighted([(s.task.weight, s.best) for s in self.states])

    @property
    def eta(self) -> float | None:
        """Seconds until the budget is used up; None where nothing is known yet."""
        left = [] if self.deadline is None else [max(0.0, self.deadline - time.monotonic())]
        if self.trials is not None and self.done:
            left.append(self.seconds / self.done * self.left)
        return min(left) if left else None

    @property
    def current(self) -> TaskState | None:
        """The task that is being measured."""
        return self._current

    # -- the search --------------------------------------------------------------------------------
    def run(self) -> list[TaskState]:
        """Measure until the budget is used up or every task is done.

        An interrupt (Ctrl-C) ends the search as the budget's end does, with ``interrupted`` set:
        what was measured is recorded.
        """
        try:
            self._first_rounds()
            while not self._is_over() and (state := self._next()) is not None:
                self._round(state, min(self.trials_per_round, self.left), self.deadline)
        except KeyboardInterrupt:
            self.interrupted = True
        self._current = None
        return self.states

    def _first_rounds(self) -> None:
        """A round for each task, shorter ones where there are many tasks for the budget."""
        half = self.left // (2 * max(1, len(self.states)))
        count = max(1, min(self.trials_per_round, half))
        for i, state in enumerate(self.states):
            if self._is_over():
                return
            end = self.deadline
            if end is not None:
                now = time.monotonic()
                end = now + (end - now) / (len(self.states) - i)
            self._round(state, min(count, self.left), end)

    def _next(self) -> TaskState | None:
        """Who gets the next round."""
        candidates = [s for s in self.states if s.is_open]
        if not candidates:
            return None
        if self.strategy == "round-robin":
            return min(candidates, key=lambda s: s.rounds)
        return max(candidates, key=lambda s: s.gain)

    def _round(self, state: TaskState, count: int, deadline: float | None) -> None:
        start, base = time.monotonic(), (state.done, state.failed)
        state.status, self._current = "tuning", state

        def hear(progress: TuningProgress) -> None:
            self._take(state, base, progress)
            if self._watch is not None:
                self._watch(self)

        try:
            progress = self._tune(
                state.task,
                self.database,
                max_trials=count,
                trials_per_iter=count,
                executor=self._executor,
                deadline=deadline,
                seed=self._seed,
                on_progress=hear,
            )
        finally:
            state.seconds += time.monotonic() - start
        self._take(state, base, progress)
        state.rounds += 1
        state.bests.append(state.best)
        measured = progress.done + progress.failed
        self._judge(state, is_exhausted=measured < count and not _passed(deadline))
        self._mark(state)
        if self._watch is not None:
            self._watch(self)

    def _take(self, state: TaskState, base: tuple[int, int], progress: TuningProgress) -> None:
        """The state after what a round has measured so far."""
        before, best = state.trials, progress.best
        state.done, state.failed = base[0] + progress.done, base[1] + progress.failed
        if best is None or (state.best is not None and best >= state.best):
            state.fruitless += state.trials - before
            return
        is_gain = state.best is None or best < state.best * _GAIN
        state.fruitless = 0 if is_gain else state.fruitless + state.trials - before
        state.first = best if state.first is None else state.first
        state.best = best
        state.curve.append((state.trials, best))
        self._mark(state)

    def _judge(self, state: TaskState, *, is_exhausted: bool) -> None:
        """Whether the task is done, and why."""
        state.status = "tuning"
        if is_exhausted:
            state.status = "exhausted"
        elif state.best is None and state.rounds >= _FAILING_ROUNDS:
            state.status = "failing"
        elif self.patience is None:
            return
        elif self._is_at_roofline(state):
            state.status = "at roofline"
        elif state.fruitless >= self.patience:
            state.status = "plateau"

    def _is_at_roofline(self, state: TaskState) -> bool:
        """Whether nothing is left to gain, by peaks that are measured again before that counts."""
        if state.best is None or state.best > state.roofline * _AT_ROOFLINE:
            return False
        if state.trials < ROUND:  # so few are no evidence, whatever the peaks say
            return False
        state.floor = min(state.floor, self._floor_again(state.task))
        return state.best <= state.roofline * _AT_ROOFLINE

    def _mark(self, state: TaskState) -> None:
        """A point of the timeline, where something changed."""
        moment = Moment(self.seconds, self.done, self.latency, state.task.name)
        if not self.timeline or self.timeline[-1].latency != moment.latency:
            self.timeline.append(moment)

    def _is_over(self) -> bool:
        return self.left <= 0 or _passed(self.deadline)


def weighted(times: Sequence[tuple[int, float | None]]) -> float | None:
    """The sum of times, each as often as its weight says; None where one is not known."""
    known = [weight * t for weight, t in times if t is not None]
    return sum(known) if len(known) == len(times) and known else None


def _by_work(task: TuneTask) -> tuple[float, str]:
    return -task.flop * task.weight, task.name


def _passed(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


__all__ = [
    "PATIENCE",
    "TASK_SCHEDULERS",
    "Moment",
    "TaskScheduler",
    "TaskState",
    "TuneRound",
    "weighted",
]

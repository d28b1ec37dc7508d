"""Who gets the next round: rounds that are told what they find, and no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from burnish.support.errors import TuningError
from burnish.support.target import Target
from burnish.tests.tuner.programs import InlineExecutor, matmul, tiled
from burnish.tuner import task_scheduler
from burnish.tuner.records.database import TuningDatabase, TuningRecord
from burnish.tuner.session import TuningProgress, tune_task
from burnish.tuner.task import TuneTask
from burnish.tuner.task_scheduler import TaskScheduler, TaskState, weighted

NATIVE = TuneTask("", matmul(8), Target("native -threads=1")).target
SMALL, MIDDLE, LARGE = (TuneTask(f"n{n}", matmul(n), NATIVE) for n in (16, 32, 64))


class Rounds:
    """Stands in for tuning sessions: ``time(task, n)`` is what a task's n-th measurement gives."""

    def __init__(self, time: Callable[[str, int], float | None], space: int = 1 << 20) -> None:
        self.time, self.space = time, space
        self.order: list[tuple[str, int]] = []
        self.counts: dict[str, int] = {}
        self.bests: dict[str, float] = {}

    def __call__(self, task: TuneTask, database: TuningDatabase, **options: Any) -> TuningProgress:
        name = task.name
        self.order.append((name, options["max_trials"]))
        progress = TuningProgress(task, options["max_trials"], best=self.bests.get(name))
        for _ in range(options["max_trials"]):
            n = self.counts.get(name, 0)
            if n == self.space:
                break
            self.counts[name] = n + 1
            found = self.time(name, n)
            times = () if found is None else (found,)
            progress.count(TuningRecord("w", "t", str(n), 1, "[]", times))
            options["on_progress"](progress)
        if progress.best is not None:
            self.bests[name] = progress.best
        return progress


def schedule(rounds: Rounds, *tasks: TuneTask, **options: Any) -> TaskScheduler:
    scheduler = TaskScheduler(
        tasks or (SMALL, LARGE), TuningDatabase(), **{"tune": rounds, "trials": 100, **options}
    )
    scheduler.run()
    return scheduler


def spent(scheduler: TaskScheduler) -> dict[str, int]:
    return {s.task.name: s.trials for s in scheduler.states}


# -- the budget ----------------------------------
def test_every_task_has_a_first_round_the_most_work_first() -> None:
    rounds = Rounds(lambda *_: 1.0)
    schedule(rounds, SMALL, LARGE, MIDDLE, trials=48)
    assert rounds.order[:3] == [("n64", 8), ("n32", 8), ("n16", 8)]
    assert sum(n for _, n in rounds.order) == 48


def test_one_measurement_goes_to_the_most_work() -> None:
    assert spent(schedule(Rounds(lambda *_: 1.0), SMALL, LARGE, MIDDLE, trials=1)) == {
        "n64": 1,
        "n32": 0,
        "n16": 0,
    }


def test_calls_count_as_work() -> None:
    rounds = Rounds(lambda *_: 1.0)
    schedule(rounds, replace(SMALL, weight=1000), LARGE, trials=1)
    assert rounds.order == [("n16", 1)]


def test_the_gradient_goes_where_calls_take_long() -> None:
    rounds = Rounds(lambda name, _: 100.0 if name == "n16" else 1.0)
    scheduler = schedule(rounds, trials=200, patience=None)
    assert spent(scheduler)["n16"] > 3 * spent(scheduler)["n64"]


def test_the_gradient_goes_where_much_is_called() -> None:
    scheduler = schedule(
        Rounds(lambda *_: 1.0), replace(SMALL, weight=100), LARGE, trials=200, patience=None
    )
    assert spent(scheduler)["n16"] > 3 * spent(scheduler)["n64"]


def test_the_gradient_goes_where_there_was_progress() -> None:
    falling = TaskState(SMALL, best=6.0, rounds=3, bests=[10.0, 8.0, 6.0])
    flat = TaskState(SMALL, best=6.0, rounds=3, bests=[6.0, 6.0, 6.0])
    assert falling.gain == pytest.approx(flat.gain + 0.2 * 2.0)
    assert TaskState(SMALL).gain > falling.gain


def test_the_gradient_leaves_what_is_near_the_roofline() -> None:
    floors = {LARGE.workload: 0.9, SMALL.workload: 0.1}
    scheduler = schedule(Rounds(lambda *_: 1.0), trials=200, floors=floors, patience=None)
    assert spent(scheduler)["n16"] > 2 * spent(scheduler)["n64"]
    assert [s.of_roofline for s in scheduler.states] == [0.9, 0.1]


def test_round_robin_takes_turns() -> None:
    rounds = Rounds(lambda name, _: 100.0 if name == "n16" else 1.0)
    schedule(rounds, trials=96, strategy="round-robin")
    assert [name for name, _ in rounds.order] == ["n64", "n16"] * 3


class Clock:
    """Stands still, but where the test moves it on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def test_minutes_end_the_search_and_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, ends = Clock(), list[float]()
    monkeypatch.setattr(task_scheduler, "time", clock)

    def tune(task: TuneTask, database: TuningDatabase, **options: Any) -> TuningProgress:
        ends.append(options["deadline"])
        clock.now += 0.25
        return TuningProgress(task, 0, done=options["max_trials"], best=1.0)

    scheduler = TaskScheduler(
        (SMALL, LARGE), TuningDatabase(), deadline=1002.0, tune=tune, patience=None
    )
    scheduler.run()
    assert ends == [1001.0, *[1002.0] * 7]
    assert scheduler.seconds == 2.0


# -- the end of a task ----------------------------------
def test_a_plateau_ends_a_task_and_the_other_gets_the_rest() -> None:
    falling: Callable[[str, int], float] = lambda name, n: (  # noqa: E731
        1000.0 if name == "n64" else 10 * 0.9**n
    )
    scheduler = schedule(Rounds(falling), trials=300, patience=20)
    assert [s.status for s in scheduler.states] == ["plateau", "tuning"]
    assert spent(scheduler) == {"n64": 32, "n16": 268}


def test_small_gains_are_no_gains() -> None:
    scheduler = schedule(Rounds(lambda _, n: 1.0 - n * 1e-5), trials=900, patience=32)
    assert {s.status for s in scheduler.states} == {"plateau"}


def test_without_patience_nothing_ends_before_the_budget() -> None:
    scheduler = schedule(Rounds(lambda *_: 1.0), trials=300, patience=None)
    assert scheduler.done == 300
    assert {s.status for s in scheduler.states} == {"tuning"}


def test_a_task_at_the_roofline_is_done() -> None:
    floors = {LARGE.workload: 0.97}
    scheduler = schedule(Rounds(lambda *_: 1.0), floors=floors)
    assert [s.status for s in scheduler.states] == ["at roofline", "tuning"]
    assert spent(scheduler)["n64"] == 16


def test_a_few_measurements_end_no_task() -> None:
    floors = {LARGE.workload: 0.97, SMALL.workload: 0.97}
    scheduler = schedule(Rounds(lambda *_: 1.0), floors=floors, trials=12)
    assert {s.status for s in scheduler.states} == {"tuning"}


def test_a_roofline_that_is_exceeded_is_none() -> None:
    """Peaks were measured while the machine had other work: they end no search."""
    floors = {LARGE.workload: 1.5, SMALL.workload: 1.5}
    scheduler = schedule(Rounds(lambda *_: 1.0), floors=floors, trials=100)
    assert {s.status for s in scheduler.states} == {"tuning"}
    assert scheduler.done == 100
    assert [s.of_roofline for s in scheduler.states] == [None, None]
    assert all(s.gain > 0 for s in scheduler.states)


def test_peaks_are_measured_again_before_they_end_a_task() -> None:
    asked: list[str] = []

    def again(task: TuneTask) -> float:
        asked.append(task.name)
        return 0.96 if task is SMALL else 0.5

    floors = {LARGE.workload: 0.99, SMALL.workload: 0.99}
    rounds = Rounds(lambda *_: 1.0)
    scheduler = schedule(rounds, floors=floors, floor_again=again, trials=100)
    assert asked == ["n64", "n16"]
    assert [s.status for s in scheduler.states] == ["tuning", "at roofline"]
    assert [s.floor for s in scheduler.states] == [0.5, 0.96]


def test_an_exhausted_space_ends_a_task() -> None:
    scheduler = schedule(Rounds(lambda *_: 1.0, space=20))
    assert {s.status for s in scheduler.states} == {"exhausted"}
    assert scheduler.done == 40


def test_a_task_of_which_nothing_works_is_given_up() -> None:
    scheduler = schedule(Rounds(lambda name, _: None if name == "n64" else 1.0))
    large, small = scheduler.states
    assert (large.status, large.failed, large.best) == ("failing", 32, None)
    assert small.trials == 68
    assert scheduler.latency is None


# -- what is told ----------------------------------
def test_what_is_known_on_the_way() -> None:
    seen: list[tuple[int, str | None, float | None]] = []

    def watch(s: TaskScheduler) -> None:
        seen.append((s.done, s.current.task.name if s.current else None, s.latency))

    scheduler = schedule(
        Rounds(lambda name, n: (4.0 if name == "n64" else 2.0) / (1 + n)),
        replace(SMALL, weight=3), LARGE, trials=4, watch=watch,
    )  # fmt: skip
    assert seen[0] == (1, "n64", None)
    assert seen[-1][0] == 4
    assert scheduler.latency == weighted(
        [(1, scheduler.states[0].best), (3, scheduler.states[1].best)]
    )
    assert [s.first for s in scheduler.states] == [4.0, 2.0]
    known = [m.latency for m in scheduler.timeline if m.latency is not None]
    assert known == sorted(known, reverse=True)
    assert scheduler.eta is not None


def test_improvements_are_kept_with_their_number() -> None:
    times = [5.0, 6.0, 3.0, 4.0]
    scheduler = schedule(Rounds(lambda _, n: times[n], space=4), LARGE, trials=4)
    (state,) = scheduler.states
    assert state.curve == [(1, 5.0), (3, 3.0)]
    assert (state.done, state.rounds, state.fruitless) == (4, 2, 1)


def test_an_interrupt_ends_the_search_in_order() -> None:
    def find(name: str, n: int) -> float:
        if (name, n) == ("n16", 3):
            raise KeyboardInterrupt
        return 1.0

    scheduler = schedule(Rounds(find), trials=64)
    assert scheduler.interrupted
    assert spent(scheduler) == {"n64": 16, "n16": 3}
    assert scheduler.current is None


def test_earlier_records_count() -> None:
    database = TuningDatabase()
    database.add(TuningRecord(LARGE.workload, LARGE.target_key, "a", 1, "[]", (0.5,)))
    scheduler = TaskScheduler([LARGE], database, trials=1, tune=Rounds(lambda *_: 1.0))
    assert scheduler.latency == 0.5
    (state,) = scheduler.run()
    assert (state.best, state.first, state.curve) == (0.5, 0.5, [])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "gradien"}, r"no strategy 'gradien'; there are gradient and round-robin"),
        ({"trials": 0}, "trials=0: expected at least 1"),
        ({"patience": 0}, "patience=0: expected at least 1, or None"),
        ({"trials_per_round": 0}, "trials_per_round=0: expected at least 1"),
        ({"trials": None, "patience": None}, "A search without an end"),
    ],
)
def test_budgets_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TuningError, match=message):
        schedule(Rounds(lambda *_: 1.0), **options)


def test_real_sessions_take_turns() -> None:
    def tune(task: TuneTask, database: TuningDatabase, **options: Any) -> TuningProgress:
        return tune_task(task, database, **options, space=tiled, seconds=0.0)

    with TuningDatabase() as database:
        scheduler = TaskScheduler(
            [SMALL, MIDDLE], database, trials=6, tune=tune, executor=InlineExecutor(), seed=0,
            trials_per_round=2,
        )  # fmt: skip
        scheduler.run()
        assert scheduler.done == len(database) == 6
        assert all(s.best is not None for s in scheduler.states)

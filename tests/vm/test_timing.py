from __future__ import annotations

import pytest

from burnish.support.errors import ArgumentError
from burnish.vm import timing
from burnish.vm.timing import TimeEvaluator, TimeResult, time_call


def test_statistics() -> None:
    r = TimeResult((1.0, 2.0, 6.0))
    assert (r.mean, r.median, r.min, r.max) == (3.0, 2.0, 1.0, 6.0)
    assert r.std == pytest.approx((14 / 3) ** 0.5)
    assert TimeResult((2.0,)).std == 0
    assert str(TimeResult((0.0025,))) == (
        "mean 2.5 ms, median 2.5, min 2.5, max 2.5, std 0 (1 batches)"
    )
    assert str(TimeResult((2.5e-10,))).startswith("mean 0.25 ns")


def test_counts_calls() -> None:
    calls: list[int] = []
    r = time_call(lambda: calls.append(1), number=5, repeat=3)
    assert len(calls) == 1 + 15
    assert len(r.results) == 3


def test_batches_last_as_long_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that goes on by half a millisecond a call, and by nothing else."""
    calls: list[int] = []
    monkeypatch.setattr(timing, "perf_counter_ns", lambda: 500_000 * len(calls))
    r = time_call(lambda: calls.append(1), number=1, repeat=2, min_repeat_ms=4)
    assert r.results == (0.0005, 0.0005)
    # A call to warm up, one that was too short, and twice a little more than what lasts 4 ms.
    assert len(calls) == 1 + 1 + 2 * 9


def test_counts_below_one() -> None:
    with pytest.raises(ArgumentError, match="at least 1; got 0 and 3"):
        time_call(lambda: None, number=0)


def test_evaluator_prepares_once() -> None:
    prepared: list[object] = []

    def prepare(*args: object) -> object:
        prepared.append(args)
        return lambda: None

    r = TimeEvaluator(prepare, number=4, repeat=2)(1, 2)  # type: ignore[arg-type]
    assert prepared == [(1, 2)]
    assert len(r.results) == 2

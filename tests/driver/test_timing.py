"""Timing in turns."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from burnish.driver import timing
from burnish.driver.timing import Timing, time_interleaved


def test_the_slower_one_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that only the calls move on."""
    order: list[str] = []
    now = 0.0

    def run(name: str, seconds: float) -> None:
        nonlocal now
        order.append(name)
        now += seconds

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now))
    times = time_interleaved(
        {"quick": lambda: run("quick", 0.0002), "slow": lambda: run("slow", 0.002)},
        rounds=3,
        seconds=0.004,
    )
    for name, seconds in (("quick", 0.0002), ("slow", 0.002)):
        assert times[name].minimum == pytest.approx(seconds)
        assert times[name].median == pytest.approx(seconds)
    # In turns, each for as long: the last three rounds are twenty calls and two.
    turn = ["quick"] * 20 + ["slow"] * 2
    assert order[-3 * len(turn) :] == turn * 3


def test_less_means_the_minimum_and_the_median() -> None:
    assert Timing(1.0, 2.0).is_less_than(Timing(2.0, 3.0))
    assert not Timing(1.0, 3.0).is_less_than(Timing(2.0, 3.0))
    assert not Timing(2.0, 2.0).is_less_than(Timing(2.0, 3.0))

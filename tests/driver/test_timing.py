"""Timing in turns."""

from __future__ import annotations

import time
from itertools import pairwise

from burnish.driver.timing import Timing, time_interleaved


def test_the_slower_one_takes_longer() -> None:
    order: list[str] = []

    def run(name: str, seconds: float) -> None:
        order.append(name)
        time.sleep(seconds)

    times = time_interleaved(
        {"quick": lambda: run("quick", 0.0002), "slow": lambda: run("slow", 0.002)},
        rounds=3,
        seconds=0.004,
    )
    assert 0.0002 <= times["quick"].minimum <= times["quick"].median
    assert times["quick"].minimum < times["slow"].minimum
    assert 0.002 <= times["slow"].minimum < 0.1
    # In turns: after the warm-up the names change at least twice a round.
    changes = sum(a != b for a, b in pairwise(order))
    assert changes >= 2 * 3 - 1


def test_less_means_the_minimum_and_the_median() -> None:
    assert Timing(1.0, 2.0).is_less_than(Timing(2.0, 3.0))
    assert not Timing(1.0, 3.0).is_less_than(Timing(2.0, 3.0))
    assert not Timing(2.0, 2.0).is_less_than(Timing(2.0, 3.0))

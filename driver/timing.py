"""Timing of several ways to do one thing, in turns.

What the machine does meanwhile then hits all of them alike. ``vm.timing`` times a single call.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Timing:
    """Seconds a call: the smallest and the median of the rounds."""

    minimum: float
    median: float

    def is_less_than(self, other: Timing) -> bool:
        """Whether both are smaller: one alone may be luck."""
        return self.minimum < other.minimum and self.median < other.median


def mean_timing(timings: Sequence[Timing]) -> Timing:
    """The geometric means of several; one itself."""
    if len(timings) == 1:
        return timings[0]
    return Timing(
        statistics.geometric_mean([t.minimum for t in timings]),
        statistics.geometric_mean([t.median for t in timings]),
    )


def time_interleaved(
    contenders: Mapping[str, Callable[[], Any]], *, rounds: int = 15, seconds: float = 0.02
) -> dict[str, Timing]:
    """Time the contenders in turns; each round lasts about ``seconds`` for each of them."""
    clock = time.perf_counter
    calls: dict[str, int] = {}
    for name, run in contenders.items():
        run()
        count, elapsed = 1, 0.0
        while elapsed < seconds / 4:
            count *= 2
            start = clock()
            for _ in range(count):
                run()
            elapsed = clock() - start
        calls[name] = max(1, round(count * seconds / elapsed))
    results: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            start = clock()
            for _ in range(calls[name]):
                run()
            results[name].append((clock() - start) / calls[name])
    return {name: Timing(min(times), statistics.median(times)) for name, times in results.items()}

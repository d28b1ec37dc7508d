"""Timing of repeated calls, the same for programs and for single kernels.

A measurement runs the call once to warm up, then ``repeat`` times a batch of ``number`` calls; a
result is the mean of one batch, in seconds a call. The loop is plain Python: what is handed in
should be as bare as what is to be measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns

from ..support.errors import ArgumentError


@dataclass(frozen=True)
class TimeResult:
    """Seconds a call, one entry a batch."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        return math.fsum(self.results) / len(self.results)

    @property
    def median(self) -> float:
        ordered, half = sorted(self.results), len(self.results) // 2
        return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2

    @property
    def min(self) -> float:
        return min(self.results)

    @property
    def max(self) -> float:
        return max(self.results)

    @property
    def std(self) -> float:
        """Standard deviation of the population of batches; 0 for a single one."""
        mean = self.mean
        return math.sqrt(math.fsum((r - mean) ** 2 for r in self.results) / len(self.results))

    def __str__(self) -> str:
        scale, unit = next(
            ((s, u) for s, u in ((1.0, "s"), (1e3, "ms"), (1e6, "us")) if self.mean * s >= 1),
            (1e9, "ns"),
        )
        return (
            f"mean {self.mean * scale:.4g} {unit}, median {self.median * scale:.4g}, "
            f"min {self.min * scale:.4g}, max {self.max * scale:.4g}, std {self.std * scale:.2g} "
            f"({len(self.results)} batches)"
        )


def time_call(
    call: Callable[[], object], *, number: int = 10, repeat: int = 3, min_repeat_ms: float = 0
) -> TimeResult:
    """Time ``call``; ``number`` grows until a batch lasts ``min_repeat_ms``. Raises ArgumentError
    for counts below 1."""
    if number < 1 or repeat < 1:
        raise ArgumentError(f"number and repeat are at least 1; got {number} and {repeat}.")
    call()
    results: list[float] = []
    while len(results) < repeat:
        begin = perf_counter_ns()
        for _ in range(number):
            call()
        elapsed = perf_counter_ns() - begin
        if elapsed < min_repeat_ms * 1e6:
            # Aim a little beyond the limit, so that the batches that follow are rarely too short.
            growth = min_repeat_ms * 1.2e6 / max(elapsed, 1)
            number = max(number + 1, int(number * min(growth, 100.0)))
            results.clear()
            continue
        results.append(elapsed / number * 1e-9)
    return TimeResult(tuple(results))


@dataclass(frozen=True)
class TimeEvaluator:
    """``evaluator(*args)`` times ``prepare(*args)``, a callable without arguments."""

    prepare: Callable[..., Callable[[], object]]
    number: int = 10
    repeat: int = 3
    min_repeat_ms: float = 0

    def __call__(self, *args: object) -> TimeResult:
        return time_call(
            self.prepare(*args),
            number=self.number,
            repeat=self.repeat,
            min_repeat_ms=self.min_repeat_ms,
        )

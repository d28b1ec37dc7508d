"""Search strategies: which candidates of a design space to measure next.

A strategy proposes distinct scheduled functions (by structural hash), each with its trace. The analytic
choice of the space comes first, so that a tuned result is never worse than the untuned one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..support.errors import ScheduleError, TuningError
from ..support.structural import structural_hash
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import Schedule

SpaceFunction = Callable[[Schedule], object]
"""Transforms a Schedule in place by primitives and samplings; what it returns does not matter."""


@dataclass(frozen=True)
class Candidate:
    """A scheduled function and the trace that makes it from the workload."""

    func: PrimFunc
    trace: str
    """JSON."""
    hash: str


def make_candidate(sch: Schedule) -> Candidate:
    """The state of a schedule as a candidate."""
    return Candidate(sch.func, sch.trace.as_json(), structural_hash(sch.func))


class RandomSearch:
    """Random decisions in a list of space functions, taken in turn; no candidate twice."""

    def __init__(
        self,
        func: PrimFunc,
        space: Sequence[SpaceFunction],
        *,
        seed: int,
        first: Sequence[SpaceFunction] = (),
        seen: set[str] | None = None,
    ) -> None:
        """``first`` are space functions whose decisions are already made, proposed before all others;
        ``seen`` are hashes of candidates not to propose again."""
        self.func = func
        self.space = list(space)
        self.first = list(first)
        self.rng = random.Random(seed)
        self.seen = set(seen or ())

    def propose(self, count: int, *, attempts: int = 64) -> list[Candidate]:
        """Up to ``count`` new candidates; fewer (or none) where the space seems exhausted: ``attempts``
        draws in a row that gave nothing new. Raises TuningError where the space never applies."""
        found: list[Candidate] = []
        error: ScheduleError | None = None
        misses = 0
        draws = self._draws()
        while len(found) < count and misses < attempts:
            apply = next(draws)
            sch = Schedule(self.func, seed=self.rng.randrange(1 << 30))
            try:
                apply(sch)
            except ScheduleError as failure:
                error, misses = failure, misses + 1
                continue
            candidate = make_candidate(sch)
            if candidate.hash in self.seen:
                misses += 1
                continue
            misses = 0
            self.seen.add(candidate.hash)
            found.append(candidate)
        if not found and error is not None and not self.seen:
            raise TuningError(f"the design space applies to no state of {self.func.name!r}: {error}") from error
        return found

    def _draws(self) -> Iterator[SpaceFunction]:
        while self.first:
            yield self.first.pop(0)
        while True:
            yield self.rng.choice(self.space)

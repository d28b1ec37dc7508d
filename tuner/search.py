"""Which candidates of a design space to measure next.

A strategy proposes distinct scheduled functions (by structural hash), each with its trace. The
analytic choice of the space comes first, so that a tuned result is never worse than the untuned
one. What is proposed depends on the seed and on the candidates already known, and on nothing else.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from ..support.errors import ScheduleError, TuningError
from ..support.structural import structural_hash
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import Schedule

SpaceFunction = Callable[[Schedule], object]
"""Transforms a Schedule in place by primitives and samplings; what it returns does not matter."""


@dataclass(frozen=True)
class Candidate:
    """A scheduled function and the trace (as JSON) that makes it from the workload."""

    func: PrimFunc
    trace: str
    hash: str


def make_candidate(sch: Schedule) -> Candidate:
    """The state of a schedule as a candidate."""
    trace = json.dumps(sch.trace.as_json(), separators=(",", ":"))
    return Candidate(sch.func, trace, structural_hash(sch.func))


class RandomSearch:
    """Random decisions in a list of space functions, each chosen at random; no candidate twice."""

    def __init__(
        self,
        func: PrimFunc,
        space: Sequence[SpaceFunction],
        *,
        seed: int,
        first: Sequence[SpaceFunction] = (),
        seen: Collection[str] = (),
    ) -> None:
        """``first`` are space functions whose decisions are already made, proposed before all
        others; ``seen`` are hashes of candidates not to propose again."""
        self.func = func
        self.space = list(space)
        self.first = list(first)
        self.seen = set(seen)
        # A search that goes on must not draw again, one after another, all that is known already.
        self.rng = random.Random(f"{seed} after {len(self.seen)}")
        self._ever_applied = False

    def propose(
        self, count: int, *, attempts: int = 64, deadline: float | None = None
    ) -> list[Candidate]:
        """Up to ``count`` new candidates; fewer (or none) where the space seems exhausted,
        ``attempts`` draws in a row having given nothing new, or where the ``deadline`` (of
        ``time.monotonic``) passes. Raises TuningError where the space never applies to the
        function, with the last reason; an error that is no ScheduleError is the space function's
        own."""
        found: list[Candidate] = []
        error: ScheduleError | None = None
        misses = 0
        while len(found) < count and misses < attempts:
            if deadline is not None and time.monotonic() >= deadline:
                break
            try:
                candidate = self._draw()
            except ScheduleError as failure:
                error, misses = failure, misses + 1
                continue
            self._ever_applied = True
            if candidate.hash in self.seen:
                misses += 1
                continue
            misses = 0
            self.seen.add(candidate.hash)
            found.append(candidate)
        if error is not None and not self._ever_applied:
            raise TuningError(
                f"The design space applies to no state of {self.func.name!r}; in the last of "
                f"{misses} attempts: {error}"
            ) from error
        return found

    def _draw(self) -> Candidate:
        apply = self.first.pop(0) if self.first else self.rng.choice(self.space)
        sch = Schedule(self.func, seed=self.rng.randrange(1 << 30))
        apply(sch)
        return make_candidate(sch)

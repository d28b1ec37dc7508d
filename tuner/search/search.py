"""Which candidates of a design space to measure next.

A strategy proposes distinct scheduled functions (by structural hash), each with its trace. The
analytic choice of the space comes first, so that a tuned result is never worse than the untuned
one. What is proposed depends on the seed, on the candidates already known and on what was measured,
and on nothing else. ``RandomSearch`` and ``ReplayTraceSearch`` are here, the one that learns in
``evolution``.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from ...support.errors import ScheduleError, TuningError
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule, Trace
from ..candidate import Candidate, SpaceFunction, make_candidate
from .decisions import DecidedSchedule


class SearchStrategy(ABC):
    """What all strategies share: what is known, what comes first, and when to give up."""

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

    @abstractmethod
    def propose(
        self, count: int, *, attempts: int = 64, deadline: float | None = None
    ) -> list[Candidate]:
        """Up to ``count`` new candidates; fewer (or none) where the space seems exhausted,
        ``attempts`` draws in a row having given nothing new, or where the ``deadline`` (of
        ``time.monotonic``) passes. Raises TuningError where the space never applies to the
        function, with the last reason; an error that is no ScheduleError is the space function's
        own."""

    def observe(self, results: Sequence[tuple[str, float | None]]) -> None:
        """Take measurements into account: a candidate's hash and its seconds, None where it
        failed. What was measured is not proposed again, whoever proposed it."""
        self.seen.update(key for key, _ in results)

    def predictions(self, candidates: Sequence[Candidate]) -> dict[str, float]:
        """What is expected of proposed candidates, by hash, larger is faster; nothing where nothing
        is predicted."""
        return {}

    def _is_new(self, candidate: Candidate) -> bool:
        """Whether a candidate was not known; it is now."""
        self._ever_applied = True
        if candidate.hash in self.seen:
            return False
        self.seen.add(candidate.hash)
        return True

    def _fail_unless_applied(self, misses: int, error: ScheduleError | None) -> None:
        if error is not None and not self._ever_applied:
            raise TuningError(
                f"The design space applies to no state of {self.func.name!r}; in the last of "
                f"{misses} attempts: {error}"
            ) from error


class _DrawingSearch(SearchStrategy):
    """A strategy that draws candidates one by one, none of them because of another."""

    def propose(
        self, count: int, *, attempts: int = 64, deadline: float | None = None
    ) -> list[Candidate]:
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
            if not self._is_new(candidate):
                misses += 1
                continue
            misses = 0
            found.append(candidate)
        self._fail_unless_applied(misses, error)
        return found

    @abstractmethod
    def _draw(self) -> Candidate: ...


class RandomSearch(_DrawingSearch):
    """Random decisions in a list of space functions, each chosen at random; no candidate twice."""

    def _draw(self) -> Candidate:
        apply = self.first.pop(0) if self.first else self.rng.choice(self.space)
        sch = Schedule(self.func, seed=self.rng.randrange(1 << 30))
        apply(sch)
        return make_candidate(sch)


class ReplayTraceSearch(_DrawingSearch):
    """Random decisions in recorded traces: each space function is run once in a while, and its
    trace replayed with other decisions. Decisions that a space function has looked at stay, for
    they may have steered it."""

    REPLAYS = 16
    """Replays of a trace before the space functions are asked for another."""

    _trace: Trace | None = None
    _left = 0

    def _draw(self) -> Candidate:
        seed = self.rng.randrange(1 << 30)
        if self.first:
            sch = Schedule(self.func, seed=seed)
            self.first.pop(0)(sch)
            return make_candidate(sch)
        if self._trace is None or not self._left:
            decided = DecidedSchedule(self.func, seed=seed)
            self.rng.choice(self.space)(decided)
            self._keep(decided)
            return make_candidate(decided)
        self._left -= 1
        sch = Schedule(self.func, seed=seed)
        self._trace.apply_to(sch)
        return make_candidate(sch)

    def _keep(self, decided: DecidedSchedule) -> None:
        """Remember a trace with its free decisions left open, if it has any."""
        trace = decided.trace
        free = {v for v, i in decided.ledger.numbers.items() if self._is_free(decided, i)}
        opened = {
            i: None
            for i, inst in enumerate(trace)
            if inst.is_sampling and any(rv in free for rv in inst.outputs)
        }
        self._trace = trace.with_decisions(opened) if opened else None  # type: ignore[arg-type]
        self._left = self.REPLAYS

    @staticmethod
    def _is_free(decided: DecidedSchedule, i: int) -> bool:
        draw = decided.draws[i]
        return not draw.is_control and not draw.is_fixed

"""Chooser: one design space, two ways to choose in it.

A rule asks for each decision with the candidates and the value that the analytic model would take.
The analytic chooser takes that value, the random one leaves it to the schedule's own generator.
Either way the decision is a sampling instruction of the trace, so that tuning can change it later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..support.errors import InternalError
from ..tensorir.expr import Var
from ..tensorir.schedule import Schedule


@dataclass(frozen=True)
class Chooser:
    """``analytic=False`` samples every decision uniformly."""

    analytic: bool = True

    def choose(self, sch: Schedule, candidates: Sequence[int], best: int) -> Var:
        """A sampled variable over ``candidates`` (ints); the analytic choice is the value ``best``,
        or the candidate next to it. No candidates are an InternalError."""
        values = list(candidates)
        if not values:
            raise InternalError("a rule asked for a decision without candidates")
        probs = [1.0 / len(values)] * len(values)
        decision = None
        if self.analytic:
            decision = min(range(len(values)), key=lambda i: abs(values[i] - best))
        return sch.sample_categorical(values, probs, decision=decision)

    def value(self, sch: Schedule, candidates: Sequence[int], best: int) -> int:
        """As ``choose``, for a decision that shapes the sequence of primitives itself."""
        if len(set(candidates)) == 1:  # nothing to decide
            return candidates[0]
        return int(sch.get(self.choose(sch, candidates, best)))

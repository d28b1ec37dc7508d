"""Candidates: scheduled functions that may be measured, each with the trace that makes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

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

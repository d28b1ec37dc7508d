"""Candidates: a function, the trace that makes it, its hash."""

from __future__ import annotations

from burnish.support.structural import structural_hash
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tests.tuner.programs import matmul, tiled
from burnish.tuner.candidate import make_candidate


def test_a_candidate_replays() -> None:
    sch = Schedule(matmul(8), seed=1)
    tiled(sch)
    candidate = make_candidate(sch)
    again = Schedule(matmul(8), seed=2)
    Trace.from_json(candidate.trace).apply_to(again)
    assert candidate.hash == structural_hash(again.func) == structural_hash(candidate.func)

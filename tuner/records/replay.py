"""Traces of records and candidates, run where the rules are known.

A trace may name a rule (``apply_rule``), which is known once the registry is imported. Workers that
replay no trace start without all that.
"""

from __future__ import annotations

from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule, Trace
from ..rules.registry import RULES


def replay_trace(trace: Trace, sch: Schedule) -> PrimFunc:
    """What the trace makes of the schedule's function; raises the error of the step that fails."""
    assert RULES, "imported for the names that it registers"
    trace.apply_to(sch)
    return sch.func

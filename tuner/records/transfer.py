"""Where a search may begin: what was found for the same workload on other machines.

Their times say nothing here, but a schedule that was best on another CPU is often good on this one.
So the traces are replayed and measured like any candidate, right after the analytic choice.
"""

from __future__ import annotations

from collections.abc import Callable

from ...support.errors import InternalError
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule, Trace
from ...tensorir.text.parser import parse_func
from ..candidate import SpaceFunction
from ..task import TuneTask
from .database import TuningDatabase, TuningRecord
from .replay import rename, replay_trace

MOST = 8
"""How many records of other machines are tried."""


def transferred(database: TuningDatabase, task: TuneTask, most: int = MOST) -> list[SpaceFunction]:
    """The best records of the task's workload on other targets, as space functions with nothing
    left to decide. Those whose traces do not replay here (other names of blocks, another version)
    are left out."""
    found = []
    for record in database.elsewhere(task.workload, task.target_key, most):
        trace = _trace_for(record, task.stripped, database)
        if trace is not None:
            found.append(_replaying(trace))
    return found


def _trace_for(record: TuningRecord, func: PrimFunc, database: TuningDatabase) -> Trace | None:
    """The record's trace in the names of ``func``; None where it does not replay on it."""
    try:
        kept = parse_func(database.text(record.source))
        pairs = zip(kept.buffers, func.buffers, strict=True)
        trace = rename(Trace.from_json(record.trace), {old.name: new.name for old, new in pairs})
        # With all checks: what was legal there need not be in another version.
        replay_trace(trace, Schedule(func, seed=0))
    except InternalError:
        raise
    except Exception:  # a trace may break any primitive: that is about the trace
        return None
    return trace


def _replaying(trace: Trace) -> Callable[[Schedule], object]:
    def apply(sch: Schedule) -> None:
        replay_trace(trace, sch)

    return apply

"""Traces that promise what no proof covers, and what is done before such a record is believed.

Primitives prove what they do, with two exceptions: ``split(..., disable_predication=True)`` takes
the caller's word that running past the end of a loop is harmless, and ``transform_layout(...,
assume_injective_transform=True)`` that no two elements share a place. A record is a claim in a
file, and has no word to give. Where its trace needs that promise, the function it makes is built
and run in a worker process and compared with the unscheduled one, on seeded inputs, as a candidate
of a search is; a database remembers the comparisons that went well on a machine.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace

from ...support.errors import BuildError, TuningError, WorkerFailed
from ...support.host import native_target
from ...support.worker_pool import WorkerPool
from ...tensorir.schedule import Instruction, Trace
from ..records.database import TuningDatabase, TuningRecord
from ..task import TuneTask, sizes_key, target_key
from .measure import measure_candidate

COMPARISON_LIMIT = 300.0
"""Seconds that building, running and comparing one record may take."""


class NotComparedError(TuningError):
    """A record that could not be compared here and now; another time or machine may."""


_PROMISES = {
    ("split", "disable_predication"),
    ("transform_layout", "assume_injective_transform"),
}


def without_promises(trace: Trace) -> Trace:
    """The trace with every promise withdrawn; the same object where there is none."""
    withdrawn = [_withdrawn(inst) for inst in trace]
    changed = any(new is not old for new, old in zip(withdrawn, trace, strict=True))
    return Trace(tuple(withdrawn)) if changed else trace


def _withdrawn(inst: Instruction) -> Instruction:
    if not any((inst.kind, name) in _PROMISES and value for name, value in inst.attrs):
        return inst
    attrs = [(k, False if (inst.kind, k) in _PROMISES else v) for k, v in inst.attrs]
    return replace(inst, attrs=tuple(attrs))


def compare_once(database: TuningDatabase, record: TuningRecord, task: TuneTask, text: str) -> str:
    """Why the function that a record's trace makes of ``text``, which is a text of the task's
    workload, does not compute what the task's does; empty where it does.

    Nothing is run where the database knows of an earlier comparison on a machine like this one.
    Raises NotComparedError where none can be made: the function is for another machine, or the
    worker died or had no memory or files left, which may have been another's fault.
    """
    machine = target_key(native_target()) + sizes_key(task.sizes)
    content = "\0".join((machine, text, record.trace, record.candidate))
    key = f"compared:{hashlib.sha256(content.encode()).hexdigest()}"
    if database.remembers(key):
        return ""
    try:
        task.verify_measurable()
        with WorkerPool(1, limit=COMPARISON_LIMIT) as pool:
            pool.submit(
                measure_candidate,
                text=text,
                trace=record.trace,
                candidate=record.candidate,
                target=str(task.target),
                reference="",
                seconds=0.0,
                sizes=task.sizes,
                repeat=1,
            ).result()
    except WorkerFailed as error:
        raise NotComparedError(error.message) from error
    except BuildError as error:  # what the comparison says, or the compiler
        return error.message
    except (TuningError, OSError) as error:
        raise NotComparedError(str(error)) from error
    with suppress(TuningError):  # a file that may only be read: the next one compares again
        database.remember(key)
    return ""


__all__ = ["COMPARISON_LIMIT", "NotComparedError", "compare_once", "without_promises"]

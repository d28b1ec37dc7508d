"""The best record of a database as a schedule of the function that asks for it.

A trace speaks of blocks by name, and the function that asks may name its own otherwise than the one
the record was made with. So a trace is replayed on the asking function first, and where that does
not give the recorded candidate (known by its hash) on the kept text of the workload, under the
names of the asking function's parameters and with its attributes. Nothing here measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as replace_fields
from typing import Any

from ..support.errors import BurnishError, TuningError
from ..support.node import replace
from ..support.structural import structural_hash
from ..tensorir.buffer import Buffer
from ..tensorir.function import PrimFunc
from ..tensorir.parser import parse_func
from ..tensorir.printer import print_func
from ..tensorir.schedule import Instruction, Schedule, Trace
from ..tensorir.visitor import replace_buffers
from .database import TuningDatabase, TuningRecord
from .task import TuneTask, strip_attrs

ScheduleMaker = Callable[[PrimFunc], Schedule]
"""Makes a Schedule that works on a function, which it holds in place of the asking one."""

_BUFFER_ARGUMENTS = frozenset({"buffer", "buffer_index", "read_buffer_index", "write_buffer_index"})
"""Arguments of primitives that may name a buffer."""


def best_record(database: TuningDatabase, task: TuneTask) -> TuningRecord:
    """The fastest record of a task; TuningError naming the nearest ones where there is none."""
    record = database.best(task.workload, task.target_key)
    if record is None:
        raise TuningError(_explain_missing(database, task))
    return record


def best_schedule(
    database: TuningDatabase, task: TuneTask, make: ScheduleMaker | None = None
) -> Schedule:
    """A schedule of the task's function with the best record applied; raises TuningError where
    there is no record or it does not replay."""
    record = best_record(database, task)
    make = make or Schedule
    found = _replay(record, make(task.func), {})
    if found is None:
        kept = parse_func(database.text(record.source))
        pairs = zip(kept.buffers, task.func.buffers, strict=True)
        names = {old.name: new.name for old, new in pairs}
        found = _replay(record, make(adopt(kept, task.func)), names)
    if found is None:
        raise TuningError(
            f"The best record of {task.name!r} does not replay: it was made by another version of "
            "the schedule primitives. Tune it again."
        )
    return found


def _replay(
    record: TuningRecord, sch: Schedule, buffer_names: Mapping[str, str]
) -> Schedule | None:
    """The schedule after the record's trace; None where that is not the record's candidate."""
    # The proofs of legality were made when the candidate was: the hash says it is the same one.
    sch.enable_checks = False
    try:
        rename(Trace.from_json(record.trace), buffer_names).apply_to(sch)
    except BurnishError:
        return None
    finally:
        sch.enable_checks = True
    return sch if structural_hash(strip_attrs(sch.func)) == record.candidate else None


def adopt(kept: PrimFunc, asking: PrimFunc) -> PrimFunc:
    """``kept``, which is structurally equal to ``asking``, under the name, parameter names and
    attributes of ``asking``."""
    renamed: dict[Buffer, Buffer] = {}
    for old, new in zip(kept.buffers, asking.buffers, strict=True):
        renamed[old] = replace(old, name=new.name)
    body = replace_buffers(kept.body, renamed)
    params = tuple([renamed[p] if isinstance(p, Buffer) else p for p in kept.params])
    return PrimFunc(params, body, asking.attrs, asking.name).with_span(asking.span)


def rename(trace: Trace, buffer_names: Mapping[str, str]) -> Trace:
    """The trace with the buffers that its arguments name renamed, and without names of functions:
    it then speaks of the function its schedule works on, whatever that is called."""

    def renamed(arguments: Sequence[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
        return tuple(
            [
                (k, buffer_names.get(v, v) if k in _BUFFER_ARGUMENTS and isinstance(v, str) else v)
                for k, v in arguments
                if k != "func_name"
            ]
        )

    def change(inst: Instruction) -> Instruction:
        return replace_fields(inst, inputs=renamed(inst.inputs), attrs=renamed(inst.attrs))

    return Trace(tuple([change(inst) for inst in trace]))


def _explain_missing(database: TuningDatabase, task: TuneTask) -> str:
    text = print_func(task.stripped, name=task.name)
    message = (
        f"There is no record for {task.name!r} (workload {task.workload[:12]}) on "
        f"{task.target_key!r}."
    )
    others = {r.target for r in database.records(task.workload) if r.best is not None}
    if others:
        listed = "; ".join(sorted(others))
        return f"{message} There are records for other targets: {listed}. Tune for this one."
    nearest = database.nearest(text)
    if not nearest:
        return f"{message} The database has no records. Tune it first."
    listed = "\n  ".join(nearest)
    return f"{message} Tune it first. The nearest of those that have records:\n  {listed}"

"""The best record of a database as a schedule of the function that asks for it.

A trace speaks of blocks by name, and the function that asks may name its own otherwise than the one
the record was made with. So a trace is replayed on the asking function first, and where that does
not give the recorded candidate (known by its hash) on the kept text of the workload, under the
names of the asking function's parameters and with its attributes.

Every record that becomes a kernel comes through ``best_schedule``, which believes none of them.
Nothing here measures.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace as replace_fields

from ..support.caller import callers_level
from ..support.errors import BurnishError, InternalError, TuningError
from ..support.node import replace
from ..support.structural import structural_hash
from ..support.target import Target
from ..tensorir.buffer import Buffer
from ..tensorir.codegen import emit_object
from ..tensorir.function import PrimFunc
from ..tensorir.lowering import lower_func
from ..tensorir.schedule import Schedule, Trace
from ..tensorir.text.parser import parse_func
from ..tensorir.text.printer import print_func
from ..tensorir.verify.bounds import verify_bounds
from ..tensorir.verify.laws import verify_func
from ..tensorir.visitor import replace_buffers
from .measuring.promises import NotComparedError, compare_once, without_promises
from .records.database import TuningDatabase, TuningRecord
from .records.replay import rename, replay_trace
from .task import TuneTask, sizes_of_key, strip_attrs, target_key

ScheduleMaker = Callable[[PrimFunc], Schedule]
"""Makes a Schedule that works on a function, which it holds in place of the asking one."""

_WITHOUT_PROOF = frozenset({"set_scope", "set_dtype", "unsafe_set_dtype"})
"""Primitives whose result the emitter alone can refuse."""


_NAME_THREADS = (
    "Records count for their own number of threads: 'native -threads=1' asks for threads=1, "
    "'native' for threads=any, which a model's records have."
)


RECORD_RULE = "record_rule"
"""The attribute of a function that has its schedule from a record: the rule of its trace."""


def best_record(database: TuningDatabase, task: TuneTask) -> TuningRecord:
    """The fastest record of a task; TuningError naming the nearest ones where there is none."""
    record = database.best(task.workload, task.target_key)
    if record is None:
        raise TuningError(_explain_missing(database, task))
    return record


def best_schedule(
    database: TuningDatabase,
    task: TuneTask,
    make: ScheduleMaker | None = None,
    note: Callable[[str], object] | None = None,
) -> Schedule:
    """A schedule of the task's function with the fastest record applied that stands the checks.

    A record is a claim of a file that others may have written. Its trace is replayed with every
    proof of legality, must give the candidate whose hash it names, and where it makes a promise
    that nothing proves the results are compared (``promises``). A record that fails is set
    aside in the database with its reason, ``note`` gets a sentence about it (by default it is a
    UserWarning), and the next one is taken. One that cannot be compared now is passed over with a
    note too, and stays as it is. Raises TuningError where none is left.
    """
    make = make or Schedule
    refused: dict[str, str] = {}
    skipped: dict[str, str] = {}
    while True:
        record = database.best(task.workload, task.target_key, without=[*refused, *skipped])
        if record is None:
            reasons = list(refused.values()), list(skipped.values())
            raise TuningError(_explain_missing(database, task, *reasons))
        try:
            found = _replay(database, record, task, make)
        except NotComparedError as error:
            skipped[record.candidate] = error.message
            (note or warn)(_skipped_text(task, error.message))
            continue
        if isinstance(found, Schedule):
            return found
        refused[record.candidate] = found
        with suppress(TuningError):  # a file that may only be read: the note says it all the same
            database.set_aside(record, found)
        (note or warn)(_set_aside_text(task, found))


def rule_of(trace: Trace) -> str:
    """The rule that a record's trace runs; ``primitives`` where it is steps alone."""
    rules = [str(dict(inst.attrs)["rule"]) for inst in trace if inst.kind == "apply_rule"]
    return " and ".join(rules) or "primitives"


def explain_unused(database: TuningDatabase, target: Target) -> str:
    """Why a database gave none of a module's functions a schedule, in a sentence."""
    known = database.targets()
    if not known:
        return "the tuning database has no records."
    return (
        f"no tuning record applies: there is none of these functions on {target_key(target)!r}. "
        f"The database has records for: {'; '.join(known)}. {_NAME_THREADS}"
    )


def task_on_record(database: TuningDatabase, task: TuneTask) -> TuneTask:
    """The task as the database may know it: of named sizes, at the sizes that were measured last
    for its target; at none where none were."""
    if not task.func.shape_vars:
        return task
    for record in reversed(database.records(task.workload)):
        with suppress(ValueError):  # a key that names no sizes is another's
            known = replace_fields(task, sizes=sizes_of_key(record.target))
            if known.sizes and known.target_key == record.target:
                return known
    return task


def verify_best(
    database: TuningDatabase, task: TuneTask, note: Callable[[str], object] | None = None
) -> None:
    """Set aside what leads the task's records and does not stand the checks of
    ``best_schedule``."""
    if database.best(task.workload, task.target_key) is not None:
        with suppress(TuningError):
            best_schedule(database, task, note=note)


def set_aside_notes(database: TuningDatabase, task: TuneTask) -> list[str]:
    """A sentence for each record of a task that was set aside."""
    reasons = database.set_aside_reasons(task.workload, task.target_key)
    return [_set_aside_text(task, reason) for reason in reasons]


def _set_aside_text(task: TuneTask, reason: str) -> str:
    return f"a tuning record of {task.name!r} was set aside: {reason}"


def _skipped_text(task: TuneTask, reason: str) -> str:
    return f"a tuning record of {task.name!r} was passed over, for it cannot be compared: {reason}"


def warn(message: str) -> None:
    """Say a note as a UserWarning, where no report has it."""
    warnings.warn(f"{message[0].upper()}{message[1:]}", UserWarning, stacklevel=callers_level())


def _replay(
    database: TuningDatabase, record: TuningRecord, task: TuneTask, make: ScheduleMaker
) -> Schedule | str:
    """The schedule after the record's trace, or why the record is not to be believed."""
    found = _candidate(record, task.func, make, {})
    text = task.stripped
    if isinstance(found, str):
        kept = kept_text(database, record, task)
        if isinstance(kept, str):
            return kept
        text = kept
        pairs = zip(text.buffers, task.func.buffers, strict=True)
        names = {old.name: new.name for old, new in pairs}
        found = _candidate(record, adopt(text, task.func), make, names)
    if isinstance(found, str):
        return found
    sch, is_promised = found
    wrong = _fault(sch, task)
    if wrong:
        return wrong
    if is_promised:
        return compare_once(database, record, task, print_func(strip_attrs(text))) or sch
    return sch


def _fault(sch: Schedule, task: TuneTask) -> str:
    """Why the function that a record makes can be no kernel; empty where it can. What primitives
    prove says nothing of an annotation or a scope that code cannot be made of, and a promise (a
    loop may run past its end) may be one that the function's own text breaks."""
    try:
        verify_bounds(verify_func(sch.func))
        lowered = lower_func(sch.func, task.target)
        if any(inst.kind in _WITHOUT_PROOF for inst in sch.trace):
            emit_object([lowered], task.target)
    except InternalError:
        raise
    except BurnishError as error:
        return f"no kernel can be made of it: {_first_line(error)}"
    return ""


def kept_text(database: TuningDatabase, record: TuningRecord, task: TuneTask) -> PrimFunc | str:
    """The function that a record was made with, which is the task's under other names; or why it
    cannot be had."""
    try:
        text = parse_func(database.text(record.source))
    except BurnishError as error:
        return f"the text it was recorded on is none: {_first_line(error)}"
    if structural_hash(strip_attrs(text)) != task.workload:
        return "the text it was recorded on is another workload's"
    return text


def _candidate(
    record: TuningRecord, func: PrimFunc, make: ScheduleMaker, buffer_names: Mapping[str, str]
) -> tuple[Schedule, bool] | str:
    """The record's candidate, made of ``func``, and whether that took a promise; or why not."""
    reason = "its trace makes another function than the one it names"
    try:
        trace = rename(Trace.from_json(record.trace), buffer_names)
        proved = without_promises(trace)
    except InternalError:
        raise
    except Exception as error:
        return f"its trace is none: {_first_line(error)}"
    for attempt in (trace,) if proved is trace else (proved, trace):
        sch = make(func)
        try:
            replay_trace(attempt, sch)
        except InternalError:  # ours to mend, whatever the trace says
            raise
        except Exception as error:  # a trace may break any primitive: that is about the trace
            reason = f"its trace does not replay: {_first_line(error)}"
            continue
        if structural_hash(strip_attrs(sch.func)) == record.candidate:
            return sch, attempt is not proved
    return reason


def _first_line(error: Exception) -> str:
    message = (
        error.message if isinstance(error, BurnishError) else f"{type(error).__name__}: {error}"
    )
    return message.splitlines()[0] if message else type(error).__name__


def adopt(kept: PrimFunc, asking: PrimFunc) -> PrimFunc:
    """``kept``, which is structurally equal to ``asking``, under the name, parameter names and
    attributes of ``asking``."""
    renamed: dict[Buffer, Buffer] = {}
    for old, new in zip(kept.buffers, asking.buffers, strict=True):
        renamed[old] = replace(old, name=new.name)
    body = replace_buffers(kept.body, renamed)
    params = tuple([renamed[p] if isinstance(p, Buffer) else p for p in kept.params])
    return PrimFunc(params, body, asking.attrs, asking.name).with_span(asking.span)


def _explain_missing(
    database: TuningDatabase,
    task: TuneTask,
    refused: Sequence[str] = (),
    skipped: Sequence[str] = (),
) -> str:
    if refused or skipped:
        listed = "\n  ".join(dict.fromkeys([*refused, *skipped]))
        counts = [f"{len(refused)} were set aside"] if refused else []
        counts += [f"{len(skipped)} could not be compared, and stay"] if skipped else []
        return (
            f"No record for {task.name!r} (workload {task.workload[:12]}) on {task.target_key!r} "
            f"stands the checks; {'; '.join(counts)}. Tune it again. The reasons:\n  {listed}"
        )
    text = print_func(task.stripped, name=task.name)
    message = (
        f"There is no record for {task.name!r} (workload {task.workload[:12]}) on "
        f"{task.target_key!r}."
    )
    others = {r.target for r in database.records(task.workload) if r.best is not None}
    if others:
        listed = "; ".join(sorted(others))
        return (
            f"{message} There are records for other targets: {listed}. Tune for this one. "
            f"{_NAME_THREADS}"
        )
    nearest = database.nearest(text)
    if not nearest:
        return f"{message} The database has no records. Tune it first."
    listed = "\n  ".join(nearest)
    return f"{message} Tune it first. The nearest of those that have records:\n  {listed}"

"""What a cost model learns from a database before anything is measured.

Records of other workloads and machines teach it which loop nests are fast beside others of their
own group (a workload on a target); their times are never compared across groups.
"""

from __future__ import annotations

import math
import time

import numpy as np

from ...support.errors import InternalError
from ...support.structural import structural_hash
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule, Trace
from ...tensorir.text.parser import parse_func
from ..records.database import TuningDatabase, TuningRecord
from ..records.replay import replay_trace
from ..task import largest, sizes_of_key, strip_attrs
from .cost_model import LearnedModel
from .features import Floats, Machine, features_of
from .nest_summary import summarize_at

MOST_RECORDS = 256
MOST_OF_A_GROUP = 64


def group_name(workload: str, target: str) -> str:
    """The name under which a model keeps the measurements of a workload on a target."""
    return f"{workload} {target}"


def teach_records(
    model: LearnedModel,
    database: TuningDatabase,
    machine: Machine,
    *,
    deadline: float | None = None,
) -> int:
    """Add the newest records of each group that the model does not know yet, and train it; how
    many were added. Records whose traces do not replay, with all checks, to the candidates they
    name are left out."""
    groups: dict[str, list[TuningRecord]] = {}
    for record in reversed(database.records()):
        groups.setdefault(group_name(record.workload, record.target), []).append(record)
    texts: dict[int, PrimFunc] = {}
    taught = 0
    for name, records in groups.items():
        rows: list[Floats] = []
        seconds: list[float] = []
        for record in records[:MOST_OF_A_GROUP] if name not in model.groups else []:
            if taught >= MOST_RECORDS or (deadline is not None and time.monotonic() >= deadline):
                break
            row = _features(record, database, texts, machine)
            if row is not None:
                rows.append(row)
                seconds.append(math.inf if record.best is None else record.best)
                taught += 1
        if rows:
            model.add(name, np.stack(rows), seconds)
    if taught:
        model.train()
    return taught


def _features(
    record: TuningRecord, database: TuningDatabase, texts: dict[int, PrimFunc], machine: Machine
) -> Floats | None:
    try:
        if record.source not in texts:
            texts[record.source] = parse_func(database.text(record.source))
        sch = Schedule(texts[record.source], seed=0)
        replay_trace(Trace.from_json(record.trace), sch)
    except InternalError:
        raise
    except Exception:  # a trace may break any primitive: that is about the trace
        return None
    if structural_hash(strip_attrs(sch.func)) != record.candidate:
        return None  # its time is another program's
    try:
        summary = summarize_at(sch.func, largest(sizes_of_key(record.target)))
    except ValueError:
        return None  # its key names no sizes, or others than the function has
    leaves = summary.leaves.astype(np.float64)[None, :]
    return np.asarray(features_of(summary.structure, leaves, machine)[0])

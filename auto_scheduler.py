"""A search with a log file, under the names programs know: ``from burnish import auto_scheduler``.

Names only; the definitions are in ``faces.search_task`` and ``faces.search_policy``.
"""

from __future__ import annotations

from .faces.search_policy import PreloadMeasuredStates, RandomModel, SketchPolicy, XGBModel
from .faces.search_task import (
    ComputeDAG,
    RecordReader,
    RecordToFile,
    SearchTask,
    TuningOptions,
    create_task,
    load_records,
    register_workload,
)

__all__ = [
    "ComputeDAG",
    "PreloadMeasuredStates",
    "RandomModel",
    "RecordReader",
    "RecordToFile",
    "SearchTask",
    "SketchPolicy",
    "TuningOptions",
    "XGBModel",
    "create_task",
    "load_records",
    "register_workload",
]

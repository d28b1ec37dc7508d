"""A search with a log file, under the names programs know: ``from burnish import auto_scheduler``.

Names only; the definitions are in ``driver.search_task`` and ``driver.search_policy``.
"""

from __future__ import annotations

from .driver.search_policy import PreloadMeasuredStates, RandomModel, SketchPolicy, XGBModel
from .driver.search_task import (
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

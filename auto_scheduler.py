"""A search with a log file, under the names programs know: ``from burnish import auto_scheduler``.

Names only; the definitions are in ``driver.search_task``.
"""

from __future__ import annotations

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
    "RecordReader",
    "RecordToFile",
    "SearchTask",
    "TuningOptions",
    "create_task",
    "load_records",
    "register_workload",
]

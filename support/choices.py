"""Names that users choose among, for those who must not import what the names stand for."""

from __future__ import annotations

STAGES = (
    *("00-import", "10-canonical", "20-legalized", "30-fused", "40-scheduled", "45-packed"),
    *("50-lowered", "60-llvm", "70-bytecode"),
)
"""The stages of a compilation, in order (``driver.stages``)."""

TASK_SCHEDULERS = ("gradient", "round-robin")
"""How the tuner shares its budget among tasks (``tuner.task_scheduler``)."""

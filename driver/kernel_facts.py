"""What is known of a program's kernels before they run: their work, and who scheduled them.

A saved model keeps it, so that its profile says as much as that of the model it came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .executable import Executable


@dataclass(frozen=True)
class KernelFacts:
    """Of one kernel: the name (of the first function that it computes), the rule that scheduled it,
    the operations of a call, and the bytes that it reads and writes at least, None where named dims
    decide them."""

    name: str
    rule: str
    flop: float | None
    moved: float | None
    bits: int
    """Of the widest floats that it computes with."""


def kernel_facts(executable: Executable) -> dict[str, KernelFacts]:
    """The facts of each kernel that the program's functions call, by symbol."""
    from ..tuner.measuring.roofline import bytes_of
    from ..tuner.task import count_flop

    before = executable.stages.get("30-fused", executable.module).prim_funcs
    found: dict[str, KernelFacts] = {}
    for name, kernel in executable.program.kernels.items():
        func = before.get(name) or executable.module.prim_funcs.get(name)
        if func is None or kernel.symbol in found:
            continue
        schedule = executable.report.schedules.get(name)
        is_static = not func.shape_vars
        widest = max([p.dtype.bits for p in func.buffers if p.dtype.is_float], default=32)
        found[kernel.symbol] = KernelFacts(
            name,
            (schedule.rule if schedule else None) or "",
            count_flop(func) if is_static else None,
            bytes_of(func) if is_static else None,
            widest,
        )
    return found

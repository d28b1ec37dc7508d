"""Traces of records and candidates, run where the rules are known.

A trace may name a rule (``apply_rule``), which is known once the registry is imported. Workers that
replay no trace start without all that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Instruction, Schedule, Trace
from ..rules.registry import RULES

_BUFFER_ARGUMENTS = frozenset({"buffer", "buffer_index", "read_buffer_index", "write_buffer_index"})
"""Arguments of primitives that may name a buffer."""


def replay_trace(trace: Trace, sch: Schedule) -> PrimFunc:
    """What the trace makes of the schedule's function; raises the error of the step that fails."""
    assert RULES, "imported for the names that it registers"
    trace.apply_to(sch)
    return sch.func


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
        return replace(inst, inputs=renamed(inst.inputs), attrs=renamed(inst.attrs))

    return Trace(tuple([change(inst) for inst in trace]))

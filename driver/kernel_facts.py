"""What is known of a program's kernels before they run: their work, and who scheduled them.

A saved model keeps it, so that its profile says as much as that of the model it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    sources: tuple[str, ...] = ()
    """The places in the foreign model that it computes, of all its calls: ``net.py:12``."""
    operands: tuple[str, ...] = ()
    """The types of the factors of its products, where they are narrow."""

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> KernelFacts:
        """What a saved model keeps of a kernel."""
        lists = {k: tuple(v) for k, v in held.items() if isinstance(v, list)}
        return cls(**{**held, **lists})


def kernel_facts(executable: Executable, places: Mapping[str, str]) -> dict[str, KernelFacts]:
    """The facts of each kernel that the program's functions call, by symbol. ``places`` tell of
    variables of the import where they come from."""
    from ..tuner.measuring.roofline import bytes_of
    from ..tuner.task import count_flop, narrow_operands

    before = executable.stages.get("30-fused", executable.module).prim_funcs
    sources = _sources(executable, places)
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
            tuple(sources.get(name, ())),
            narrow_operands(func),
        )
    return found


def _sources(executable: Executable, places: Mapping[str, str]) -> dict[str, list[str]]:
    """The places of each kernel: those of the operators that were fused into it, in order.

    Fusion keeps the variable of a group's last operator. Of the others, whoever reads one is of its
    group, or the last of it.
    """
    from ..graphir.expr import CallDPS, Var
    from ..support.node import walk

    before, after = executable.stages.get("20-legalized"), executable.stages.get("30-fused")
    if before is None or after is None:
        return {}
    found: dict[str, list[str]] = {}
    for name, function in after.graph_functions.items():
        calls = {
            b.var.name: b.value.func.name
            for block in function.body.blocks
            for b in block.bindings
            if isinstance(b.value, CallDPS)
        }
        bindings = [b for block in before.graph_functions[name].body.blocks for b in block.bindings]
        owner = dict(calls)
        for b in reversed(bindings):
            if b.var.name in owner:
                for read in walk(b.value):
                    if isinstance(read, Var):
                        owner.setdefault(read.name, owner[b.var.name])
        for b in bindings:
            place, kernel = places.get(b.var.name), owner.get(b.var.name)
            if place and kernel and place not in found.setdefault(kernel, []):
                found[kernel].append(place)
    return found

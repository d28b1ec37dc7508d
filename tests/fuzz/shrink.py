"""Shrinks a failing trace: instructions are dropped while it goes on failing in the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from burnish.tensorir.schedule.trace.trace import Instruction, Trace

LIMIT = 400
"""Attempts at most."""


def shrink(trace: Trace, fails: Callable[[Trace], bool], limit: int = LIMIT) -> Trace:
    """A shorter trace that fails too. Dropping an instruction drops those that use its results."""
    best = _finish(trace)
    if not fails(best):
        best = trace
    attempts = 1
    size = max(len(best) // 2, 1)
    while size:
        at = len(best) - size
        progress = False
        while at > -size and attempts < limit:
            shorter = _finish(without(best, range(max(at, 0), at + size)))
            if len(shorter) < len(best):
                attempts += 1
                if fails(shorter):
                    best, progress = shorter, True
            at -= size
        if attempts >= limit:
            break
        if not (size == 1 and progress):
            size //= 2
    return best


def without(trace: Trace, dropped: Sequence[int]) -> Trace:
    """The trace without some instructions and all that depend on them."""
    gone: set[int] = set()
    kept: list[Instruction] = []
    for i, inst in enumerate(trace):
        if i in dropped or any(id(rv) in gone for rv in inst.variables()):
            gone.update(id(rv) for rv in inst.outputs)
        else:
            kept.append(inst)
    return Trace(tuple(kept))


def _finish(trace: Trace) -> Trace:
    """Without queries that nothing uses, except the last instruction: it may be the one that
    fails."""
    if not trace.instructions:
        return trace
    *first, last = trace.instructions
    marked = replace(last, kind="enter_postproc")
    kept = Trace((*first, marked)).simplified().instructions
    return Trace((*kept[:-1], last))

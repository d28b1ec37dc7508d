"""How many steps a schedule takes: what it executes, a vector counted once.

A schedule whose loops over elements are not vectors takes many times the steps that it needs. That
shows before anything runs, on any machine, and does not vary.
"""

from __future__ import annotations

import math

from burnish.support.node import children, walk
from burnish.support.target import Target
from burnish.tensorir.expr import BufferLoad, IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import Block, BufferStore, For, Stmt
from burnish.tuner.workload import blocks_in_order


def steps_of(func: PrimFunc, target: Target) -> int:
    """The statements that a scheduled function of static sizes executes: a vector of up to the
    target's width is one. So are the short vectors of unrolled loops that go into registers: LLVM
    makes whole ones of them, and shuffles."""
    return _steps(func.body, target, 1, 1, 1)


def _steps(s: Stmt, target: Target, times: int, unrolled: int, lanes: int) -> int:
    match s:
        case For(extent=IntImm() as extent):
            if s.kind == "vectorized":
                return _steps(s.body, target, times, unrolled, lanes * extent.value)
            if s.kind == "unrolled":
                return _steps(s.body, target, times, unrolled * extent.value, lanes)
            return _steps(s.body, target, times * extent.value, unrolled, lanes)
        case BufferStore(buffer=buffer):
            if buffer.scope == "register":
                return times * math.ceil(lanes * unrolled * buffer.dtype.bits / target.vector_bits)
            return times * unrolled * math.ceil(lanes * buffer.dtype.bits / target.vector_bits)
        case _:
            below = [c for c in children(s) if isinstance(c, Stmt)]
            return sum([_steps(c, target, times, unrolled, lanes) for c in below])


def steps_in_vectors(func: PrimFunc, target: Target) -> float:
    """The steps of an unscheduled function of static sizes if each of its blocks filled vectors."""
    total = 0.0
    for block in blocks_in_order(func):
        extents = [v.dom.extent for v in block.iter_vars]
        points = math.prod([e.value for e in extents if isinstance(e, IntImm)])
        total += points * max(w.buffer.dtype.bits for w in block.writes) / target.vector_bits
    return total


def is_led_by_data(func: PrimFunc) -> bool:
    """Whether places in memory depend on data, or a block is a program of its own (sorting): then
    elements are worked on one by one."""
    accesses = [n for n in walk(func.body) if isinstance(n, BufferLoad | BufferStore)]
    if any(isinstance(m, BufferLoad) for n in accesses for i in n.indices for m in walk(i)):
        return True
    return any(isinstance(n, For) for block in _blocks(func) for n in walk(block.body))


def _blocks(func: PrimFunc) -> list[Block]:
    return blocks_in_order(func)

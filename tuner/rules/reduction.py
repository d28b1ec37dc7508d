"""Reductions: a row's sum kept in the lanes of vectors, then one fixed tree.

    for i: for k:  S[i] += A[i, k]     ->    rfactor of k into lanes, the lanes vectorized in registers

The number and order of partial sums depend on shapes and decisions alone, never on threads. Reductions
over outer axes vectorise the spatial innermost axis instead and need no rfactor.
"""

from __future__ import annotations

from ...support.errors import ScheduleError
from ...support.node import walk
from ...support.target import Target
from ...tensorir.expr import BufferLoad, IntImm, Var
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block
from ..chooser import Chooser
from ..workload import blocks_in_order, is_reduction, is_spatial
from .elementwise import vectorize_block
from .inline import inline_elementwise


def schedule_reduction(sch: Schedule, target: Target, chooser: Chooser) -> None:
    """Schedule every block of a function with reductions; blocks no rule fits stay as they are."""
    inline_elementwise(sch)
    for block in blocks_in_order(sch.func):
        if is_reduction(block):
            _reduce_block(sch, block, target, chooser)
    for block in blocks_in_order(sch.func):
        if is_spatial(block) and len(sch.get_loops(block.name)) == len(block.iter_vars):
            trial = sch.copy()
            try:
                vectorize_block(trial, block, target, chooser)
            except ScheduleError:
                continue
            sch.become(trial)


def _reduce_block(sch: Schedule, block: Block, target: Target, chooser: Chooser) -> None:
    reduce = [i for i, v in enumerate(block.iter_vars) if v.kind == "reduce"]
    spatial = [i for i, v in enumerate(block.iter_vars) if v.kind == "spatial"]
    lanes = max(1, target.vector_bits // block.writes[0].buffer.dtype.bits)
    last = block.iter_vars[reduce[-1]]
    extent = last.dom.extent
    if not _is_innermost(block, last.var) and spatial:
        _vectorize_columns(sch, block, reduce, spatial, lanes)
        return
    if not isinstance(extent, IntImm) or extent.value % lanes or len(reduce) != 1:
        return
    together = chooser.value(sch, [1, 2, 4], 2)
    while extent.value % (lanes * together):
        together //= 2
    loops = sch.get_loops(block.name)
    outer, inner = sch.split(loops[reduce[-1]], [None, lanes * together])
    partial = sch.rfactor(inner, len(spatial))
    sch.set_scope(partial, 0, "local")
    *_, row_lanes = sch.get_loops(partial)
    del outer, row_lanes


def _is_innermost(block: Block, var: Var) -> bool:
    """Whether ``var`` runs along the last dimension of some load."""
    return any(isinstance(n, BufferLoad) and n.indices and n.indices[-1] is var for n in walk(block.body))


def _vectorize_columns(sch: Schedule, block: Block, reduce: list[int], spatial: list[int], lanes: int) -> None:
    """Reductions over outer axes: lanes along the innermost spatial axis, sums in memory order."""
    column = block.iter_vars[spatial[-1]].dom.extent
    if not isinstance(column, IntImm) or column.value % lanes:
        return
    loops = sch.get_loops(block.name)
    outer, inner = sch.split(loops[spatial[-1]], [None, lanes])
    sch.reorder(*[loops[i] for i in spatial[:-1]], outer, *[loops[i] for i in reduce], inner)
    sch.vectorize(inner)

"""Elementwise, broadcast and injective functions: one loop nest, innermost axis in vectors.

    for i, j:  C[i, j] = f(A[i, j], B[j])       ->   for i, j0: for jl in vectorized(lanes): ...

Where every access runs through memory in the same order, all axes are fused into one first. What does
not fill a vector is a part of its own, so that full vectors carry no mask.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.node import walk
from ...support.target import Target
from ...tensorir.expr import BufferLoad, Expr, IntImm
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block, BufferStore
from ..chooser import Chooser
from ..workload import blocks_in_order, is_spatial
from .inline import inline_elementwise

PARALLEL_GRAIN = 1 << 14
"""Elements below which a loop is not worth sharing among threads."""


def schedule_elementwise(sch: Schedule, target: Target, chooser: Chooser) -> None:
    """Inline what can be, then vectorise every remaining spatial block."""
    inline_elementwise(sch)
    for block in blocks_in_order(sch.func):
        if is_spatial(block) and block.iter_vars:
            vectorize_block(sch, block, target, chooser)


def vectorize_block(sch: Schedule, block: Block, target: Target, chooser: Chooser) -> None:
    """Split the innermost axis of one block into vectors (and a rest), and share the outer ones."""
    loops = sch.get_loops(block.name)
    if not loops:
        return
    lanes = max(1, target.vector_bits // block.writes[0].buffer.dtype.bits)
    width = lanes * chooser.value(sch, [1, 2, 4], 1)
    if len(loops) > 1 and runs_in_order(block) and is_multiple(block.iter_vars[-1].dom.extent, width):
        loops = [sch.fuse(*loops)]
    innermost = loops[-1]
    extent = sch.get(innermost).extent
    if isinstance(extent, IntImm) and extent.value < width:
        width = _narrower(extent.value, width)
        if width == 1:
            return
    if isinstance(extent, IntImm) and extent.value % width == 0:
        parts: Sequence[LoopRV] = [innermost]
    else:
        parts = sch.loop_partition(innermost, [extent // width * width, None])
    _, vector = sch.split(parts[0], [None, width])
    sch.vectorize(vector)
    _parallelize(sch, block, target)


def is_multiple(extent: Expr, width: int) -> bool:
    """Whether a constant extent is made of whole vectors."""
    return isinstance(extent, IntImm) and extent.value % width == 0


def _narrower(extent: int, width: int) -> int:
    while width > extent:
        width //= 2
    return width


def _parallelize(sch: Schedule, block: Block, target: Target) -> None:
    """Share the outermost loop among threads where there is enough to do."""
    outer = sch.get_loops(block.name)
    if len(outer) < 2:
        return
    points = 1
    for v in block.iter_vars:
        extent = v.dom.extent
        points *= extent.value if isinstance(extent, IntImm) else PARALLEL_GRAIN
    if points >= PARALLEL_GRAIN and not (target.threads == 1):
        sch.parallel(outer[0])


def runs_in_order(block: Block) -> bool:
    """Whether the store and every load go through the block's axes in memory order, all of each buffer:
    then the axes are one axis."""
    axes = [v.var for v in block.iter_vars]
    extents = [v.dom.extent for v in block.iter_vars]
    for n in walk(block.body):
        if isinstance(n, (BufferLoad, BufferStore)):
            if len(n.indices) != len(axes) or n.buffer.strides:
                return False
            for index, axis, size, extent in zip(n.indices, axes, n.buffer.shape, extents, strict=True):
                if index is not axis:
                    return False
                same = size is extent or (
                    isinstance(size, IntImm) and isinstance(extent, IntImm) and size.value == extent.value
                )
                if not same:
                    return False
    return True

"""Matrix products of few rows with a weight whose rows lie along k and may not be packed: dot products.

    for i, j, k:  Y[i, j] += X[i, k] * W[j, k]

becomes, with k in lanes and several columns at once,

    for i, j0
      P = 0                                  one vector a column, in registers
      for k0, j1, kl                         j1 unrolled, kl vectorized
        P[j1, kl] += X[i, k] * W[j, k]
      for j1, kl: Y[i, j] += P[j1, kl]       the lanes, in a fixed order
      E(Y[i, j])

Packing would read and write W once more for every call, which costs as much as the product itself.
"""

from __future__ import annotations

from ...support.target import Target
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import BlockRV, Schedule
from ..chooser import Chooser
from ..workload import Matmul, blocks_in_order, static_extent
from .inline import inline_elementwise
from .matmul import consumer_or_copy
from .panels import is_layout_free

MOST_ROWS = 4


def fits(func: PrimFunc, matmul: Matmul, lanes: int) -> bool:
    """Whether the product has few rows, k innermost in both operands, and a weight of fixed layout."""
    block = next(b for b in blocks_in_order(func) if b.name == matmul.block)
    rows = 1
    for axis in matmul.rows:
        extent = static_extent(block, axis)
        if extent is None:
            return False
        rows *= extent
    k = static_extent(block, matmul.reduce[0])
    columns = static_extent(block, matmul.columns[0])
    inner = block.iter_vars[matmul.reduce[0]].var
    return (
        rows <= MOST_ROWS
        and len(matmul.rows) <= 1
        and k is not None
        and k % lanes == 0
        and columns is not None
        and matmul.w.indices[-1] is inner
        and matmul.x.indices[-1] is inner
        and not is_layout_free(func, matmul)
    )


def schedule_dot(sch: Schedule, target: Target, chooser: Chooser, matmul: Matmul) -> None:
    """Apply the rule; ``fits`` says where."""
    inline_elementwise(sch)
    block = next(b for b in blocks_in_order(sch.func) if b.name == matmul.block)
    lanes = max(1, target.vector_bits // block.writes[0].buffer.dtype.bits)
    columns = static_extent(block, matmul.columns[0]) or 1
    wanted = chooser.value(sch, [1, 2, 4, 8, 16], 8)
    while columns % wanted:
        wanted //= 2
    unroll = chooser.value(sch, [1, 2, 4], 1)
    steps = (static_extent(block, matmul.reduce[0]) or lanes) // lanes
    while steps % unroll:
        unroll //= 2
    epilogue = consumer_or_copy(sch, matmul.block, "local")
    loops = sch.get_loops(matmul.block)
    _, lane = sch.split(loops[matmul.reduce[0]], [None, lanes])
    partial = sch.rfactor(lane, -1)
    sch.set_scope(partial, 0, "local")
    *outer, column, _ = sch.get_loops(matmul.block)
    j0, _ = sch.split(column, [None, wanted])
    sch.compute_at(partial, j0)
    sch.reverse_compute_at(epilogue, j0)
    _tile_partial(sch, partial, unroll)
    for block_like in (matmul.block, epilogue):
        for loop in sch.get_loops(block_like)[len(outer) + 1 :]:
            sch.unroll(loop)


def _tile_partial(sch: Schedule, partial: BlockRV, unroll: int) -> None:
    """The lanes' sums: k outside, columns unrolled, lanes vectorized."""
    *_, columns, lane, k = sch.get_loops(partial)
    k0, k1 = sch.split(k, [None, unroll])
    sch.reorder(k0, k1, columns, lane)
    sch.unroll(k1)
    sch.unroll(columns)
    sch.vectorize(lane)
    sch.decompose_reduction(partial, k0)

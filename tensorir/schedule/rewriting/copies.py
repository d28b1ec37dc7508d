"""Copies of a box of a buffer, as the cache primitives put them beside a block.

A copy is a block ``<buffer>_<scope>`` over loops ``ax0, ax1, ...`` that writes (or reads) a new
buffer of the same shape; the block that was named then uses the new one. The copy is placed
directly beside the statement that holds the block, at the innermost place that all users of the
buffer share, and is moved from there with compute_at or reverse_compute_at.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.affine import Bounds
from ...analysis.buffers import buffer_names
from ...analysis.conditions import conjunction
from ...analysis.paths import fresh_name
from ...analysis.region_cover import Box
from ...arith import point_region
from ...buffer import Buffer, Range
from ...expr import BufferLoad, Expr, IntImm, Var, add, is_const
from ...function import PrimFunc
from ...stmt import Block, BlockRealize, BufferStore, IterVar, Stmt
from .nests import nest_of


def copy_nest(source: Buffer, target: Buffer, box: Box, name: str, bounds: Bounds) -> Stmt:
    """Loops over a box and a block that copies an element of ``source`` to the same place in
    ``target``."""
    values: list[Expr] = []
    loops: list[tuple[Var, Expr]] = []
    conditions: list[Expr] = []
    axes: list[IterVar] = []
    known = bounds
    for d, (start, extent, dim) in enumerate(
        zip(box.starts, box.extents, source.shape, strict=True)
    ):
        var = Var(f"ax{d}")
        loops.append((var, extent))
        known = known | Bounds({var: Range(IntImm(0), extent)})
        value = known.simplify(start + var)
        if not known.proves_le(IntImm(0), start):
            conditions.append(value >= 0)
        if not known.proves_le(add(start, extent), dim):
            conditions.append(value < dim)
        values.append(value)
        axes.append(IterVar(Var(f"v{d}"), Range(IntImm(0), dim), "spatial"))
    point = tuple([it.var for it in axes])
    block = Block(
        name,
        tuple(axes),
        (point_region(source, point),),
        (point_region(target, point),),
        BufferStore(target, BufferLoad(source, point), point),
    )
    return nest_of(loops, BlockRealize(tuple(values), conjunction(conditions), block))


def new_buffer(func: PrimFunc, buffer: Buffer, scope: str) -> Buffer:
    name = fresh_name(buffer_names(func), f"{buffer.name}_{scope.replace('.', '_')}")
    return Buffer(name, buffer.shape, buffer.dtype, scope)


def clip(box: Box, shape: Sequence[Expr], bounds: Bounds) -> Box:
    """The box with dimensions that reach beyond the whole buffer cut to it."""
    starts, extents = list(box.starts), list(box.extents)
    for d, dim in enumerate(shape):
        if is_const(starts[d], 0) and bounds.proves_le(dim, extents[d]):
            extents[d] = dim
    return Box(starts, extents, box.exact)

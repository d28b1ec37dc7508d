"""Loops around a block, made anew."""

from __future__ import annotations

from collections.abc import Iterable

from ...analysis.conditions import TRUE
from ...expr import Expr, IntImm, Var
from ...stmt import Block, BlockRealize, For, Stmt


def nest_of(loops: Iterable[tuple[Var, Expr]], inner: Stmt) -> Stmt:
    """Serial loops from 0 to their extents, outermost first, around a statement."""
    for var, extent in reversed(list(loops)):
        inner = For(var, IntImm(0), extent, "serial", inner)
    return inner


def nest_over_axes(block: Block) -> Stmt:
    """A block and a loop for each of its axes, ``ax0, ax1, ...``, which runs over its domain."""
    loops = [Var(f"ax{d}") for d in range(len(block.iter_vars))]
    nest: Stmt = BlockRealize(tuple(loops), TRUE, block)
    for var, it in reversed(list(zip(loops, block.iter_vars, strict=True))):
        nest = For(var, it.dom.min, it.dom.extent, "serial", nest)
    return nest

"""Loops around a block, made anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....support.node import replace
from ...analysis.block_kinds import binding_map
from ...analysis.conditions import TRUE
from ...arith import infer_regions
from ...expr import Expr, IntImm, Var
from ...stmt import Block, BlockRealize, For, IterVar, Stmt
from ...visitor import substitute


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


def nest_like(
    realize: BlockRealize,
    axes: Sequence[IterVar],
    loops: Sequence[For],
    name: str,
    body: Stmt,
    predicate: Expr,
    *,
    suffix: str = "",
    annotations: tuple[tuple[str, Any], ...] = (),
) -> Stmt:
    """A block that writes where another does, over some of its axes and under copies of some of its
    loops, whose names get the suffix. ``body`` is written over the other's axes."""
    of_loops: dict[Var, Expr] = {loop.var: Var(loop.var.name + suffix) for loop in loops}
    fresh = {it.var: Var(it.var.name) for it in axes}
    own = tuple([IterVar(fresh[it.var], it.dom, it.kind) for it in axes])
    body = substitute(body, fresh)
    reads = tuple(infer_regions(body, None, own)[0])
    writes = tuple([substitute(w, fresh) for w in realize.block.writes])
    block = Block(name, own, reads, writes, body, annotations=annotations)
    bindings = binding_map(realize)
    values = tuple([substitute(bindings[it.var], of_loops) for it in axes])
    nest: Stmt = BlockRealize(values, substitute(predicate, of_loops), block)
    for loop in reversed(loops):
        nest = substitute(replace(loop, body=nest), of_loops)
    return nest

"""Whether a block with an init is a reduction as primitives and lowering take it for.

An instance over the spatial axes begins its elements with the init, and the update, once for each
value of the reduce axes, combines a term into the same elements and reads no others of its output.
Only then may all inits run before all updates, partial results be kept apart, or instances change
places. The axes' kinds do not say it: ``C[vi, vj] = 0`` as the init of ``C[vj, vi] += ...`` is
well formed, and means what it says in the order in which it is written.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ..support.node import walk
from .arith import Analyzer, expr_key, infer_regions, region_covers
from .buffer import BufferRegion
from .expr import BufferLoad, Var
from .stmt import Block, BufferStore

_KNOWN: WeakKeyDictionary[Block, bool] = WeakKeyDictionary()


def combines_in_place(block: Block) -> bool:
    """Whether the init and the update of a block touch the same elements of what it writes, which
    do not depend on its reduce axes; true for a block without an init that updates its own."""
    if block.init is None:
        return True
    known = _KNOWN.get(block)
    if known is None:
        known = _KNOWN[block] = _combines(block)
    return known


def _combines(block: Block) -> bool:
    init, body = block.init, block.body
    reduced = {it.var for it in block.iter_vars if it.kind == "reduce"}
    if isinstance(init, BufferStore) and isinstance(body, BufferStore):
        if init.buffer is not body.buffer:
            return False
        place = [expr_key(i) for i in body.indices]
        own = [
            n
            for s in (init, body)
            for n in walk(s)
            if isinstance(n, (BufferLoad, BufferStore)) and n.buffer is body.buffer
        ]
        return all([expr_key(i) for i in n.indices] == place for n in own) and not any(
            n in reduced for i in body.indices for n in walk(i) if isinstance(n, Var)
        )
    assert init is not None
    _, begun = infer_regions(init, None, block.iter_vars, alloc_buffers=block.alloc_buffers)
    reads, updated = infer_regions(body, None, block.iter_vars, alloc_buffers=block.alloc_buffers)
    analyzer = Analyzer()
    for it in block.iter_vars:
        analyzer.bind(it.var, it.dom)
    first = {r.buffer: r for r in begun}
    if len(begun) != len(updated) or any(r.buffer not in first for r in updated):
        return False
    return (
        all(_are_equal(r, first[r.buffer], analyzer) for r in updated)
        and all(region_covers(first[r.buffer], r, analyzer) for r in reads if r.buffer in first)
        and not any(n in reduced for r in updated for n in walk(r) if isinstance(n, Var))
    )


def _are_equal(a: BufferRegion, b: BufferRegion, analyzer: Analyzer) -> bool:
    pairs = zip(a.region, b.region, strict=True)
    if all(
        expr_key(x.min) == expr_key(y.min) and expr_key(x.extent) == expr_key(y.extent)
        for x, y in pairs
    ):
        return True
    return region_covers(a, b, analyzer) and region_covers(b, a, analyzer)

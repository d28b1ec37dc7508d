"""Inlining: every elementwise intermediate into its consumers, so that a fused function becomes one
loop nest a reduction, with its epilogue.

Consumers go first: a value is then put into the blocks that remain, where what stands twice in one
block is computed once by code generation. A costly value (a transcendental function, a division)
that would be computed again, in several blocks or for every element of a larger one, stays a block;
so does a value of several loads that another block gathers from several places, element by element.
"""

from __future__ import annotations

from collections.abc import Collection

from ...support.errors import ScheduleError
from ...support.node import children, walk
from ...tensorir.buffer import Buffer
from ...tensorir.expr import BufferLoad, Cast, Div, Expr, IntImm, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block, BufferStore
from ...tensorir.visitor import has_load, loads_in
from ..workload import blocks_in_order, is_spatial, non_unit_axes, uses_intrinsic

MOST_NODES = 1000
"""Nodes that a consumer may come to hold by one inlining: values used twice, again and again, would
otherwise double at every step."""


def inline_elementwise(
    sch: Schedule, keep: Collection[Buffer] = (), *, in_order: bool = False
) -> None:
    """Inline spatial blocks that write intermediates, consumers first; one that the primitive
    refuses (an output, a guarded block) stays, and so does one that writes a buffer of ``keep``,
    unless it only moves elements. With ``in_order`` all blocks stay that read in another order than
    they write: their consumers are to read memory as they do now."""
    outputs = {id(b) for b in sch.func.written}
    kept = {id(b) for b in keep}
    for block in reversed(blocks_in_order(sch.func)):
        written = [id(w.buffer) for w in block.writes]
        if not is_spatial(block) or any(b in outputs for b in written):
            continue
        if any(b in kept for b in written) and not is_move(block):
            continue
        if in_order and not _keeps_order(block):
            continue
        if _is_wasteful(sch.func, block):
            continue
        try:
            sch.compute_inline(block.name)
        except ScheduleError:
            continue


def is_move(block: Block) -> bool:
    """Whether a block's value is one element of another buffer, perhaps cast, at plain axes."""
    value: Expr | None = block.body.value if isinstance(block.body, BufferStore) else None
    if isinstance(value, Cast):
        value = value.value
    return isinstance(value, BufferLoad) and all(isinstance(i, Var | IntImm) for i in value.indices)


def _keeps_order(block: Block) -> bool:
    """Whether all that a block reads lies along the axes that it writes along."""
    axes = [v.var for v in block.iter_vars if not _is_one(v.dom.extent)]
    loads = loads_in(block.body)
    for load in loads:
        if not all(isinstance(i, Var | IntImm) for i in load.indices):
            return False
        places = [axes.index(i) for i in load.indices if isinstance(i, Var) and i in axes]
        if places != sorted(places) or (is_move(block) and len(places) < len(axes)):
            return False
    return True


def _is_one(extent: Expr) -> bool:
    return isinstance(extent, IntImm) and extent.value == 1


def _is_wasteful(func: PrimFunc, block: Block) -> bool:
    """Whether inlining would compute a costly value again, or make a consumer too large."""
    buffers = {id(w.buffer) for w in block.writes}
    consumers = [
        b
        for b in blocks_in_order(func)
        if b is not block and any(id(r.buffer) in buffers for r in b.reads)
    ]
    if _is_costly(block):
        if len(consumers) > 1:
            return True
        if any(len(non_unit_axes(c)) > len(non_unit_axes(block)) for c in consumers):
            return True
    nodes = sum([1 for _ in walk(block.body)])
    for c in consumers:
        loads = [n for n in walk(c.body) if isinstance(n, BufferLoad) and id(n.buffer) in buffers]
        if len(loads) > 1 and len(loads) * nodes > MOST_NODES:
            return True
        if len(loads) > 1 and combines(block) and all(map(is_gathered, loads)):
            return True
    return False


def combines(block: Block) -> bool:
    """Whether a block's value is made of more than one element of what is no index."""
    value = block.body.value if isinstance(block.body, BufferStore) else None
    return value is not None and len(_loads(value)) > 1


def _loads(e: Expr) -> list[BufferLoad]:
    """The loads of an expression, but for those in indices."""
    if isinstance(e, BufferLoad):
        return [e]
    return [load for child in children(e) if isinstance(child, Expr) for load in _loads(child)]


def is_gathered(load: BufferLoad) -> bool:
    """Whether elements that stand side by side are read from places that data tells."""
    return bool(load.indices) and has_load(load.indices[-1])


def _is_costly(block: Block) -> bool:
    return uses_intrinsic(block) or any(isinstance(n, Div) for n in walk(block.body))

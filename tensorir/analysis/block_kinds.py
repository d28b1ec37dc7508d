"""What a block is: complete, a reduction, what binds its axes. Nothing here raises."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ...support.node import replace, walk
from ..arith import Analyzer, expr_key
from ..buffer import Buffer, BufferRegion
from ..expr import LE, BufferLoad, Expr, Var, add, is_const
from ..reduction_form import combines_in_place
from ..stmt import Block, BlockRealize, BufferStore
from .affine import Bounds


def accesses(block: Block) -> tuple[list[Buffer], list[Buffer]]:
    """The buffers of a block's read and write regions, each once."""
    reads = {id(r.buffer): r.buffer for r in block.reads}
    writes = {id(r.buffer): r.buffer for r in block.writes}
    return list(reads.values()), list(writes.values())


def reads_buffer(block: Block, buffer: Buffer) -> bool:
    return any(r.buffer is buffer for r in block.reads)


def writes_buffer(block: Block, buffer: Buffer) -> bool:
    return any(r.buffer is buffer for r in block.writes)


def reads_other_instances(block: Block) -> bool:
    """Whether an instance of the block may read what another writes: it reads its own output at
    other indices than those it writes, or begins other elements than it updates. What lies beside
    all that any instance writes is no such read."""
    return not combines_in_place(block) or any(
        r.buffer is w.buffer and region_key(r) != region_key(w) and not _lie_apart(block, r, w)
        for r in block.reads
        for w in block.writes
    )


def _lie_apart(block: Block, a: BufferRegion, b: BufferRegion) -> bool:
    """Whether two regions are apart along a dimension where neither depends on the block's axes:
    those of all instances are then, as what a step reads of the last one is of what it writes."""
    axes = {id(it.var) for it in block.iter_vars}
    analyzer = Analyzer()
    for x, y in zip(a.region, b.region, strict=True):
        bounds = [e for r in (x, y) for e in (r.min, r.extent)]
        if any(id(n) in axes or isinstance(n, BufferLoad) for e in bounds for n in walk(e)):
            continue
        if any(
            analyzer.can_prove(LE(add(one.min, one.extent), other.min))
            for one, other in ((x, y), (y, x))
        ):
            return True
    return False


def region_key(region: BufferRegion) -> tuple[Hashable, ...]:
    """Equal for regions that have the same bounds once simplified, whatever their buffers."""
    return tuple([expr_key(e) for r in region.region for e in (r.min, r.extent)])


def is_complete(block: Block) -> bool:
    """Whether all axes are spatial and the block reads nothing that it writes."""
    if any(it.kind != "spatial" for it in block.iter_vars) or block.init is not None:
        return False
    return not any(writes_buffer(block, r.buffer) for r in block.reads)


def is_reduction(block: Block) -> bool:
    """Whether the block has an init and axes that are spatial or reduce, and updates the elements
    that its init begins."""
    axes = all(it.kind in ("spatial", "reduce") for it in block.iter_vars)
    return block.init is not None and axes and combines_in_place(block)


def as_update(block: Block) -> Block:
    """A reduction block without its init: it reads what it writes, and says so."""
    reads = list(block.reads)
    for w in reversed(block.writes):
        if all(r.buffer is not w.buffer for r in reads):
            reads.insert(0, w)
    return replace(block, init=None, reads=tuple(reads))


def axis_bindings(realize: BlockRealize, kinds: Sequence[str]) -> list[Expr]:
    """The bindings of the axes of these kinds."""
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return [value for it, value in pairs if it.kind in kinds]


def binds(values: Sequence[Expr], var: Var) -> bool:
    """Whether a variable appears in one of the expressions."""
    return any(n is var for v in values for n in walk(v))


def single_store(block: Block) -> BufferStore | None:
    """The block's body, where it is exactly one store without a predicate of its own."""
    body = block.body
    return body if isinstance(body, BufferStore) and body.predicate is None else None


def binding_map(realize: BlockRealize) -> dict[Var, Expr]:
    """Iter vars to their bindings."""
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    return {it.var: value for it, value in pairs}


def domain_bounds(block: Block) -> Bounds:
    """The ranges of a block's iter vars."""
    return Bounds({it.var: it.dom for it in block.iter_vars})


def point_indices(region: BufferRegion) -> tuple[Expr, ...] | None:
    """The indices of a region of one element, or None."""
    if all(is_const(r.extent, 1) for r in region.region):
        return tuple([r.min for r in region.region])
    return None

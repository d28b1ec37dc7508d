"""What the statements below a thread loop read and write, whoever declares it.

Blocks declare their reads and writes, but memory is read in other places too: conditions, extents
of loops, bindings, predicates, lets, statements in no block, and blocks that do not tell. A search
for exchanges that looked at declarations alone would let threads see old values.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...support.node import Node, replace, walk
from ..analysis.affine import loop_bounds, undetermined
from ..analysis.block_kinds import binding_map, region_key
from ..analysis.conditions import TRUE
from ..analysis.nested_blocks import Nested
from ..analysis.paths import child_stmts
from ..arith import expr_key
from ..buffer import Buffer, BufferRegion, Range
from ..expr import BufferLoad, Expr, IntImm, Ramp
from ..stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    MatchBuffer,
    Stmt,
)
from ..visitor import has_load, stored_buffer, substitute, uses

Indexed = BufferRegion | BufferLoad | BufferStore


def accesses_below(s: Stmt) -> list[Nested]:
    """The outermost blocks in ``s``, and each other statement that touches memory as a block of its
    own, in program order. Blocks that run inside of others speak for these through theirs."""
    walker = _Accesses([], [], [])
    walker.collect(s)
    return walker.found


@dataclass
class _Accesses:
    """One walk over statements, with the loops and conditions entered."""

    loops: list[For]
    conditions: list[Expr]
    found: list[Nested]

    def collect(self, s: Stmt) -> None:
        match s:
            case BlockRealize():
                self.reads((s.predicate, *s.iter_values))
                self.add(replace(s, block=_declaring(s.block)))
            case For():
                self.reads((s.min, s.extent))
                self.loops.append(s)
                self.collect(s.body)
                self.loops.pop()
            case IfThenElse():
                self.reads((s.condition,))
                self.conditions.append(s.condition)
                for child in child_stmts(s):
                    self.collect(child)
                self.conditions.pop()
            case LetStmt():
                self.reads((s.value,))
                self.collect(substitute(s.body, {s.var: s.value}))
            case BufferStore():
                writes = [_element(s.buffer, s.indices)]
                self.add(_as_block(_loaded([s]), writes, s))
            case Evaluate():
                self.reads((s.value,))
            case _:
                for child in child_stmts(s):
                    self.collect(child)

    def reads(self, values: Sequence[Expr]) -> None:
        """What expressions read that stand in no block."""
        regions = _loaded(values)
        if regions:
            self.add(_as_block(regions, [], Evaluate(IntImm(0))))

    def add(self, realize: BlockRealize) -> None:
        self.found.append(Nested(realize, list(self.loops), list(self.conditions)))


def _as_block(
    reads: Sequence[BufferRegion], writes: Sequence[BufferRegion], body: Stmt
) -> BlockRealize:
    return BlockRealize((), TRUE, Block("", (), tuple(reads), tuple(writes), body))


def _loaded(parts: Iterable[Node]) -> list[BufferRegion]:
    return [_element(n.buffer, n.indices) for n in _nodes(parts) if isinstance(n, BufferLoad)]


def _nodes(parts: Iterable[Node]) -> Iterator[Node]:
    for part in parts:
        yield from walk(part)


def _indices(n: Node) -> Sequence[Expr]:
    return n.indices if isinstance(n, (BufferLoad, BufferStore)) else ()


def _element(b: Buffer, indices: Sequence[Expr]) -> BufferRegion:
    """The element of some indices; all of the buffer where these are vectors."""
    if any(isinstance(i, Ramp) or i.dtype.lanes != 1 for i in indices):
        return _whole(b)
    return BufferRegion(b, tuple([Range(i, IntImm(1)) for i in indices]))


def _whole(b: Buffer) -> BufferRegion:
    return BufferRegion(b, tuple([Range(IntImm(0), dim) for dim in b.shape]))


def _declaring(block: Block) -> Block:
    """``block`` that declares what it touches: the very elements, where it is one store."""
    stores = [s for s in (block.init, block.body) if s is not None]
    plain = [s for s in stores if isinstance(s, BufferStore)]
    vectors = any(i.dtype.lanes != 1 for n in _nodes(plain) for i in _indices(n))
    if block.match_buffers or len(plain) < len(stores) or vectors:
        return _declaring_all(block)
    writes = tuple([_element(s.buffer, s.indices) for s in plain])
    return replace(block, reads=tuple(_loaded(plain)), writes=writes)


def _declaring_all(block: Block) -> Block:
    """``block`` that declares, of each buffer it keeps silent about, that it may touch all."""
    read = {r.buffer for r in block.reads}
    written = {r.buffer for r in block.writes}
    stored: dict[Buffer, None] = {}
    loaded: dict[Buffer, None] = {}
    own_elements = {_place(w) for w in block.writes}
    for n in walk(block):
        made = stored_buffer(n)
        if made is not None and made not in written:
            stored[made] = None
        elif isinstance(n, BufferLoad) and n.buffer not in read:
            # A sum reads what it writes, and need not say so.
            here = _element(n.buffer, n.indices)
            known = _place(here) in own_elements
            if not known and (n.buffer not in written or _over_axes(n, block)):
                loaded[n.buffer] = None
        elif isinstance(n, MatchBuffer) and n.source.buffer not in read | written:
            stored[n.source.buffer] = loaded[n.source.buffer] = None
    if not stored and not loaded:
        return block
    return replace(
        block,
        reads=(*block.reads, *map(_whole, loaded)),
        writes=(*block.writes, *map(_whole, stored)),
    )


def _over_axes(n: BufferLoad, block: Block) -> bool:
    """Whether indices use nothing that is bound inside of the block."""
    inside = {x.var for x in walk(block.body) if isinstance(x, For)}
    inside |= {it.var for x in walk(block.body) if isinstance(x, Block) for it in x.iter_vars}
    return not any(x in inside for x in _nodes(n.indices))


def _place(r: BufferRegion) -> Hashable:
    return (id(r.buffer), region_key(r))


# -- whose elements --------------------------------------------------------------------------------
def bound(n: Nested, r: BufferRegion) -> list[Range]:
    """The ranges of a region over what stands outside of the block."""
    return list(substitute(r, binding_map(n.realize)).region)


def tells_threads(n: Nested, r: BufferRegion, threads: Sequence[For]) -> bool:
    """Whether no two threads touch one element through a region."""
    ranges = bound(n, r)
    return all(map(_is_single, ranges)) and _determine(ranges, threads)


def _is_single(r: Range) -> bool:
    return isinstance(r.extent, IntImm) and r.extent.value == 1


def _determine(ranges: Sequence[Range], threads: Sequence[For], varied: Sequence[For] = ()) -> bool:
    """Whether equal indices are one thread's, in whichever iterations of the loops ``varied``."""
    free = undetermined([r.min for r in ranges], loop_bounds([*threads, *varied]))
    return free is not None and not any(t.var in free for t in threads)


def depends(n: Nested, r: BufferRegion, threads: Sequence[For]) -> bool:
    """Whether different threads touch different parts of a buffer through a region."""
    return any(uses(x.min, t.var) for x in bound(n, r) for t in threads)


def same_index(accesses: Sequence[tuple[Nested, BufferRegion]]) -> list[Range]:
    """The ranges of those dimensions in which all regions of a buffer are at one index."""
    every = [bound(n, r) for n, r in accesses]
    kept = []
    for ranges in zip(*every, strict=True):
        keys = {expr_key(r.min) for r in ranges}
        if len(keys) == 1 and all(map(_is_single, ranges)):
            kept.append(ranges[0])
    return kept


def are_apart(
    a: tuple[Nested, BufferRegion],
    b: tuple[Nested, BufferRegion],
    threads: Sequence[For],
    varied: Sequence[For],
) -> bool:
    """Whether no two threads touch one element, one through ``a`` and the other through ``b``: the
    index that both use tells the threads apart. Each thread runs the loops ``varied``."""
    ranges = [r for r in same_index([a, b]) if not _reads_memory(r)]
    fixed = [r for r in ranges if not any(uses(r.min, loop.var) for loop in varied)]
    return _determine(fixed, threads) or _determine(ranges, threads, varied)


def have_an_order(
    n: Nested, r: BufferRegion, threads: Sequence[For], varied: Sequence[For]
) -> bool:
    """Whether an element is touched in the same iteration of those loops that its index names, and
    in each of the others, by one thread after the other: it is all the same which loops are the
    outer ones."""
    ranges = bound(n, r)
    if not all(map(_is_single, ranges)) or any(map(_reads_memory, ranges)):
        return False
    bounds = loop_bounds([*threads, *varied])
    return undetermined([x.min for x in ranges], bounds) is not None


def _reads_memory(r: Range) -> bool:
    return has_load(r.min)


def is_same_place(a: Indexed, b: Indexed) -> bool:
    """Whether two accesses of a buffer are at the same indices."""
    return _place_key(a) == _place_key(b)


def _place_key(x: Indexed) -> object:
    if isinstance(x, BufferRegion):
        return _place(x)
    return _place(_element(x.buffer, x.indices))

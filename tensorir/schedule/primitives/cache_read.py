"""cache_read: what a block reads, from a copy."""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import DependenceError, ScheduleValueError
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.buffers import buffer_at, require_scope
from ...analysis.hidden_accesses import require_declared
from ...analysis.nested_blocks import Nested, blocks_below, readers_of, writers_of
from ...analysis.paths import (
    Path,
    block_names,
    find_block,
    find_inner_block,
    fresh_name,
    realize_of,
    scope_of,
    scope_path,
)
from ...analysis.preconditions import fail
from ...analysis.region_cover import Box, full_box, touched, union
from ...buffer import Buffer
from ...expr import IntImm
from ...function import PrimFunc
from ...stmt import Block, For, SeqStmt, Stmt
from ...visitor import loads_in, replace_buffers
from ..primitive import BLOCK, CACHES, CONSUMERS, INPUT, primitive
from ..rewriting.copies import clip, copy_nest, new_buffer
from ..rewriting.insertion import (
    Cached,
    Place,
    allocate_in,
    change_block,
    children_of,
    insert_stmt,
    shared_place,
)
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV


class CacheRead(ScheduleState):
    @primitive(
        CACHES, block=BLOCK, read_buffer_index=INPUT, storage_scope=INPUT, consumer_blocks=CONSUMERS
    )
    def cache_read(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        storage_scope: str,
        consumer_blocks: Sequence[BlockLike] = (),
    ) -> BlockRV:
        """Copy a buffer that a block reads into a new one, which is read instead; gives the copy
        block.

        ``read_buffer_index`` is the position among the block's reads, or the buffer's name;
        ``storage_scope`` is one of global, local, register, shared and warp. All readers beside the
        block use the copy, or, where ``consumer_blocks`` names some, these alone. The copy has the
        buffer's shape and dtype and stands before the nest of its first reader, or after the last
        writer, at the innermost place that all share; compute_at moves it to where less of it is
        needed. Where writers stand between the readers, the copy stands between writers too, and
        the readers are those that no writer parts from the block.

        Requires:

        - a buffer that the block reads, and a storage scope that there is (ScheduleValueError);
        - a block that does not write the buffer as well, consumers that read it, and no writer
          between these (DependenceError);
        - elements that are known where the copy is put: they depend on no let and no loop's
          variable bound further in (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            copy = sch.cache_read("B", 0, "register")
            sch.compute_at(copy, sch.get_loops("B")[0])

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                A_register = T.alloc_buffer((8, 6), scope="register")
                for i in range(8):
                    for ax0 in range(6):
                        with T.block("A_register"):
                            v0, v1 = T.axis.remap("SS", [i, ax0])
                            A_register[v0, v1] = A[v0, v1]
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A_register[vi, vj] + T.float32(1)
        """
        owner, name = self._block(block)
        names = [self._block(c)[1] for c in consumer_blocks]
        done = cache_read(self._functions[owner], name, read_buffer_index, storage_scope, names)
        self._commit(owner, done.func)
        return BlockHandle(done.blocks[0], owner)


def cache_read(
    func: PrimFunc,
    block_name: str,
    buffer_index: int | str,
    storage_scope: str,
    consumers: Sequence[str] = (),
) -> Cached:
    """Copy a buffer that a block reads into a new one, and let the consumers (all, if none are
    named) read that."""
    require_scope(storage_scope, "cache_read")
    path = find_inner_block(func, block_name, "cache_read")
    block = realize_of(path).block
    buffer = buffer_at(func, block, "read", buffer_index, "cache_read")
    if block.init is None and all(r.buffer is not buffer for r in block.reads):
        found = f"{block_name!r} only writes {buffer.name!r}; name a block that reads it."
        raise fail(ScheduleValueError, "cache_read", func, [block], found)
    scope = scope_path(path)
    holder = scope_of(path)
    require_declared(func, holder.body, "cache_read", [])
    writers = writers_of(holder, buffer)
    readers = [
        n for n in readers_of(holder, buffer) if all(w.block is not n.block for w in writers)
    ]
    if consumers:
        known = {n.block.name for n in readers}
        for c in consumers:
            if c not in known:
                find_block(func, c, "cache_read")
                found = f"{c!r} does not read {buffer.name!r}, or writes it as well."
                raise fail(DependenceError, "cache_read", func, [block], found)
        readers = [n for n in readers if n.block.name in set(consumers)]
    if not readers:
        found = f"{block_name!r} both reads and writes {buffer.name!r}; use cache_inplace."
        raise fail(DependenceError, "cache_read", func, [block], found)
    order = [*[w.block.name for w in writers], *[n.block.name for n in readers]]
    if not writers:
        first = readers[0].block.name
        place = shared_place(func, scope, [first], first, "cache_read")
        at = place.child
    else:
        place = shared_place(func, scope, order, writers[-1].block.name, "cache_read")
        at = place.child + 1
        early = _blocks_in(children_of(place.path[-1])[:at])
        if any(id(n.block) in early for n in readers):
            place, at, readers = _between_writers(
                func, path, len(scope), writers, readers, named=bool(consumers)
            )
    box = _needed(place, readers, buffer)
    new = new_buffer(func, buffer, storage_scope)
    name = fresh_name(block_names(func), new.name)
    nest = copy_nest(buffer, new, box, name, loop_bounds(place.outer))
    changed = insert_stmt(func, place, at, nest, "cache_read")
    for n in readers:
        changed = change_block(
            changed, n.block.name, lambda b: replace_buffers(b, {buffer: new}), "cache_read"
        )
    return Cached(allocate_in(changed, holder.name, new, "cache_read"), (name,))


def _blocks_in(stmts: Sequence[Stmt]) -> set[int]:
    return {id(n.block) for s in stmts for n in blocks_below(s)}


def _between_writers(
    func: PrimFunc,
    path: Path,
    depth: int,
    writers: Sequence[Nested],
    readers: Sequence[Nested],
    *,
    named: bool,
) -> tuple[Place, int, list[Nested]]:
    """The outermost place, from ``depth`` of the block's path on, where a run of statements without
    a writer holds the block, the number of the copy there, and the readers in that run; these must
    be all where they were ``named``."""
    writing = {id(w.block) for w in writers}
    if named:
        path = find_block(func, readers[0].block.name, "cache_read")
    for level in range(depth, len(path)):
        holder = path[level - 1]
        if not isinstance(holder, (For, Block)):
            continue
        children = children_of(holder)
        free = [_blocks_in([c]).isdisjoint(writing) for c in children]
        below = path[level:]
        own = below[1] if isinstance(below[0], SeqStmt) else below[0]
        child = next(i for i, c in enumerate(children) if c is own)
        if not free[child]:
            continue
        start = child - next((i for i, f in enumerate(reversed(free[:child])) if not f), child)
        stop = next((i for i in range(child, len(free)) if not free[i]), len(free))
        within = _blocks_in(children[start:stop])
        found = [n for n in readers if id(n.block) in within]
        if named and len(found) < len(readers):
            break
        if start == 0:
            used = {id(n.block) for n in found}
            start = next(i for i, c in enumerate(children) if _blocks_in([c]) & used)
        return Place(path[:level], start), start, found
    names = ", ".join(repr(n.block.name) for n in readers)
    text = f"A writer of the buffer stands between its readers {names}: name those of one copy."
    raise fail(DependenceError, "cache_read", func, [realize_of(path).block], text)


def _needed(place: Place, readers: Sequence[Nested], buffer: Buffer) -> Box:
    """What the readers need of the buffer in one run of the place's body; at the top, all of it."""
    if isinstance(place.path[-1], Block):
        return full_box(buffer)
    wanted = {id(n.block) for n in readers}
    box: Box | None = None
    known = Bounds()
    for n in blocks_below(place.path[-1]):
        if id(n.block) not in wanted:
            continue
        inner = n.loops[1:]
        known = loop_bounds([*place.outer, *inner])
        for r in n.block.reads:
            if r.buffer is buffer:
                more = touched(r, n, inner, known)
                box = more if box is None else union(box, more, known)
    assert box is not None
    holder = next(n for n in reversed(place.path) if isinstance(n, Block))
    for d, dim in enumerate(buffer.shape):
        # An index that a block of this scope computes may not be there yet when the copy begins.
        loads = loads_in(box.starts[d])
        if any(writers_of(holder, n.buffer) for n in loads):
            box.starts[d], box.extents[d], box.exact = IntImm(0), dim, False
    return clip(box, buffer.shape, known)

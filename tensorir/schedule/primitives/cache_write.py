"""cache_write: what a block writes, into a copy that is stored afterwards."""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import DependenceError
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.block_kinds import axis_bindings, binds
from ...analysis.buffers import buffer_at, require_scope
from ...analysis.certain_writes import written_box
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.nested_blocks import Nested, readers_of, scope_blocks, writers_of
from ...analysis.paths import (
    all_loops_above,
    block_names,
    conditions_above,
    find_block,
    find_inner_block,
    fresh_name,
    realize_of,
    scope_of,
    scope_path,
)
from ...analysis.preconditions import fail
from ...analysis.region_cover import Box, covers_domain
from ...buffer import Buffer
from ...expr import is_const
from ...function import PrimFunc
from ...stmt import Block
from ...visitor import replace_buffers
from ..primitive import ATTR, BLOCK, CACHES, CONSUMERS, primitive
from ..rewriting.copies import clip, copy_nest, new_buffer
from ..rewriting.insertion import Cached, allocate_in, change_block, insert_stmt, shared_place
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV


class CacheWrite(ScheduleState):
    @primitive(
        CACHES, block=BLOCK, write_buffer_index=ATTR, storage_scope=ATTR, consumer_blocks=CONSUMERS
    )
    def cache_write(
        self,
        block: BlockLike,
        write_buffer_index: int | str,
        storage_scope: str,
        consumer_blocks: Sequence[BlockLike] = (),
    ) -> BlockRV:
        """Let a block write a new buffer, and copy that to the old one after it; gives the copy
        block.

        ``write_buffer_index`` is the position among the block's writes, or the buffer's name;
        ``storage_scope`` is one of global, local, register, shared and warp. The copy stands after
        the nest of the block; reverse_compute_at moves it to where an element is final. Readers of
        the buffer that ``consumer_blocks`` names read the new one, all others the old one.

        Requires:

        - a buffer that the block writes, and a storage scope that there is (ScheduleValueError);
        - a block with the buffer's first value, not an update of what another wrote; provably a
          whole box written; no other user of the buffer inside the block's reduce loops
          (DependenceError);
        - consumers that read the buffer and do not write it, after the block; the block alone
          writes it, and all of it where it outlives the scope (DependenceError);
        - elements that are known where the copy is put: they depend on no let and no loop's
          variable bound further in (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                for i, k in T.grid(4, 12):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            copy = sch.cache_write("B", 0, "register")
            sch.reverse_compute_at(copy, sch.get_loops("B")[0])

        After::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                B_register = T.alloc_buffer((4,), scope="register")
                for i in range(4):
                    for k in range(12):
                        with T.block("B"):
                            vi, vk = T.axis.remap("SR", [i, k])
                            with T.init():
                                B_register[vi] = T.float32(0)
                            B_register[vi] = B_register[vi] + A[vi, vk]
                    with T.block("B_register"):
                        v0 = T.axis.spatial(4, i)
                        B[v0] = B_register[v0]
        """
        owner, name = self._block(block)
        names = [self._block(c)[1] for c in consumer_blocks]
        func = self._functions[owner]
        done = cache_write(func, name, write_buffer_index, storage_scope, names)
        self._commit(owner, done.func)
        return BlockHandle(done.blocks[0], owner)


def cache_write(
    func: PrimFunc,
    block_name: str,
    write_buffer_index: int | str,
    storage_scope: str,
    consumers: Sequence[str] = (),
) -> Cached:
    """Let a block write a new buffer, and copy that to the old one afterwards; the consumers read
    the new one."""
    require_scope(storage_scope, "cache_write")
    path = find_inner_block(func, block_name, "cache_write")
    realize = realize_of(path)
    block = realize.block
    buffer = buffer_at(func, block, "write", write_buffer_index, "cache_write", either=False)
    scope = scope_path(path)
    holder = scope_of(path)
    if any(r.buffer is buffer for r in block.reads):
        found = (
            f"{block_name!r} updates {buffer.name!r}, which has its first value elsewhere; cache "
            "it before decompose_reduction, or use cache_inplace."
        )
        raise fail(DependenceError, "cache_write", func, [block], found)
    require_scope_declared(func, holder, block, "cache_write")
    users = [*readers_of(holder, buffer), *writers_of(holder, buffer)]
    others = {n.block.name for n in users if n.block is not block}
    groups = [[block_name, other] for other in sorted(others)] or [[block_name]]
    places = [shared_place(func, scope, g, block_name, "cache_write") for g in groups]
    place = max(places, key=lambda p: len(p.path))
    for loop in place.outer:
        if binds(axis_bindings(realize, ("reduce",)), loop.var):
            found = (
                f"Another block uses {buffer.name!r} inside the reduce loop {loop.var.name!r} of "
                f"{block_name!r}, where the result is not final."
            )
            raise fail(DependenceError, "cache_write", func, [block], found)
    inner = [loop for loop in all_loops_above(path) if all(loop is not o for o in place.outer)]
    for loop in inner:
        if is_const(loop.extent, 0):
            found = f"{block_name!r} never runs: the loop {loop.var.name!r} has no iterations."
            raise fail(DependenceError, "cache_write", func, [block], found)
    n = Nested(realize, inner, conditions_above(path[len(place.path) :]))
    bounds = loop_bounds([*place.outer, *inner])
    region = next(w for w in block.writes if w.buffer is buffer)
    box = written_box(region, n, inner, bounds)
    if not box.exact or not covers_domain(n, bounds):
        found = (
            f"It cannot be proved that {block_name!r} writes all of a box of {buffer.name!r}: what "
            "it leaves as it was (under a condition, by a predicate, or where T.writes names more "
            "than it writes) would be overwritten by the copy back."
        )
        raise fail(DependenceError, "cache_write", func, [block], found)
    _require_consumers(func, holder, block, buffer, box, consumers)
    new = new_buffer(func, buffer, storage_scope)
    name = fresh_name(block_names(func), new.name)
    nest = copy_nest(new, buffer, clip(box, buffer.shape, bounds), name, loop_bounds(place.outer))
    changed = insert_stmt(func, place, place.child + 1, nest, "cache_write")
    for user in (block_name, *consumers):
        changed = change_block(
            changed, user, lambda b: replace_buffers(b, {buffer: new}), "cache_write"
        )
    return Cached(allocate_in(changed, holder.name, new, "cache_write"), (name,))


def _require_consumers(
    func: PrimFunc,
    holder: Block,
    block: Block,
    buffer: Buffer,
    box: Box,
    consumers: Sequence[str],
) -> None:
    """What the consumers read is what the block wrote, also in the new buffer."""
    if not consumers:
        return
    writers = [n.block for n in writers_of(holder, buffer)]
    order = [n.block for n in scope_blocks(holder)]
    after = order[next(i for i, b in enumerate(order) if b is block) :]
    readers = [n.block for n in readers_of(holder, buffer)]
    later = {b.name for b in readers if any(b is x for x in after) and b is not block}
    dims = zip(box.starts, box.extents, buffer.shape, strict=True)
    whole = all(is_const(start, 0) and Bounds().proves_equal(e, n) for start, e, n in dims)
    for c in consumers:
        path = find_block(func, c, "cache_write")
        found = ""
        if c not in later:
            found = f"{c!r} does not read {buffer.name!r} after {block.name!r}."
        elif len(writers) > 1:
            others = ", ".join(repr(w.name) for w in writers if w is not block)
            found = f"{buffer.name!r} is written by {others} too; {c!r} would read a part of it."
        elif buffer not in holder.alloc_buffers and not whole:
            found = f"{block.name!r} writes a part of {buffer.name!r}, which {c!r} may read beyond."
        if found:
            raise fail(DependenceError, "cache_write", func, [realize_of(path).block], found)

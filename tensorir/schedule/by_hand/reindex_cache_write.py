"""reindex_cache_write: what a block writes, into a buffer in the block's own layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....support.errors import DependenceError, LayoutError
from ....support.node import replace, walk
from ...analysis.affine import loop_bounds, overlapping, sweep
from ...analysis.buffers import require_scope
from ...analysis.certain_writes import writes_whole
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.nested_blocks import Nested, readers_of, writers_of
from ...analysis.paths import all_loops_above, find_block, scope_path
from ...analysis.region_cover import covers_domain
from ...arith import IndexMap, point_region
from ...expr import BufferLoad, Var, add, is_const
from ...function import PrimFunc
from ...stmt import Block, BufferStore, IfThenElse
from ...visitor import substitute
from ..primitive import ATTR, BLOCK, CACHES, primitive
from ..rewriting.index_maps import axes_map
from ..rewriting.insertion import Cached, change_block, insert_stmt, shared_place
from ..rewriting.reindexing import (
    Access,
    Mapped,
    Redirect,
    allocated,
    find_access,
    is_injective,
    mapped,
    mapped_copy,
)
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV


class ReindexCacheWrite(ScheduleState):
    @primitive(CACHES, block=BLOCK, write_buffer_index=ATTR, storage_scope=ATTR, index_map=ATTR)
    def reindex_cache_write(
        self,
        block: BlockLike,
        write_buffer_index: int | str,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Let a block write a new buffer in another layout, and copy that back afterwards.

        ``index_map`` takes all axes of the block (those of reductions too) and gives the indices of
        the new buffer; of the reduce axes it may use none. The copy, whose block is returned,
        stands directly behind the loops of the block.

        Requires:

        - a storage scope and a buffer that the block writes (ScheduleValueError);
        - one element written by an instance, a map that gives each its own place, and no axis in
          it that the element does not depend on (LayoutError);
        - no other block that writes the buffer, or reads it in the same loops; no update whose
          first value is written elsewhere (DependenceError);
        - loops that run the block for the whole domains of the axes used (DependenceError);
        - axes with a greatest extent that is known when the function begins (LayoutError), and
          whose domains depend on no let and no loop's variable bound below the copy's place
          (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
                for i, k in T.grid(8, 4):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            sch.reindex_cache_write("B", 0, "local", lambda i, k: (i // 4, i % 4))

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
                B_local = T.alloc_buffer((2, 4), scope="local")
                for i, k in T.grid(8, 4):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B_local[vi // 4, vi % 4] = T.float32(0)
                        B_local[vi // 4, vi % 4] = B_local[vi // 4, vi % 4] + A[vi, vk]
                for ax0 in range(8):
                    with T.block("B_local"):
                        v0 = T.axis.spatial(8, ax0)
                        B[v0] = B_local[v0 // 4, v0 % 4]
        """
        owner, name = self._block(block)
        func = self._functions[owner]
        m = axes_map(func, name, index_map, "reindex_cache_write")
        self._note(index_map=m)
        used = self._index_map(m)
        done = reindex_cache_write(func, name, write_buffer_index, storage_scope, used)
        self._commit(owner, done.func)
        return BlockHandle(done.blocks[0], owner)


def reindex_cache_write(
    func: PrimFunc,
    block_name: str,
    write_buffer_index: int | str,
    storage_scope: str,
    index_map: IndexMap,
) -> Cached:
    """Let a block write a new buffer indexed by ``index_map`` of its axes, and copy that to the old
    one afterwards."""
    primitive = "reindex_cache_write"
    require_scope(storage_scope, primitive)
    path = find_block(func, block_name, primitive)
    access = find_access(func, path, "write", write_buffer_index, primitive)
    return copy_out(access, index_map, storage_scope, f"{access.buffer.name}_{storage_scope}")


def copy_out(access: Access, index_map: IndexMap, scope: str, name: str) -> Cached:
    block, buffer = access.block, access.buffer
    require_scope_declared(access.func, access.scope, block, access.primitive)
    m = mapped(access, index_map, scope, name)
    _require_sole_writer(access)
    _require_unread_inside(access)
    _require_one_place(access, m)
    _require_whole_domain(access, m)
    fresh = {it.var: Var(it.var.name) for it in m.kept}
    target = tuple([substitute(i, fresh) for i in access.indices])
    source = tuple([substitute(e, fresh) for e in m.indices])
    store = BufferStore(buffer, BufferLoad(m.new, source), target)
    nest = mapped_copy(m, fresh, store, (m.new, source))
    place = access.place()
    changed = insert_stmt(access.func, place, place.child + 1, nest, access.primitive)

    def use_copy(b: Block) -> Block:
        region = point_region(m.new, m.indices)
        redirect = Redirect(buffer, m.new, m.indices)
        reads = tuple([region if r.buffer is buffer else r for r in b.reads])
        writes = tuple([region if r.buffer is buffer else r for r in b.writes])
        init = None if b.init is None else redirect.visit(b.init)
        body = redirect.visit(b.body)
        return replace(b, reads=reads, writes=writes, body=body, init=init)

    changed = change_block(changed, block.name, use_copy, access.primitive)
    return allocated(access, changed, m)


def _require_sole_writer(access: Access) -> None:
    block, buffer = access.block, access.buffer
    if any(r.buffer is buffer for r in block.reads):
        found = (
            f"{block.name!r} updates {buffer.name!r}, which has its first value elsewhere; "
            "reindex before decompose_reduction."
        )
        raise access.error(DependenceError, found, block)
    for n in writers_of(access.scope, buffer):
        if n.block is not block:
            found = f"{n.block.name!r} writes {buffer.name!r} too."
            raise access.error(DependenceError, found, n.block)


def _require_unread_inside(access: Access) -> None:
    """Nobody reads the buffer in the loops of the block, before the copy stands behind them."""
    nest = access.place()
    for n in readers_of(access.scope, access.buffer):
        if n.block is access.block:
            continue
        names = [n.block.name]
        there = shared_place(
            access.func, scope_path(access.path), names, n.block.name, access.primitive
        )
        if there.child == nest.child:
            found = (
                f"{n.block.name!r} reads {access.buffer.name!r} in the same loops, before the "
                "copy behind them."
            )
            raise access.error(DependenceError, found, n.block)


def _require_one_place(access: Access, m: Mapped) -> None:
    """Each instance over the spatial axes has its element, and its place in the copy."""
    used = {it.var for it in m.kept}
    for it in access.block.iter_vars:
        if it.kind != "spatial" and it.var in used:
            found = (
                f"The index map uses the {it.kind} axis {it.var.name!r}, over which "
                f"{access.block.name!r} combines into one element."
            )
            raise access.error(LayoutError, found, access.block)
    if not is_injective(access.indices, m.kept):
        found = (
            f"It cannot be proved that each instance of {access.block.name!r} over the axes of "
            f"the map writes an element of {access.buffer.name!r} of its own."
        )
        raise access.error(LayoutError, found, access.block)
    needed = {n for e in access.indices for n in walk(e) if isinstance(n, Var)}
    for it in m.kept:
        if it.var not in needed and not is_const(it.dom.extent, 1):
            found = (
                f"The index map uses the axis {it.var.name!r}, which the element that "
                f"{access.block.name!r} writes does not depend on."
            )
            raise access.error(LayoutError, found, access.block)


def _require_whole_domain(access: Access, m: Mapped) -> None:
    """The loops and the predicate let the block run for the whole domains of the axes."""
    loops = all_loops_above(access.path)
    bounds = loop_bounds(loops)
    conditions = [s.condition for s in access.path if isinstance(s, IfThenElse)]
    region = next(w for w in access.block.writes if w.buffer is access.buffer)
    complete = not conditions and writes_whole(access.block, region)
    complete = complete and covers_domain(Nested(access.realize, loops, []), bounds)
    used = {it.var for it in m.kept}
    digits = []
    for it, value in zip(access.block.iter_vars, access.realize.iter_values, strict=True):
        if it.var not in used:
            continue
        s = sweep(value, bounds, bounds)
        if s is None or not s.exact:
            complete = False
            break
        end = add(it.dom.min, it.dom.extent)
        complete = complete and bounds.proves_le(s.start, it.dom.min)
        complete = complete and bounds.proves_le(end, add(s.start, s.extent))
        digits.extend(s.digits)
    if not complete or overlapping(digits, bounds):
        found = (
            f"It cannot be proved that {access.block.name!r} writes all that the copy back would "
            f"store to {access.buffer.name!r}."
        )
        raise access.error(DependenceError, found, access.block)

"""reindex_cache_read: what a block reads, from a copy in the block's own layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....support.errors import DependenceError, LayoutError
from ....support.node import replace, walk
from ...analysis.affine import Bounds
from ...analysis.buffers import require_scope
from ...analysis.nested_blocks import scope_blocks, writers_of
from ...analysis.paths import find_block, realize_of, scope_path
from ...arith import IndexMap, expr_key, point_region
from ...buffer import Buffer
from ...expr import BufferLoad, Expr, IntImm, Var, add, all_of, const
from ...function import PrimFunc
from ...intrinsics import call_intrin
from ...stmt import Block, BufferStore, Stmt
from ...visitor import loads_from, substitute
from ..primitive import ATTR, BLOCK, CACHES, primitive
from ..rewriting.index_maps import axes_map
from ..rewriting.inlining import with_inferred_regions
from ..rewriting.insertion import Cached, change_block, insert_stmt, shared_place
from ..rewriting.reindexing import (
    Access,
    Mapped,
    Redirect,
    allocated,
    find_access,
    mapped,
    mapped_copy,
)
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV


class ReindexCacheRead(ScheduleState):
    @primitive(CACHES, block=BLOCK, read_buffer_index=ATTR, storage_scope=ATTR, index_map=ATTR)
    def reindex_cache_read(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Copy what a block reads into a new buffer, laid out by the block's axes; gives the copy
        block.

        ``read_buffer_index`` is the position among the block's reads, or the buffer's name;
        ``storage_scope`` is one of global, local, register, shared and warp; ``index_map`` takes
        the block's axes to the indices of the copy, whose extents follow from those of the axes.
        The copy runs over the axes that the map uses, before the nest of the block; where an
        element may lie outside of the buffer it is 0. Of a block that reads several elements of one
        buffer, that one is read from the copy which the axes of the map determine.

        Requires:

        - a buffer that the block reads, and a storage scope that there is (ScheduleValueError);
        - one element read in each instance, or one that the axes of the map determine, and a map
          that gives each such element a place of its own (LayoutError);
        - a buffer that the scope writes, if at all, in earlier nests only (DependenceError);
        - axes with a greatest extent that is known when the function begins (LayoutError), and
          whose domains depend on no let and no loop's variable bound below the copy's place
          (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((10,), "float32"), B: T.Buffer((8,), "float32")):
                for i, k in T.grid(8, 3):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi + vk]

        Schedule::

            sch.reindex_cache_read("B", "A", "global", lambda i, k: (k, i))

        After::

            @T.prim_func
            def main(A: T.Buffer((10,), "float32"), B: T.Buffer((8,), "float32")):
                A_global = T.alloc_buffer((3, 8))
                for ax0, ax1 in T.grid(8, 3):
                    with T.block("A_global"):
                        vi, vk = T.axis.remap("SS", [ax0, ax1])
                        A_global[vk, vi] = A[vi + vk]
                for i, k in T.grid(8, 3):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A_global[vk, vi]
        """
        owner, name = self._block(block)
        func = self._functions[owner]
        m = axes_map(func, name, index_map, "reindex_cache_read")
        self._note(index_map=m)
        used = self._index_map(m)
        done = reindex_cache_read(func, name, read_buffer_index, storage_scope, used)
        self._commit(owner, done.func)
        return BlockHandle(done.blocks[0], owner)


def reindex_cache_read(
    func: PrimFunc,
    block_name: str,
    read_buffer_index: int | str,
    storage_scope: str,
    index_map: IndexMap,
) -> Cached:
    """Copy what a block reads into a new buffer indexed by ``index_map`` of the block's axes."""
    primitive = "reindex_cache_read"
    require_scope(storage_scope, primitive)
    path = find_block(func, block_name, primitive)
    access = find_access(func, path, "read", read_buffer_index, primitive, index_map)
    return copy_in(access, index_map, storage_scope, f"{access.buffer.name}_{storage_scope}")


def copy_in(access: Access, index_map: IndexMap, scope: str, name: str) -> Cached:
    block, buffer = access.block, access.buffer
    _require_written_before(access)
    m = mapped(access, index_map, scope, name)
    if block.init is not None and loads_from(block.init, buffer):
        reduced = {it.var for it in block.iter_vars if it.kind == "reduce"}
        used = [n for index in m.indices for n in walk(index) if isinstance(n, Var)]
        for v in used:
            if v in reduced:
                found = (
                    f"The init of {block.name!r} reads {buffer.name!r}, and an init has no value "
                    f"of the reduce axis {v.name!r}; leave that axis out of the index map."
                )
                raise access.error(LayoutError, found, access.block)
    nest = _read_nest(m, access.indices, buffer)
    place = access.place()
    changed = insert_stmt(access.func, place, place.child, nest, access.primitive)

    def use_copy(b: Block) -> Block:
        region = point_region(m.new, m.indices)
        only = expr_key(access.indices) if access.is_one_of_several else None
        redirect = Redirect(buffer, m.new, m.indices, only)
        init = None if b.init is None else redirect.visit(b.init)
        if access.is_one_of_several:
            return with_inferred_regions(replace(b, body=redirect.visit(b.body), init=init))
        # The buffer may also stand in the indices of other regions.
        reads = tuple([region if r.buffer is buffer else redirect.visit(r) for r in b.reads])
        return replace(b, reads=reads, body=redirect.visit(b.body), init=init)

    changed = change_block(changed, block.name, use_copy, access.primitive)
    return allocated(access, changed, m)


def _require_written_before(access: Access) -> None:
    """What others write of the buffer stands in an earlier nest, so that all of it is there when
    the copy runs."""
    writers = writers_of(access.scope, access.buffer)
    if not writers:
        return
    if any(n.block is access.block for n in writers):
        found = f"{access.block.name!r} writes {access.buffer.name!r}, which it reads."
        raise access.error(DependenceError, found, access.block)
    order = [n.block for n in scope_blocks(access.scope)]
    own = next(i for i, b in enumerate(order) if b is access.block)
    nest = access.place()
    for n in writers:
        other = find_block(access.func, n.block.name, access.primitive)
        names = [n.block.name]
        there = shared_place(
            access.func, scope_path(access.path), names, n.block.name, access.primitive
        )
        if there.child == nest.child:
            found = (
                f"{n.block.name!r} writes {access.buffer.name!r} in the same loops; one copy "
                "before them would come too early."
            )
            raise access.error(DependenceError, found, realize_of(other).block)
        if next(i for i, b in enumerate(order) if b is n.block) > own:
            found = f"{n.block.name!r} writes {access.buffer.name!r} after it was read."
            raise access.error(DependenceError, found, realize_of(other).block)


def _read_nest(m: Mapped, indices: Sequence[Expr], buffer: Buffer) -> Stmt:
    """Loops over the axes and the copy of what is inside of the buffer."""
    fresh = {it.var: Var(it.var.name) for it in m.kept}
    source = tuple([substitute(i, fresh) for i in indices])
    target = tuple([substitute(e, fresh) for e in m.indices])
    known = Bounds({fresh[it.var]: it.dom for it in m.kept})
    inside: list[Expr] = []
    for i, dim in zip(source, buffer.shape, strict=True):
        if not known.proves_le(IntImm(0), i):
            inside.append(i >= 0)
        if not known.proves_le(add(i, 1), dim):
            inside.append(i < dim)
    value: Expr = BufferLoad(buffer, source)
    if inside:
        value = call_intrin("if_then_else", all_of(inside), value, const(0, buffer.dtype))
    return mapped_copy(m, fresh, BufferStore(m.new, value, target), (buffer, source))

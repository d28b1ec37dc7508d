"""cache_inplace: what a block updates, loaded before and stored afterwards."""

from __future__ import annotations

from ....support.errors import DependenceError
from ...analysis.affine import loop_bounds
from ...analysis.buffers import buffer_at, require_scope
from ...analysis.certain_writes import written_box
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.nested_blocks import Nested, blocks_below
from ...analysis.paths import (
    Path,
    all_loops_above,
    block_names,
    conditions_above,
    find_block,
    find_inner_block,
    find_loop,
    fresh_name,
    loop_of,
    realize_of,
    scope_of,
    scope_path,
)
from ...analysis.preconditions import fail, require_ancestor
from ...analysis.region_cover import Box, covers_domain, union
from ...expr import Var
from ...function import PrimFunc
from ...stmt import SeqStmt
from ...visitor import replace_buffers
from ..primitive import BLOCK, CACHES, INPUT, OPTIONAL_LOOP, primitive
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
from ..trace.handles import BlockHandle, BlockRV, LoopRV


class CacheInplace(ScheduleState):
    @primitive(
        CACHES, block=BLOCK, read_buffer_index=INPUT, storage_scope=INPUT, loop=OPTIONAL_LOOP
    )
    def cache_inplace(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        storage_scope: str,
        loop: LoopRV | None = None,
    ) -> list[BlockRV]:
        """Let a block that updates a buffer work on a copy, loaded before it and stored after it;
        gives the load and the store block.

        ``read_buffer_index`` is the position of the buffer among the block's writes, or its name;
        ``storage_scope`` is one of global, local, register, shared and warp. The copies stand
        around the whole nest of the block, or, where ``loop`` is given, in the body of this loop,
        around what holds the block. They move what the block touches there, no more.

        Requires:

        - a buffer that the block writes, and a storage scope that there is (ScheduleValueError);
        - a block that reads what it writes and has no init, as decompose_reduction makes it; no
          other user of the buffer between the copies; around them no parallel loop in which a
          copy would hold what other iterations update (DependenceError);
        - elements that are known where the copies are put: they depend on no let and no loop's
          variable bound further in (DependenceError);
        - a loop that stands around the block (NotAncestorError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                for i, k in T.grid(4, 12):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            i, k = sch.get_loops("B")
            load, store = sch.cache_inplace("B", 0, "register", loop=i)

        After::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                B_register = T.alloc_buffer((4,), scope="register")
                for i in range(4):
                    for ax0 in range(1):
                        with T.block("B_register"):
                            v0 = T.axis.spatial(4, i + ax0)
                            B_register[v0] = B[v0]
                    for k in range(12):
                        with T.block("B"):
                            vi, vk = T.axis.remap("SR", [i, k])
                            B_register[vi] = B_register[vi] + A[vi, vk]
                    for ax0 in range(1):
                        with T.block("B_register_1"):
                            v0 = T.axis.spatial(4, i + ax0)
                            B[v0] = B_register[v0]
        """
        owner, name = self._block(block)
        var = None if loop is None else loop.var
        done = cache_inplace(self._functions[owner], name, read_buffer_index, storage_scope, var)
        self._commit(owner, done.func)
        return [BlockHandle(b, owner) for b in done.blocks]


def cache_inplace(
    func: PrimFunc,
    block_name: str,
    buffer_index: int | str,
    storage_scope: str,
    loop_var: Var | None = None,
) -> Cached:
    """Let a block that updates a buffer work on a copy: load it before, store it after.

    Both copies stand around the whole nest of the block, or in the body of the loop ``loop_var``;
    they hold exactly what the block touches there, so that across an outer reduce loop each
    iteration takes up the partial result of the last.
    """
    require_scope(storage_scope, "cache_inplace")
    path = find_inner_block(func, block_name, "cache_inplace")
    realize = realize_of(path)
    block = realize.block
    buffer = buffer_at(func, block, "write", buffer_index, "cache_inplace")
    if not any(r.buffer is buffer for r in block.reads) or block.init is not None:
        found = (
            f"{block_name!r} does not update {buffer.name!r} (read and write it, without an init)."
        )
        raise fail(DependenceError, "cache_inplace", func, [block], found)
    scope = scope_path(path)
    holder = scope_of(path)
    require_scope_declared(func, holder, block, "cache_inplace")
    if loop_var is None:
        place = shared_place(func, scope, [block_name], block_name, "cache_inplace")
    else:
        require_ancestor(func, path, loop_var, "cache_inplace")
        loop_path = find_loop(func, loop_var, "cache_inplace")
        below = path[len(loop_path) :]
        child = below[1] if isinstance(below[0], SeqStmt) else below[0]
        at = next(i for i, c in enumerate(children_of(loop_of(loop_path))) if c is child)
        place = Place(loop_path, at)
    child_stmt = children_of(place.path[-1])[place.child]
    for other in blocks_below(child_stmt):
        uses = any(r.buffer is buffer for r in (*other.block.reads, *other.block.writes))
        if uses and other.block is not block:
            found = f"{other.block.name!r} uses {buffer.name!r} between the two copies."
            raise fail(DependenceError, "cache_inplace", func, [other.block], found)
    inner = [loop for loop in all_loops_above(path) if all(loop is not o for o in place.outer)]
    bounds = loop_bounds([*place.outer, *inner])
    box: Box | None = None
    n = Nested(realize, inner, conditions_above(path[len(place.path) :]))
    for r in (*block.reads, *block.writes):
        if r.buffer is buffer:
            more = written_box(r, n, inner, bounds)
            box = more if box is None else union(box, more, bounds)
    assert box is not None
    parallel = [loop for loop in place.outer if loop.kind not in ("serial", "unrolled")]
    if parallel and not (box.exact and covers_domain(n, bounds)):
        found = (
            f"The copies would hold elements of {buffer.name!r} that {block_name!r} does not touch "
            f"in one iteration of the {parallel[0].kind} loop {parallel[0].var.name!r}, and that "
            "others update at the same time."
        )
        raise fail(DependenceError, "cache_inplace", func, [parallel[0], block], found)
    box = clip(box, buffer.shape, bounds)
    new = new_buffer(func, buffer, storage_scope)
    load = fresh_name(block_names(func), new.name)
    store = fresh_name([*block_names(func), load], new.name)
    outer_bounds = loop_bounds(place.outer)
    after = copy_nest(new, buffer, box, store, outer_bounds)
    changed = insert_stmt(func, place, place.child + 1, after, "cache_inplace")
    place = Place(_same_place(changed, place, block_name), place.child)
    before = copy_nest(buffer, new, box, load, outer_bounds)
    changed = insert_stmt(changed, place, place.child, before, "cache_inplace")
    changed = change_block(
        changed, block_name, lambda b: replace_buffers(b, {buffer: new}), "cache_inplace"
    )
    return Cached(allocate_in(changed, holder.name, new, "cache_inplace"), (load, store))


def _same_place(func: PrimFunc, place: Place, block_name: str) -> Path:
    path = find_block(func, block_name, "cache_inplace")
    return path[: len(place.path)]

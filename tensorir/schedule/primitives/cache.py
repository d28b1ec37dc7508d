"""cache_read, cache_write, cache_inplace: copies of buffers in another scope.

A copy is a block ``<buffer>_<scope>`` over loops ``ax0, ax1, ...`` that writes (or reads) a new
buffer of the same shape; the block that was named then uses the new one. The copy is placed
directly beside the statement that holds the block, at the innermost place that all users of the
buffer share, and is moved from there with compute_at or reverse_compute_at.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import DependenceError, ScheduleValueError
from ....support.node import walk
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.certain_writes import written_box
from ...analysis.hidden_accesses import require_declared, require_scope_declared
from ...analysis.paths import (
    TRUE,
    Nested,
    Path,
    all_loops_above,
    axis_bindings,
    binds,
    block_names,
    blocks_below,
    conditions_above,
    conjunction,
    fail,
    find_block,
    find_inner_block,
    find_loop,
    fresh_name,
    loop_of,
    readers_of,
    realize_of,
    require_ancestor,
    scope_path,
    writers_of,
)
from ...analysis.region_cover import Box, covers_domain, full_box, touched, union
from ...buffer import Buffer, BufferRegion, Range
from ...expr import BufferLoad, Expr, IntImm, Var, add, is_const
from ...function import PrimFunc
from ...stmt import Block, BlockRealize, BufferStore, For, IterVar, SeqStmt, Stmt
from ...visitor import replace_buffers
from ..rewriting.insertion import (
    Cached,
    Place,
    allocate_in,
    change_block,
    children_of,
    insert_stmt,
    shared_place,
)
from .annotate import buffer_at, buffer_names, require_scope


# -- copies ----------------------------------------------------------------------------------------
def copy_nest(source: Buffer, target: Buffer, box: Box, name: str, bounds: Bounds) -> Stmt:
    """Loops over a box and a block that copies an element of ``source`` to the same place in
    ``target``."""
    values: list[Expr] = []
    loops: list[tuple[Var, Expr]] = []
    conditions: list[Expr] = []
    axes: list[IterVar] = []
    known = bounds
    for d, (start, extent, dim) in enumerate(
        zip(box.starts, box.extents, source.shape, strict=True)
    ):
        var = Var(f"ax{d}")
        loops.append((var, extent))
        known = known | Bounds({var: Range(IntImm(0), extent)})
        value = known.simplify(start + var)
        if not known.proves_le(IntImm(0), start):
            conditions.append(value >= 0)
        if not known.proves_le(add(start, extent), dim):
            conditions.append(value < dim)
        values.append(value)
        axes.append(IterVar(Var(f"v{d}"), Range(IntImm(0), dim), "spatial"))
    point = tuple([it.var for it in axes])
    where = tuple([Range(v, IntImm(1)) for v in point])
    block = Block(
        name,
        tuple(axes),
        (BufferRegion(source, where),),
        (BufferRegion(target, where),),
        BufferStore(target, BufferLoad(source, point), point),
    )
    nest: Stmt = BlockRealize(tuple(values), conjunction(conditions) if conditions else TRUE, block)
    for var, extent in reversed(loops):
        nest = For(var, IntImm(0), extent, "serial", nest)
    return nest


def _new_buffer(func: PrimFunc, buffer: Buffer, scope: str) -> Buffer:
    name = fresh_name(buffer_names(func), f"{buffer.name}_{scope}")
    return Buffer(name, buffer.shape, buffer.dtype, scope)


def _clip(box: Box, shape: Sequence[Expr], bounds: Bounds) -> Box:
    """The box with dimensions that reach beyond the whole buffer cut to it."""
    starts, extents = list(box.starts), list(box.extents)
    for d, dim in enumerate(shape):
        if is_const(starts[d], 0) and bounds.proves_le(dim, extents[d]):
            extents[d] = dim
    return Box(starts, extents, box.exact)


# -- cache_read ------------------------------------------------------------------------------------
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
    holder = scope[-1]
    assert isinstance(holder, Block)
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
    if writers:
        place = shared_place(func, scope, order, writers[-1].block.name, "cache_read")
        at = place.child + 1
        _require_all_after(func, place, at, readers, "cache_read")
    else:
        place = shared_place(
            func, scope, [readers[0].block.name], readers[0].block.name, "cache_read"
        )
        at = place.child
    box = _needed(place, readers, buffer)
    new = _new_buffer(func, buffer, storage_scope)
    name = fresh_name(block_names(func), new.name)
    scope_name = realize_of(scope[:-1]).block.name
    nest = copy_nest(buffer, new, box, name, loop_bounds(place.outer))
    changed = insert_stmt(func, place, at, nest, "cache_read")
    for n in readers:
        changed = change_block(
            changed, n.block.name, lambda b: replace_buffers(b, {buffer: new}), "cache_read"
        )
    return Cached(allocate_in(changed, scope_name, new, "cache_read"), (name,))


def _require_all_after(
    func: PrimFunc, place: Place, at: int, readers: Sequence[Nested], primitive: str
) -> None:
    early = {id(n.block) for c in children_of(place.path[-1])[:at] for n in blocks_below(c)}
    for n in readers:
        if id(n.block) in early:
            found = (
                f"{n.block.name!r} reads the buffer before its last writer; there is no place "
                "for one copy."
            )
            raise fail(DependenceError, primitive, func, [n.block], found)


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
        loads = [n for n in walk(box.starts[d]) if isinstance(n, BufferLoad)]
        if any(writers_of(holder, n.buffer) for n in loads):
            box.starts[d], box.extents[d], box.exact = IntImm(0), dim, False
    return _clip(box, buffer.shape, known)


# -- cache_write -----------------------------------------------------------------------------------
def cache_write(
    func: PrimFunc, block_name: str, write_buffer_index: int | str, storage_scope: str
) -> Cached:
    """Let a block write a new buffer, and copy that to the old one afterwards."""
    require_scope(storage_scope, "cache_write")
    path = find_inner_block(func, block_name, "cache_write")
    realize = realize_of(path)
    block = realize.block
    buffer = buffer_at(func, block, "write", write_buffer_index, "cache_write", either=False)
    scope = scope_path(path)
    holder = scope[-1]
    assert isinstance(holder, Block)
    if any(r.buffer is buffer for r in block.reads):
        found = (
            f"{block_name!r} updates {buffer.name!r}, which has its first value "
            "elsewhere; cache it before "
            "decompose_reduction, or use cache_inplace."
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
    new = _new_buffer(func, buffer, storage_scope)
    name = fresh_name(block_names(func), new.name)
    scope_name = realize_of(scope[:-1]).block.name
    nest = copy_nest(new, buffer, _clip(box, buffer.shape, bounds), name, loop_bounds(place.outer))
    changed = insert_stmt(func, place, place.child + 1, nest, "cache_write")
    changed = change_block(
        changed, block_name, lambda b: replace_buffers(b, {buffer: new}), "cache_write"
    )
    return Cached(allocate_in(changed, scope_name, new, "cache_write"), (name,))


# -- cache_inplace ---------------------------------------------------------------------------------
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
    holder = scope[-1]
    assert isinstance(holder, Block)
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
    box = _clip(box, buffer.shape, bounds)
    new = _new_buffer(func, buffer, storage_scope)
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
    scope_name = realize_of(scope[:-1]).block.name
    return Cached(allocate_in(changed, scope_name, new, "cache_inplace"), (load, store))


def _same_place(func: PrimFunc, place: Place, block_name: str) -> Path:
    path = find_block(func, block_name, "cache_inplace")
    return path[: len(place.path)]

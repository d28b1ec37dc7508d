"""cache_read, cache_write, cache_inplace, reindex_cache_read: copies of buffers in another scope.

A copy is a block ``<buffer>_<scope>`` over loops ``ax0, ax1, ...`` that writes (or reads) a new
buffer of the same shape; the block that was named then uses the new one. The copy is placed
directly beside the statement that holds the block, at the innermost place that all users of the
buffer share, and is moved from there with compute_at or reverse_compute_at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...support.errors import DependenceError, LayoutError
from ...support.node import replace, walk
from ..arith import IndexMap
from ..buffer import Buffer, BufferRegion, Range
from ..expr import BufferLoad, Expr, IntImm, Var, add, all_of, const, is_const
from ..function import PrimFunc
from ..intrinsics import call_intrin
from ..stmt import Block, BlockRealize, BufferStore, For, IterVar, SeqStmt, Stmt, seq
from ..visitor import Mutator, replace_buffers, substitute
from .affine import Bounds, is_independent, loop_bounds
from .analysis import (
    TRUE,
    Nested,
    Path,
    all_loops_above,
    axis_bindings,
    binds,
    block_names,
    blocks_below,
    conjunction,
    fail,
    find_block,
    find_loop,
    fresh_name,
    loop_of,
    point_indices,
    readers_of,
    realize_of,
    rebuild,
    require_ancestor,
    scope_path,
    with_body,
    writers_of,
)
from .annotate import buffer_at, buffer_names, require_scope
from .region_cover import Box, covers_domain, full_box, touched, union


@dataclass(slots=True)
class Cached:
    """The new function and the names of the copy blocks, reads before writes."""

    func: PrimFunc
    blocks: tuple[str, ...]


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


@dataclass(slots=True)
class Place:
    """A loop or block whose body gets one more statement, beside its child ``child``."""

    path: Path
    child: int

    @property
    def outer(self) -> list[For]:
        leaf = self.path[-1]
        return [*all_loops_above(self.path), *([leaf] if isinstance(leaf, For) else [])]


def _children(s: Stmt) -> tuple[Stmt, ...]:
    assert isinstance(s, (For, Block))
    return s.body.stmts if isinstance(s.body, SeqStmt) else (s.body,)


def _shared_place(
    func: PrimFunc, scope: Path, names: Sequence[str], anchor: str, primitive: str
) -> Place:
    """The innermost loop below ``scope`` (or the scope itself) that holds all the named blocks in
    different statements, and which of its statements holds ``anchor``."""
    paths = [find_block(func, n, primitive) for n in names]
    shared = list(scope)
    if len(paths) > 1:
        for level in zip(*[p[len(scope) :] for p in paths], strict=False):
            if any(s is not level[0] for s in level):
                break
            shared.append(level[0])
    while not isinstance(shared[-1], (For, Block)):
        shared.pop()
    anchor_path = find_block(func, anchor, primitive)
    below = anchor_path[len(shared) :]
    child = below[1] if isinstance(below[0], SeqStmt) else below[0]
    place = tuple(shared)
    return Place(place, next(i for i, c in enumerate(_children(place[-1])) if c is child))


def _insert(func: PrimFunc, place: Place, at: int, stmt: Stmt) -> PrimFunc:
    holder = place.path[-1]
    children = list(_children(holder))
    children.insert(at, stmt)
    return with_body(func, rebuild(place.path, replace(holder, body=seq(*children))))


def _allocate(func: PrimFunc, scope_name: str, buffer: Buffer, primitive: str) -> PrimFunc:
    path = find_block(func, scope_name, primitive)
    realize = realize_of(path)
    block = replace(realize.block, alloc_buffers=(*realize.block.alloc_buffers, buffer))
    return with_body(func, rebuild(path, replace(realize, block=block)))


def _change_block(
    func: PrimFunc, name: str, change: Callable[[Block], Block], primitive: str
) -> PrimFunc:
    path = find_block(func, name, primitive)
    realize = realize_of(path)
    return with_body(func, rebuild(path, replace(realize, block=change(realize.block))))


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
    path = find_block(func, block_name, "cache_read")
    block = realize_of(path).block
    buffer = buffer_at(func, block, "read", buffer_index, "cache_read")
    scope = scope_path(path)
    holder = scope[-1]
    assert isinstance(holder, Block)
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
        place = _shared_place(func, scope, order, writers[-1].block.name, "cache_read")
        at = place.child + 1
        _require_all_after(func, place, at, readers, "cache_read")
    else:
        place = _shared_place(
            func, scope, [readers[0].block.name], readers[0].block.name, "cache_read"
        )
        at = place.child
    box = _needed(place, readers, buffer)
    new = _new_buffer(func, buffer, storage_scope)
    name = fresh_name(block_names(func), new.name)
    scope_name = realize_of(scope[:-1]).block.name
    nest = copy_nest(buffer, new, box, name, loop_bounds(place.outer))
    changed = _insert(func, place, at, nest)
    for n in readers:
        changed = _change_block(
            changed, n.block.name, lambda b: replace_buffers(b, {buffer: new}), "cache_read"
        )
    return Cached(_allocate(changed, scope_name, new, "cache_read"), (name,))


def _require_all_after(
    func: PrimFunc, place: Place, at: int, readers: Sequence[Nested], primitive: str
) -> None:
    early = {id(n.block) for c in _children(place.path[-1])[:at] for n in blocks_below(c)}
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
    return _clip(box, buffer.shape, known)


# -- cache_write -----------------------------------------------------------------------------------
def cache_write(
    func: PrimFunc, block_name: str, write_buffer_index: int | str, storage_scope: str
) -> Cached:
    """Let a block write a new buffer, and copy that to the old one afterwards."""
    require_scope(storage_scope, "cache_write")
    path = find_block(func, block_name, "cache_write")
    realize = realize_of(path)
    block = realize.block
    buffer = buffer_at(func, block, "write", write_buffer_index, "cache_write")
    scope = scope_path(path)
    holder = scope[-1]
    assert isinstance(holder, Block)
    if block.init is None and any(r.buffer is buffer for r in block.reads):
        found = (
            f"{block_name!r} updates {buffer.name!r}, which has its first value "
            "elsewhere; cache it before "
            "decompose_reduction, or use cache_inplace."
        )
        raise fail(DependenceError, "cache_write", func, [block], found)
    users = [*readers_of(holder, buffer), *writers_of(holder, buffer)]
    others = {n.block.name for n in users if n.block is not block}
    groups = [[block_name, other] for other in sorted(others)] or [[block_name]]
    places = [_shared_place(func, scope, g, block_name, "cache_write") for g in groups]
    place = max(places, key=lambda p: len(p.path))
    for loop in place.outer:
        if binds(axis_bindings(realize, ("reduce",)), loop.var):
            found = (
                f"Another block uses {buffer.name!r} inside the reduce loop {loop.var.name!r} of "
                f"{block_name!r}, where the result is not final."
            )
            raise fail(DependenceError, "cache_write", func, [block], found)
    inner = [loop for loop in all_loops_above(path) if all(loop is not o for o in place.outer)]
    n = Nested(realize, inner, [])
    bounds = loop_bounds([*place.outer, *inner])
    region = next(w for w in block.writes if w.buffer is buffer)
    box = touched(region, n, inner, bounds)
    if not box.exact or not covers_domain(n, bounds):
        found = f"It cannot be proved which box of {buffer.name!r} the block {block_name!r} writes."
        raise fail(DependenceError, "cache_write", func, [block], found)
    new = _new_buffer(func, buffer, storage_scope)
    name = fresh_name(block_names(func), new.name)
    scope_name = realize_of(scope[:-1]).block.name
    nest = copy_nest(new, buffer, _clip(box, buffer.shape, bounds), name, loop_bounds(place.outer))
    changed = _insert(func, place, place.child + 1, nest)
    changed = _change_block(
        changed, block_name, lambda b: replace_buffers(b, {buffer: new}), "cache_write"
    )
    return Cached(_allocate(changed, scope_name, new, "cache_write"), (name,))


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
    path = find_block(func, block_name, "cache_inplace")
    realize = realize_of(path)
    block = realize.block
    buffer = buffer_at(func, block, "write", buffer_index, "cache_inplace")
    if not any(r.buffer is buffer for r in block.reads) or block.init is not None:
        found = (
            f"{block_name!r} does not update {buffer.name!r} (read and write it, without an init)."
        )
        raise fail(DependenceError, "cache_inplace", func, [block], found)
    scope = scope_path(path)
    if loop_var is None:
        place = _shared_place(func, scope, [block_name], block_name, "cache_inplace")
    else:
        require_ancestor(func, path, loop_var, "cache_inplace")
        loop_path = find_loop(func, loop_var, "cache_inplace")
        below = path[len(loop_path) :]
        child = below[1] if isinstance(below[0], SeqStmt) else below[0]
        at = next(i for i, c in enumerate(_children(loop_of(loop_path))) if c is child)
        place = Place(loop_path, at)
    child_stmt = _children(place.path[-1])[place.child]
    for n in blocks_below(child_stmt):
        uses = any(r.buffer is buffer for r in (*n.block.reads, *n.block.writes))
        if uses and n.block is not block:
            found = f"{n.block.name!r} uses {buffer.name!r} between the two copies."
            raise fail(DependenceError, "cache_inplace", func, [n.block], found)
    inner = [loop for loop in all_loops_above(path) if all(loop is not o for o in place.outer)]
    bounds = loop_bounds([*place.outer, *inner])
    box: Box | None = None
    for r in (*block.reads, *block.writes):
        if r.buffer is buffer:
            more = touched(r, Nested(realize, inner, []), inner, bounds)
            box = more if box is None else union(box, more, bounds)
    assert box is not None
    box = _clip(box, buffer.shape, bounds)
    new = _new_buffer(func, buffer, storage_scope)
    load = fresh_name(block_names(func), new.name)
    store = fresh_name([*block_names(func), load], new.name)
    outer_bounds = loop_bounds(place.outer)
    changed = _insert(
        func, place, place.child + 1, copy_nest(new, buffer, box, store, outer_bounds)
    )
    place = Place(_same_place(changed, place, block_name), place.child)
    changed = _insert(changed, place, place.child, copy_nest(buffer, new, box, load, outer_bounds))
    changed = _change_block(
        changed, block_name, lambda b: replace_buffers(b, {buffer: new}), "cache_inplace"
    )
    scope_name = realize_of(scope[:-1]).block.name
    return Cached(_allocate(changed, scope_name, new, "cache_inplace"), (load, store))


def _same_place(func: PrimFunc, place: Place, block_name: str) -> Path:
    path = find_block(func, block_name, "cache_inplace")
    return path[: len(place.path)]


# -- reindex_cache_read ----------------------------------------------------------------------------
def reindex_cache_read(
    func: PrimFunc,
    block_name: str,
    read_buffer_index: int | str,
    storage_scope: str,
    index_map: IndexMap,
) -> Cached:
    """Copy what a block reads into a new buffer indexed by ``index_map`` of the block's axes.

    The block must read one element an instance; the axes that the map uses must tell the elements
    apart. The copy runs over these axes' domains; where that may lie outside of the buffer (the
    block guards its load), it is guarded too.
    """
    primitive = "reindex_cache_read"
    require_scope(storage_scope, primitive)
    path = find_block(func, block_name, primitive)
    block = realize_of(path).block
    buffer = buffer_at(func, block, "read", read_buffer_index, primitive)
    regions = [r for r in block.reads if r.buffer is buffer]
    indices = point_indices(regions[0]) if len(regions) == 1 else None
    if indices is None:
        found = f"{block_name!r} does not read exactly one element of {buffer.name!r} an instance."
        raise fail(LayoutError, primitive, func, [block], found)
    scope = scope_path(path)
    holder = scope[-1]
    assert isinstance(holder, Block)
    if writers_of(holder, buffer):
        found = f"{buffer.name!r} is written in this function; only inputs are reindexed."
        raise fail(DependenceError, primitive, func, [block], found)
    axes = [it.var for it in block.iter_vars]
    mapped = index_map.map_indices(axes)
    used = {n for e in mapped for n in walk(e) if isinstance(n, Var)}
    needed = {n for e in indices for n in walk(e) if isinstance(n, Var)}
    kept = [it for it in block.iter_vars if it.var in used]
    kept_bounds = Bounds({it.var: it.dom for it in kept})
    if not needed & set(axes) <= used or not is_independent(mapped, kept_bounds):
        found = "The index map does not give each element that is read a place of its own."
        raise fail(LayoutError, primitive, func, [block], found)
    shape = index_map.map_shape([it.dom.extent for it in block.iter_vars])
    name = fresh_name(buffer_names(func), f"{buffer.name}_{storage_scope}")
    new = Buffer(name, tuple(shape), buffer.dtype, storage_scope)
    copy_name = fresh_name(block_names(func), name)
    nest = _reindex_nest(kept, indices, mapped, buffer, new, copy_name)
    place = _shared_place(func, scope, [block_name], block_name, primitive)
    changed = _insert(func, place, place.child, nest)

    def use_copy(b: Block) -> Block:
        region = BufferRegion(new, tuple([Range(e, IntImm(1)) for e in mapped]))
        reads = tuple([region if r.buffer is buffer else r for r in b.reads])
        return replace(b, reads=reads, body=_Redirect(buffer, new, tuple(mapped)).visit(b.body))

    changed = _change_block(changed, block_name, use_copy, primitive)
    return Cached(
        _allocate(changed, realize_of(scope[:-1]).block.name, new, primitive), (copy_name,)
    )


def _reindex_nest(
    kept: Sequence[IterVar],
    indices: Sequence[Expr],
    mapped: Sequence[Expr],
    buffer: Buffer,
    new: Buffer,
    name: str,
) -> Stmt:
    fresh = {it.var: Var(it.var.name) for it in kept}
    source = tuple([substitute(i, fresh) for i in indices])
    target = tuple([substitute(e, fresh) for e in mapped])
    known = Bounds({fresh[it.var]: it.dom for it in kept})
    inside: list[Expr] = []
    for i, dim in zip(source, buffer.shape, strict=True):
        if not known.proves_le(IntImm(0), i):
            inside.append(i >= 0)
        if not known.proves_le(add(i, 1), dim):
            inside.append(i < dim)
    value: Expr = BufferLoad(buffer, source)
    if inside:
        value = call_intrin("if_then_else", all_of(inside), value, const(0, buffer.dtype))
    block = Block(
        name,
        tuple([IterVar(fresh[it.var], it.dom, "spatial") for it in kept]),
        (BufferRegion(buffer, tuple([Range(i, IntImm(1)) for i in source])),),
        (BufferRegion(new, tuple([Range(i, IntImm(1)) for i in target])),),
        BufferStore(new, value, target),
    )
    loops = [Var(f"ax{d}") for d in range(len(kept))]
    nest: Stmt = BlockRealize(tuple(loops), TRUE, block)
    for var, it in reversed(list(zip(loops, kept, strict=True))):
        nest = For(var, it.dom.min, it.dom.extent, "serial", nest)
    return nest


class _Redirect(Mutator):
    """Loads of one buffer become loads of another at fixed indices."""

    def __init__(self, old: Buffer, new: Buffer, indices: tuple[Expr, ...]) -> None:
        self.old, self.new, self.indices = old, new, indices

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        if n.buffer is self.old:
            return BufferLoad(self.new, self.indices)
        return self.generic_visit(n)  # type: ignore[no-any-return]

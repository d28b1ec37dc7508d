"""reindex, reindex_cache_read, reindex_cache_write: copies of buffers in a block's own layout.

A block that reads ``A[i(v)]`` gets a copy indexed by ``m(v)``, a map of its axes::

    for i, j: B[vi, vj] = A[vj, vi]   ->   for ax0, ax1: A_reindex[v0, v1] = A[v1, v0]
                                           for i, j: B[vi, vj] = A_reindex[vi, vj]

and one that writes is followed by the copy back. The copy runs over the domains of the axes that
the map uses. Both need the map to give each instance a place of its own; a copy back also needs the
indices to do so, and the block to run for the whole of these domains: what it did not write must
not be copied.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ....support.errors import DependenceError, LayoutError, ScheduleValueError
from ....support.node import replace, walk
from ...analysis.affine import Bounds, is_independent, loop_bounds, overlapping, sweep
from ...analysis.certain_writes import writes_whole
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.paths import (
    TRUE,
    Nested,
    Path,
    all_loops_above,
    block_names,
    fail,
    find_block,
    fresh_name,
    point_indices,
    readers_of,
    realize_of,
    scope_blocks,
    scope_path,
    writers_of,
)
from ...analysis.region_cover import covers_domain
from ...analysis.structure import same_indices
from ...arith import IndexMap, expr_key
from ...buffer import Buffer, BufferRegion, Range
from ...expr import BufferLoad, Expr, IntImm, Var, add, all_of, const, is_const
from ...function import PrimFunc
from ...intrinsics import call_intrin
from ...stmt import Block, BlockRealize, BufferStore, For, IfThenElse, IterVar, MatchBuffer, Stmt
from ...visitor import Mutator, substitute
from ..rewriting.insertion import (
    Cached,
    Place,
    allocate_in,
    change_block,
    insert_stmt,
    require_room,
    shared_place,
)
from .annotate import buffer_at, buffer_names, require_scope
from .inline import with_inferred_regions


@dataclass(slots=True)
class _Access:
    """One block's access to one buffer, element by element."""

    func: PrimFunc
    primitive: str
    path: Path
    buffer: Buffer
    indices: tuple[Expr, ...]
    is_one_of_several: bool = False
    """Whether the block reads other elements of the buffer too."""

    @property
    def realize(self) -> BlockRealize:
        return realize_of(self.path)

    @property
    def block(self) -> Block:
        return self.realize.block

    @property
    def scope(self) -> Block:
        holder = scope_path(self.path)[-1]
        assert isinstance(holder, Block)
        return holder

    def place(self) -> Place:
        """Beside the whole nest of the block."""
        names = [self.block.name]
        return shared_place(
            self.func, scope_path(self.path), names, self.block.name, self.primitive
        )

    def layout(self, found: str) -> LayoutError:
        error = fail(LayoutError, self.primitive, self.func, [self.block], found)
        assert isinstance(error, LayoutError)
        return error

    def dependence(self, found: str, guilty: Block) -> DependenceError:
        error = fail(DependenceError, self.primitive, self.func, [guilty], found)
        assert isinstance(error, DependenceError)
        return error


def reindex(func: PrimFunc, block_name: str, buffer: tuple[str, int] | str) -> Cached:
    """Copy a buffer that a block reads or writes to one laid out by the block's axes, those that
    the access uses, in their order."""
    primitive = "reindex"
    path = find_block(func, block_name, primitive)
    block = realize_of(path).block
    side, index = _side_of(func, block, buffer)
    access = _access(func, path, side, index, primitive)
    used = {n for e in access.indices for n in walk(e) if isinstance(n, Var)}
    axes = [it.var for it in block.iter_vars]
    kept = [v for v in axes if v in used]
    change = {v: Var(v.name) for v in axes}
    index_map = IndexMap(tuple(change.values()), tuple([change[v] for v in kept]))
    name = f"{access.buffer.name}_reindex"
    if side == "read":
        return _copy_in(access, index_map, "global", name)
    return _copy_out(access, index_map, "global", name)


def reindex_cache_read(
    func: PrimFunc,
    block_name: str,
    read_buffer_index: int | str,
    storage_scope: str,
    index_map: IndexMap,
) -> Cached:
    """Copy what a block reads into a new buffer indexed by ``index_map`` of the block's axes.

    The block must read one element an instance, or, of several elements of the buffer, one that the
    axes of the map determine; the axes that the map uses must tell the elements apart. The copy
    runs over these axes' domains; where that may lie outside of the buffer (the block guards its
    load), it is guarded too.
    """
    primitive = "reindex_cache_read"
    require_scope(storage_scope, primitive)
    path = find_block(func, block_name, primitive)
    access = _access(func, path, "read", read_buffer_index, primitive, index_map)
    return _copy_in(access, index_map, storage_scope, f"{access.buffer.name}_{storage_scope}")


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
    access = _access(func, path, "write", write_buffer_index, primitive)
    return _copy_out(access, index_map, storage_scope, f"{access.buffer.name}_{storage_scope}")


# -- what is accessed ------------------------------------------------------------------------------
def _side_of(func: PrimFunc, block: Block, buffer: tuple[str, int] | str) -> tuple[str, int | str]:
    """``("read", i)``, ``("write", i)``, or the name of a buffer on one of the two sides."""
    if isinstance(buffer, str):
        wanted = buffer_at(func, block, "read", buffer, "reindex")
        written = any(w.buffer is wanted for w in block.writes)
        if written and block.init is None and any(r.buffer is wanted for r in block.reads):
            found = f"{block.name!r} reads and writes {buffer!r}; say ('read', i) or ('write', i)."
            raise fail(ScheduleValueError, "reindex", func, [block], found)
        return ("write" if written else "read"), buffer
    good = isinstance(buffer, (tuple, list)) and len(buffer) == 2
    if not good or buffer[0] not in ("read", "write") or not isinstance(buffer[1], int):
        raise ScheduleValueError(
            "reindex",
            f"Expected ('read', i), ('write', i) or a buffer's name; found {buffer!r}.",
        )
    return buffer[0], buffer[1]


def _access(
    func: PrimFunc,
    path: Path,
    side: str,
    index: int | str,
    primitive: str,
    index_map: IndexMap | None = None,
) -> _Access:
    block = realize_of(path).block
    buffer = buffer_at(func, block, side, index, primitive)
    regions = [r for r in (block.reads if side == "read" else block.writes) if r.buffer is buffer]
    indices = point_indices(regions[0]) if len(regions) == 1 else None
    several = False
    if indices is None and index_map is not None:
        indices, several = _chosen(block, buffer, index_map), True
    if any(isinstance(n, Block) for n in walk(block.body)):
        found = f"{block.name!r} holds other blocks; reindex the one that makes the access."
        raise fail(LayoutError, primitive, func, [block], found)
    if indices is None:
        found = (
            f"{block.name!r} does not {side} exactly one element of {buffer.name!r} an instance."
        )
        raise fail(LayoutError, primitive, func, [block], found)
    if any(isinstance(n, BufferLoad) for i in indices for n in walk(i)):
        found = f"{block.name!r} loads the indices at which it accesses {buffer.name!r}."
        raise fail(LayoutError, primitive, func, [block], found)
    access = _Access(func, primitive, path, buffer, indices, several)
    if several:
        require_scope_declared(func, access.scope, block, primitive)
    else:
        _require_these_elements(func, block, buffer, indices, primitive)
    return access


def _chosen(block: Block, buffer: Buffer, index_map: IndexMap) -> tuple[Expr, ...] | None:
    """Of the elements of a buffer that a block loads, the indices of that one which the axes of a
    map determine; None where there is not exactly one."""
    given = index_map.map_indices([it.var for it in block.iter_vars])
    used = {n for e in given for n in walk(e) if isinstance(n, Var)}
    axes = {it.var for it in block.iter_vars}
    found: dict[Hashable, tuple[Expr, ...]] = {}
    for part in (block.body, *([] if block.init is None else [block.init])):
        for load in [n for n in walk(part) if isinstance(n, BufferLoad) and n.buffer is buffer]:
            if {n for e in load.indices for n in walk(e) if isinstance(n, Var)} & axes <= used:
                found[expr_key(load.indices)] = load.indices
    return next(iter(found.values())) if len(found) == 1 else None


def _require_these_elements(
    func: PrimFunc, block: Block, buffer: Buffer, indices: tuple[Expr, ...], primitive: str
) -> None:
    """Each access of the buffer in the body is one at these indices: all of them become accesses
    of one place of the copy. A region that a user wrote may name less, or a view may hide one."""
    for n in walk(block):
        found = ""
        if isinstance(n, (BufferLoad, BufferStore)) and n.buffer is buffer:
            if not same_indices(n.indices, indices):
                found = f"{block.name!r} accesses {buffer.name!r} elsewhere than it declares."
        elif isinstance(n, MatchBuffer) and n.source.buffer is buffer:
            found = f"{block.name!r} accesses {buffer.name!r} through a T.match_buffer."
        if found:
            raise fail(LayoutError, primitive, func, [block], found)


@dataclass(slots=True)
class _Mapped:
    """The map applied: what of the axes it uses, the indices it gives, and the new buffer."""

    kept: list[IterVar]
    indices: tuple[Expr, ...]
    new: Buffer
    copy_name: str


def _mapped(access: _Access, index_map: IndexMap, scope: str, name: str) -> _Mapped:
    block = access.block
    axes = [it.var for it in block.iter_vars]
    indices = index_map.map_indices(axes)
    used = {n for e in indices for n in walk(e) if isinstance(n, Var)}
    needed = {n for e in access.indices for n in walk(e) if isinstance(n, Var)}
    kept = [it for it in block.iter_vars if it.var in used]
    if not needed & set(axes) <= used or not _is_injective(indices, kept):
        verb = "read" if access.primitive == "reindex_cache_read" else "accessed"
        found = f"The index map does not give each element that is {verb} a place of its own."
        raise access.layout(found)
    for it in kept:
        if not is_const(it.dom.min, 0):
            found = f"The axis {it.var.name!r} of {block.name!r} does not begin at 0."
            raise access.layout(found)
    room = require_room(access.func, access.path, block, block.iter_vars, access.primitive)
    shape = index_map.map_shape(room)
    name = fresh_name(buffer_names(access.func), name)
    new = Buffer(name, tuple(shape), access.buffer.dtype, scope)
    return _Mapped(kept, indices, new, fresh_name(block_names(access.func), name))


def _domains(axes: Sequence[IterVar]) -> Bounds:
    return Bounds({it.var: it.dom for it in axes})


def _is_injective(indices: Sequence[Expr], axes: Sequence[IterVar]) -> bool:
    """Whether each combination of the axes' values gives other indices."""
    if is_independent(indices, _domains(axes)):
        return True
    try:
        own = IndexMap(tuple([it.var for it in axes]), tuple(indices))
        own.padded_inverse([it.dom.extent for it in axes])
    except LayoutError:
        return False
    return True


# -- reading ---------------------------------------------------------------------------------------
def _copy_in(access: _Access, index_map: IndexMap, scope: str, name: str) -> Cached:
    block, buffer = access.block, access.buffer
    _require_written_before(access)
    m = _mapped(access, index_map, scope, name)
    if block.init is not None and any(
        isinstance(n, BufferLoad) and n.buffer is buffer for n in walk(block.init)
    ):
        reduced = {it.var for it in block.iter_vars if it.kind == "reduce"}
        used = [n for index in m.indices for n in walk(index) if isinstance(n, Var)]
        for v in used:
            if v in reduced:
                found = (
                    f"The init of {block.name!r} reads {buffer.name!r}, and an init has no value "
                    f"of the reduce axis {v.name!r}; leave that axis out of the index map."
                )
                raise access.layout(found)
    nest = _read_nest(m, access.indices, buffer)
    place = access.place()
    changed = insert_stmt(access.func, place, place.child, nest, access.primitive)

    def use_copy(b: Block) -> Block:
        region = BufferRegion(m.new, tuple([Range(e, IntImm(1)) for e in m.indices]))
        only = expr_key(access.indices) if access.is_one_of_several else None
        redirect = _Redirect(buffer, m.new, m.indices, only)
        init = None if b.init is None else redirect.visit(b.init)
        if access.is_one_of_several:
            return with_inferred_regions(replace(b, body=redirect.visit(b.body), init=init))
        # The buffer may also stand in the indices of other regions.
        reads = tuple([region if r.buffer is buffer else redirect.visit(r) for r in b.reads])
        return replace(b, reads=reads, body=redirect.visit(b.body), init=init)

    changed = change_block(changed, block.name, use_copy, access.primitive)
    return _allocated(access, changed, m)


def _require_written_before(access: _Access) -> None:
    """What others write of the buffer stands in an earlier nest, so that all of it is there when
    the copy runs."""
    writers = writers_of(access.scope, access.buffer)
    if not writers:
        return
    if any(n.block is access.block for n in writers):
        found = f"{access.block.name!r} writes {access.buffer.name!r}, which it reads."
        raise access.dependence(found, access.block)
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
            raise access.dependence(found, realize_of(other).block)
        if next(i for i, b in enumerate(order) if b is n.block) > own:
            found = f"{n.block.name!r} writes {access.buffer.name!r} after it was read."
            raise access.dependence(found, realize_of(other).block)


def _read_nest(m: _Mapped, indices: Sequence[Expr], buffer: Buffer) -> Stmt:
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
    return _copy_nest(m, fresh, BufferStore(m.new, value, target), (buffer, source))


def _copy_nest(
    m: _Mapped,
    fresh: dict[Var, Var],
    store: BufferStore,
    source: tuple[Buffer, tuple[Expr, ...]],
) -> Stmt:
    block = Block(
        m.copy_name,
        tuple([IterVar(fresh[it.var], it.dom, "spatial") for it in m.kept]),
        (BufferRegion(source[0], tuple([Range(i, IntImm(1)) for i in source[1]])),),
        (BufferRegion(store.buffer, tuple([Range(i, IntImm(1)) for i in store.indices])),),
        store,
    )
    loops = [Var(f"ax{d}") for d in range(len(m.kept))]
    nest: Stmt = BlockRealize(tuple(loops), TRUE, block)
    for var, it in reversed(list(zip(loops, m.kept, strict=True))):
        nest = For(var, it.dom.min, it.dom.extent, "serial", nest)
    return nest


# -- writing ---------------------------------------------------------------------------------------
def _copy_out(access: _Access, index_map: IndexMap, scope: str, name: str) -> Cached:
    block, buffer = access.block, access.buffer
    require_scope_declared(access.func, access.scope, block, access.primitive)
    m = _mapped(access, index_map, scope, name)
    _require_sole_writer(access)
    _require_unread_inside(access)
    _require_one_place(access, m)
    _require_whole_domain(access, m)
    fresh = {it.var: Var(it.var.name) for it in m.kept}
    target = tuple([substitute(i, fresh) for i in access.indices])
    source = tuple([substitute(e, fresh) for e in m.indices])
    store = BufferStore(buffer, BufferLoad(m.new, source), target)
    nest = _copy_nest(m, fresh, store, (m.new, source))
    place = access.place()
    changed = insert_stmt(access.func, place, place.child + 1, nest, access.primitive)

    def use_copy(b: Block) -> Block:
        region = BufferRegion(m.new, tuple([Range(e, IntImm(1)) for e in m.indices]))
        redirect = _Redirect(buffer, m.new, m.indices)
        reads = tuple([region if r.buffer is buffer else r for r in b.reads])
        writes = tuple([region if r.buffer is buffer else r for r in b.writes])
        init = None if b.init is None else redirect.visit(b.init)
        body = redirect.visit(b.body)
        return replace(b, reads=reads, writes=writes, body=body, init=init)

    changed = change_block(changed, block.name, use_copy, access.primitive)
    return _allocated(access, changed, m)


def _require_sole_writer(access: _Access) -> None:
    block, buffer = access.block, access.buffer
    if any(r.buffer is buffer for r in block.reads):
        found = (
            f"{block.name!r} updates {buffer.name!r}, which has its first value elsewhere; "
            "reindex before decompose_reduction."
        )
        raise access.dependence(found, block)
    for n in writers_of(access.scope, buffer):
        if n.block is not block:
            found = f"{n.block.name!r} writes {buffer.name!r} too."
            raise access.dependence(found, n.block)


def _require_unread_inside(access: _Access) -> None:
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
            raise access.dependence(found, n.block)


def _require_one_place(access: _Access, m: _Mapped) -> None:
    """Each instance over the spatial axes has its element, and its place in the copy."""
    used = {it.var for it in m.kept}
    for it in access.block.iter_vars:
        if it.kind != "spatial" and it.var in used:
            found = (
                f"The index map uses the {it.kind} axis {it.var.name!r}, over which "
                f"{access.block.name!r} combines into one element."
            )
            raise access.layout(found)
    if not _is_injective(access.indices, m.kept):
        found = (
            f"It cannot be proved that each instance of {access.block.name!r} over the axes of "
            f"the map writes an element of {access.buffer.name!r} of its own."
        )
        raise access.layout(found)
    needed = {n for e in access.indices for n in walk(e) if isinstance(n, Var)}
    for it in m.kept:
        if it.var not in needed and not is_const(it.dom.extent, 1):
            found = (
                f"The index map uses the axis {it.var.name!r}, which the element that "
                f"{access.block.name!r} writes does not depend on."
            )
            raise access.layout(found)


def _require_whole_domain(access: _Access, m: _Mapped) -> None:
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
        digits.extend([d for d in s.digits if d.extent != 1])
    if not complete or overlapping(digits):
        found = (
            f"It cannot be proved that {access.block.name!r} writes all that the copy back would "
            f"store to {access.buffer.name!r}."
        )
        raise access.dependence(found, access.block)


# -- rewriting -------------------------------------------------------------------------------------
def _allocated(access: _Access, changed: PrimFunc, m: _Mapped) -> Cached:
    holder = realize_of(scope_path(access.path)[:-1]).block.name
    return Cached(allocate_in(changed, holder, m.new, access.primitive), (m.copy_name,))


class _Redirect(Mutator):
    """Accesses of one buffer become accesses of another at fixed indices; of loads only those at
    the indices whose key is ``only``, where there is one."""

    def __init__(
        self, old: Buffer, new: Buffer, indices: tuple[Expr, ...], only: Hashable = None
    ) -> None:
        self.old, self.new, self.indices, self.only = old, new, indices, only

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        if n.buffer is self.old and self.only in (None, expr_key(n.indices)):
            return BufferLoad(self.new, self.indices)
        return self.generic_visit(n)  # type: ignore[no-any-return]

    def visit_BufferStore(self, n: BufferStore) -> Stmt:  # noqa: N802
        if n.buffer is self.old:
            return BufferStore(self.new, self.visit(n.value), self.indices, n.predicate)
        return self.generic_visit(n)  # type: ignore[no-any-return]

"""Copies of buffers in a block's own layout: what reindex and its twins have in common.

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

from ....support.errors import LayoutError
from ....support.node import walk
from ...analysis.affine import Bounds, is_independent
from ...analysis.block_kinds import point_indices
from ...analysis.block_site import BlockSite
from ...analysis.buffers import buffer_at, buffer_names
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.paths import Path, block_names, fresh_name, realize_of, scope_path
from ...analysis.preconditions import fail
from ...analysis.structure import same_indices
from ...arith import IndexMap, expr_key, point_region
from ...buffer import Buffer
from ...expr import BufferLoad, Expr, Var, is_const
from ...function import PrimFunc
from ...stmt import Block, BufferStore, IterVar, MatchBuffer, Stmt
from ...visitor import Mutator
from .insertion import Cached, Place, allocate_in, require_room, shared_place
from .nests import nest_over_axes


@dataclass(slots=True)
class Access(BlockSite):
    """One block's access to one buffer, element by element."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    is_one_of_several: bool = False
    """Whether the block reads other elements of the buffer too."""

    def place(self) -> Place:
        """Beside the whole nest of the block."""
        names = [self.block.name]
        return shared_place(
            self.func, scope_path(self.path), names, self.block.name, self.primitive
        )


def find_access(
    func: PrimFunc,
    path: Path,
    side: str,
    index: int | str,
    primitive: str,
    index_map: IndexMap | None = None,
) -> Access:
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
    access = Access(func, primitive, path, buffer, indices, several)
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
class Mapped:
    """The map applied: what of the axes it uses, the indices it gives, and the new buffer."""

    kept: list[IterVar]
    indices: tuple[Expr, ...]
    new: Buffer
    copy_name: str


def mapped(access: Access, index_map: IndexMap, scope: str, name: str) -> Mapped:
    block = access.block
    axes = [it.var for it in block.iter_vars]
    indices = index_map.map_indices(axes)
    used = {n for e in indices for n in walk(e) if isinstance(n, Var)}
    needed = {n for e in access.indices for n in walk(e) if isinstance(n, Var)}
    kept = [it for it in block.iter_vars if it.var in used]
    if not needed & set(axes) <= used or not is_injective(indices, kept):
        verb = "read" if access.primitive == "reindex_cache_read" else "accessed"
        found = f"The index map does not give each element that is {verb} a place of its own."
        raise access.error(LayoutError, found, access.block)
    for it in kept:
        if not is_const(it.dom.min, 0):
            found = f"The axis {it.var.name!r} of {block.name!r} does not begin at 0."
            raise access.error(LayoutError, found, access.block)
    room = require_room(access.func, access.path, block, block.iter_vars, access.primitive)
    shape = index_map.map_shape(room)
    name = fresh_name(buffer_names(access.func), name)
    new = Buffer(name, tuple(shape), access.buffer.dtype, scope)
    return Mapped(kept, indices, new, fresh_name(block_names(access.func), name))


def _domains(axes: Sequence[IterVar]) -> Bounds:
    return Bounds({it.var: it.dom for it in axes})


def is_injective(indices: Sequence[Expr], axes: Sequence[IterVar]) -> bool:
    """Whether each combination of the axes' values gives other indices."""
    if is_independent(indices, _domains(axes)):
        return True
    try:
        own = IndexMap(tuple([it.var for it in axes]), tuple(indices))
        own.padded_inverse([it.dom.extent for it in axes])
    except LayoutError:
        return False
    return True


def mapped_copy(
    m: Mapped,
    fresh: dict[Var, Var],
    store: BufferStore,
    source: tuple[Buffer, tuple[Expr, ...]],
) -> Stmt:
    block = Block(
        m.copy_name,
        tuple([IterVar(fresh[it.var], it.dom, "spatial") for it in m.kept]),
        (point_region(*source),),
        (point_region(store.buffer, store.indices),),
        store,
    )
    return nest_over_axes(block)


def allocated(access: Access, changed: PrimFunc, m: Mapped) -> Cached:
    changed = allocate_in(changed, access.scope.name, m.new, access.primitive)
    return Cached(changed, (m.copy_name,))


class Redirect(Mutator):
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

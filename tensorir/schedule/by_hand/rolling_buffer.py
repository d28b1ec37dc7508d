"""rolling_buffer: what consecutive tiles have in common is computed once and kept in a circle.

A producer under a loop of its consumer computes a window for each iteration, and windows overlap::

    for i_0 in range(4):                  for i_0 in range(4):
      for ax0 in range(6):                  for ax0 in range(6):
        B[i_0 * 4 + ax0]           ->         if i_0 < 1 or ax0 >= 2: B[(i_0 * 4 + ax0) % 6]
      for i_1: C reads B[v], B[v + 2]       for i_1: C reads B[v % 6], B[(v + 2) % 6]

A dimension *rolls* on a loop if its window moves by a constant step that is less than its length,
and no other dimension moves with that loop. Then the window of one iteration but for its last
``step`` elements was there one iteration of that loop earlier, all other loops standing alike. The
dimension that rolls on the outermost loop becomes circular, of the window's length: what is
overwritten belongs to windows of earlier iterations of that loop alone. The other dimensions stay
whole, so their overlaps are skipped too.

Skipping is right where an element's value is the same whenever it is computed, the iterations run
in order, and each consumer reads what one window holds. These are what is proved here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....support.errors import DependenceError, LayoutError, LoopKindError
from ....support.node import map_children, replace, walk
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.block_kinds import binding_map, is_complete, is_reduction
from ...analysis.block_site import BlockSite
from ...analysis.buffers import buffer_at
from ...analysis.certain_writes import written_box
from ...analysis.conditions import conjunction
from ...analysis.nested_blocks import Nested, blocks_below, readers_of, scope_blocks, writers_of
from ...analysis.paths import (
    Path,
    all_loops_above,
    find_block,
    loops_above,
    realize_of,
    rebuild,
    scope_of,
    scope_path,
    with_body,
)
from ...analysis.preconditions import fail, require_complete
from ...analysis.region_cover import Box, contains, covers_domain, touched
from ...buffer import Buffer, BufferRegion, Range
from ...expr import BufferLoad, Expr, IntImm, Var, add, floormod, is_const, logical_or, sub
from ...function import PrimFunc
from ...rolling import ROLLING
from ...stmt import Block, BufferStore, For, IfThenElse, MatchBuffer
from ...visitor import Mutator, substitute
from ..primitive import ATTR, BLOCK, STORAGE, primitive
from ..state import BlockLike, ScheduleState

_PRIMITIVE = "rolling_buffer"


class RollingBuffer(ScheduleState):
    @primitive(STORAGE, block=BLOCK, write_buffer_index=ATTR)
    def rolling_buffer(self, block: BlockLike, write_buffer_index: int | str) -> None:
        """Make the buffer between a block and its consumers circular, so that what consecutive
        tiles share is computed once.

        The block stands under a loop of its consumers, by compute_at, and computes a window for
        each iteration. Where windows move with a loop by a constant step that is less than their
        length, they overlap: the block gets the predicate ``first iteration or new element``, and
        along the dimension that rolls on the outermost such loop the buffer shrinks to one window,
        indexed modulo its length. Overlaps along other dimensions are skipped as well, and these
        keep their size. Loops further out may be parallel (make them so before); each of their
        iterations has a buffer of its own, which begins empty. Decompose reductions afterwards.

        Requires:

        - a complete or reduction block (NotCompleteBlockError) that writes one buffer, which it
          alone writes, and which is allocated in the block around it (DependenceError);
        - a buffer without strides and views (LayoutError);
        - a loop that holds the block and, after it, all blocks that read the buffer, no
          conditions between, and windows that are written whole and hold all that is read in
          their iteration (DependenceError);
        - a dimension whose windows overlap, and move with a loop that moves no other dimension
          (DependenceError);
        - serial or unrolled loops from there inwards (LoopKindError);
        - inputs that keep their values while these loops run: what is written there is an
          intermediate of one writer before, a complete or reduction block (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((18,), "float32"), C: T.Buffer((16,), "float32")):
                B = T.alloc_buffer((18,))
                for i_0 in range(4):
                    for ax0 in range(6):
                        with T.block("B"):
                            v = T.axis.spatial(18, i_0 * 4 + ax0)
                            B[v] = A[v] * T.float32(2)
                    for i_1 in range(4):
                        with T.block("C"):
                            v = T.axis.spatial(16, i_0 * 4 + i_1)
                            C[v] = B[v] + B[v + 2]

        Schedule::

            sch.rolling_buffer("B", 0)

        After::

            @T.prim_func
            def main(A: T.Buffer((18,), "float32"), C: T.Buffer((16,), "float32")):
                B = T.alloc_buffer((6,))
                for i_0 in range(4):
                    for ax0 in range(6):
                        with T.block("B"):
                            v = T.axis.spatial(18, i_0 * 4 + ax0)
                            T.where(i_0 < 1 or ax0 >= 2)
                            T.block_attr({"rolling_buffer": True})
                            B[v % 6] = A[v] * T.float32(2)
                    for i_1 in range(4):
                        with T.block("C"):
                            v = T.axis.spatial(16, i_0 * 4 + i_1)
                            T.reads(B[0:6])
                            C[v] = B[v % 6] + B[(v + 2) % 6]
        """
        owner, name = self._block(block)
        self._commit(owner, rolling_buffer(self._functions[owner], name, write_buffer_index))


@dataclass(slots=True)
class _Rolling:
    """A dimension that rolls on a loop: its window begins at ``start``, has ``length`` elements and
    moves by ``step``."""

    dim: int
    loop: For
    start: Expr
    length: int
    step: int


@dataclass(slots=True)
class _Tile(BlockSite):
    """The producer, the loops around it and all consumers, and what it writes in one iteration of
    these."""

    buffer: Buffer
    shared: list[For]
    consumers: list[Path]

    @property
    def fixed(self) -> list[For]:
        """The shared loops and all around the scope."""
        return [*all_loops_above(scope_path(self.path)), *self.shared]

    def inner(self, path: Path) -> list[For]:
        return [loop for loop in loops_above(path) if all(loop is not s for s in self.shared)]


def rolling_buffer(func: PrimFunc, block_name: str, write_buffer_index: int | str) -> PrimFunc:
    """Make the buffer of a block that stands under a loop of its consumers circular, and let the
    block compute only what earlier iterations have not."""
    path = find_block(func, block_name, _PRIMITIVE)
    block = realize_of(path).block
    buffer = buffer_at(func, block, "write", write_buffer_index, _PRIMITIVE)
    _require_own_buffer(func, path, buffer)
    tile = _tile(func, path, buffer)
    box, bounds = _window(tile)
    _require_read_inside(tile, box)
    rolling = _rolling_dims(tile, box, bounds)
    outermost = rolling[0].loop
    _require_in_order(tile, outermost)
    _require_same_values(tile, outermost)
    circular = rolling[0]
    shape = list(buffer.shape)
    shape[circular.dim] = IntImm(circular.length)
    new = replace(buffer, shape=tuple(shape))
    guards = [_guard(tile, r, bounds) for r in rolling]
    guarded = replace(
        tile.realize,
        predicate=conjunction([tile.realize.predicate, *guards]),
        block=replace(block, annotations=(*block.annotations, (ROLLING, True))),
    )
    changed = with_body(func, rebuild(path, guarded))
    return with_body(changed, _Circle(buffer, new, circular).visit(changed.body))


def _require_own_buffer(func: PrimFunc, path: Path, buffer: Buffer) -> None:
    block = realize_of(path).block
    holder = scope_of(path)
    if not (is_complete(block) or is_reduction(block)):
        require_complete(func, block, _PRIMITIVE)
    if all(buffer is not b for b in holder.alloc_buffers):
        found = (
            f"{buffer.name!r} is not allocated in the block around {block.name!r}: all of it is "
            "needed elsewhere."
        )
        raise fail(DependenceError, _PRIMITIVE, func, [block], found)
    if len(block.writes) != 1:
        found = f"{block.name!r} writes {len(block.writes)} buffers; only one can roll."
        raise fail(DependenceError, _PRIMITIVE, func, [block], found)
    for n in writers_of(holder, buffer):
        if n.block is not block:
            found = f"{n.block.name!r} writes {buffer.name!r} too."
            raise fail(DependenceError, _PRIMITIVE, func, [n.block], found)
    views = [n for n in walk(holder.body) if isinstance(n, MatchBuffer)]
    if buffer.strides or any(v.source.buffer is buffer for v in views):
        found = f"{buffer.name!r} has strides or a view, which a circular buffer cannot have."
        raise fail(LayoutError, _PRIMITIVE, func, [block], found)


def _tile(func: PrimFunc, path: Path, buffer: Buffer) -> _Tile:
    block = realize_of(path).block
    holder = scope_of(path)
    below = len(scope_path(path))
    consumers = [n for n in readers_of(holder, buffer) if n.block is not block]
    if not consumers:
        found = f"No other block reads {buffer.name!r}."
        raise fail(DependenceError, _PRIMITIVE, func, [block], found)
    paths = [find_block(func, n.block.name, _PRIMITIVE) for n in consumers]
    common = [_common_loops(path[below:], p[below:]) for p in paths]
    shared = min(common, key=len)
    tile = _Tile(func, _PRIMITIVE, path, buffer, shared, paths)
    if not shared:
        found = (
            f"No loop holds {block.name!r} and all that read {buffer.name!r}; compute_at moves it "
            "under one."
        )
        raise tile.error(DependenceError, found, block)
    for p, loops in zip(paths, common, strict=True):
        if len(loops) != len(shared):
            found = f"The consumers of {buffer.name!r} share different loops with {block.name!r}."
            raise tile.error(DependenceError, found, realize_of(p).block)
    for p in (path, *paths):
        if any(isinstance(s, IfThenElse) for s in p[below:]):
            found = f"{realize_of(p).block.name!r} stands under a condition."
            raise tile.error(DependenceError, found, realize_of(p).block)
    order = [n.block for n in blocks_below(shared[-1])]
    for n in consumers:
        if _position(order, n.block) < _position(order, block):
            found = f"{n.block.name!r} reads {buffer.name!r} before {block.name!r} writes it."
            raise tile.error(DependenceError, found, n.block)
    return tile


def _common_loops(a: Path, b: Path) -> list[For]:
    found: list[For] = []
    for x, y in zip(a, b, strict=False):
        if x is not y:
            break
        if isinstance(x, For):
            found.append(x)
    return found


def _window(tile: _Tile) -> tuple[Box, Bounds]:
    """What the producer writes in one iteration of the shared loops: exactly this box."""
    inner = tile.inner(tile.path)
    bounds = loop_bounds([*tile.fixed, *inner])
    n = Nested(tile.realize, inner, [])
    box = written_box(tile.block.writes[0], n, inner, bounds)
    if not box.exact or not covers_domain(n, bounds):
        found = (
            f"It cannot be proved that {tile.block.name!r} writes a whole window of "
            f"{tile.buffer.name!r} in each iteration of {tile.shared[-1].var.name!r}."
        )
        raise tile.error(DependenceError, found, tile.block)
    return box, bounds


def _require_read_inside(tile: _Tile, box: Box) -> None:
    for path in tile.consumers:
        n = Nested(realize_of(path), tile.inner(path), [])
        known = loop_bounds([*tile.fixed, *n.loops, *tile.inner(tile.path)])
        for region in n.block.reads:
            if region.buffer is not tile.buffer:
                continue
            need = touched(region, n, n.loops, known)
            if not contains(box, need, known, tile.buffer.shape):
                found = (
                    f"It cannot be proved that {n.block.name!r} reads only what "
                    f"{tile.block.name!r} writes in the same iteration of "
                    f"{tile.shared[-1].var.name!r}."
                )
                raise tile.error(DependenceError, found, n.block)


def _rolling_dims(tile: _Tile, box: Box, bounds: Bounds) -> list[_Rolling]:
    """The dimensions that roll, by their loops, outermost first."""
    movers: dict[Var, list[int]] = {loop.var: [] for loop in tile.shared}
    for d, (start, extent) in enumerate(zip(box.starts, box.extents, strict=True)):
        used = {n for e in (bounds.simplify(start), extent) for n in walk(e) if isinstance(n, Var)}
        for loop in tile.shared:
            if loop.var in used:
                movers[loop.var].append(d)
    found: list[_Rolling] = []
    for loop in tile.shared:
        if len(movers[loop.var]) != 1 or bounds.proves_le(loop.extent, IntImm(1)):
            continue
        (d,) = movers[loop.var]
        later = tile.shared[tile.shared.index(loop) + 1 :]
        if any(d in movers[other.var] for other in later):
            continue
        start, extent = bounds.simplify(box.starts[d]), box.extents[d]
        step = bounds.linear(start).step(loop.var)
        region = tile.block.writes[0].region[d]
        if step is None or not isinstance(extent, IntImm) or not is_const(region.extent, 1):
            continue
        if 0 < step < extent.value:
            found.append(_Rolling(d, loop, start, extent.value, step))
    if not found:
        loops = ", ".join(repr(loop.var.name) for loop in tile.shared)
        error = (
            f"No dimension of {tile.buffer.name!r} has windows that overlap from one iteration to "
            f"the next of one of the loops {loops}: a window must move with one loop, by a "
            "constant step less than its length."
        )
        raise tile.error(DependenceError, error, tile.block)
    return found


def _require_in_order(tile: _Tile, outermost: For) -> None:
    """The iterations that hand elements to one another run one after the other."""
    for loop in tile.shared[tile.shared.index(outermost) :]:
        if loop.kind not in ("serial", "unrolled"):
            found = (
                f"The loop {loop.var.name!r} is {loop.kind}; its iterations take elements from "
                "one another and must run in order."
            )
            raise fail(LoopKindError, _PRIMITIVE, tile.func, [loop], found)


def _require_same_values(tile: _Tile, outermost: For) -> None:
    """What the producer reads has one value for each element while the rolling loops run: it is
    written outside of them, or by one block that stands before its reader and overwrites nothing
    from elsewhere. The same then holds for what that block reads."""
    order = [n.block for n in scope_blocks(tile.scope)]
    inside = {id(n.block) for n in blocks_below(outermost)}
    own = {id(b) for b in tile.scope.alloc_buffers}
    pending, seen = [tile.block], {id(tile.block)}
    while pending:
        reader = pending.pop()
        for region in reader.reads:
            if region.buffer is tile.buffer:
                continue
            writers = [n.block for n in writers_of(tile.scope, region.buffer)]
            for b in writers:
                if id(b) not in inside or b is reader:
                    continue
                whole = is_complete(b) or is_reduction(b)
                before = _position(order, b) < _position(order, reader)
                if len(writers) > 1 or not whole or not before or id(region.buffer) not in own:
                    found = (
                        f"{b.name!r} writes {region.buffer.name!r}, which {reader.name!r} reads, "
                        f"while {outermost.var.name!r} runs: elements of {tile.buffer.name!r} "
                        "that were computed earlier may have other values."
                    )
                    raise tile.error(DependenceError, found, b)
                if id(b) not in seen:
                    seen.add(id(b))
                    pending.append(b)


def _position(order: Sequence[Block], block: Block) -> int:
    return next(i for i, b in enumerate(order) if b is block)


def _guard(tile: _Tile, r: _Rolling, bounds: Bounds) -> Expr:
    """The first iteration of the loop, or an element that the one before did not have."""
    index = substitute(tile.block.writes[0].region[r.dim].min, binding_map(tile.realize))
    place = bounds.simplify(sub(index, r.start))
    inner = {loop.var for loop in tile.inner(tile.path)}
    if any(isinstance(n, Var) and n not in inner for n in walk(place)):
        found = (
            f"The place of an element of {tile.buffer.name!r} in its window, in dimension {r.dim}, "
            f"is not told by the loops of {tile.block.name!r} under {r.loop.var.name!r} alone."
        )
        raise tile.error(DependenceError, found, tile.block)
    first = r.loop.var < bounds.simplify(add(r.loop.min, 1))
    return logical_or(first, place >= r.length - r.step)


class _Circle(Mutator):
    """Every access of the old buffer, taken round the circle in one dimension."""

    def __init__(self, old: Buffer, new: Buffer, circular: _Rolling) -> None:
        self.old, self.new = old, new
        self.dim, self.length = circular.dim, IntImm(circular.length)

    def _indices(self, indices: Sequence[Expr]) -> tuple[Expr, ...]:
        around = list(indices)
        around[self.dim] = floormod(around[self.dim], self.length)
        return tuple(around)

    def visit_Buffer(self, n: Buffer) -> Buffer:  # noqa: N802
        return self.new if n is self.old else n

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        inner: BufferLoad = map_children(n, self.visit)
        if n.buffer is not self.old:
            return inner
        return BufferLoad(self.new, self._indices(inner.indices), inner.predicate)

    def visit_BufferStore(self, n: BufferStore) -> BufferStore:  # noqa: N802
        inner: BufferStore = map_children(n, self.visit)
        if n.buffer is not self.old:
            return inner
        return BufferStore(self.new, inner.value, self._indices(inner.indices), inner.predicate)

    def visit_BufferRegion(self, n: BufferRegion) -> BufferRegion:  # noqa: N802
        inside: BufferRegion = map_children(n, self.visit)  # its bounds may load from the buffer
        if n.buffer is not self.old:
            return inside
        region = list(inside.region)
        r = region[self.dim]
        if is_const(r.extent, 1):
            region[self.dim] = Range(floormod(r.min, self.length), r.extent)
        else:
            region[self.dim] = Range(IntImm(0), self.length)
        return BufferRegion(self.new, tuple(region))

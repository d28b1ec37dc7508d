"""Transposes: square tiles, read by rows into registers and written by columns.

    for i, j:  C[i, j] = f(A[j, i])   ->   for i0, j0:
                                             for j1 in unrolled: for i1 in vectorized:
                                               R[j1, i1] = A[j0 * 16 + j1, i0 * 16 + i1]
                                             for i1 in unrolled: for j1 in vectorized:
                                               C[i0 * 16 + i1, j0 * 16 + j1] = f(R[j1, i1])

Code generation turns the reads of columns into shuffles, so that memory is read and written in
whole vectors alone. Rows and columns that fill no tile are tiles of their own, smaller ones. Where
a row of a tile is less than a cache line (bytes), the tiles of a line of rows and a line of columns
follow each other, so that each line is read and written while it is near.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from ...support.abi import LINE_BYTES
from ...support.node import Node, walk
from ...support.target import Target
from ...tensorir.arith import expr_key
from ...tensorir.arith.linear import offset_of
from ...tensorir.expr import BufferLoad, Call, Expr, IntImm, Mul, Var, is_const
from ...tensorir.schedule import BlockRV, LoopRV, Schedule
from ...tensorir.stmt import Block
from ...tensorir.visitor import has_load, loads_in
from ..tiling.lanes import lanes_of
from ..tiling.sharing import points_of, share
from ..workload import block_named, last_axis, uses_intrinsic
from .rule import Decide, Decisions, choice

LARGEST_SIDE = 16
"""Rows of the largest tile: a vector register each."""
SMALLEST_SIDE = 2
"""A tile of one row or column is none."""
LARGEST_STEP = 2
"""From one element that is read to the next."""
TILED = range(SMALLEST_SIDE, LARGEST_SIDE + 1)
SHORT_AXIS = 128
"""Up to this many elements of an axis, tiles follow each other along the written rows."""


def fits_registers(block: Block, target: Target) -> bool:
    """Whether the block is a transpose of axes that fill a tile."""
    crossed = crossed_axis(block)
    if crossed is None or (_crossing_reads(block) is None and not _writes_across(block)):
        return False
    return min(_constants(block, crossed, lanes_of(target, block))) >= SMALLEST_SIDE


def _constants(block: Block, crossed: int, *others: int) -> list[int]:
    """The extents of the two axes, as far as they are known, and ``others``."""
    extents = [block.iter_vars[i].dom.extent for i in (crossed, last_axis(block))]
    return [*others, *[e.value for e in extents if isinstance(e, IntImm)]]


def _largest(block: Block, target: Target) -> int:
    return min(lanes_of(target, block), LARGEST_SIDE)


def _sides(block: Block, target: Target) -> tuple[int, ...]:
    largest = _largest(block, target)
    return tuple([n for n in (4, 8, 16) if n <= largest]) or (largest,)


def _is_short(block: Block) -> bool:
    crossed = crossed_axis(block)
    assert crossed is not None
    return min(_constants(block, crossed, SHORT_AXIS + 1)) <= SHORT_AXIS


@dataclass(frozen=True)
class TransposeDecisions(Decisions):
    """Of a block (roles): the ``side`` of a tile, and whether tiles follow each other
    ``along_rows``, those that are written, or along columns."""

    side: int = choice(lambda block, t, d: _sides(block, t), lambda block, t, d: _largest(block, t))
    along_rows: int = choice(lambda block, t, d: (0, 1), lambda block, t, d: _is_short(block))


def transpose_in_registers(sch: Schedule, block: Block, target: Target, decide: Decide) -> None:
    """Tiles of the last axis and of the one that loads run along, through registers."""
    crossed, reads = crossed_axis(block), _crossing_reads(block)
    assert crossed is not None
    decisions = decide(TransposeDecisions, block, block.name)
    side, along_rows = decisions.side, bool(decisions.along_rows)
    loops = sch.get_loops(block.name)
    last = last_axis(block)
    others = [loop for i, loop in enumerate(loops) if i not in (crossed, last)]
    order = (loops[crossed], loops[last]) if along_rows else (loops[last], loops[crossed])
    sch.reorder(*others, *order)
    itemsize = block.writes[0].buffer.dtype.itemsize
    line = max(side, LINE_BYTES // itemsize)
    if line > side and _has_lines(block, crossed, line):
        first = _by_lines(sch, block.name, side, line, reads, along_rows=along_rows)
    else:
        first = _by_tiles(sch, block.name, side, reads, along_rows=along_rows)
    share(sch, target, [*others, first], points_of(block))


def _has_lines(block: Block, crossed: int, line: int) -> bool:
    extents = [block.iter_vars[i].dom.extent for i in (crossed, last_axis(block))]
    return all(isinstance(e, IntImm) and e.value >= line for e in extents)


def _by_lines(
    sch: Schedule,
    name: str,
    side: int,
    line: int,
    reads: list[int] | None,
    *,
    along_rows: bool,
) -> LoopRV:
    """Squares of tiles with sides of a cache line, and tiles where there is none; the outermost
    loop."""
    first: list[LoopRV] = []
    for strip, size in _parts(sch, name, -2, line):
        if size != line:
            first.append(_by_tiles(sch, strip, side, reads, along_rows=along_rows))
            continue
        *_, outer, inner = sch.get_loops(strip)
        outer, within = sch.split(outer, [None, line])
        sch.reorder(outer, inner, within)
        first.append(outer)
        for part, other in _parts(sch, strip, -2, line):
            if other != line:
                _by_tiles(sch, part, side, reads, along_rows=not along_rows)
                continue
            *_, inner, within = sch.get_loops(part)
            a1, a2 = sch.split(within, [None, side])
            b0, b1, b2 = sch.split(inner, [None, line // side, side])
            order = (a1, b1, a2, b2) if along_rows else (b1, a1, b2, a2)
            sch.reorder(b0, *order)
            _through_registers(sch, part, reads, order[1])
    return first[0]


def _by_tiles(
    sch: Schedule,
    name: BlockRV | str,
    side: int,
    reads: list[int] | None,
    *,
    along_rows: bool,
) -> LoopRV:
    """Tiles along the inner of the two innermost loops, strip after strip; the outermost loop."""
    first: list[LoopRV] = []
    for strip, size in _parts(sch, name, -2, side):
        *_, outer, inner = sch.get_loops(strip)
        outer, within = sch.split(outer, [None, size])
        sch.reorder(outer, inner, within)
        first.append(outer)
        for part, other in _parts(sch, strip, -2, side):
            *_, inner, within = sch.get_loops(part)
            inner, beyond = sch.split(inner, [None, other])
            lines = (within, beyond) if along_rows else (beyond, within)
            sch.reorder(*lines)
            if size in TILED and other in TILED:
                _through_registers(sch, part, reads, inner)
            else:
                sch.vectorize(lines[1])
    return first[0]


def _parts(
    sch: Schedule, name: BlockRV | str, at: int, side: int
) -> list[tuple[BlockRV | str, int]]:
    """The block cut along loop ``at``, each part with what a tile takes of the loop: full tiles and
    what does not fill one. A rest of unknown size is cut into a tile of half the side, a quarter
    and so on, of which each is there or not."""
    loop = sch.get_loops(name)[at]
    extent = sch.get(loop).extent
    cuts: list[Expr]
    if not isinstance(extent, IntImm):
        sizes = [side]
        while sizes[-1] > 1:
            sizes.append(sizes[-1] // 2)
        cuts = [extent // side * side, *[extent % (2 * n) // n * n for n in sizes[1:]]]
    elif extent.value % side == 0 or extent.value < side:
        return [(name, min(side, extent.value))]
    else:
        sizes = [side, extent.value % side]
        cuts = [extent // side * side]
    parts = sch.loop_partition(loop, [*cuts[: len(sizes) - 1], None])
    names: list[BlockRV | str] = [sch.get_child_blocks(part)[0] for part in parts]
    return list(zip(names, sizes, strict=True))


def _through_registers(
    sch: Schedule, name: BlockRV | str, reads: list[int] | None, tiles: LoopRV
) -> None:
    """Read the tiles that the two innermost loops write by rows into registers. Where columns fill
    more of a vector than rows and the elements take long, or nothing says where the ``reads`` are
    but data (None), they are computed in the order of what is read, and the results go through
    registers instead."""
    *_, lines, lanes = sch.get_loops(name)
    block = block_named(sch.func, sch.get(name).name if isinstance(name, BlockRV) else name)
    high, wide = (sch.get(loop).extent for loop in (lines, lanes))
    is_high = isinstance(high, IntImm) and isinstance(wide, IntImm) and high.value > wide.value
    if reads is None or (is_high and uses_intrinsic(block) and _reads_only_across(block)):
        copy = sch.cache_write(name, 0, "register")
        sch.reverse_compute_at(copy, tiles)
        sch.reorder(lanes, lines)
        sch.unroll(lanes)
        sch.vectorize(lines)
        *_, lines, lanes = sch.get_loops(copy)
        sch.unroll(lines)
        sch.vectorize(lanes)
        return
    for read in reads:
        copy = sch.cache_read(name, read, "register", [name])
        sch.compute_at(copy, tiles)
        *rows, vector = sch.get_loops(copy)[len(sch.get_loops(name)) - 2 :]
        for row in rows:
            sch.unroll(row)
        sch.vectorize(vector)
    *_, lines, lanes = sch.get_loops(name)
    sch.unroll(lines)
    sch.vectorize(lanes)


def crossed_axis(block: Block) -> int | None:
    """The axis that some load's last dimension runs along while the block's last axis runs along
    another dimension of that load; None if there is no such load. Axes and dimensions of one
    element are none."""
    load = next(iter(_crossing_loads(block)), None)
    return None if load is None else _axis_along(block, load)


def _axis_along(block: Block, load: BufferLoad) -> int | None:
    sizes = zip(load.indices, load.buffer.shape, strict=True)
    many = [i for i, size in sizes if not is_const(size, 1)]
    along = _axis_of(many[-1] if many else load.indices[-1])
    return next((i for i, v in enumerate(block.iter_vars) if v.var is along), None)


def _axis_of(index: Expr) -> Expr:
    """What an index runs along, element by element or in small steps (``2 * i + 3``)."""
    index, _ = offset_of(index)
    if isinstance(index, Mul) and is_const(index.b, LARGEST_STEP):
        index = index.a
    return index


def _crossing_loads(block: Block) -> list[BufferLoad]:
    extents = [v.dom.extent for v in block.iter_vars]
    end = last_axis(block)
    last = block.iter_vars[end].var
    found = []
    for n in walk(block.body):
        if not isinstance(n, BufferLoad) or len(n.indices) < 2:
            continue
        along = _axis_along(block, n)
        if along is None or along == end:
            continue
        if all(_axis_of(i) is not last for i in n.indices):
            continue
        if not any(is_const(extents[i], 1) for i in (along, end)):
            found.append(n)
    return found


def _reads_only_across(block: Block) -> bool:
    """Whether nothing that depends on the axes is read along the one that is written along."""
    crossing = _crossing_loads(block)
    axes = {v.var for v in block.iter_vars}
    return all(
        n in crossing or not any(x in axes for i in n.indices for x in walk(i))
        for n in walk(block.body)
        if isinstance(n, BufferLoad)
    )


def _writes_across(block: Block) -> bool:
    """Whether a tile of results can be computed along what is read, where no tile of what is read
    can be named before: data say where it is, the same for a whole tile (``x[rows[i], k, j]``), or
    conditions do (``x[i, k, j] if i < 8 else y[i - 8, k, j]``). Nothing else runs along what is
    written."""
    crossing = _crossing_loads(block)
    along = {_axis_along(block, n) for n in crossing}
    if len(along) != 1:
        return False
    tile = {block.iter_vars[i].var for i in {last_axis(block), *along} if i is not None}
    return all(
        not any(v in tile for v in walk(n)) if n not in crossing else not _told_by_data(n, tile)
        for n in loads_in(block.body)
    )


def _told_by_data(load: BufferLoad, axes: Container[Node]) -> bool:
    """Whether data that depend on ``axes`` say where a load is."""
    found = [n for i in load.indices for n in loads_in(i)]
    return any(v in axes for n in found for v in walk(n))


def _crossing_reads(block: Block) -> list[int] | None:
    """The positions, among the block's reads, of the buffers that it reads across; None where one
    of them is read at several places, along different axes, or where data tell."""
    crossing = _crossing_loads(block)
    if any(has_load(i) for n in crossing for i in n.indices):
        return None
    buffers = {id(n.buffer) for n in crossing}
    axes = {_axis_along(block, n) for n in crossing}
    loads = [n for n in walk(block.body) if isinstance(n, BufferLoad) and id(n.buffer) in buffers]
    places = {(id(n.buffer), *[expr_key(i) for i in n.indices]) for n in loads}
    if len(axes) != 1 or len(places) != len(buffers):
        return None
    if any(_reads_beyond(block, n) for n in crossing):
        return None
    return [i for i, r in enumerate(block.reads) if id(r.buffer) in buffers]


def _reads_beyond(block: Block, load: BufferLoad) -> bool:
    """Whether a condition keeps a load inside (padding), so that a tile of it is no part of the
    buffer: an axis is longer than the dimension that it indexes, or moved."""
    is_guarded = any(isinstance(n, Call) and n.op == "if_then_else" for n in walk(block.body))
    if is_guarded and not all(isinstance(i, Var | IntImm) for i in load.indices):
        return True
    extents = {v.var: v.dom.extent for v in block.iter_vars}
    for index, size in zip(load.indices, load.buffer.shape, strict=True):
        extent = extents.get(index) if isinstance(index, Var) else None
        if isinstance(extent, IntImm) and isinstance(size, IntImm) and extent.value > size.value:
            return True
    return False

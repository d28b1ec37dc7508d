"""Elementwise, broadcast and injective functions: one loop nest, innermost axis in vectors.

    for i, j:  C[i, j] = f(A[i, j], B[j])       ->   for i, j0: for jl in vectorized(lanes): ...

Axes that every access runs through in memory order are fused into one first. Where
an operand is read along another axis than the result is written along, the nest is a transpose
(``transpose.py``); where that does not fit, both axes are cut into tiles, so that the lines of the
operand that a tile touches stay in the cache

    for i, j:  C[i, j] = A[j, i]    ->   for i0, j0: for i1: for jl in vectorized(lanes): ...

An axis of few elements that loads do not run along, or along which alone they run, is one with the
axis before it, so that lanes repeat what is loaded

    for i, j in (40, 2):  B[i, j] = A[i]    ->   for v0: for v in vectorized: B[v] = A[v // 2]

Where what is read goes on elsewhere (``seams.py``), each piece is a nest of its own. What does not
fill a vector is a part of its own, so that full vectors carry no mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ...support.abi import LINE_BYTES
from ...support.node import Node, walk
from ...support.target import Target
from ...tensorir.arith.linear import offset_of, same_extent
from ...tensorir.buffer import Buffer
from ...tensorir.expr import Add, BufferLoad, Call, Expr, FloorMod, IntImm, Select, Var, is_const
from ...tensorir.function import PrimFunc
from ...tensorir.lowering.place_prefetches import PREFETCH_REGION
from ...tensorir.lowering.vectorize_loops import keeps_constants
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block, BufferStore
from ...tensorir.visitor import has_load, loads_in
from ..tiling.inline import inline_elementwise
from ..tiling.lanes import has_masks, lanes_of, vectorize_loop, width_for
from ..tiling.seams import cut_at_seams, has_seams
from ..tiling.sharing import points_of, share
from ..tiling.streaming import vectors_of_line
from ..tiling.tiles import bytes_of
from ..workload import (
    block_named,
    blocks_in_order,
    is_reduction,
    is_spatial,
    last_axis,
    load_is_contiguous,
    uses_intrinsic,
)
from .rule import Decide, Decisions, NoDecisions, Rule, choice
from .transpose import crossed_axis, fits_registers, transpose_in_registers
from .trial import attempt

Way: TypeAlias = Callable[[Schedule, Block, Target, Decide], None]
LINE = 16
"""Vectors in a row of a tile of a transpose: the elements of a cache line, each line read once."""
MOST_REPEATED = 8
"""Elements of a last axis up to which it is part of a vector: as many vectors are written out."""
AHEAD_BYTES = 2048
"""Bytes of rows in any order that are asked for ahead of their turn: what the latency of memory
takes to be read."""
FEWEST_ROWS = 4
"""Rows that make up for a table of the places that each of them reads."""


@dataclass(frozen=True)
class Vectors:
    """A block whose elements are vectors, of a function as it stands."""

    func: PrimFunc
    block: Block

    def least(self, target: Target) -> int:
        """The fewest at a time that fill a line which goes past the caches."""
        return vectors_of_line(self.func, self.block, lanes_of(target, self.block), target)

    def counts(self, target: Target) -> tuple[int, ...]:
        """How many may be taken at a time."""
        least = self.least(target)
        # Narrow results of wide operands fill a line with more vectors than are chosen otherwise.
        return tuple([n for n in (1, 2, 4) if n >= least]) or (least,)

    def best(self, target: Target) -> int:
        """How many the model takes."""
        # Without constants in registers, lowering computes a function's vectors side by side.
        busy = 2 if keeps_constants(target.instructions) else 4
        return max(self.least(target), busy if uses_intrinsic(self.block) else 1)


@dataclass(frozen=True)
class VectorDecisions(Decisions):
    """The ``vectors`` of a block's last axis that are taken at a time."""

    vectors: int = choice(lambda v, t, d: v.counts(t), lambda v, t, d: v.best(t))


@dataclass(frozen=True)
class TileDecisions(Decisions):
    """A tile of ``lanes`` x ``rows`` of a block (roles) that reads across."""

    lanes: int = choice(
        lambda block, t, d: _parts_of(lanes_of(t, block)), lambda block, t, d: lanes_of(t, block)
    )
    rows: int = choice(lambda block, t, d: (4, 8, 16, 32), lambda block, t, d: LINE)


def _parts_of(lanes: int) -> tuple[int, ...]:
    return tuple([n for n in (lanes, lanes // 2, lanes // 4) if n])


class ElementwiseRule(Rule[tuple[Block, ...], NoDecisions]):
    name = "elementwise"
    kind = "blocks of spatial axes alone"
    decisions = NoDecisions

    def match(self, func: PrimFunc, target: Target) -> tuple[Block, ...] | None:
        blocks = blocks_in_order(func)
        if any(is_reduction(b) for b in blocks):
            return None
        return tuple([b for b in blocks if is_spatial(b)])

    def prepare(self, sch: Schedule, roles: tuple[Block, ...]) -> None:
        inline_elementwise(sch)

    def apply(
        self, sch: Schedule, roles: tuple[Block, ...], decisions: NoDecisions, decide: Decide
    ) -> None:
        for block in roles:
            schedule_block(sch, block, decide.target, decide)


def schedule_block(sch: Schedule, block: Block, target: Target, decide: Decide) -> bool:
    """Vectorise one block, in tiles, fused, or along its last axis: the first that fits."""
    if not block.iter_vars or not is_plain(sch, block):
        return False  # a scalar, or part of another rule's nest
    return any(attempt(sch, way, block, target, decide) for way in _ways(block, target))


def _ways(block: Block, target: Target) -> list[Way]:
    """What may fit a block, the most special first."""
    if crossed_axis(block) is not None:
        in_registers = [transpose_in_registers] if fits_registers(block, target) else []
        return [*in_registers, _vectorize_tiles, _vectorize_last]
    lanes = lanes_of(target, block)
    special: list[tuple[bool, Way]] = [
        (looks_up(block), _vectorize_lookups),
        (has_seams(block, lanes), _vectorize_pieces),
        (not runs_in_order(block) and _is_repeated(block, lanes), _vectorize_repeated),
    ]
    return [*[way for fits, way in special if fits], _vectorize_fused, _vectorize_last]


def is_plain(sch: Schedule, block: Block) -> bool:
    """Whether the block has one serial loop an axis: nobody scheduled it yet."""
    loops = sch.get_loops(block.name)
    return len(loops) == len(block.iter_vars) and all(
        sch.get(loop).kind == "serial" for loop in loops
    )


def _vectorize_fused(sch: Schedule, block: Block, target: Target, decide: Decide) -> None:
    loops = _fused(sch, block, block.name, target)
    parts = _vectorize(sch, block, loops[-1], target, decide)
    share(sch, target, [*loops[:-1], parts[0]], points_of(block))


def _fused(sch: Schedule, block: Block, name: str, target: Target) -> list[LoopRV]:
    """The loops around a block, or around a piece of it, with as many of the last as run through
    memory in order made one."""
    loops = sch.get_loops(name)
    extents = [v.dom.extent for v in block.iter_vars]
    whole = [same_extent(sch.get(x).extent, e) for x, e in zip(loops, extents, strict=True)]
    lanes = lanes_of(target, block)
    for axis in range(len(loops) - 1):
        if all(whole[axis + 1 :]) and runs_in_order(block, axis) and _asks_once(block, axis, lanes):
            return [*loops[:axis], sch.fuse(*loops[axis:])]
    return loops


def _asks_once(block: Block, axis: int, lanes: int) -> bool:
    """Whether no condition depends on the axes from ``axis`` on, but for the last, that are to be
    one, or vectors end where the last one does: else each lane of a vector would ask by itself
    (``if i < 4`` of rows that are concatenated)."""
    last = block.iter_vars[-1].dom.extent
    if not isinstance(last, IntImm) or last.value < 4 * lanes or last.value % (4 * lanes) == 0:
        return True
    outer = {v.var for v in block.iter_vars[axis:-1]}
    asked = [c for n in walk(block.body) for c in _conditions(n)]
    return not any(m in outer for c in asked for m in walk(c))


def _conditions(n: Node) -> tuple[Node, ...]:
    if isinstance(n, Select):
        return (n.condition,)
    return n.args[:1] if isinstance(n, Call) and n.op == "if_then_else" else ()


def _vectorize_last(sch: Schedule, block: Block, target: Target, decide: Decide) -> None:
    loops = sch.get_loops(block.name)
    parts = _vectorize(sch, block, loops[-1], target, decide)
    share(sch, target, [*loops[:-1], parts[0]], points_of(block))


def _looked_up_rows(block: Block, target: Target, width: int) -> int:
    """How many rows ahead is far enough where the block reads rows at places that data tell, from
    more memory than the second-level cache holds; else 0, also where a row is no loop over vectors
    of ``width`` elements."""
    axis = block.iter_vars[-1]
    length = axis.dom.extent
    if not isinstance(length, IntImm) or length.value < 2 * width or len(block.iter_vars) < 2:
        return 0
    for n in walk(block.body, (Buffer,)):
        if not isinstance(n, BufferLoad) or not load_is_contiguous(n, axis.var):
            continue
        looked_up = any(isinstance(m, BufferLoad) for i in n.indices[:-1] for m in walk(i))
        size = bytes_of(n)
        row = length.value * n.buffer.dtype.itemsize
        if looked_up and row > LINE_BYTES and (size is None or 0 < target.l2_bytes < size):
            return -(-AHEAD_BYTES // row)
    return 0


def _vectorize_repeated(sch: Schedule, block: Block, target: Target, decide: Decide) -> None:
    """The last two axes as one, in as many vectors as the last one has elements."""
    loops = sch.get_loops(block.name)
    inner = block.iter_vars[-1].dom.extent
    assert isinstance(inner, IntImm)
    fused = sch.fuse(*loops[-2:])
    lanes = lanes_of(target, block)
    # Under a mask, lanes that repeat an element are read one by one where no register holds it.
    masks = target.instructions.masks
    parts = vectorize_loop(sch, fused, lanes * inner.value, lanes, masks=masks)
    share(sch, target, [*loops[:-2], parts[0]], points_of(block))


def _is_repeated(block: Block, lanes: int) -> bool:
    """Whether the last two axes, the last one too short for vectors, are one in what is stored, and
    loads run along one of them at most, so that a vector of both is few elements of each load."""
    if len(block.iter_vars) < 2 or not isinstance(block.body, BufferStore):
        return False
    *_, before, last = block.iter_vars
    inner, outer = last.dom.extent, before.dom.extent
    if not isinstance(inner, IntImm) or not isinstance(outer, IntImm):
        return False
    if not 1 < inner.value <= min(MOST_REPEATED, lanes - 1) or inner.value * outer.value < lanes:
        return False
    indices = block.body.indices
    if [i for i in indices if not is_const(i, 0)][-2:] != [before.var, last.var]:
        return False
    loads = loads_in(block.body.value)
    return all(_runs_along_one(n, before.var, last.var) for n in loads)


def _runs_along_one(load: BufferLoad, before: Var, last: Var) -> bool:
    """Whether the load's last index is one of two axes, and the others are neither."""
    used = [[v for v in (before, last) if any(n is v for n in walk(i))] for i in load.indices]
    while used and is_const(load.indices[len(used) - 1], 0):
        used.pop()
    if not used or not any(used):
        return True
    return load.indices[len(used) - 1] in (before, last) and not any(used[:-1])


def _vectorize_pieces(sch: Schedule, block: Block, target: Target, decide: Decide) -> None:
    """The pieces between seams, each by itself."""
    for name in cut_at_seams(sch, block, lanes_of(target, block)):
        loops = _fused(sch, block, name, target)
        parts = _vectorize(sch, block, loops[-1], target, decide)
        if not any(sch.get(loop).kind == "parallel" for loop in loops[:-1]):
            share(sch, target, [*loops[:-1], parts[0]], points_of(block))


def _vectorize_lookups(sch: Schedule, block: Block, target: Target, decide: Decide) -> None:
    """The places along the last axis, which are the same in every row, once and in a table."""
    for table in sch.cache_index(block.name, "global"):
        _vectorize_last(sch, sch.get(table), target, decide)
    _vectorize_last(sch, block_named(sch.func, block.name), target, decide)


def looks_up(block: Block) -> bool:
    """Whether the last axis alone says where loads read, by data, in many rows."""
    last = block.iter_vars[-1].var
    loads = loads_in(block.body)
    computed = [i for n in loads for i in n.indices if not isinstance(i, Var | IntImm)]
    if not computed or not any(_is_long(v.dom.extent) for v in block.iter_vars[:-1]):
        return False
    return all(
        has_load(i) and {n for n in walk(i) if isinstance(n, Var)} == {last} for i in computed
    )


def _is_long(extent: Expr) -> bool:
    return not isinstance(extent, IntImm) or extent.value >= FEWEST_ROWS


def _vectorize(
    sch: Schedule, block: Block, loop: LoopRV, target: Target, decide: Decide
) -> list[LoopRV]:
    lanes = lanes_of(target, block)
    wanted = decide(VectorDecisions, Vectors(sch.func, block), block.name).vectors
    extent = sch.get(loop).extent
    width = max(width_for(extent, lanes, wanted), _period(block, lanes))
    parts = vectorize_loop(sch, loop, width, lanes, masks=has_masks(target, lanes))
    rows = _looked_up_rows(block, target, width)
    if rows and same_extent(extent, block.iter_vars[-1].dom.extent):
        sch.annotate(parts[0], PREFETCH_REGION, rows)
    return parts


def _period(block: Block, lanes: int) -> int:
    """The elements of the last axis after which vectors are alike, where it is taken in turn
    (``i % 3``): then each lane of a vector knows its turn. 0 where every vector is like the
    others, or too many are not."""
    if not block.iter_vars:
        return 0
    last = block.iter_vars[-1]
    turns = [
        n.b.value
        for n in walk(block.body)
        if isinstance(n, FloorMod) and n.a is last.var and isinstance(n.b, IntImm)
    ]
    period = math.lcm(lanes, *[n for n in turns if n > 0])
    extent = last.dom.extent
    fits = not isinstance(extent, IntImm) or period <= extent.value
    return period if fits and lanes < period <= MOST_REPEATED * lanes else 0


def _vectorize_tiles(sch: Schedule, block: Block, target: Target, decide: Decide) -> None:
    """Tiles of the last axis and of the one that a load runs along."""
    crossed = crossed_axis(block)
    assert crossed is not None
    loops = sch.get_loops(block.name)
    decisions = decide(TileDecisions, block, block.name)
    row0, row1 = sch.split(loops[crossed], [None, decisions.rows])
    last = last_axis(block)
    col0, col1 = sch.split(loops[last], [None, decisions.lanes])
    others = [loop for i, loop in enumerate(loops) if i not in (crossed, last)]
    sch.reorder(*others, row0, col0, row1, col1)
    sch.vectorize(col1)
    share(sch, target, [*others, row0], points_of(block))


def runs_in_order(block: Block, axis: int = 0) -> bool:
    """Whether the store and every load go through the block's axes from ``axis`` on in memory
    order: then these axes are one axis. A load may begin anywhere that the axes before tell, or be
    of one element for all of them. Inner extents are constants, so that this can be proved."""
    axes = [v.var for v in block.iter_vars]
    extents = [v.dom.extent for v in block.iter_vars]
    if not all(isinstance(e, IntImm) for e in extents[axis + 1 :]):
        return False
    accesses = [n for n in walk(block.body, (Buffer,)) if isinstance(n, BufferLoad | BufferStore)]
    inner = list(zip(axes, extents, strict=True))[axis + 1 :]
    return all(
        _is_fixed(n, axes[axis:]) or _runs_along(n, axes[axis], inner, axes[axis:])
        for n in accesses
    )


def _runs_along(
    access: BufferLoad | BufferStore,
    first: Var,
    inner: list[tuple[Var, Expr]],
    own: list[Var],
) -> bool:
    """Whether the last indices are ``first``, moved by what none of the ``own`` axes tells, and
    those of ``inner``, each through all of its dim."""
    place = len(access.indices) - len(inner) - 1
    if place < 0 or access.buffer.strides:
        return False
    dims = access.buffer.shape[place + 1 :]
    return (
        _is_moved(access.indices[place], first, own)
        and not any(v in own for i in access.indices[:place] for v in walk(i))
        and all(
            i is a and same_extent(s, e)
            for i, s, (a, e) in zip(access.indices[place + 1 :], dims, inner, strict=True)
        )
    )


def _is_fixed(access: BufferLoad | BufferStore, axes: list[Var]) -> bool:
    """Whether a load is of the same element wherever in ``axes``."""
    used = {v for i in access.indices for v in walk(i)}
    return isinstance(access, BufferLoad) and not used & set(axes)


def _is_moved(index: Expr, axis: Var, own: list[Var]) -> bool:
    """Whether an index is an axis, or a number away from it that no axis of its ``own`` tells."""
    if offset_of(index)[0] is axis:
        return True
    if not isinstance(index, Add):
        return False
    sides = (index.a, index.b)
    return any(
        _is_moved(one, axis, own) and not any(v in own for v in walk(other))
        for one, other in (sides, sides[::-1])
    )

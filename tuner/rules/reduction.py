"""Reductions, and the elementwise blocks around them, one row after another.

Where memory runs along the reduced axis, a row's sum is kept in the lanes of vectors, in registers,
and the lanes are then combined in a fixed tree

    for i, k:  S[i] += A[i, k]    ->    for i:
    for i, j:  B[i, j] = f(S[i])          for k0: for kl in vectorized: P[kl] += A[i, k]
                                          for kl: S[i] += P[kl]
                                          for j0: for jl in vectorized: B[i, j] = f(S[i])

and all blocks of a row stand under one loop, so that a row stays in the cache; what is computed
only to be summed next is summed in the same loop. Where memory runs
along a kept axis, each lane sums a column of its own (``columns.py``). Which partial sums there are
depends on shapes and decisions alone, never on threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from ...support.node import walk
from ...support.target import Target
from ...tensorir.arith.linear import same_extent
from ...tensorir.codegen.math import SPLITS_BLOCK
from ...tensorir.expr import BufferLoad, Call, Expr, IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.lowering.place_prefetches import PREFETCH
from ...tensorir.lowering.vectorize_loops import keeps_constants
from ...tensorir.schedule import LoopRV, Schedule
from ...tensorir.stmt import Block, BlockRealize, SeqStmt
from ..tiling.inline import inline_elementwise
from ..tiling.lanes import lanes_of, up_to_power, vectorize_loop, write_out
from ..tiling.long_sums import block_long_sum
from ..tiling.nests import (
    Nest,
    accesses,
    common_nests,
    in_memory_order,
    nest_of,
    spatial_axes,
)
from ..tiling.row_axes import SHORT, goes_in_steps, is_one_axis, turns_of
from ..tiling.sharing import points_of, share
from ..workload import (
    block_named,
    blocks_in_order,
    is_reduction,
    is_spatial,
    static_extent,
    uses_intrinsic,
)
from .columns import (
    ColumnDecisions,
    cut_columns,
    factor_long_columns,
    schedule_columns,
    vector_column,
    vectorize_rows,
)
from .elementwise import is_plain, schedule_block
from .rows_together import is_busy, next_rows_fit, rows_at_once, run_rows_together
from .rule import Decide, Decisions, NoDecisions, Rule, choice
from .transpose import fits_registers
from .trial import attempt

TOGETHER = "*"
"""The part whose decisions are about all blocks that have rows in common."""
PREFETCHED = 4
"""Vectors of a row from which the next row is fetched ahead."""
FINAL_LANES = 4
"""Lanes that are added one after another at the end."""


@dataclass(frozen=True)
class RowDecisions(Decisions):
    """Of the nests (roles) that run through rows: the ``vectors`` that are worked on at a time, and
    the ``rows``."""

    vectors: int = choice(
        lambda nests, t, d: (1, 2, 4), lambda nests, t, d: _best_vectors(nests, t)
    )
    rows: int = choice(lambda nests, t, d: (1, 2, 4), lambda nests, t, d: rows_at_once(nests, t))


def _best_vectors(nests: list[Nest], target: Target) -> int:
    together = rows_at_once(nests, target) > 1
    busy = any(uses_intrinsic(n.block) if together else is_busy(n) for n in nests)
    return 2 if busy and keeps_constants(target.instructions) else 4


class ReductionRule(Rule[tuple[Block, ...], NoDecisions]):
    name = "reduction"
    kind = "a reduction, of any kind"
    decisions = NoDecisions

    def match(self, func: PrimFunc, target: Target) -> tuple[Block, ...] | None:
        return tuple([b for b in blocks_in_order(func) if is_reduction(b)]) or None

    def prepare(self, sch: Schedule, roles: tuple[Block, ...]) -> None:
        inline_elementwise(sch)

    def apply(
        self, sch: Schedule, roles: tuple[Block, ...], decisions: NoDecisions, decide: Decide
    ) -> None:
        schedule_rest(sch, decide.target, decide)


def schedule_rest(sch: Schedule, target: Target, decide: Decide) -> None:
    """Schedule the blocks that nobody scheduled yet: all row by row where they have rows in common,
    else each by itself. A block that no rule fits stays as it is."""
    for column in factor_long_columns(sch):
        _schedule_alone(sch, block_named(sch.func, column), target, decide)
    blocks = [b for b in blocks_in_order(sch.func) if b.iter_vars and is_plain(sch, b)]
    groups = _between_transposes(blocks, target)
    for group in groups:
        part = TOGETHER if len(groups) == 1 else f"{TOGETHER}{group[0].name}"
        nests = common_nests(group)
        if nests is not None and attempt(sch, schedule_nests, nests, target, decide, part):
            continue
        for block in group:
            if is_spatial(block):
                schedule_block(sch, block, target, decide)
            else:
                _schedule_alone(sch, block, target, decide)


def _between_transposes(blocks: list[Block], target: Target) -> list[list[Block]]:
    """The blocks in groups, in order: each that reads across what it writes is by itself, for rows
    of what it reads are columns of what it writes."""
    groups: list[list[Block]] = [[]]
    for block in blocks:
        if is_spatial(block) and fits_registers(block, target):
            groups += [[block], []]
        else:
            groups[-1].append(block)
    return [group for group in groups if group]


def _schedule_alone(sch: Schedule, block: Block, target: Target, decide: Decide) -> None:
    nests = [nest_of(block, spatial_axes(block))]
    if not attempt(sch, schedule_nests, nests, target, decide, block.name) and is_plain(sch, block):
        loops = sch.get_loops(block.name)
        block_long_sum(sch, block.name, [loops[i] for i in nests[0].rest])


def schedule_nests(
    sch: Schedule, nests: list[Nest], target: Target, decide: Decide, part: str
) -> None:
    """Vectorise the nests along rows or columns and run them under the same loops; their decisions
    have the name ``part``."""
    if sum([bool(n.rest) for n in nests]) == 1:
        nests = [in_memory_order(n) if is_reduction(n.block) else n for n in nests]
    own = {n.block.name for n in nests}
    others = set(first_blocks(sch.func)) - own
    kept = nests[0].kept
    column = vector_column(nests)
    if column is None and _is_short_and_busy(nests, target):
        column = len(kept) - 1
    cut, rows = None, 1
    if column is None:
        decisions = decide(RowDecisions, nests, part)
        _rows(sch, nests, target, decisions.vectors)
        rows = decisions.rows
    else:
        cut = schedule_columns(sch, nests, column, target, decide(ColumnDecisions, nests, part))
    outer = merge_statements(sch, [b for b in first_blocks(sch.func) if b not in others], len(kept))
    if cut is not None and column is not None:
        extent = nests[0].block.iter_vars[kept[column]].dom.extent
        outer = cut_columns(sch, outer, extent, cut.size)
    elif column is None and outer:
        _several_rows(sch, outer, rows)
    share(sch, target, outer, max([points_of(n.block) for n in nests]))
    if cut is not None:
        vectorize_rows(sch, cut)


def _is_short_and_busy(nests: list[Nest], target: Target) -> bool:
    """Whether the terms of a sum take an elementary function each and do not fill a vector, which
    the rows do: each lane is to sum a row of its own. LLVM finds vectors in very few terms, but
    not where functions branch."""
    long = [n for n in nests if n.rest]
    if len(long) != 1 or not long[0].kept or not is_busy(long[0]):
        return False
    block = long[0].block
    calls = {n.op for n in walk(block.body) if isinstance(n, Call)}
    terms = math.prod([static_extent(block, i) or 0 for i in long[0].rest])
    fewest = 2 if calls & SPLITS_BLOCK else SHORT
    lanes = lanes_of(target, block)
    return fewest <= terms < lanes <= (static_extent(block, long[0].kept[-1]) or 0)


def _several_rows(sch: Schedule, outer: list[LoopRV], count: int) -> None:
    """Run several rows at a time where that fits; ``outer`` has the loop over these then."""

    def several_rows_at_once(trial: Schedule) -> None:
        outer[-1] = run_rows_together(trial, outer[-1], count)

    if count > 1:
        attempt(sch, several_rows_at_once)


# -- rows ------------------------------------------------------------------------------------------
def _rows(sch: Schedule, nests: list[Nest], target: Target, wanted: int) -> None:
    """Vectorise what runs within a row, ``wanted`` vectors at a time. Axes of one extent are cut at
    one place in all nests, so that each part of a row reads what the same part of another nest
    wrote."""
    inner = [(n, _gather_loops(sch, n, wanted, target)) for n in nests]
    done = _reduce_as_made(sch, inner, target, wanted)
    again = _read_again(nests) if not done and next_rows_fit(nests, target) else set()
    for nest, loop in inner:
        if loop is None or nest.block.name in done:
            continue
        lanes = lanes_of(target, nest.block)
        extent = sch.get(loop).extent
        if not isinstance(extent, IntImm):
            if is_spatial(nest.block):
                _vectorize_guarded(sch, loop, lanes)
            elif not attempt(sch, _vectorize_symbolic_terms, nest, lanes * wanted, lanes):
                first = len(nest.kept) + len(nest.units)
                name = nest.block.name
                block_long_sum(sch, name, sch.get_loops(name)[first:])
        elif extent.value < SHORT:
            if is_reduction(nest.block):
                sch.unroll(loop)
            else:
                _vectorize_guarded(sch, loop, min(lanes, up_to_power(extent.value)))
        else:
            width = min(lanes * wanted, up_to_power(extent.value + 1) // 2)
            if (turns := turns_of(nest, target)) > 1:
                width = math.lcm(lanes, turns)
            if is_reduction(nest.block):
                size = (len(nest.kept), extent.value, width, lanes)
                vectorize_terms(sch, nest.block.name, *size, fetch=nest.block.name in again)
            else:
                vectorize_loop(sch, loop, width, min(lanes, width))


def _vectorize_symbolic_terms(sch: Schedule, nest: Nest, width: int, lanes: int) -> None:
    """Keep ``width`` partial results of a row of unknown length, whose last terms are masked."""
    vectorize_terms(sch, nest.block.name, len(nest.kept), None, width, lanes)


def _read_again(nests: list[Nest]) -> set[str]:
    """The reductions of rows that an earlier nest has brought into the cache: memory has time for
    the next row then."""
    found: set[str] = set()
    read: set[int] = set()
    for nest in nests:
        rows = {id(a.buffer) for a in accesses(nest.block) if isinstance(a, BufferLoad)}
        rows -= {id(w.buffer) for w in nest.block.writes}
        if is_reduction(nest.block) and nest.rest:
            if rows & read:
                found.add(nest.block.name)
            read |= rows
    return found


def _reduce_as_made(
    sch: Schedule, inner: list[tuple[Nest, LoopRV | None]], target: Target, wanted: int
) -> set[str]:
    """Schedule what computes the terms of the reduction after it together with that; the blocks
    for which this was possible."""
    done: set[str] = set()
    for (maker, made), (nest, loop) in pairwise(inner):
        if made is None or loop is None or not _makes_terms(maker, nest):
            continue
        extent = sch.get(loop).extent
        if not same_extent(sch.get(made).extent, extent) or not isinstance(extent, IntImm):
            continue
        lanes = min(lanes_of(target, maker.block), lanes_of(target, nest.block))
        width, sums = lanes * wanted, lanes * wanted
        if uses_intrinsic(maker.block) and not keeps_constants(target.instructions):
            # An elementary function takes longer than a few additions one after another, and needs
            # the registers of their sums. Fused, it has half the steps to wait for, and fewer
            # vectors suffice; they leave a register to the sum.
            width, sums = width // 2 if target.instructions.fma else width, lanes
        size = (extent.value, max(width, lanes), lanes, sums)
        if extent.value >= SHORT and attempt(sch, _make_and_reduce, maker, nest, *size):
            done |= {maker.block.name, nest.block.name}
    return done


def _makes_terms(maker: Nest, nest: Nest) -> bool:
    """Whether a block computes what the reduction after it runs over."""
    made = {id(w.buffer) for w in maker.block.writes}
    return (
        is_spatial(maker.block)
        and is_reduction(nest.block)
        and any(id(r.buffer) in made for r in nest.block.reads)
    )


def _make_and_reduce(
    sch: Schedule, maker: Nest, nest: Nest, extent: int, width: int, lanes: int, sums: int
) -> None:
    """Reduce the terms of a row as they are computed: one loop over the row's vectors for both,
    which has the time to fetch the next row. ``sums`` partial results are kept."""
    width = min(width, up_to_power(extent + 1) // 2)
    sums = min(sums, width)
    name, rows = nest.block.name, len(nest.kept)
    several = [width // sums] if sums < width else []
    *_, inner = sch.split(sch.get_loops(name)[-1], [None, *several, sums])
    partial = sch.rfactor(inner, -1)
    sch.set_scope(partial, 0, "register")
    vectors, _ = sch.split(sch.get_loops(maker.block.name)[-1], [None, width])
    if several:
        sch.unroll(sch.get_loops(partial)[-2])
    together = sch.merge(vectors, sch.get_loops(partial)[-2 - len(several)])
    parts = [together]
    if extent % width:
        parts = sch.loop_partition(together, [extent // width, None])
    if extent >= PREFETCHED * width:
        sch.annotate(parts[0], PREFETCH, -(-extent // width))
    children = [sch.get_child_blocks(part) for part in parts]
    for child in (block for both in children for block in both):
        sch.vectorize(sch.get_loops(child)[-1])
    combine_lanes(sch, name, sums, min(lanes, sums))
    first = children[0][1]
    block_long_sum(sch, first.name, sch.get_loops(first)[rows:-1])
    sch.decompose_reduction(first, sch.get_loops(first)[rows])


def _vectorize_guarded(sch: Schedule, loop: LoopRV, width: int) -> None:
    """All of a loop in vectors, the last of them masked."""
    if width > 1:
        _, vector = sch.split(loop, [None, width])
        sch.vectorize(vector)


def _apart(extents: list[Expr], width: int) -> int:
    """How many axes of a row are not made one with the others: one of symbolic extent, so that
    those after it are vectors, and all but two where those do not fill the last row of ``width``
    elements, because such parts of three axes are no map that ``rfactor`` sees through."""
    sizes = [e.value for e in extents if isinstance(e, IntImm)]
    symbolic = len(extents) - len(sizes)
    return symbolic if math.prod(sizes) % width == 0 else max(symbolic, len(extents) - 2)


def _gather_loops(sch: Schedule, nest: Nest, wanted: int, target: Target) -> LoopRV | None:
    """Order a nest's loops (kept, of one iteration, the rest), fuse the rest where memory runs
    through it in order; the innermost loop of the rest, which is to have ``wanted`` vectors of
    partial sums."""
    loops = sch.get_loops(nest.block.name)
    order = [*nest.kept, *nest.units, *nest.rest]
    if order != sorted(order):
        sch.reorder(*[loops[i] for i in order])
    if not nest.rest:
        return None
    rest = [loops[i] for i in nest.rest]
    if len(rest) > 1 and (is_one_axis(nest) or goes_in_steps(nest)):
        if is_reduction(nest.block):
            width = wanted * lanes_of(target, nest.block)
            rest = rest[_apart([sch.get(loop).extent for loop in rest], width) :]
        return sch.fuse(*rest) if len(rest) > 1 else rest[0]
    if turns_of(nest, target) > 1:
        return sch.fuse(*rest[-2:])
    return rest[-1]


def vectorize_terms(
    sch: Schedule,
    name: str,
    rows: int,
    extent: int | None,
    width: int,
    lanes: int,
    *,
    fetch: bool = False,
) -> None:
    """Keep ``width`` partial results of a reduction over its innermost loop, of ``extent`` terms
    (None: symbolic), in the lanes of vectors; ``rows`` loops stand around a row. ``fetch`` asks for
    the next row meanwhile."""
    _, inner = sch.split(sch.get_loops(name)[-1], [None, width])
    partial = sch.rfactor(inner, -1)
    sch.set_scope(partial, 0, "register")
    count, remainder = (0, 0) if extent is None else divmod(extent, width)
    parts = _part_of_full_vectors(sch, partial.name, rows, count, remainder)
    if fetch and extent is not None and count >= PREFETCHED:
        sch.annotate(parts[0], PREFETCH, -(-extent // width))
    children = [sch.get_child_blocks(part)[0] for part in parts]
    for child in children:
        sch.vectorize(sch.get_loops(child)[-1])
    combine_lanes(sch, name, width, min(lanes, width))
    for child in children:
        block_long_sum(sch, child.name, sch.get_loops(child)[rows:-1])
    sch.decompose_reduction(children[0], sch.get_loops(children[0])[rows])


def _part_of_full_vectors(
    sch: Schedule, name: str, rows: int, count: int, remainder: int
) -> list[LoopRV]:
    """The loops over a row's vectors: ``count`` full ones, and the one that is not, if there is a
    remainder. Of a row of several axes the two parts are nests one after the other, so that the
    sums can begin before both."""
    *others, outer, _ = sch.get_loops(name)[rows:]
    if not remainder:
        return [outer]
    if others:
        sch.reorder(outer, *others)
    parts = sch.loop_partition(outer, [count, None])
    for part in parts if others else ():
        inside = sch.get_loops(sch.get_child_blocks(part)[0])[rows:-1]
        sch.reorder(*inside[1:], part)
    return parts


def combine_lanes(sch: Schedule, block: str, width: int, lanes: int) -> None:
    """Combine ``width`` partial results, the block's innermost axis: whole vectors first, then
    quarters of one, then the rest in order."""
    for narrow in (lanes, FINAL_LANES):
        if width <= narrow:
            continue
        _, inner = sch.split(sch.get_loops(block)[-1], [None, narrow])
        partial = sch.rfactor(inner, -1)
        sch.set_scope(partial, 0, "register")
        *_, outer, inner = sch.get_loops(partial)
        write_out(sch, [outer], inner)
        width = narrow
    sch.unroll(sch.get_loops(block)[-1])


# -- one nest --------------------------------------------------------------------------------------
def merge_statements(sch: Schedule, blocks: list[str], depth: int) -> list[LoopRV]:
    """Put the statements that begin with these blocks under one nest of their first ``depth``
    loops; these loops."""
    if not depth:
        return []
    if len(blocks) > 1:
        sch.merge(*[sch.get_loops(name)[depth - 1] for name in blocks])
    return sch.get_loops(blocks[0])[:depth]


def first_blocks(func: PrimFunc) -> list[str]:
    """The first block of each statement of a function."""
    body = func.root.body
    statements = body.stmts if isinstance(body, SeqStmt) else (body,)
    realizes = [next(n for n in walk(s) if isinstance(n, BlockRealize)) for s in statements]
    return [r.block.name for r in realizes]

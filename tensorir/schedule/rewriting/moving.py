"""Moving a block under a loop: what compute_at and reverse_compute_at have in common.

A moved block loses its own loops and gets new ones, ``ax0, ax1, ...``, over what is needed there::

    for i: for j: B[i, j]                     for i_0:
    for i_0, i_1, j: C reads B[i, j]   ->       for ax0, ax1: B[i_0 * 8 + ax0, ax1]
                                                for i_1, j: C reads B[i_0 * 8 + i_1, j]

The needed box comes from ``region_cover``; it may be larger than needed for compute_at (a producer
may do more), and must be exact for reverse_compute_at (a consumer may run only where all is
written). Buffers keep their full shape; lowering compacts them to what lives under the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....support.errors import DependenceError, NotAncestorError, ScheduleValueError
from ....support.node import replace, walk
from ...analysis.affine import Bounds, loop_bounds, overlapping, sweep
from ...analysis.block_site import BlockSite
from ...analysis.circular_buffers import require_no_circle
from ...analysis.conditions import conjunction, conjuncts
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.nested_blocks import Nested, blocks_below, scope_blocks
from ...analysis.paths import (
    Path,
    all_loops_above,
    find_block,
    find_inner_block,
    find_loop,
    find_stmt,
    loop_of,
    rebuild,
    scope_path,
    with_body,
)
from ...analysis.preconditions import fail, require_own_axes
from ...analysis.region_cover import (
    Box,
    Whole,
    contains,
    covers_domain,
    in_conflict,
    iterations_clash,
    says_domain,
    whole_boxes,
)
from ...arith import IterSplit
from ...buffer import Range
from ...expr import Expr, IntImm, Var, add, is_const
from ...function import PrimFunc
from ...stmt import Block, BlockRealize, For, IfThenElse, LetStmt, Stmt, seq
from ...visitor import substitute
from ..arguments import require_int
from .insertion import children_of
from .nests import nest_of


@dataclass(slots=True)
class Move(BlockSite):
    """A block, its scope, and the loop it is to move under."""

    loop_path: Path

    @property
    def loop(self) -> For:
        return loop_of(self.loop_path)

    @property
    def outer(self) -> list[For]:
        """The loops that stay fixed: the target and those above it."""
        return [*all_loops_above(self.loop_path), self.loop]


def plan_move(func: PrimFunc, block_name: str, loop_var: Var, primitive: str) -> Move:
    block_path = find_inner_block(func, block_name, primitive)
    loop_path = find_loop(func, loop_var, primitive)
    move = Move(func, primitive, block_path, loop_path)
    require_no_circle(func, move.block, primitive)
    if any(s is move.loop for s in block_path):
        found = f"The loop {loop_var.name!r} stands around {block_name!r} already."
        raise fail(NotAncestorError, primitive, func, [move.loop], found)
    if scope_path(loop_path)[-1] is not move.scope:
        found = (
            f"The loop {loop_var.name!r} and the block {block_name!r} are not in the same block."
        )
        raise fail(NotAncestorError, primitive, func, [move.loop], found)
    _require_unconditional(move)
    _require_own_elements(move)
    require_own_axes(func, move.block, primitive)
    require_scope_declared(func, move.scope, move.block, primitive)
    return move


def _require_unconditional(move: Move) -> None:
    """No branch or let stands around the block that does not stand around the loop too: at its new
    place its condition would be lost, and its variable unknown."""
    for s in move.path[len(scope_path(move.path)) :]:
        if isinstance(s, (IfThenElse, LetStmt)) and all(s is not other for other in move.loop_path):
            what = "under a condition" if isinstance(s, IfThenElse) else "in the scope of a let"
            found = f"{move.block.name!r} stands {what} that the loop does not stand in."
            raise move.error(DependenceError, found, move.block)


def _require_own_elements(move: Move) -> None:
    """Iterations of a loop around both places do not overwrite one another's elements: the axis
    that runs over that loop says nothing of what is needed, and would run over all its domain."""
    target = {loop.var for loop in move.outer}
    shared = [loop for loop in all_loops_above(move.path) if loop.var in target]
    for loop in shared:
        if iterations_clash(move.realize, loop.var):
            found = (
                f"{move.block.name!r} writes the same elements in several iterations of "
                f"{loop.var.name!r}, which stands around both places: it would run for all of them "
                "in each."
            )
            raise move.error(DependenceError, found, move.block)


def related_below(
    move: Move, related: Sequence[Nested], below: Sequence[Nested], what: str
) -> list[Nested]:
    """The consumers or producers, all of them below the loop; those that provably touch other
    elements do not count."""
    ours = {id(n.block): n for n in below}
    elsewhere = any(id(n.block) not in ours for n in related)
    own = whole_boxes(move.path) if elsewhere else []
    kept: list[Nested] = []
    for n in related:
        if id(n.block) in ours:
            kept.append(ours[id(n.block)])
        elif conflicts(move, n, own):
            found = (
                f"The {what} {n.block.name!r} of {move.block.name!r} is not under the loop "
                f"{move.loop.var.name!r}."
            )
            raise move.error(DependenceError, found, n.block)
    if not kept:
        found = f"{move.block.name!r} has no {what} under the loop {move.loop.var.name!r}."
        raise move.error(DependenceError, found, move.block)
    return kept


def require_order(move: Move, below: Sequence[Nested], related: str, side: str) -> None:
    """The block stands before its consumers, or after its producers. Otherwise what it has to do
    with them passes through an outer loop, from one iteration to the next."""
    order = [n.block for n in scope_blocks(move.scope)]
    is_before = order.index(move.block) < order.index(below[0].block)
    if is_before is not (side == "before"):
        found = (
            f"{move.block.name!r} does not stand {side} its {related} under "
            f"{move.loop.var.name!r}: they meet across iterations of an outer loop."
        )
        raise move.error(DependenceError, found, move.block)


def conflicts(move: Move, n: Nested, own: Sequence[Whole]) -> bool:
    return in_conflict(own, whole_boxes(find_block(move.func, n.block.name, move.primitive)))


@dataclass(slots=True)
class Ownership:
    """What a block runs over at its old place: the range of each axis, and what its predicate says
    beyond the axes' domains, over the axes."""

    ranges: dict[Var, tuple[Expr, Expr]]
    conditions: list[Expr]


def ownership(move: Move) -> Ownership:
    """What the block must not leave at its new place.

    For a block that alone writes an intermediate the ranges are the axes' whole domains: it may
    compute more than it did. One that shares its buffer with other writers (a part of a partitioned
    loop, the padding of another), or writes a parameter, may not: it would overwrite their
    elements.
    """
    return Ownership(_own_ranges(move), _own_conditions(move))


def _own_conditions(move: Move) -> list[Expr]:
    bounds = loop_bounds([*move.outer, *all_loops_above(move.path)])
    fixed = {loop.var for loop in move.outer}
    axes: dict[Var, Expr] = {
        value: it.var
        for it, value in zip(move.block.iter_vars, move.realize.iter_values, strict=True)
        if isinstance(value, Var)
    }
    kept: list[Expr] = []
    for c in conjuncts(move.realize.predicate):
        if says_domain(c, move.realize, bounds):
            continue
        used = {n for n in walk(c) if isinstance(n, Var) and n in bounds and n not in fixed}
        if not used <= axes.keys():
            found = (
                f"The predicate of {move.block.name!r} cannot be said of its axes alone, so that "
                "it would not hold at another place. Move the block before splitting its loops."
            )
            raise move.error(DependenceError, found, move.realize)
        kept.append(substitute(c, axes))
    return kept


def _own_ranges(move: Move) -> dict[Var, tuple[Expr, Expr]]:
    block = move.block
    old_loops = all_loops_above(move.path)
    fixed = {loop.var for loop in move.outer}
    moving = loop_bounds([loop for loop in old_loops if loop.var not in fixed])
    bounds = loop_bounds([*move.outer, *old_loops])
    alone = _is_only_writer(move)
    own: dict[Var, tuple[Expr, Expr]] = {}
    exact = alone or covers_domain(Nested(move.realize, old_loops, []), bounds)
    digits: list[IterSplit] = []
    for it, value in zip(block.iter_vars, move.realize.iter_values, strict=True):
        whole = (it.dom.min, it.dom.extent)
        own[it.var] = whole
        s = sweep(value, moving, bounds)
        if s is not None:
            digits.extend(s.digits)
            domain = Box([whole[0]], [whole[1]], True)
            if s.exact and contains(Box([s.start], [s.extent], True), domain, bounds):
                continue
        if alone and it.kind != "reduce":
            continue
        if s is None or not s.exact:
            exact = False
        else:
            own[it.var] = (s.start, s.extent)
    if not exact or (not alone and overlapping(digits, bounds)):
        found = (
            f"{block.name!r} does not run over whole ranges of its axes, and what it leaves out is "
            "written by other blocks or by the caller; it cannot be moved."
        )
        raise move.error(DependenceError, found, block)
    return own


def _is_only_writer(move: Move) -> bool:
    written = {id(w.buffer) for w in move.block.writes}
    if not written <= {id(b) for b in move.scope.alloc_buffers}:
        return False  # a parameter, or a buffer that blocks outside of the scope may write, too
    return not any(
        n.block is not move.block and any(id(w.buffer) in written for w in n.block.writes)
        for n in scope_blocks(move.scope)
    )


def new_nest(
    realize: BlockRealize,
    domain: dict[Var, tuple[Expr, Expr]],
    own: Ownership,
    bounds: Bounds,
    *,
    preserve_unit_loops: bool,
) -> Stmt:
    """Loops ``ax0, ax1, ...`` over the ranges of a block's axes, and the block; predicates where
    a range may leave the one that an axis has of its own."""
    block = realize.block
    values: list[Expr] = []
    loops: list[tuple[Var, Expr]] = []
    conditions: list[Expr] = []
    known = bounds
    for it in block.iter_vars:
        own_start, own_extent = own.ranges[it.var]
        start, extent = domain.get(it.var, (own_start, own_extent))
        end, own_end = add(start, extent), bounds.simplify(add(own_start, own_extent))
        whole = Box([own_start], [own_extent], True)
        constant = isinstance(own_extent, IntImm) or not isinstance(extent, IntImm)
        if it.var in domain and constant and contains(Box([start], [extent], True), whole, bounds):
            start, extent, end = own_start, own_extent, own_end
        value = start
        if not is_const(extent, 1) or preserve_unit_loops:
            var = Var(f"ax{len(loops)}")
            loops.append((var, extent))
            known = known | Bounds({var: Range(IntImm(0), extent)})
            value = known.simplify(add(start, var))
        limits = [(it.dom.min, bounds.simplify(add(it.dom.min, it.dom.extent)))]
        if it.var in domain and own_extent is not it.dom.extent:
            limits.append((own_start, own_end))
        for least, most in limits:
            if not bounds.proves_le(least, start):
                conditions.append(value >= least)
            if not bounds.proves_le(end, most):
                conditions.append(value < most)
        values.append(value)
    at = {it.var: value for it, value in zip(block.iter_vars, values, strict=True)}
    conditions += [c for c in (substitute(c, at) for c in own.conditions) if not known.proves(c)]
    return nest_of(loops, BlockRealize(tuple(values), conjunction(conditions), block))


def position_of(loop: For, blocks: Sequence[Block], pick: object) -> int:
    wanted = {id(b) for b in blocks}
    places = [
        i
        for i, child in enumerate(children_of(loop))
        if any(id(n.block) in wanted for n in blocks_below(child))
    ]
    return min(places) if pick is min else max(places)


def place_nest(move: Move, nest: Stmt, lowest: int, highest: int, index: int) -> PrimFunc:
    """Remove the block from its old place and put the new nest below the loop."""
    if lowest > highest:
        found = (
            f"There is no place under {move.loop.var.name!r} that is after the producers and "
            f"before the consumers of {move.block.name!r}."
        )
        raise move.error(DependenceError, found, move.loop)
    index = require_int(index, "the index", move.primitive)
    at = highest if index == -1 else lowest if index == -2 else index
    if not lowest <= at <= highest:
        found = f"index must be -1, -2 or from {lowest} to {highest}; found {index}."
        raise fail(ScheduleValueError, move.primitive, move.func, [move.loop], found)
    children = list(children_of(move.loop))
    children.insert(at, nest)
    placed = with_body(move.func, rebuild(move.loop_path, replace(move.loop, body=seq(*children))))
    return with_body(placed, rebuild(find_stmt(placed, move.realize), None))

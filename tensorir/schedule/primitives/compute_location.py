"""compute_at and reverse_compute_at: moving a block under a loop of its consumers or producers.

A moved block loses its own loops and gets new ones, ``ax0, ax1, ...``, over what is needed there::

    for i: for j: B[i, j]                     for i_0:
    for i_0, i_1, j: C reads B[i, j]   ->       for ax0, ax1: B[i_0 * 8 + ax0, ax1]
                                                for i_1, j: C reads B[i_0 * 8 + i_1, j]

The needed box comes from ``region_cover``; it may be larger than needed for compute_at (a producer
may do more), and must be exact for reverse_compute_at (a consumer may run only where all is
written). Buffers keep their full shape; lowering compacts them to what lives under the loop.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass

from ....support.errors import (
    DependenceError,
    NotAncestorError,
    ScheduleValueError,
)
from ....support.node import replace, walk
from ...analysis.affine import Bounds, Digit, loop_bounds, overlapping, steps_without_gap, sweep
from ...analysis.certain_writes import written_box
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.paths import (
    TRUE,
    Nested,
    Path,
    all_loops_above,
    axis_bindings,
    binds,
    blocks_below,
    conjunction,
    conjuncts,
    consumers_of,
    fail,
    find_block,
    find_inner_block,
    find_loop,
    find_stmt,
    is_complete,
    is_output_block,
    is_reduction,
    loop_of,
    loops_above,
    producers_of,
    realize_of,
    rebuild,
    require_complete,
    require_own_axes,
    scope_blocks,
    scope_path,
    with_body,
)
from ...analysis.region_cover import (
    Box,
    Whole,
    axis_of_index,
    contains,
    covers_domain,
    in_conflict,
    says_domain,
    touched,
    union,
    whole_boxes,
)
from ...arith import expr_key
from ...buffer import Buffer, Range
from ...expr import BufferLoad, Expr, IntImm, Var, add, is_const, sub
from ...function import PrimFunc
from ...stmt import Block, BlockRealize, For, IfThenElse, LetStmt, SeqStmt, Stmt, seq
from ...visitor import substitute
from ..arguments import require_int
from ..by_hand.rolling_buffer import require_no_circle
from .merge import overwrites


@dataclass(slots=True)
class Move:
    """A block, its scope, and the loop it is to move under."""

    func: PrimFunc
    primitive: str
    block_path: Path
    loop_path: Path

    @property
    def realize(self) -> BlockRealize:
        return realize_of(self.block_path)

    @property
    def block(self) -> Block:
        return self.realize.block

    @property
    def loop(self) -> For:
        return loop_of(self.loop_path)

    @property
    def scope(self) -> Block:
        scope = scope_path(self.block_path)[-1]
        assert isinstance(scope, Block)
        return scope

    @property
    def outer(self) -> list[For]:
        """The loops that stay fixed: the target and those above it."""
        return [*all_loops_above(self.loop_path), self.loop]

    def error(
        self, kind: type[DependenceError], found: str, guilty: Block | BlockRealize | For
    ) -> DependenceError:
        return fail(kind, self.primitive, self.func, [guilty], found)  # type: ignore[return-value]


def _plan(func: PrimFunc, block_name: str, loop_var: Var, primitive: str) -> Move:
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
    require_own_axes(func, move.block, primitive)
    require_scope_declared(func, move.scope, move.block, primitive)
    return move


def _require_unconditional(move: Move) -> None:
    """No branch or let stands around the block that does not stand around the loop too: at its new
    place its condition would be lost, and its variable unknown."""
    for s in move.block_path[len(scope_path(move.block_path)) :]:
        if isinstance(s, (IfThenElse, LetStmt)) and all(s is not other for other in move.loop_path):
            what = "under a condition" if isinstance(s, IfThenElse) else "in the scope of a let"
            found = f"{move.block.name!r} stands {what} that the loop does not stand in."
            raise move.error(DependenceError, found, move.block)


# -- compute_at ------------------------------------------------------------------------------------
def compute_at(
    func: PrimFunc,
    block_name: str,
    loop_var: Var,
    *,
    preserve_unit_loops: bool = False,
    index: int = -1,
    checks: bool = True,
) -> PrimFunc:
    """Move a producer under a loop that holds all its consumers, to compute what they need there.

    ``index`` is the position among the statements below the loop: -1 as late as possible, -2 as
    early as possible.
    """
    move = _plan(func, block_name, loop_var, "compute_at")
    block, scope = move.block, move.scope
    if not (is_complete(block) or is_reduction(block)):
        require_complete(func, block, "compute_at")
    if is_output_block(func, scope, block):
        found = (
            f"{block_name!r} writes an output of the function; only producers of other blocks move."
        )
        raise move.error(DependenceError, found, block)
    below = blocks_below(move.loop)
    consumers = _related(move, consumers_of(scope, block), below, "consumer")
    _require_order(move, below, "consumers", "before")
    if checks:
        _require_inputs_settled(move, below)
    _require_needed_now(move, consumers)
    bounds = loop_bounds([*move.outer, *[loop for n in below for loop in n.loops]])
    need: dict[int, Box] = {}
    for n in consumers:
        inner = n.loops[1:]
        known = loop_bounds([*move.outer, *inner])
        for region in n.block.reads:
            if any(w.buffer is region.buffer for w in block.writes):
                box = touched(region, n, inner, known)
                old = need.get(id(region.buffer))
                need[id(region.buffer)] = box if old is None else union(old, box, bounds)
    domain = _domains(
        block, {id(w.buffer): need[id(w.buffer)] for w in block.writes if id(w.buffer) in need}
    )
    nest = new_nest(
        move.realize, domain, _ownership(move), bounds, preserve_unit_loops=preserve_unit_loops
    )
    first = _position_of(move.loop, [n.block for n in consumers], min)
    reads = {id(r.buffer) for r in block.reads}
    # Where it runs may be read from a table, which must be there by then.
    reads |= {id(n.buffer) for n in walk(nest) if isinstance(n, BufferLoad)}
    makers = [n.block for n in below if any(id(w.buffer) in reads for w in n.block.writes)]
    lowest = _position_of(move.loop, makers, max) + 1 if makers else 0
    return _place(move, nest, lowest, first, index)


def _related(
    move: Move, related: Sequence[Nested], below: Sequence[Nested], what: str
) -> list[Nested]:
    """The consumers or producers, all of them below the loop; those that provably touch other
    elements do not count."""
    ours = {id(n.block): n for n in below}
    elsewhere = any(id(n.block) not in ours for n in related)
    own = whole_boxes(move.block_path) if elsewhere else []
    found: list[Nested] = []
    for n in related:
        if id(n.block) in ours:
            found.append(ours[id(n.block)])
        elif _conflicts(move, n, own):
            raise move.error(
                DependenceError,
                f"The {what} {n.block.name!r} of {move.block.name!r} is not under the loop "
                f"{move.loop.var.name!r}.",
                n.block,
            )
    if not found:
        raise move.error(
            DependenceError,
            f"{move.block.name!r} has no {what} under the loop {move.loop.var.name!r}.",
            move.block,
        )
    return found


def _require_order(move: Move, below: Sequence[Nested], related: str, side: str) -> None:
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


def _conflicts(move: Move, n: Nested, own: Sequence[Whole]) -> bool:
    return in_conflict(own, whole_boxes(find_block(move.func, n.block.name, move.primitive)))


def _require_inputs_settled(move: Move, below: Sequence[Nested]) -> None:
    """What the block reads must have been written before it, outside of the loop, and must not be
    written again between its old place and its new one."""
    order = scope_blocks(move.scope)
    own = next(i for i, n in enumerate(order) if n.block is move.block)
    inside = {id(n.block) for n in below}
    reads = {id(r.buffer) for r in move.block.reads}
    writes = {id(w.buffer) for w in move.block.writes}
    boxes = whole_boxes(move.block_path)
    _require_inputs_kept(move, order[:own])
    for i, n in enumerate(order):
        if n.block is move.block:
            continue
        written = any(id(w.buffer) in reads for w in n.block.writes) and (
            i > own or id(n.block) in inside
        )
        rewritten = any(id(w.buffer) in writes for w in n.block.writes)
        if (written or rewritten) and _conflicts(move, n, boxes):
            what = "reads" if written else "writes"
            raise move.error(
                DependenceError,
                f"{n.block.name!r} writes a buffer that {move.block.name!r} {what}; "
                "moving the one past the "
                "other would change what is seen.",
                n.block,
            )


def _require_inputs_kept(move: Move, before: Sequence[Nested]) -> None:
    """What was written for the block in an iteration of loops that it leaves is still there when
    they have ended: no later iteration writes the same elements."""
    target = {loop.var for loop in move.outer}
    left = [x for x in loops_above(move.block_path) if x.var not in target]
    reads = {r.buffer for r in move.block.reads}
    for n in before:
        shared = [x for x in left if any(x is loop for loop in n.loops)]
        if shared and overwrites(n, shared, reads):
            found = (
                f"{n.block.name!r} writes what {move.block.name!r} reads again in later "
                f"iterations of {shared[0].var.name!r}, which {move.block.name!r} would leave: "
                "it would read the last values alone."
            )
            raise move.error(DependenceError, found, n.block)


def _require_needed_now(move: Move, consumers: Sequence[Nested]) -> None:
    """Where a condition lets the block run in some iterations of the loops around both places only
    (``stage_memory`` fills a buffer so), consumers stand under the same one. Others read what an
    earlier iteration left, of which the block would compute no more than that iteration needs."""
    bounds = loop_bounds([*move.outer, *all_loops_above(move.block_path)])
    shared = {loop.var for loop in all_loops_above(move.block_path)}
    shared &= {loop.var for loop in move.outer}
    for c in conjuncts(move.realize.predicate):
        if says_domain(c, move.realize, bounds) or not any(n in shared for n in walk(c)):
            continue
        for n in consumers:
            known = loop_bounds([*move.outer, *n.loops])
            given = {expr_key(p) for p in conjuncts(n.realize.predicate)}
            if expr_key(c) not in given and not known.proves(c):
                found = (
                    f"{move.block.name!r} runs under a condition on the loops around it, and "
                    f"{n.block.name!r} does not: it reads what earlier iterations left."
                )
                raise move.error(DependenceError, found, move.realize)


# -- reverse_compute_at ----------------------------------------------------------------------------
def reverse_compute_at(
    func: PrimFunc,
    block_name: str,
    loop_var: Var,
    *,
    preserve_unit_loops: bool = False,
    index: int = -1,
    checks: bool = True,
) -> PrimFunc:
    """Move a consumer under a loop that holds all its producers, to consume what is final there."""
    move = _plan(func, block_name, loop_var, "reverse_compute_at")
    block, scope = move.block, move.scope
    if not (is_complete(block) or is_reduction(block)):
        require_complete(func, block, "reverse_compute_at")
    below = blocks_below(move.loop)
    settled = _settled(move)
    known = {id(n.block) for n in settled}
    others = [n for n in producers_of(scope, block) if id(n.block) not in known]
    producers = _related(move, others, below, "producer")
    _require_order(move, below, "producers", "after")
    bounds = loop_bounds([*move.outer, *[loop for n in below for loop in n.loops]])
    if checks:
        _require_final(move, [*producers, *settled])
        _require_unobserved(move, known)
    boxes: dict[int, Box] = {}
    for region in block.reads:
        makers = [*settled, *producers]
        last = [n for n in makers if any(w.buffer is region.buffer for w in n.block.writes)]
        if not last or id(region.buffer) in boxes:
            continue
        boxes[id(region.buffer)] = _final_box(move, last, region.buffer, checks)
    domain = _consumer_domains(move, boxes, bounds, checks)
    nest = new_nest(
        move.realize, domain, _ownership(move), bounds, preserve_unit_loops=preserve_unit_loops
    )
    lowest = _position_of(move.loop, [n.block for n in producers], max) + 1
    writes = {id(w.buffer) for w in block.writes}
    users = [n.block for n in below if any(id(r.buffer) in writes for r in n.block.reads)]
    count = len(_children(move.loop))
    highest = _position_of(move.loop, users, min) if users else count
    return _place(move, nest, lowest, highest, index)


def _settled(move: Move) -> list[Nested]:
    """The producers that stand before the loop, under the loops that it shares with the block: in
    each iteration of these, they are done before the loop begins. Their loops begin with the
    innermost shared one."""
    shared = 0
    while move.block_path[shared] is move.loop_path[shared]:
        shared += 1
    around = [s for s in move.block_path[:shared] if isinstance(s, For)]
    holder = move.loop_path[shared - 1]
    if not around or not isinstance(holder, SeqStmt):
        return []
    place = next(i for i, s in enumerate(holder.stmts) if s is move.loop_path[shared])
    before = {id(n.block) for s in holder.stmts[:place] for n in blocks_below(s)}
    reads = {id(r.buffer) for r in move.block.reads}
    return [
        n
        for n in blocks_below(around[-1])
        if id(n.block) in before and any(id(w.buffer) in reads for w in n.block.writes)
    ]


def _require_final(move: Move, producers: Sequence[Nested]) -> None:
    for n in producers:
        reduced = axis_bindings(n.realize, ("reduce",))
        for loop in move.outer:
            if binds(reduced, loop.var):
                raise move.error(
                    DependenceError,
                    f"The loop {loop.var.name!r} runs over a reduce axis of the producer "
                    f"{n.block.name!r}: "
                    f"under {move.loop.var.name!r} its result is not final.",
                    loop,
                )


def _require_unobserved(move: Move, settled: Set[int]) -> None:
    """No block that stands between may write what the block reads or touch what it writes; those
    that are done before the loop begins do not stand between."""
    order = scope_blocks(move.scope)
    own = next(i for i, n in enumerate(order) if n.block is move.block)
    reads = {id(r.buffer) for r in move.block.reads}
    writes = {id(w.buffer) for w in move.block.writes}
    boxes = whole_boxes(move.block_path)
    inside = {id(n.block) for n in blocks_below(move.loop)} | settled
    for n in order[:own]:
        touches = any(id(r.buffer) in writes for r in (*n.block.reads, *n.block.writes))
        rewrites = any(id(w.buffer) in reads for w in n.block.writes) and id(n.block) not in inside
        if (touches or rewrites) and _conflicts(move, n, boxes):
            raise move.error(
                DependenceError,
                f"{n.block.name!r} stands before {move.block.name!r} and uses the same "
                "buffer; moving the one "
                "past the other would change what is seen.",
                n.block,
            )


def _final_box(move: Move, writers: Sequence[Nested], buffer: Buffer, checks: bool) -> Box:
    """What the last writer of a buffer writes in one iteration; it must be all of a box."""
    n = writers[-1]
    inner = n.loops[1:]
    known = loop_bounds([*move.outer, *inner])
    regions = [w for w in n.block.writes if w.buffer is buffer]
    box = written_box(regions[0], n, inner, known)
    if checks and (len(regions) != 1 or not box.exact or not covers_domain(n, known)):
        raise move.error(
            DependenceError,
            f"It cannot be proved that {n.block.name!r} writes a whole box of "
            f"{buffer.name!r} in one iteration "
            f"of {move.loop.var.name!r}.",
            n.block,
        )
    return box


def _consumer_domains(
    move: Move, boxes: dict[int, Box], bounds: Bounds, checks: bool
) -> dict[Var, tuple[Expr, Expr]]:
    """The axes' ranges for which all that is read has been written; every axis that indexes a
    box is restricted to it, the others run over their whole domain."""
    block = move.block
    domain: dict[Var, tuple[Expr, Expr]] = {}
    for region in block.reads:
        box = boxes.get(id(region.buffer))
        if box is None:
            continue
        for d, r in enumerate(region.region):
            written = Box([box.starts[d]], [box.extents[d]], True)
            dim = region.buffer.shape[d]
            if contains(written, Box([IntImm(0)], [dim], True), bounds, [dim]):
                continue
            axis = axis_of_index(block, r.min) if is_const(r.extent, 1) else None
            if axis is not None:
                _restrict(move, domain, axis, written, bounds)
            elif checks and not _read_lies_in(move, r, written, bounds):
                found = (
                    f"{block.name!r} reads more of {region.buffer.name!r} than one iteration of "
                    f"{move.loop.var.name!r} writes."
                )
                raise move.error(DependenceError, found, block)
    for it in block.iter_vars:
        if it.var in domain and it.kind == "reduce":
            found = (
                f"{block.name!r} reduces over {it.var.name!r}, of which one iteration of "
                f"{move.loop.var.name!r} has only a part."
            )
            raise move.error(DependenceError, found, block)
    if checks:
        _require_all_instances(move, domain)
    return domain


def _restrict(
    move: Move, domain: dict[Var, tuple[Expr, Expr]], axis: Var, box: Box, bounds: Bounds
) -> None:
    (start,), (extent,) = box.starts, box.extents
    old = domain.get(axis)
    if old is not None and not (
        bounds.proves_equal(old[0], start) and bounds.proves_equal(old[1], extent)
    ):
        found = f"The axis {axis.name!r} of {move.block.name!r} would need two different ranges."
        raise move.error(DependenceError, found, move.block)
    domain[axis] = (start, extent)


def _read_lies_in(move: Move, r: Range, box: Box, bounds: Bounds) -> bool:
    axes = {it.var for it in move.block.iter_vars}
    if any(n in axes for n in walk(r.min) if isinstance(n, Var)):
        return False
    return contains(box, Box([r.min], [r.extent], True), bounds)


def _require_all_instances(move: Move, domain: dict[Var, tuple[Expr, Expr]]) -> None:
    """Over all iterations of the loops, the restricted axes must take every value of their
    domains."""
    old_loops = all_loops_above(move.block_path)
    shared = {loop.var for loop in old_loops} & {loop.var for loop in move.outer}
    moving = loop_bounds([loop for loop in move.outer if loop.var not in shared])
    old_moving = loop_bounds([loop for loop in old_loops if loop.var not in shared])
    bounds = loop_bounds(move.outer) | loop_bounds(old_loops)
    digits: list[Digit] = []
    for it, value in zip(move.block.iter_vars, move.realize.iter_values, strict=True):
        if it.var not in domain:
            continue
        start, extent = domain[it.var]
        wanted = sweep(value, old_moving, bounds)
        s = sweep(start, moving, bounds)
        length = extent.value if isinstance(extent, IntImm) else 1
        if (
            wanted is None
            or s is None
            or not steps_without_gap(start, length, moving, bounds)
            or not contains(
                Box([s.start], [sub(add(s.extent, extent), 1)], True),
                Box([wanted.start], [wanted.extent], True),
                bounds,
                [add(it.dom.min, it.dom.extent)],
            )
        ):
            found = (
                f"It cannot be proved that the iterations of {move.loop.var.name!r} and "
                "the loops above it "
                f"reach every value of the axis {it.var.name!r} of {move.block.name!r}."
            )
            raise move.error(DependenceError, found, move.block)
        digits.extend([d for d in s.digits if d.extent != 1])
    if overlapping(digits):
        found = (
            f"The axes of {move.block.name!r} would not run over all combinations of their values."
        )
        raise move.error(DependenceError, found, move.block)


# -- the new nest ----------------------------------------------------------------------------------
def _domains(block: Block, need: dict[int, Box]) -> dict[Var, tuple[Expr, Expr]]:
    """Ranges of the axes that index what is needed; several outputs give no restriction unless
    equal."""
    domain: dict[Var, tuple[Expr, Expr]] = {}
    dropped: set[Var] = set()
    for region in block.writes:
        box = need.get(id(region.buffer))
        if box is None and len(block.writes) > 1:
            continue  # an output that nobody reads
        for d, r in enumerate(region.region):
            axis = axis_of_index(block, r.min) if is_const(r.extent, 1) else None
            used = [n for n in walk(r.min) if isinstance(n, Var)]
            known = domain.get(axis) if axis is not None else None
            if axis is None or box is None or (known and not _same_range(known, box, d)):
                dropped.update(used)
                continue
            domain[axis] = (box.starts[d], box.extents[d])
    return {v: r for v, r in domain.items() if v not in dropped}


def _same_range(known: tuple[Expr, Expr], box: Box, d: int) -> bool:
    start, extent = known
    return expr_key(start) == expr_key(box.starts[d]) and expr_key(extent) == expr_key(
        box.extents[d]
    )


@dataclass(slots=True)
class Ownership:
    """What a block runs over at its old place: the range of each axis, and what its predicate says
    beyond the axes' domains, over the axes."""

    ranges: dict[Var, tuple[Expr, Expr]]
    conditions: list[Expr]


def _ownership(move: Move) -> Ownership:
    """What the block must not leave at its new place.

    For a block that alone writes an intermediate the ranges are the axes' whole domains: it may
    compute more than it did. One that shares its buffer with other writers (a part of a partitioned
    loop, the padding of another), or writes a parameter, may not: it would overwrite their
    elements.
    """
    return Ownership(_own_ranges(move), _own_conditions(move))


def _own_conditions(move: Move) -> list[Expr]:
    bounds = loop_bounds([*move.outer, *all_loops_above(move.block_path)])
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
    old_loops = all_loops_above(move.block_path)
    fixed = {loop.var for loop in move.outer}
    moving = loop_bounds([loop for loop in old_loops if loop.var not in fixed])
    bounds = loop_bounds([*move.outer, *old_loops])
    alone = _is_only_writer(move)
    own: dict[Var, tuple[Expr, Expr]] = {}
    exact = alone or covers_domain(Nested(move.realize, old_loops, []), bounds)
    digits: list[Digit] = []
    for it, value in zip(block.iter_vars, move.realize.iter_values, strict=True):
        whole = (it.dom.min, it.dom.extent)
        own[it.var] = whole
        s = sweep(value, moving, bounds)
        if s is not None:
            digits.extend([d for d in s.digits if d.extent != 1])
            domain = Box([whole[0]], [whole[1]], True)
            if s.exact and contains(Box([s.start], [s.extent], True), domain, bounds):
                continue
        if alone and it.kind != "reduce":
            continue
        if s is None or not s.exact:
            exact = False
        else:
            own[it.var] = (s.start, s.extent)
    if not exact or (not alone and overlapping(digits)):
        found = (
            f"{block.name!r} does not run over whole ranges of its axes, and what it leaves out is "
            "written by other blocks or by the caller; it cannot be moved."
        )
        raise move.error(DependenceError, found, block)
    return own


def _is_only_writer(move: Move) -> bool:
    written = {id(w.buffer) for w in move.block.writes}
    if any(id(b) in written for b in move.func.buffers):
        return False
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
    nest: Stmt = BlockRealize(tuple(values), conjunction(conditions) if conditions else TRUE, block)
    for var, extent in reversed(loops):
        nest = For(var, IntImm(0), extent, "serial", nest)
    return nest


# -- placing ---------------------------------------------------------------------------------------
def _children(loop: For) -> tuple[Stmt, ...]:
    return loop.body.stmts if isinstance(loop.body, SeqStmt) else (loop.body,)


def _position_of(loop: For, blocks: Sequence[Block], pick: object) -> int:
    wanted = {id(b) for b in blocks}
    places = [
        i
        for i, child in enumerate(_children(loop))
        if any(id(n.block) in wanted for n in blocks_below(child))
    ]
    return min(places) if pick is min else max(places)


def _place(move: Move, nest: Stmt, lowest: int, highest: int, index: int) -> PrimFunc:
    """Remove the block from its old place and put the new nest below the loop."""
    if lowest > highest:
        raise move.error(
            DependenceError,
            f"There is no place under {move.loop.var.name!r} that is after the producers "
            "and before the "
            f"consumers of {move.block.name!r}.",
            move.loop,
        )
    index = require_int(index, "the index", move.primitive)
    at = highest if index == -1 else lowest if index == -2 else index
    if not lowest <= at <= highest:
        raise fail(
            ScheduleValueError,
            move.primitive,
            move.func,
            [move.loop],
            f"index must be -1, -2 or from {lowest} to {highest}; found {index}.",
        )
    children = list(_children(move.loop))
    children.insert(at, nest)
    placed = with_body(move.func, rebuild(move.loop_path, replace(move.loop, body=seq(*children))))
    return with_body(placed, rebuild(find_stmt(placed, move.realize), None))

"""reverse_compute_at: a consumer under a loop of its producers."""

from __future__ import annotations

from collections.abc import Sequence, Set

from ....support.errors import DependenceError
from ....support.node import replace, walk
from ...analysis.affine import Bounds, loop_bounds, overlapping, steps_without_gap, sweep
from ...analysis.block_kinds import axis_bindings, binds, is_complete, is_reduction
from ...analysis.certain_writes import written_box
from ...analysis.instance_at import instance_at
from ...analysis.nested_blocks import Nested, blocks_below, producers_of, scope_blocks
from ...analysis.paths import all_loops_above
from ...analysis.preconditions import require_complete
from ...analysis.region_cover import (
    Box,
    axis_of_index,
    contains,
    covers_domain,
    iterations_clash,
    whole_boxes,
)
from ...arith import IterSplit
from ...buffer import Buffer, BufferRegion, Range
from ...expr import Expr, FloorDiv, IntImm, Var, add, is_const, mul, sub
from ...function import PrimFunc
from ...stmt import Block, For, SeqStmt
from ..primitive import ATTR, BLOCK, LOOP, PLACES, primitive
from ..rewriting.insertion import children_of
from ..rewriting.moving import (
    Move,
    conflicts,
    new_nest,
    ownership,
    place_nest,
    plan_move,
    position_of,
    related_below,
    require_order,
)
from ..state import BlockLike, ScheduleState
from ..trace.handles import LoopRV


class ReverseComputeAt(ScheduleState):
    @primitive(PLACES, block=BLOCK, loop=LOOP, preserve_unit_loops=ATTR, index=ATTR)
    def reverse_compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a consumer under a loop that holds its producers, to consume what is final there.

        The block loses its own loops and gets new ones, ``ax0, ax1, ...``, over the instances whose
        operands one iteration completes; it may read at its axes, or at sums, quotients and
        remainders that have them for digits, such as ``X[vi // 8, vi % 8]``. ``index`` is the
        position among the statements below the loop: -1 as late as possible, -2 as early as
        possible. With ``preserve_unit_loops`` loops of extent 1 are made too.

        Requires:

        - a complete or reduction block (NotCompleteBlockError);
        - a loop in the same block that does not stand around it (NotAncestorError);
        - producers, all of them below the loop, or before it under a loop that stands around it and
          the block, that write a whole box in one iteration, none of whose reduce axes runs over
          the loop or a loop above it; nobody on the way who uses what it writes or writes what it
          reads; that it reads no more than the box and reduces over no part of it; that the
          iterations reach all its instances; a place below the loop after its producers
          (DependenceError);
        - an ``index`` between these (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, vj] * T.float32(2)

        Schedule::

            i, j = sch.get_loops("B")
            sch.reverse_compute_at("C", i)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i in range(8):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
                    for ax0 in range(6):
                        with T.block("C"):
                            vi, vj = T.axis.remap("SS", [i, ax0])
                            C[vi, vj] = B[vi, vj] * T.float32(2)
        """
        owner, name = self._block(block)
        func = reverse_compute_at(
            self._functions[owner],
            name,
            loop.var,
            preserve_unit_loops=preserve_unit_loops,
            index=index,
            checks=self.enable_checks,
        )
        self._commit(owner, func)


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
    move = plan_move(func, block_name, loop_var, "reverse_compute_at")
    block, scope = move.block, move.scope
    if not (is_complete(block) or is_reduction(block)):
        require_complete(func, block, "reverse_compute_at")
    below = blocks_below(move.loop)
    settled = _settled(move)
    known = {id(n.block) for n in settled}
    others = [n for n in producers_of(scope, block) if id(n.block) not in known]
    producers = related_below(move, others, below, "producer")
    require_order(move, below, "producers", "after")
    bounds = loop_bounds([*move.outer, *[loop for n in below for loop in n.loops]])
    if checks:
        _require_final(move, [*producers, *settled])
        _require_unobserved(move, known)
        _require_unread(move)
    boxes: dict[int, Box] = {}
    for region in block.reads:
        makers = [*settled, *producers]
        last = [n for n in makers if any(w.buffer is region.buffer for w in n.block.writes)]
        if not last or id(region.buffer) in boxes:
            continue
        boxes[id(region.buffer)] = _final_box(move, last, region.buffer, checks)
    domain = _consumer_domains(move, boxes, bounds, checks)
    nest = new_nest(
        move.realize, domain, ownership(move), bounds, preserve_unit_loops=preserve_unit_loops
    )
    lowest = position_of(move.loop, [n.block for n in producers], max) + 1
    writes = {id(w.buffer) for w in block.writes}
    users = [n.block for n in below if any(id(r.buffer) in writes for r in n.block.reads)]
    count = len(children_of(move.loop))
    highest = position_of(move.loop, users, min) if users else count
    return place_nest(move, nest, lowest, highest, index)


def _settled(move: Move) -> list[Nested]:
    """The producers that stand before the loop, under the loops that it shares with the block: in
    each iteration of these, they are done before the loop begins. Their loops begin with the
    innermost shared one."""
    shared = 0
    while move.path[shared] is move.loop_path[shared]:
        shared += 1
    around = [s for s in move.path[:shared] if isinstance(s, For)]
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
                found = (
                    f"The loop {loop.var.name!r} runs over a reduce axis of the producer "
                    f"{n.block.name!r}: under {move.loop.var.name!r} its result is not final."
                )
                raise move.error(DependenceError, found, loop)


def _require_unread(move: Move) -> None:
    """No block reads, in each iteration of a loop that the block leaves, what a later one writes
    over."""
    target = {loop.var for loop in move.outer}
    writes = {id(w.buffer) for w in move.block.writes}
    readers = [
        n
        for n in scope_blocks(move.scope)
        if n.block is not move.block and any(id(r.buffer) in writes for r in n.block.reads)
    ]
    for loop in all_loops_above(move.path):
        inside = [n for n in readers if any(x.var is loop.var for x in n.loops)]
        if loop.var in target or not inside:
            continue
        if iterations_clash(move.realize, loop.var):
            found = (
                f"Several iterations of {loop.var.name!r} write the same elements, and "
                f"{inside[0].block.name!r} reads them in each: without the loop it would see the "
                "last ones only."
            )
            raise move.error(DependenceError, found, move.block)


def _require_unobserved(move: Move, settled: Set[int]) -> None:
    """No block that stands between may write what the block reads or touch what it writes; those
    that are done before the loop begins do not stand between."""
    order = scope_blocks(move.scope)
    own = next(i for i, n in enumerate(order) if n.block is move.block)
    reads = {id(r.buffer) for r in move.block.reads}
    writes = {id(w.buffer) for w in move.block.writes}
    boxes = whole_boxes(move.path)
    inside = {id(n.block) for n in blocks_below(move.loop)} | settled
    for n in order[:own]:
        touches = any(id(r.buffer) in writes for r in (*n.block.reads, *n.block.writes))
        rewrites = any(id(w.buffer) in reads for w in n.block.writes) and id(n.block) not in inside
        if (touches or rewrites) and conflicts(move, n, boxes):
            found = (
                f"{n.block.name!r} stands before {move.block.name!r} and uses the same buffer; "
                "moving the one past the other would change what is seen."
            )
            raise move.error(DependenceError, found, n.block)


def _final_box(move: Move, writers: Sequence[Nested], buffer: Buffer, checks: bool) -> Box:
    """What the last writer of a buffer writes in one iteration; it must be all of a box."""
    n = writers[-1]
    inner = n.loops[1:]
    known = loop_bounds([*move.outer, *inner])
    regions = [w for w in n.block.writes if w.buffer is buffer]
    box = written_box(regions[0], n, inner, known)
    if checks and (len(regions) != 1 or not box.exact or not covers_domain(n, known)):
        found = (
            f"It cannot be proved that {n.block.name!r} writes a whole box of {buffer.name!r} in "
            f"one iteration of {move.loop.var.name!r}."
        )
        raise move.error(DependenceError, found, n.block)
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
        if box is None or _restrict_by_inverse(move, domain, region, box, bounds):
            continue
        for d, r in enumerate(region.region):
            written = Box([box.starts[d]], [box.extents[d]], True)
            dim = region.buffer.shape[d]
            if contains(written, Box([IntImm(0)], [dim], True), bounds, [dim]):
                continue
            axis, count = _axis_of(block, r.min) if is_const(r.extent, 1) else (None, 1)
            if axis is not None:
                stretched = Box([mul(box.starts[d], count)], [mul(box.extents[d], count)], True)
                _restrict(move, domain, axis, stretched, bounds)
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


def _restrict_by_inverse(
    move: Move,
    domain: dict[Var, tuple[Expr, Expr]],
    region: BufferRegion,
    box: Box,
    bounds: Bounds,
) -> bool:
    """Restrict the axes of a read such as ``B[vi // 4, vi % 4]`` or ``B[vi * 4 + vj]`` to those
    instances that read the box, where these are all combinations of a range of each axis; False
    where they are not, or where the axes index the buffer themselves."""
    block = move.block
    indices = [r.min for r in region.region]
    plain = [axis_of_index(block, i) is not None or not _uses_axes(block, i) for i in indices]
    if all(plain) or not all(is_const(r.extent, 1) for r in region.region):
        return False
    used = tuple([it for it in block.iter_vars if any(it.var in set(walk(i)) for i in indices)])
    steps = [Var(f"t{d}") for d in range(len(indices))]
    swept = Bounds({t: Range(IntImm(0), e) for t, e in zip(steps, box.extents, strict=True)})
    known = bounds | swept
    place = [
        s if is_const(e, 1) else add(s, t)
        for s, e, t in zip(box.starts, box.extents, steps, strict=True)
    ]
    found = instance_at(replace(block, iter_vars=used), indices, place, known)
    if found is None or found.conditions:
        return False
    ranges: dict[Var, tuple[Expr, Expr]] = {}
    digits: list[IterSplit] = []
    for it in used:
        s = sweep(found.axes[it.var], swept, known)
        if s is None or not s.exact:
            return False
        ranges[it.var] = (s.start, s.extent)
        digits.extend(s.digits)
    if overlapping(digits, known):
        return False
    for axis, (start, extent) in ranges.items():
        _restrict(move, domain, axis, Box([start], [extent], True), bounds)
    return True


def _axis_of(block: Block, index: Expr) -> tuple[Var | None, int]:
    """The axis that an index is, or whose quotient by a constant it is: ``B[vi // 16]`` is read by
    16 values of the axis."""
    if isinstance(index, FloorDiv) and isinstance(index.b, IntImm) and index.b.value > 0:
        return axis_of_index(block, index.a), index.b.value
    return axis_of_index(block, index), 1


def _uses_axes(block: Block, index: Expr) -> bool:
    axes = {it.var for it in block.iter_vars}
    return any(n in axes for n in walk(index) if isinstance(n, Var))


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
    if _uses_axes(move.block, r.min):
        return False
    return contains(box, Box([r.min], [r.extent], True), bounds)


def _require_all_instances(move: Move, domain: dict[Var, tuple[Expr, Expr]]) -> None:
    """Over all iterations of the loops, the restricted axes must take every value of their
    domains."""
    old_loops = all_loops_above(move.path)
    shared = {loop.var for loop in old_loops} & {loop.var for loop in move.outer}
    moving = loop_bounds([loop for loop in move.outer if loop.var not in shared])
    old_moving = loop_bounds([loop for loop in old_loops if loop.var not in shared])
    bounds = loop_bounds(move.outer) | loop_bounds(old_loops)
    digits: list[IterSplit] = []
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
                f"It cannot be proved that the iterations of {move.loop.var.name!r} and the loops "
                f"above it reach every value of the axis {it.var.name!r} of {move.block.name!r}."
            )
            raise move.error(DependenceError, found, move.block)
        digits.extend(s.digits)
    if overlapping(digits, bounds):
        found = (
            f"The axes of {move.block.name!r} would not run over all combinations of their values."
        )
        raise move.error(DependenceError, found, move.block)

"""compute_at: a producer under a loop of its consumers."""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import DependenceError
from ....support.node import walk
from ...analysis.affine import loop_bounds
from ...analysis.block_kinds import is_complete, is_reduction
from ...analysis.conditions import conjuncts
from ...analysis.loop_order import rewritten_input
from ...analysis.nested_blocks import (
    Nested,
    blocks_below,
    consumers_of,
    is_output_block,
    scope_blocks,
)
from ...analysis.paths import all_loops_above, loops_above
from ...analysis.preconditions import require_complete
from ...analysis.region_cover import Box, axis_of_index, says_domain, touched, union, whole_boxes
from ...arith import expr_key
from ...buffer import Buffer
from ...expr import BufferLoad, Expr, Var, is_const
from ...function import PrimFunc
from ...stmt import Block, For
from ..primitive import ATTR, BLOCK, PLACE, PLACES, primitive
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
from .compute_inline import compute_inline


class ComputeAt(ScheduleState):
    @primitive(PLACES, block=BLOCK, loop=PLACE, preserve_unit_loops=ATTR, index=ATTR)
    def compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a producer under a loop that holds its consumers, to compute what they need there.

        The block loses its own loops and gets new ones, ``ax0, ax1, ...``, over the box that is
        needed, which may be larger than what is read. ``index`` is the position among the
        statements below the loop: -1 as late as possible, -2 as early as possible. With
        ``preserve_unit_loops`` loops of extent 1 are made too. ``loop`` may be a sampled place,
        which may also mean to stay or to inline. Of memory of the scope ``shared`` the block
        computes what all threads of a block of them need; bind a part of its loops to the same
        threads, and they share the work.

        Requires:

        - a complete or reduction block (NotCompleteBlockError);
        - a loop in the same block that does not stand around it (NotAncestorError);
        - a block that writes no output of the scope; consumers, all of them below the loop; nobody
          on the way who writes what it reads or writes; a place below the loop after its producers
          and before its consumers; where other blocks write the same buffer, whole ranges of its
          axes and a predicate over them alone; no condition on the loops around both places that
          its consumers have not (DependenceError);
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

            i, j = sch.get_loops("C")
            sch.compute_at("B", i)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i in range(8):
                    for ax0 in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, ax0])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
                    for j in range(6):
                        with T.block("C"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            C[vi, vj] = B[vi, vj] * T.float32(2)
        """
        owner, name = self._block(block)
        func = self._functions[owner]
        if loop.place == "inline":
            func = compute_inline(func, name, checks=self.enable_checks)
        elif not loop.place:
            func = compute_at(
                func,
                name,
                loop.var,
                preserve_unit_loops=preserve_unit_loops,
                index=index,
                checks=self.enable_checks,
            )
        self._commit(owner, func)


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
    move = plan_move(func, block_name, loop_var, "compute_at")
    block, scope = move.block, move.scope
    if not (is_complete(block) or is_reduction(block)):
        require_complete(func, block, "compute_at")
    if is_output_block(func, scope, block):
        found = (
            f"{block_name!r} writes an output of the function; only producers of other blocks move."
        )
        raise move.error(DependenceError, found, block)
    below = blocks_below(move.loop)
    consumers = related_below(move, consumers_of(scope, block), below, "consumer")
    require_order(move, below, "consumers", "before")
    if checks:
        _require_inputs_settled(move, below)
    _require_needed_now(move, consumers)
    bounds = loop_bounds([*move.outer, *[loop for n in below for loop in n.loops]])
    need: dict[int, Box] = {}
    for n in consumers:
        for region in n.block.reads:
            if any(w.buffer is region.buffer for w in block.writes):
                inner = [*_threads_that_share(region.buffer, move.outer), *n.loops[1:]]
                known = loop_bounds([*move.outer, *n.loops[1:]])
                box = touched(region, n, inner, known)
                old = need.get(id(region.buffer))
                need[id(region.buffer)] = box if old is None else union(old, box, bounds)
    domain = _domains(
        block, {id(w.buffer): need[id(w.buffer)] for w in block.writes if id(w.buffer) in need}
    )
    nest = new_nest(
        move.realize, domain, ownership(move), bounds, preserve_unit_loops=preserve_unit_loops
    )
    first = position_of(move.loop, [n.block for n in consumers], min)
    reads = {id(r.buffer) for r in block.reads}
    # Where it runs may be read from a table, which must be there by then.
    reads |= {id(n.buffer) for n in walk(nest) if isinstance(n, BufferLoad)}
    makers = [n.block for n in below if any(id(w.buffer) in reads for w in n.block.writes)]
    lowest = position_of(move.loop, makers, max) + 1 if makers else 0
    return place_nest(move, nest, lowest, first, index)


def _threads_that_share(b: Buffer, outer: Sequence[For]) -> list[For]:
    """The loops around the place over whose iterations ``b`` is one memory: the threads of a block
    compute what all of them need of shared memory, and share that work where it is bound to
    threads again."""
    return [x for x in outer if b.scope == "shared" and x.thread.startswith("threadIdx")]


def _require_inputs_settled(move: Move, below: Sequence[Nested]) -> None:
    """What the block reads must have been written before it, outside of the loop, and must not be
    written again between its old place and its new one."""
    order = scope_blocks(move.scope)
    own = next(i for i, n in enumerate(order) if n.block is move.block)
    inside = {id(n.block) for n in below}
    reads = {id(r.buffer) for r in move.block.reads}
    writes = {id(w.buffer) for w in move.block.writes}
    boxes = whole_boxes(move.path)
    _require_inputs_kept(move, order[:own])
    for i, n in enumerate(order):
        if n.block is move.block:
            continue
        written = any(id(w.buffer) in reads for w in n.block.writes) and (
            i > own or id(n.block) in inside
        )
        rewritten = any(id(w.buffer) in writes for w in n.block.writes)
        if (written or rewritten) and conflicts(move, n, boxes):
            what = "reads" if written else "writes"
            found = (
                f"{n.block.name!r} writes a buffer that {move.block.name!r} {what}; moving the one "
                "past the other would change what is seen."
            )
            raise move.error(DependenceError, found, n.block)


def _require_inputs_kept(move: Move, before: Sequence[Nested]) -> None:
    """What was written for the block in an iteration of loops that it leaves is still there when
    they have ended: no later iteration writes the same elements."""
    target = {loop.var for loop in move.outer}
    left = [x for x in loops_above(move.path) if x.var not in target]
    rewritten = rewritten_input(move.block, left, before)
    if rewritten is not None:
        n, loop = rewritten
        found = (
            f"{n.block.name!r} writes what {move.block.name!r} reads again in later iterations of "
            f"{loop.var.name!r}, which {move.block.name!r} would leave: it would read the last "
            "values alone."
        )
        raise move.error(DependenceError, found, n.block)


def _require_needed_now(move: Move, consumers: Sequence[Nested]) -> None:
    """Where a condition lets the block run in some iterations of the loops around both places only
    (``stage_memory`` fills a buffer so), consumers stand under the same one. Others read what an
    earlier iteration left, of which the block would compute no more than that iteration needs."""
    bounds = loop_bounds([*move.outer, *all_loops_above(move.path)])
    shared = {loop.var for loop in all_loops_above(move.path)}
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

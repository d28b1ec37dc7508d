"""stage_memory: what a block computes in the first iteration of a loop serves all later ones.

    for n, m:                                 for n, m:
      P[k] = f(n, k)            for k           if m == 0: P[k] = f(n, k)        for k
      use P                                     use P

A producer computed under a loop is computed again in each iteration, although with respect to the
*guard* loop it is always the same. Its block gets the predicate that the guard loop stands at its
first iteration, and its buffer is lifted around that loop, so that it is filled step by step while
the guard loop runs for the first time: ``for m, n`` with the guard m fills a panel for each n.

Legal where every iteration of the guard loop would write the same values to the same elements: the
bindings, loops and conditions of the producer do not depend on it, what the producer reads is not
written below it, nobody else writes the buffer, and the loop is serial, so that its first
iteration comes first.
"""

from __future__ import annotations

from ....support.errors import DependenceError, LoopKindError
from ....support.node import replace, walk
from ...analysis.affine import loop_bounds
from ...analysis.block_kinds import axis_bindings, binds, is_reduction
from ...analysis.circular_buffers import require_no_circle
from ...analysis.conditions import conjunction
from ...analysis.loop_order import box_text
from ...analysis.nested_blocks import Nested, blocks_below, writers_of
from ...analysis.paths import (
    Path,
    all_loops_above,
    find_block,
    loops_above,
    realize_of,
    rebuild,
    scope_of,
    with_body,
)
from ...analysis.preconditions import fail, require_ancestor, require_complete, require_own_axes
from ...analysis.region_cover import touched
from ...expr import EQ, Expr, Var
from ...function import PrimFunc
from ...stmt import BlockRealize, For, IfThenElse, LetStmt, Stmt
from ...text.printer import print_region
from ..primitive import BLOCK, CACHES, LOOP, OPTIONAL_LOOP, primitive
from ..primitives.compute_at import compute_at
from ..state import BlockLike, ScheduleState
from ..trace.handles import LoopRV
from .lift_allocation import lift_allocation

PRIMITIVE = "stage_memory"


class StageMemory(ScheduleState):
    @primitive(CACHES, block=BLOCK, loop=LOOP, guard=OPTIONAL_LOOP)
    def stage_memory(self, block: BlockLike, loop: LoopRV, guard: LoopRV | None = None) -> None:
        """Compute a producer under a loop, in the first iteration of a guard loop only.

        The block is moved under ``loop`` by compute_at, where it does not stand there already. Its
        predicate then says that ``guard`` (a loop around it; ``loop`` itself, if None is given)
        stands at its first iteration, and its buffer is lifted around ``guard``: later iterations
        use what the first one computed. With loops inside the guard that the buffer depends on,
        it is filled step by step while the guard loop runs for the first time.

        Requires:

        - what compute_at requires, where the block moves;
        - a guard around the block (NotAncestorError), which is serial (LoopKindError);
        - a complete or reduction block (NotCompleteBlockError) that computes the same in every
          iteration of the guard: its bindings, loops and conditions do not depend on it, it alone
          writes its buffer, and nothing below the guard writes what it reads (DependenceError);
        - what lift_allocation requires of the buffer.

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 4), "float32"),
                     C: T.Buffer((8, 4), "float32")):
                for n, m, k in T.grid(4, 8, 6):
                    with T.block("C"):
                        vn, vm, vk = T.axis.remap("SSR", [n, m, k])
                        with T.init():
                            C[vm, vn] = T.float32(0)
                        C[vm, vn] = C[vm, vn] + A[vm, vk] * B[vk, vn]

        Schedule::

            panel = sch.cache_read("C", 1, "global")
            sch.stage_memory(panel, sch.get_loops("C")[1])

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 4), "float32"),
                     C: T.Buffer((8, 4), "float32")):
                B_global = T.alloc_buffer((6, 4))
                for n in range(4):
                    for m in T.serial(8, annotations={"lift_allocation": ["B_global"]}):
                        for ax0 in range(6):
                            with T.block("B_global"):
                                v0, v1 = T.axis.remap("SS", [ax0, n])
                                T.where(m == 0)
                                B_global[v0, v1] = B[v0, v1]
                        for k in range(6):
                            with T.block("C"):
                                vn, vm, vk = T.axis.remap("SSR", [n, m, k])
                                with T.init():
                                    C[vm, vn] = T.float32(0)
                                C[vm, vn] = C[vm, vn] + A[vm, vk] * B_global[vk, vn]
        """
        owner, name = self._block(block)
        first = None if guard is None else guard.var
        func = self._functions[owner]
        self._commit(owner, stage_memory(func, name, loop.var, first, checks=self.enable_checks))


def stage_memory(
    func: PrimFunc,
    block_name: str,
    loop_var: Var,
    guard_var: Var | None = None,
    *,
    checks: bool = True,
) -> PrimFunc:
    """Compute a producer under a loop, but only in the first iteration of the guard loop (the loop
    itself, if None is given)."""
    guard_var = loop_var if guard_var is None else guard_var
    path = find_block(func, block_name, PRIMITIVE)
    if all(loop.var is not loop_var for loop in loops_above(path)):
        func = compute_at(func, block_name, loop_var, checks=checks)
        path = find_block(func, block_name, PRIMITIVE)
    require_ancestor(func, path, guard_var, PRIMITIVE)
    depth = next(i for i, s in enumerate(path) if isinstance(s, For) and s.var is guard_var)
    guard = path[depth]
    assert isinstance(guard, For)
    if guard.kind != "serial":
        found = (
            f"Expected a serial loop, whose first iteration comes first; {guard_var.name!r} is "
            f"{guard.kind}."
        )
        raise fail(LoopKindError, PRIMITIVE, func, [guard], found)
    if checks:
        _require_repeated(func, path, depth, guard)
    staged = func
    for region in realize_of(path).block.writes:
        staged = lift_allocation(staged, block_name, region.buffer.name, guard_var, PRIMITIVE)
    path = find_block(staged, block_name, PRIMITIVE)
    realize = realize_of(path)
    predicate = conjunction([realize.predicate, EQ(guard_var, guard.min)])
    return with_body(staged, rebuild(path, replace(realize, predicate=predicate)))


def _require_repeated(func: PrimFunc, path: Path, depth: int, guard: For) -> None:
    """Raises DependenceError unless the block does the same in every iteration of the guard."""
    realize = realize_of(path)
    block = realize.block
    if not is_reduction(block):
        require_complete(func, block, PRIMITIVE)
    require_own_axes(func, block, PRIMITIVE)
    require_no_circle(func, block, PRIMITIVE)
    _require_independent(func, path, depth, guard)
    scope = scope_of(path)
    for region in block.writes:
        for other in writers_of(scope, region.buffer):
            if other.block is not block:
                found = (
                    f"{other.block.name!r} writes {region.buffer.name!r} too, so that what "
                    f"{block.name!r} wrote in the first iteration of {guard.var.name!r} may not be "
                    "there in a later one."
                )
                raise fail(DependenceError, PRIMITIVE, func, [other.block], found)
    inputs = {id(r.buffer): r.buffer for r in block.reads}
    for n in blocks_below(guard):
        for w in n.block.writes:
            if n.block is not block and id(w.buffer) in inputs:
                found = (
                    f"{n.block.name!r} writes {print_region(w)} under the loop "
                    f"{guard.var.name!r}, which {block.name!r} reads: what it computes may change "
                    "from one iteration to the next."
                )
                raise fail(DependenceError, PRIMITIVE, func, [n.block], found)


def _require_independent(func: PrimFunc, path: Path, depth: int, guard: For) -> None:
    realize = realize_of(path)
    block = realize.block
    inner = [s for s in path[depth + 1 :] if isinstance(s, For)]
    used: list[Expr] = [*realize.iter_values, realize.predicate]
    for s in path[depth + 1 : -1]:
        used.extend(_values_of(s))
    if binds(used, guard.var):
        found = (
            f"In one iteration of {guard.var.name!r} the block {block.name!r} computes "
            f"{_computed(path, realize, inner)}, which depends on {guard.var.name!r}: each "
            "iteration needs its own."
        )
        raise fail(DependenceError, PRIMITIVE, func, [guard, realize], found)
    below = {loop.var for loop in inner}
    for value in axis_bindings(realize, ("reduce",)):
        for v in walk(value):
            if isinstance(v, Var) and v not in below:
                found = (
                    f"One iteration of {guard.var.name!r} computes only a part of the sums of "
                    f"{block.name!r}, which the loop {v.name!r} around it completes."
                )
                raise fail(DependenceError, PRIMITIVE, func, [guard, realize], found)


def _values_of(s: Stmt) -> list[Expr]:
    match s:
        case For():
            return [s.min, s.extent]
        case IfThenElse():
            return [s.condition]
        case LetStmt():
            return [s.value]
        case _:
            return []


def _computed(path: Path, realize: BlockRealize, inner: list[For]) -> str:
    """The regions that one iteration writes, as text."""
    n = Nested(realize, inner, [])
    bounds = loop_bounds(all_loops_above(path))
    boxes = [(w.buffer, touched(w, n, inner, bounds)) for w in realize.block.writes]
    return ", ".join([box_text(buffer, box) for buffer, box in boxes])

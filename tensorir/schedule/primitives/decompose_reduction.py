"""decompose_reduction: the init of a reduction as a block of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....support.errors import DependenceError
from ....support.node import replace, walk
from ...analysis.affine import loop_bounds
from ...analysis.block_kinds import as_update, axis_bindings, binds
from ...analysis.conditions import conjunction, conjuncts
from ...analysis.hidden_accesses import require_declared
from ...analysis.loop_checks import require_once
from ...analysis.loop_order import LoopOrder
from ...analysis.nested_blocks import Nested, blocks_below
from ...analysis.paths import (
    Path,
    all_loops_above,
    block_names,
    find_block,
    fresh_name,
    loops_above,
    realize_of,
    rebuild,
    with_body,
)
from ...analysis.preconditions import fail, require_ancestor, require_reduction
from ...analysis.region_cover import apart
from ...arith import infer_regions
from ...expr import Expr, Var, is_const
from ...function import PrimFunc
from ...stmt import BlockRealize, For, Stmt, seq
from ...visitor import substitute
from ..primitive import BLOCK, LOOP, REDUCTIONS, primitive
from ..rewriting.nests import nest_like
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV, LoopRV


class DecomposeReduction(ScheduleState):
    @primitive(REDUCTIONS, block=BLOCK, loop=LOOP)
    def decompose_reduction(self, block: BlockLike, loop: LoopRV) -> BlockRV:
        """Split the init of a reduction off, into a block before a loop; gives the init block.

        The blocks are called ``name_init`` and ``name_update``; the handle given now means the
        update. The init has copies of the spatial loops at and below the loop.

        Requires:

        - a reduction block: an init, spatial and reduce axes only (NotReductionBlockError);
        - a loop that stands around the block (NotAncestorError);
        - no reduce axis over a loop further out; at and below the loop none that runs over spatial
          and reduce axes at once, no predicate that joins such loops, and none that repeats an
          instance (DependenceError);
        - no other block below the loop that uses an element before its init, or writes what the
          init reads (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                for i, k in T.grid(4, 12):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            i, k = sch.get_loops("B")
            init = sch.decompose_reduction("B", k)

        After::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                for i in range(4):
                    with T.block("B_init"):
                        vi = T.axis.spatial(4, i)
                        B[vi] = T.float32(0)
                    for k in range(12):
                        with T.block("B_update"):
                            vi, vk = T.axis.remap("SR", [i, k])
                            B[vi] = B[vi] + A[vi, vk]
        """
        owner, name = self._block(block)
        func = self._functions[owner]
        done = decompose_reduction(func, name, loop.var, checks=self.enable_checks)
        self._commit(owner, done.func)
        self._rename(owner, name, done.update)
        return BlockHandle(done.init, owner)


@dataclass(slots=True)
class Decomposed:
    """The new function, and the names of its init and update blocks."""

    func: PrimFunc
    init: str
    update: str


def decompose_reduction(
    func: PrimFunc, block_name: str, loop_var: Var, *, checks: bool = True
) -> Decomposed:
    """Split the init of a reduction off, into a block of its own directly before a loop."""
    path = find_block(func, block_name, "decompose_reduction")
    realize = realize_of(path)
    block = realize.block
    require_reduction(func, block, "decompose_reduction")
    require_ancestor(func, path, loop_var, "decompose_reduction")
    loops = loops_above(path)
    at = next(i for i, loop in enumerate(loops) if loop.var is loop_var)
    reduce_values = axis_bindings(realize, ("reduce",))
    spatial_values = axis_bindings(realize, ("spatial",))
    for loop in loops[:at]:
        if binds(reduce_values, loop.var):
            found = (
                f"The loop {loop.var.name!r} runs over a reduce axis and stands outside of "
                f"{loop_var.name!r}: the init would run once for each of its iterations. Choose "
                f"{loop.var.name!r} or a loop further out."
            )
            raise fail(DependenceError, "decompose_reduction", func, [loop], found)
    if checks:
        _require_separate(func, realize, loops[at:], spatial_values, reduce_values)
        _require_guard_known(func, realize, loops[:at], loops[at:], spatial_values)
        require_once(func, realize, loops[at:], "decompose_reduction")
        _require_init_may_come_first(func, path, loops[at:], all_loops_above(path))
    init_loops = [loop for loop in loops[at:] if binds(spatial_values, loop.var)]
    names = set(block_names(func))
    init_name = fresh_name(names, f"{block.name}_init")
    update_name = fresh_name(names, f"{block.name}_update")
    init = _init_nest(realize, init_loops, init_name, loops[at:])
    update = replace(as_update(block), name=update_name)
    body = rebuild(path, replace(realize, block=update))
    changed = with_body(func, body)
    new_path: list[Stmt] = []
    for s in find_block(changed, update_name, "decompose_reduction"):
        new_path.append(s)
        if isinstance(s, For) and s.var is loop_var:
            break
    top = new_path[-1]
    return Decomposed(
        with_body(func, rebuild(tuple(new_path), seq(init, top))), init_name, update_name
    )


def _require_separate(
    func: PrimFunc,
    realize: BlockRealize,
    loops: Sequence[For],
    spatial: Sequence[Expr],
    reduced: Sequence[Expr],
) -> None:
    for loop in loops:
        if binds(spatial, loop.var) and binds(reduced, loop.var):
            found = (
                f"The loop {loop.var.name!r} runs over a spatial and a reduce axis of "
                f"{realize.block.name!r} at once; split them apart first."
            )
            raise fail(DependenceError, "decompose_reduction", func, [loop], found)
    inner_reduce = {id(v.var) for v in loops if binds(reduced, v.var)}
    for c in conjuncts(realize.predicate):
        used = {id(n) for n in walk(c) if isinstance(n, Var)}
        spatial_inner = {id(v.var) for v in loops if binds(spatial, v.var)}
        if used & inner_reduce and used & spatial_inner:
            found = f"A predicate of {realize.block.name!r} joins spatial and reduce loops."
            raise fail(DependenceError, "decompose_reduction", func, [realize], found)


def _require_guard_known(
    func: PrimFunc,
    realize: BlockRealize,
    outer: Sequence[For],
    below: Sequence[For],
    spatial: Sequence[Expr],
) -> None:
    """The init has the conditions on its own loops; one on these and on loops that it does not have
    could leave iterations of the outer loops to the init alone, which would undo the update. Not
    where it always holds at the beginning of the loops that the init does not have."""
    first: dict[Var, Expr] = {v.var: v.min for v in below if not binds(spatial, v.var)}
    lost = {id(v) for v in first}
    around = {id(loop.var) for loop in outer if not is_const(loop.extent, 1)}
    bounds = loop_bounds([*outer, *below])
    for c in conjuncts(realize.predicate):
        used = {id(n) for n in walk(c) if isinstance(n, Var)}
        if used & lost and used & around and not bounds.proves(substitute(c, first)):
            found = (
                f"A predicate of {realize.block.name!r} is about loops outside of the init and "
                "loops that only the update has, so that the init might run without it."
            )
            raise fail(DependenceError, "decompose_reduction", func, [realize], found)


def _require_init_may_come_first(
    func: PrimFunc, path: Path, loops: Sequence[For], above: Sequence[For]
) -> None:
    """No other block below the loop uses an element before its init in the old order, or writes
    what the init reads: in the new order all inits come first."""
    realize = realize_of(path)
    block = realize.block
    assert block.init is not None
    require_declared(func, loops[0], "decompose_reduction", [w.buffer for w in block.writes])
    nested = blocks_below(loops[0])
    reads, _ = infer_regions(block.init, None, block.iter_vars)
    used = {id(r.buffer) for r in (*reads, *block.writes)}
    first = replace(block, reads=tuple(reads), body=block.init, init=None)
    own = next(i for i, n in enumerate(nested) if n.block is block)
    for i, n in enumerate(nested):
        if i == own or all(id(r.buffer) not in used for r in (*n.block.reads, *n.block.writes)):
            continue
        shared = [loop for loop in n.loops if any(loop is x for x in loops)]
        order = LoopOrder([x for x in above if all(x is not y for y in loops)], shared)
        inner = [x for x in loops if all(x is not y for y in shared)]
        init = Nested(replace(realize, block=first), inner, [])
        other = Nested(n.realize, n.loops[len(shared) :], n.conditions)
        for a in order.touches(init):
            for b in order.touches(other):
                if a.region.buffer is not b.region.buffer or not (a.written or b.written):
                    continue
                bounds = loop_bounds([*order.fixed, *inner, *other.loops])
                now = i > own or apart(a.box, b.box, bounds)
                if not (now and order.are_apart(a, b)):
                    found = (
                        f"{n.block.name!r} uses {a.region.buffer.name!r} below the loop "
                        f"{loops[0].var.name!r}, perhaps before {block.name!r} begins with the "
                        "same element; before the loop its init would come too early. Choose a "
                        "loop further in."
                    )
                    raise fail(DependenceError, "decompose_reduction", func, [n.block], found)


def _init_nest(
    realize: BlockRealize, loops: Sequence[For], name: str, below: Sequence[For]
) -> Stmt:
    block = realize.block
    assert block.init is not None
    kept = {loop.var for loop in loops}
    skipped = {loop.var for loop in below if loop.var not in kept}
    known = [c for c in conjuncts(realize.predicate) if not any(n in skipped for n in walk(c))]
    axes = [it for it in block.iter_vars if it.kind == "spatial"]
    return nest_like(
        realize,
        axes,
        loops,
        name,
        block.init,
        conjunction(known),
        suffix="_init",
        annotations=block.annotations,
    )

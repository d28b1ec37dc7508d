"""merge: one nest of loops for several that stand one after another.

    for m, l: C[m, l]                 for m_m, l_m:
    for m, l: D[m, l] = f(C)    ->      C[m_m, l_m]
                                        D[m_m, l_m] = f(C)

Before, every iteration of the first nest ran before any of the second; afterwards the second's
iteration m runs before the first's iterations m' > m. Legal where none of these pairs touches one
element that either writes (``loop_order`` proves it), which covers what flows from nest to nest,
what is overwritten after it was read, and what both write.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import DependenceError, NotAncestorError, ScheduleError, ScheduleValueError
from ....support.node import replace
from ...analysis.affine import loop_bounds
from ...analysis.block_kinds import axis_bindings, binds
from ...analysis.hidden_accesses import require_declared
from ...analysis.loop_checks import require_affine, require_plain_serial
from ...analysis.loop_order import LoopOrder, Touch, box_text
from ...analysis.nested_blocks import Nested, blocks_below, map_outer_realizes
from ...analysis.paths import Path, all_loops_above, find_block, find_loop, rebuild, with_body
from ...analysis.preconditions import fail
from ...expr import Var
from ...function import PrimFunc
from ...stmt import Block, For, SeqStmt, Stmt, seq
from ..primitive import LOOPS, THESE_LOOPS, primitive
from ..state import ScheduleState
from ..trace.handles import LoopHandle, LoopRV


class Merge(ScheduleState):
    @primitive(LOOPS, loops_=THESE_LOOPS)
    def merge(self, *loops_: LoopRV) -> LoopRV:
        """Join the nests of several loops into one, and give its innermost loop.

        The nests stand one after another under one parent. Each begins with loops that hold one
        another directly, down to the loop that is named; loops at the same place have the same
        extent, and one loop takes their place, called ``_m`` after the first nest's. What was below
        the named loops runs one after another below the last new one. So the rows of two chained
        products join, because a row of the second needs no later row of the first.

        Requires:

        - at least two loops of provably equal extents, at equal depths in their nests
          (ScheduleValueError);
        - nests that follow one another directly, in the order given, each a chain of loops down to
          the named one (NotAncestorError);
        - plain serial loops that begin at 0 (LoopKindError);
        - blocks with spatial and reduce axes, bound affinely (NonAffineError);
        - no later iteration of an earlier nest that touches what a later nest touches in an
          earlier iteration, where one of them writes (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), E: T.Buffer((6, 4), "float32"),
                     F: T.Buffer((8, 4), "float32")):
                D = T.alloc_buffer((8, 6))
                for m, p in T.grid(8, 6):
                    with T.block("D"):
                        vm, vp = T.axis.remap("SS", [m, p])
                        D[vm, vp] = T.exp(A[vm, vp])
                for m, n, k in T.grid(8, 4, 6):
                    with T.block("F"):
                        vm, vn, vk = T.axis.remap("SSR", [m, n, k])
                        with T.init():
                            F[vm, vn] = T.float32(0)
                        F[vm, vn] = F[vm, vn] + D[vm, vk] * E[vk, vn]

        Schedule::

            rows = sch.merge(sch.get_loops("D")[0], sch.get_loops("F")[0])

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), E: T.Buffer((6, 4), "float32"),
                     F: T.Buffer((8, 4), "float32")):
                D = T.alloc_buffer((8, 6))
                for m_m in range(8):
                    for p in range(6):
                        with T.block("D"):
                            vm, vp = T.axis.remap("SS", [m_m, p])
                            D[vm, vp] = T.exp(A[vm, vp])
                    for n, k in T.grid(4, 6):
                        with T.block("F"):
                            vm, vn, vk = T.axis.remap("SSR", [m_m, n, k])
                            with T.init():
                                F[vm, vn] = T.float32(0)
                            F[vm, vn] = F[vm, vn] + D[vm, vk] * E[vk, vn]
        """
        owner = self._owner(loops_, "merge")
        variables = [loop.var for loop in loops_]
        func, var = merge(self._functions[owner], variables, checks=self.enable_checks)
        self._commit(owner, func)
        return LoopHandle(var, owner)


def merge(func: PrimFunc, variables: Sequence[Var], *, checks: bool = True) -> tuple[PrimFunc, Var]:
    """Merge the nests down to the given loops, which stand in consecutive statements; gives the
    innermost merged variable."""
    if len(variables) < 2:
        raise ScheduleValueError("merge", "Expected at least two loops.")
    paths = [find_loop(func, v, "merge") for v in variables]
    depth = _shared_depth(paths)
    holder = paths[0][depth - 1]
    if not isinstance(holder, SeqStmt) or len({id(p[depth]) for p in paths}) != len(paths):
        found = "The loops do not stand in different statements of one sequence."
        raise fail(NotAncestorError, "merge", func, [p[-1] for p in paths], found)
    chains = [_chain(func, p, depth) for p in paths]
    places = [next(i for i, s in enumerate(holder.stmts) if s is p[depth]) for p in paths]
    if places != list(range(places[0], places[0] + len(places))):
        found = "The nests do not follow one another directly, in the order given."
        raise fail(NotAncestorError, "merge", func, [p[depth] for p in paths], found)
    _require_equal(func, chains)
    outer = all_loops_above(paths[0][: depth + 1])
    merged = [Var(f"{loop.var.name}_m") for loop in chains[0]]
    new_loops = [replace(loop, var=v) for v, loop in zip(merged, chains[0], strict=True)]
    bodies: list[Stmt] = []
    for chain in chains:
        change = {loop.var: v for loop, v in zip(chain, merged, strict=True)}
        inner = [loop for n in blocks_below(chain[-1].body) for loop in n.loops]
        bounds = loop_bounds([*outer, *new_loops, *inner])
        bodies.append(map_outer_realizes(chain[-1].body, change, bounds, None))
    if checks:
        require_declared(func, SeqStmt(tuple([p[depth] for p in paths])), "merge")
        require_local(func, outer, new_loops, bodies, "merge")
    nest = seq(*bodies)
    for loop in reversed(new_loops):
        nest = replace(loop, body=nest)
    stmts = [*holder.stmts[: places[0]], nest, *holder.stmts[places[-1] + 1 :]]
    return with_body(func, rebuild(paths[0][:depth], seq(*stmts))), merged[-1]


def _shared_depth(paths: Sequence[Path]) -> int:
    depth = 0
    while all(len(p) > depth and p[depth] is paths[0][depth] for p in paths):
        depth += 1
    return depth


def _chain(func: PrimFunc, path: Path, depth: int) -> list[For]:
    chain: list[For] = []
    for s in path[depth:]:
        if not isinstance(s, For):
            found = "Expected loops nested directly in one another down to the loop to merge."
            raise fail(NotAncestorError, "merge", func, [path[-1]], found)
        chain.append(s)
    return chain


def _require_equal(func: PrimFunc, chains: Sequence[Sequence[For]]) -> None:
    bounds = loop_bounds(chains[0])
    for chain in chains:
        if len(chain) != len(chains[0]):
            found = "The nests have different depths down to the loops to merge."
            raise fail(ScheduleValueError, "merge", func, list(chain), found)
        for loop, first in zip(chain, chains[0], strict=True):
            require_plain_serial(func, loop, "merge")
            if not bounds.proves_equal(loop.extent, first.extent):
                found = (
                    f"The loops {first.var.name!r} and {loop.var.name!r} do not provably have the "
                    "same extent."
                )
                raise fail(ScheduleValueError, "merge", func, [first, loop], found)


def require_local(
    func: PrimFunc,
    outer: Sequence[For],
    merged: Sequence[For],
    bodies: Sequence[Stmt],
    primitive: str,
) -> None:
    """Raises DependenceError unless each of the statements, which stand below the same loops one
    after another, may run all its iterations before the next one begins, and the other way
    round."""
    groups = [blocks_below(b) for b in bodies]
    for group in groups:
        for n in group:
            require_affine(func, n, [*outer, *merged, *n.loops], primitive)
    order = LoopOrder(outer, merged)
    for i, group in enumerate(groups):
        later = [n for g in groups[i + 1 :] for n in g]
        for first in group:
            for second in later:
                _require_order_kept(func, first, second, order, primitive)


def _require_order_kept(
    func: PrimFunc, first: Nested, second: Nested, order: LoopOrder, primitive: str
) -> None:
    """Raises DependenceError unless ``second`` at an iteration may run before ``first`` at all
    later ones."""
    shared = {id(r.buffer) for r in (*first.block.reads, *first.block.writes)}
    if not any(id(r.buffer) in shared for r in (*second.block.reads, *second.block.writes)):
        return
    for a in order.touches(first):
        for b in order.touches(second):
            if a.region.buffer is not b.region.buffer or not (a.written or b.written):
                continue
            if not order.are_apart(a, b):
                raise _refused(func, a, b, order.merged, primitive)


def _refused(
    func: PrimFunc, first: Touch, second: Touch, merged: Sequence[For], primitive: str
) -> ScheduleError:
    one, other = first.block.block.name, second.block.block.name
    here = ", ".join(repr(loop.var.name) for loop in merged)
    did, does = ["writes" if t.written else "reads" for t in (first, second)]
    buffer = first.region.buffer
    own_box, other_box = box_text(buffer, first.box), box_text(buffer, second.box)
    order = "came first before" if primitive == "merge" else "would come first"
    found = (
        f"In one iteration of {here} the block {other!r} {does} {other_box}, while {one!r} "
        f"{did} {own_box} in a later one. {one!r} {order}, and that these are "
        f"different elements of {buffer.name!r} cannot be proved."
    )
    reduced = axis_bindings(first.block.realize, ("reduce",))
    for loop in merged:
        if first.written and binds(reduced, loop.var):
            found += (
                f" One iteration of the reduce loop {loop.var.name!r} does not complete the sums "
                f"of {one!r}."
            )
    guilty = [_original(func, first.block), _original(func, second.block)]
    return fail(DependenceError, primitive, func, guilty, found)


def _original(func: PrimFunc, n: Nested) -> Block:
    """The block as it stands in the function, for marking it in an error."""
    leaf = find_block(func, n.block.name, "merge")[-1]
    block = getattr(leaf, "block", None)
    assert isinstance(block, Block)
    return block

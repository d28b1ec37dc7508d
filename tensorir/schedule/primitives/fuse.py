"""fuse: one loop in place of several that are nested directly in one another."""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import DependenceError, NotAncestorError, ScheduleValueError
from ....support.node import replace, walk
from ...analysis.affine import loop_bounds
from ...analysis.block_kinds import axis_bindings, binds
from ...analysis.loop_checks import inner_loops, require_plain_serial
from ...analysis.nested_blocks import blocks_below, map_outer_realizes
from ...analysis.paths import all_loops_above, find_loop, loop_of, rebuild, with_body
from ...analysis.preconditions import fail
from ...expr import Expr, IntImm, Var, floordiv, floormod, is_const, mul
from ...function import PrimFunc
from ...stmt import For
from ..primitive import ATTR, LOOPS, THESE_LOOPS, primitive
from ..state import ScheduleState
from ..trace.handles import LoopHandle, LoopRV


class Fuse(ScheduleState):
    @primitive(LOOPS, loops_=THESE_LOOPS, preserve_unit_iters=ATTR)
    def fuse(self, *loops_: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Replace directly nested loops, given outermost first, by one; gives its handle.

        Its extent is the product of theirs, and in the bindings below each becomes a quotient or a
        remainder of the new variable. With ``preserve_unit_iters=False`` a single loop of extent 1
        becomes the constant 0.

        Requires:

        - at least one loop, all of the same function (ScheduleValueError);
        - loops each of which is the only statement in the last (NotAncestorError);
        - serial loops from 0, without annotations (LoopKindError);
        - extents that do not depend on the other loops (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            i, j = sch.get_loops("B")
            fused = sch.fuse(i, j)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i_j_fused in range(48):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i_j_fused // 6)
                        vj = T.axis.spatial(6, i_j_fused % 6)
                        B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        owner = self._owner(loops_, "fuse")
        variables = [loop.var for loop in loops_]
        func, var = fuse(self._functions[owner], variables, preserve_unit_iters=preserve_unit_iters)
        self._commit(owner, func)
        return LoopHandle(var, owner)


def fuse(
    func: PrimFunc, variables: Sequence[Var], *, preserve_unit_iters: bool = True
) -> tuple[PrimFunc, Var]:
    """Replace directly nested loops by one, ``i_j_fused``; ``i`` becomes ``i_j_fused //
    extent_j`` and ``j`` becomes ``i_j_fused % extent_j``."""
    if not variables:
        raise ScheduleValueError("fuse", "Expected at least one loop; found none.")
    path = find_loop(func, variables[0], "fuse")
    loops = [loop_of(path)]
    for v in variables[1:]:
        inner = loops[-1].body
        if not isinstance(inner, For) or inner.var is not v:
            found = (
                f"The loop {v.name!r} is not the only statement directly below "
                f"{loops[-1].var.name!r}; fuse takes directly nested loops, outermost first. "
                "Reorder them first."
            )
            raise fail(NotAncestorError, "fuse", func, [loops[-1]], found)
        loops.append(inner)
    for i, loop in enumerate(loops):
        require_plain_serial(func, loop, "fuse")
        outer = {id(o.var) for o in loops[:i]}
        if any(id(n) in outer for n in walk(loop.extent)):
            found = f"The extent of {loop.var.name!r} depends on a loop it would be fused with."
            raise fail(DependenceError, "fuse", func, [loop], found)
    _require_iterations(func, loops)
    fused = Var("_".join(v.name for v in variables) + "_fused")
    total: Expr = IntImm(1)
    for loop in loops:
        total = mul(total, loop.extent)
    bounds = loop_bounds(all_loops_above(path))
    total = bounds.simplify(total)
    new_loop = For(fused, IntImm(0), total, "serial", loops[-1].body)
    bounds |= loop_bounds([new_loop, *inner_loops(loops[-1].body)])
    change = _fused_values(fused, loops, preserve_unit_iters)
    change = {v: bounds.simplify(e) for v, e in change.items()}
    body = map_outer_realizes(loops[-1].body, change, bounds, None)
    return with_body(func, rebuild(path, replace(new_loop, body=body))), fused


def _require_iterations(func: PrimFunc, loops: Sequence[For]) -> None:
    """Without iterations of a spatial loop the init does not run, without those of a reduce loop it
    does: a loop that is both cannot say which."""
    empty = [loop for loop in loops if is_const(loop.extent, 0)]
    if not empty:
        return
    for n in blocks_below(loops[0]):
        spatial = axis_bindings(n.realize, ("spatial",))
        reduced = axis_bindings(n.realize, ("reduce",))
        if any(binds(spatial, x.var) for x in loops) and any(binds(reduced, x.var) for x in loops):
            found = (
                f"The loop {empty[0].var.name!r} has no iterations, and {n.block.name!r} runs over "
                "spatial and reduce axes of these loops; fuse each kind by itself."
            )
            raise fail(DependenceError, "fuse", func, [loops[0]], found)


def _fused_values(fused: Var, loops: Sequence[For], preserve_unit_iters: bool) -> dict[Var, Expr]:
    change: dict[Var, Expr] = {}
    below: Expr = IntImm(1)
    for i in range(len(loops) - 1, -1, -1):
        extent = loops[i].extent
        outermost = all(is_const(o.extent, 1) for o in loops[:i])
        if is_const(extent, 1) and not (len(loops) == 1 and preserve_unit_iters):
            change[loops[i].var] = IntImm(0)
            continue
        value: Expr = floordiv(fused, below)
        if not outermost:
            value = floormod(value, extent)
        change[loops[i].var] = value
        below = mul(below, extent)
    return change

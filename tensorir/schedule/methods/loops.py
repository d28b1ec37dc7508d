"""``LoopPrimitives``: the face of the primitives in this group.

A method resolves handles, delegates to the implementation, commits the new function and records an
instruction. Its docstring is its entry in docs/primitives.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..primitives import loop_partition as partition
from ..primitives import loops
from ..primitives.fission import fission
from ..primitives.merge import merge as merge_loops
from ..state import BlockLike, IntLike, ScheduleState
from ..trace.handles import LoopHandle, LoopRV


class LoopPrimitives(ScheduleState):
    """Loops: their number and order."""

    def split(
        self,
        loop: LoopRV,
        factors: Sequence[IntLike | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """Replace a loop by a nest of loops, whose handles are returned, outermost first.

        ``factors`` are the extents of the new loops: ints, sampled values, or expressions; one of
        them may be None (or -1), and is then the extent divided by the others, rounded up. Where
        their product is not provably the extent, the blocks below get a predicate, unless
        ``disable_predication`` says that the overshoot is harmless. With
        ``preserve_unit_iters=False`` loops of extent 1 do not appear in the bindings.

        Requires:

        - a plain serial loop (LoopKindError);
        - positive factors, at most one of them None (ScheduleValueError);
        - a product that reaches the extent (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in range(30):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            (i,) = sch.get_loops("B")
            outer, inner = sch.split(i, factors=[None, 8])

        After::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i_0, i_1 in T.grid(4, 8):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i_0 * 8 + i_1)
                        T.where(i_0 * 8 + i_1 < 30)
                        B[vi] = A[vi] + T.float32(1)
        """
        self._place(loop, "split")
        given = self._factors(factors, "split")
        resolved = [None if f == -1 else f for f in given]
        func, variables = loops.split(
            self._functions[loop.func_name],
            loop.var,
            resolved,
            preserve_unit_iters=preserve_unit_iters,
            disable_predication=disable_predication,
        )
        self._commit(loop.func_name, func)
        result = [LoopHandle(v, loop.func_name) for v in variables]
        self._record(
            "split",
            (("loop", loop), ("factors", list(factors))),
            (
                ("preserve_unit_iters", preserve_unit_iters),
                ("disable_predication", disable_predication),
            ),
            result,
        )
        return result

    def loop_partition(self, loop: LoopRV, factors: Sequence[IntLike | None]) -> list[LoopRV]:
        """Cut a loop into consecutive ranges, each with a copy of the body; gives a loop for each.

        ``factors`` are the extents of the parts, ints or expressions of symbolic dimensions; the
        last may be None for what remains. Blocks of the second and later parts are called
        ``name_1``, ``name_2``, ... A part that does not begin a reduction has the update alone. An
        intermediate buffer of which the parts use different elements becomes one buffer a part.

        Requires:

        - a serial loop from 0, without annotations (LoopKindError);
        - at least one extent, of which only the last is None; each provably from 0 to what remains,
          together the whole loop (ScheduleValueError);
        - for a loop over a reduce axis, that it is known which part comes first; intermediate
          buffers that only blocks use (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in range(30):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            (i,) = sch.get_loops("B")
            whole, rest = sch.loop_partition(i, [24, None])

        After::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i_p0 in range(24):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i_p0)
                        B[vi] = A[vi] + T.float32(1)
                for i_p1 in range(6):
                    with T.block("B_1"):
                        vi = T.axis.spatial(30, i_p1 + 24)
                        B[vi] = A[vi] + T.float32(1)
        """
        self._place(loop, "loop_partition")
        resolved = self._factors(factors, "loop_partition")
        done = partition.loop_partition(self._functions[loop.func_name], loop.var, resolved)
        self._commit(loop.func_name, done.func)
        result = [LoopHandle(v, loop.func_name) for v in done.loops]
        self._record("loop_partition", (("loop", loop), ("factors", list(factors))), (), result)
        return result

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
        func, var = loops.fuse(
            self._functions[owner],
            [loop.var for loop in loops_],
            preserve_unit_iters=preserve_unit_iters,
        )
        self._commit(owner, func)
        rv = LoopHandle(var, owner)
        inputs = [("", loop) for loop in loops_]
        self._record("fuse", inputs, (("preserve_unit_iters", preserve_unit_iters),), (rv,))
        return rv

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
        func, var = merge_loops(
            self._functions[owner], [loop.var for loop in loops_], checks=self.enable_checks
        )
        self._commit(owner, func)
        rv = LoopHandle(var, owner)
        self._record("merge", [("", loop) for loop in loops_], (), (rv,))
        return rv

    def fission(self, loop: LoopRV) -> list[LoopRV]:
        """Give each statement below a loop a loop of its own, and give these loops, in order.

        The opposite of ``merge``: afterwards all iterations of the first statement run before any
        of the second. So a tile of rows can be moved into the nests of several blocks, each of
        which then works on all rows of the tile at once.

        Requires:

        - a plain serial loop that begins at 0 (LoopKindError), with several statements below it
          (NotAncestorError);
        - blocks with spatial and reduce axes, bound affinely (NonAffineError);
        - no later iteration of an earlier statement that touches what a later statement touches in
          an earlier iteration, where one of them writes (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8,))
                for i in range(8):
                    for k in range(6):
                        with T.block("B"):
                            vi, vk = T.axis.remap("SR", [i, k])
                            with T.init():
                                B[vi] = T.float32(0)
                            B[vi] = B[vi] + A[vi, vk]
                    for j in range(6):
                        with T.block("C"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            C[vi, vj] = A[vi, vj] * B[vi]

        Schedule::

            pairs, rows = sch.split(sch.get_loops("B")[0], [None, 2])
            for row in sch.fission(rows):
                sch.unroll(row)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8,))
                for i_0 in range(4):
                    for i_1_0 in T.unroll(2):
                        for k in range(6):
                            with T.block("B"):
                                vi = T.axis.spatial(8, i_0 * 2 + i_1_0)
                                vk = T.axis.reduce(6, k)
                                with T.init():
                                    B[vi] = T.float32(0)
                                B[vi] = B[vi] + A[vi, vk]
                    for i_1_1 in T.unroll(2):
                        for j in range(6):
                            with T.block("C"):
                                vi = T.axis.spatial(8, i_0 * 2 + i_1_1)
                                vj = T.axis.spatial(6, j)
                                C[vi, vj] = A[vi, vj] * B[vi]
        """
        self._place(loop, "fission")
        func, variables = fission(
            self._functions[loop.func_name], loop.var, checks=self.enable_checks
        )
        self._commit(loop.func_name, func)
        rvs = [LoopHandle(v, loop.func_name) for v in variables]
        self._record("fission", [("", loop)], (), tuple(rvs))
        return rvs

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Put loops of one chain into the given order; loops that are not named keep their places.

        Requires:

        - loops that are named once each, all of the same function (ScheduleValueError);
        - a chain: between the outermost and the innermost of them no other statement stands beside
          a loop, and no block around it (NotAncestorError);
        - ranges that do not depend on a loop that comes to stand inside, blocks below that read no
          elements that other iterations write and write none twice, and no change to the order in
          which a reduction's init and terms come (DependenceError);
        - blocks below with spatial and reduce axes, bound affinely, each iteration with axes of its
          own (NonAffineError).

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
            sch.reorder(k, i)

        After::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                for k, i in T.grid(12, 4):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]
        """
        owner = self._owner(ordered_loops, "reorder")
        variables = [loop.var for loop in ordered_loops]
        self._commit(
            owner, loops.reorder(self._functions[owner], variables, checks=self.enable_checks)
        )
        self._record("reorder", [("", loop) for loop in ordered_loops])

    def add_unit_loop(self, block_or_loop: BlockLike | LoopRV) -> LoopRV:
        """Put a loop of extent 1 around a block or loop; gives its handle.

        Requires:

        - a block other than the root (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            i, j = sch.get_loops("B")
            sch.add_unit_loop(j)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, u, j in T.grid(8, 1, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        owner, target, rv = self._target(block_or_loop)
        func, var = loops.add_unit_loop(self._functions[owner], target)
        self._commit(owner, func)
        result = LoopHandle(var, owner)
        self._record("add_unit_loop", (("block_or_loop", rv),), (), (result,))
        return result

"""fission: a nest of its own for each statement below a loop; the opposite of merge.

    for m:                       for m_0:
      for l: C[m, l]       ->      for l: C[m_0, l]
      for l: D[m, l] = f(C)      for m_1:
                                   for l: D[m_1, l] = f(C)

Before, an iteration m of the second statement ran before the iterations m' > m of the first;
afterwards it runs after them. These are the pairs that merge turns round the other way, so it is
legal where merge is: where none of them touches one element that either writes.
"""

from __future__ import annotations

from ....support.errors import NotAncestorError
from ....support.node import replace
from ...analysis.affine import loop_bounds
from ...analysis.hidden_accesses import require_declared
from ...analysis.loop_checks import require_plain_serial
from ...analysis.nested_blocks import blocks_below, map_outer_realizes
from ...analysis.paths import all_loops_above, find_loop, loop_of, rebuild, with_body
from ...analysis.preconditions import fail
from ...expr import Var
from ...function import PrimFunc
from ...stmt import SeqStmt, Stmt, seq
from ..primitive import LOOPS, THIS_LOOP, primitive
from ..state import ScheduleState
from ..trace.handles import LoopHandle, LoopRV
from .merge import require_local


class Fission(ScheduleState):
    @primitive(LOOPS, loop=THIS_LOOP)
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
        owner = loop.func_name
        func, variables = fission(self._functions[owner], loop.var, checks=self.enable_checks)
        self._commit(owner, func)
        return [LoopHandle(v, owner) for v in variables]


def fission(func: PrimFunc, var: Var, *, checks: bool = True) -> tuple[PrimFunc, list[Var]]:
    """Give each statement below a loop a loop of its own; the variables of these, in order."""
    path = find_loop(func, var, "fission")
    loop = loop_of(path)
    require_plain_serial(func, loop, "fission")
    if not isinstance(loop.body, SeqStmt):
        found = f"There is one statement below {var.name!r}: nothing to give loops of their own."
        raise fail(NotAncestorError, "fission", func, [loop], found)
    outer = all_loops_above(path[:-1])
    if checks:
        require_declared(func, loop.body, "fission")
        require_local(func, outer, [loop], loop.body.stmts, "fission")
    variables, nests = [], []
    for n, s in enumerate(loop.body.stmts):
        own = Var(f"{var.name}_{n}")
        inner = [x for b in blocks_below(s) for x in b.loops]
        bounds = loop_bounds([*outer, replace(loop, var=own), *inner])
        body: Stmt = map_outer_realizes(s, {var: own}, bounds, None)
        variables.append(own)
        nests.append(replace(loop, var=own, body=body))
    return with_body(func, rebuild(path, seq(*nests))), variables

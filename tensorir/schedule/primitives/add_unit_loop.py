"""add_unit_loop: a loop of one iteration, as a place to move blocks to."""

from __future__ import annotations

from ...analysis.paths import find_inner_block, find_loop, rebuild, with_body
from ...expr import IntImm, Var
from ...function import PrimFunc
from ...stmt import For
from ..primitive import BLOCK_OR_LOOP, LOOPS, primitive
from ..state import BlockLike, ScheduleState
from ..trace.handles import LoopHandle, LoopRV


class AddUnitLoop(ScheduleState):
    @primitive(LOOPS, block_or_loop=BLOCK_OR_LOOP)
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
        owner, target = self._target(block_or_loop)
        func, var = add_unit_loop(self._functions[owner], target)
        self._commit(owner, func)
        return LoopHandle(var, owner)


def add_unit_loop(func: PrimFunc, target: Var | str) -> tuple[PrimFunc, Var]:
    """Put a loop of extent 1, named ``u``, around a loop or a block."""
    if isinstance(target, str):
        path = find_inner_block(func, target, "add_unit_loop")
    else:
        path = find_loop(func, target, "add_unit_loop")
    var = Var("u")
    return with_body(func, rebuild(path, For(var, IntImm(0), IntImm(1), "serial", path[-1]))), var

"""enter_postproc: where post-processing begins in a trace."""

from __future__ import annotations

from ..primitive import SAMPLING, primitive
from ..state import ScheduleState


class EnterPostproc(ScheduleState):
    @primitive(SAMPLING)
    def enter_postproc(self) -> None:
        """Mark that what follows is post-processing: a trace that is mutated makes it anew.

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            sch.enter_postproc()
            assert [inst.kind for inst in sch.trace] == ["enter_postproc"]
        """

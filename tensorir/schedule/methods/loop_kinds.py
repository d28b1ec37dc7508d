"""``LoopKindPrimitives``: the face of the primitives in this group.

A method resolves handles, delegates to the implementation, commits the new function and records an
instruction. Its docstring is its entry in docs/primitives.md.
"""

from __future__ import annotations

from ..primitives import annotate
from ..state import ScheduleState
from ..trace.handles import LoopRV


class LoopKindPrimitives(ScheduleState):
    """Kinds of loops: how their iterations are run."""

    def parallel(self, loop: LoopRV) -> None:
        """Run a loop's iterations on several threads, in any order.

        The number of threads is a property of the call. Of nested parallel loops lowering keeps the
        outermost.

        Requires:

        - a serial loop, bound to spatial axes alone in the blocks below (LoopKindError);
        - iterations that write different elements, and read none that another iteration writes
          (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            i, j = sch.get_loops("B")
            sch.parallel(i)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i in T.parallel(8):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        self._set_kind("parallel", loop, "parallel")

    def vectorize(self, loop: LoopRV) -> None:
        """Run a loop's iterations as the lanes of vectors.

        Lowering needs a constant extent, which it cuts into vectors of the target's width and a
        shorter rest; a body that cannot be a vector becomes a serial loop.

        Requires:

        - a serial loop, with no parallel or vectorised loop below, bound to spatial axes alone in
          the blocks below (LoopKindError);
        - iterations that write different elements, and read none that another iteration writes
          (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            i, j = sch.get_loops("B")
            sch.vectorize(j)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i in range(8):
                    for j in T.vectorized(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        self._set_kind("vectorize", loop, "vectorized")

    def unroll(self, loop: LoopRV) -> None:
        """Repeat the loop's body in the code, once for each iteration, in order.

        Requires:

        - a serial loop (LoopKindError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            i, j = sch.get_loops("B")
            sch.unroll(j)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i in range(8):
                    for j in T.unroll(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        self._set_kind("unroll", loop, "unrolled")

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to a thread axis of a GPU, such as ``threadIdx.x``.

        The CPU has no such threads: lowering runs the loop as it would a serial one.

        Requires:

        - one of ``blockIdx.x/y/z``, ``threadIdx.x/y/z`` and ``vthread`` (ScheduleValueError);
        - a serial loop, bound to spatial axes alone in the blocks below, or, for ``threadIdx``, to
          reduce axes (LoopKindError);
        - iterations that write different elements, and read none that another iteration writes
          (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            i, j = sch.get_loops("B")
            sch.bind(i, "blockIdx.x")

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i in T.thread_binding(8, thread="blockIdx.x"):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        self._set_kind("bind", loop, "thread_binding", thread_axis)

    def _set_kind(self, primitive: str, loop: LoopRV, kind: str, thread: str = "") -> None:
        self._place(loop, primitive)
        func = annotate.set_kind(
            self._functions[loop.func_name],
            loop.var,
            kind,
            thread=thread,
            checks=self.enable_checks,
        )
        self._commit(loop.func_name, func)
        self._record(primitive, (("loop", loop),), (("thread_axis", thread),) if thread else ())

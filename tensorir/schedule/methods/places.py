"""``PlacePrimitives``: the face of the primitives in this group.

A method resolves handles, delegates to the implementation, commits the new function and records an
instruction. Its docstring is its entry in docs/primitives.md.
"""

from __future__ import annotations

from ..primitives import compute_location, inline
from ..state import BlockLike, ScheduleState
from ..trace.handles import LoopHandle, LoopRV


class PlacePrimitives(ScheduleState):
    """Places: where a block is computed."""

    def compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a producer under a loop that holds its consumers, to compute what they need there.

        The block loses its own loops and gets new ones, ``ax0, ax1, ...``, over the box that is
        needed, which may be larger than what is read. ``index`` is the position among the
        statements below the loop: -1 as late as possible, -2 as early as possible. With
        ``preserve_unit_loops`` loops of extent 1 are made too. ``loop`` may be a sampled place,
        which may also mean to stay or to inline.

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
        handle = self._handle(block)
        owner, name = self._block(handle)
        func = self._functions[owner]
        if not isinstance(loop, LoopHandle) or not loop.place:
            self._place(loop, "compute_at")
        if loop.place == "inline":
            func = inline.compute_inline(func, name, checks=self.enable_checks)
        elif not loop.place:
            func = compute_location.compute_at(
                func,
                name,
                loop.var,
                preserve_unit_loops=preserve_unit_loops,
                index=index,
                checks=self.enable_checks,
            )
        self._commit(owner, func)
        attrs = (("preserve_unit_loops", preserve_unit_loops), ("index", index))
        self._record("compute_at", (("block", handle), ("loop", loop)), attrs)

    def reverse_compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """Move a consumer under a loop that holds its producers, to consume what is final there.

        The block loses its own loops and gets new ones, ``ax0, ax1, ...``, over the instances whose
        operands one iteration completes. ``index`` is the position among the statements below the
        loop: -1 as late as possible, -2 as early as possible. With ``preserve_unit_loops`` loops of
        extent 1 are made too.

        Requires:

        - a complete or reduction block (NotCompleteBlockError);
        - a loop in the same block that does not stand around it (NotAncestorError);
        - producers, all of them below the loop, or before it under a loop that stands around it and
          the block, that write a whole box in one iteration, none of whose reduce axes runs over
          the loop or a loop above it; nobody on the way who uses what it writes or writes what it
          reads; that it reads no more than the box and reduces over no part of it; that the
          iterations reach all its instances; a place below the loop after its producers
          (DependenceError);
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

            i, j = sch.get_loops("B")
            sch.reverse_compute_at("C", i)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i in range(8):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] + T.float32(1)
                    for ax0 in range(6):
                        with T.block("C"):
                            vi, vj = T.axis.remap("SS", [i, ax0])
                            C[vi, vj] = B[vi, vj] * T.float32(2)
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._place(loop, "reverse_compute_at")
        func = compute_location.reverse_compute_at(
            self._functions[owner],
            name,
            loop.var,
            preserve_unit_loops=preserve_unit_loops,
            index=index,
            checks=self.enable_checks,
        )
        self._commit(owner, func)
        attrs = (("preserve_unit_loops", preserve_unit_loops), ("index", index))
        self._record("reverse_compute_at", (("block", handle), ("loop", loop)), attrs)

    def compute_inline(self, block: BlockLike) -> None:
        """Remove a block and put its value where its buffer is read.

        Requires:

        - a complete block without a condition, whose body is one store at distinct axes of its own
          (NotCompleteBlockError);
        - a buffer that is no output of the scope, is read, and has no other writer; operands that
          are not overwritten later (DependenceError).

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

            sch.compute_inline("B")

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = (A[vi, vj] + T.float32(1)) * T.float32(2)
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(
            owner, inline.compute_inline(self._functions[owner], name, checks=self.enable_checks)
        )
        self._record("compute_inline", (("block", handle),))

    def reverse_compute_inline(self, block: BlockLike) -> None:
        """Remove a block and compute its value where its only producer stores.

        Requires:

        - a complete block, and a complete producer, each with one store and without a condition;
          the block reads the producer's buffer at exactly its own axes, each once
          (NotCompleteBlockError);
        - one producer, whose buffer is allocated in the scope, has no other reader or writer and is
          read as a whole; nobody between the two who uses what the block writes (DependenceError).

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

            sch.reverse_compute_inline("C")

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = (A[vi, vj] + T.float32(1)) * T.float32(2)
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(
            owner,
            inline.reverse_compute_inline(self._functions[owner], name, checks=self.enable_checks),
        )
        self._record("reverse_compute_inline", (("block", handle),))

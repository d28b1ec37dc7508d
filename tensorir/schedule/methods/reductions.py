"""``ReductionPrimitives``: the face of the primitives in this group.

A method resolves handles, delegates to the implementation, commits the new function and records an
instruction. Its docstring is its entry in docs/primitives.md.
"""

from __future__ import annotations

from ....support.errors import ScheduleValueError
from ..by_hand.fuse_reduction_epilogue import fuse_reduction_epilogue as fuse_epilogue
from ..primitives import reduction
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV, LoopRV


class ReductionPrimitives(ScheduleState):
    """Reductions: their parts."""

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
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._place(loop, "decompose_reduction")
        done = reduction.decompose_reduction(
            self._functions[owner], name, loop.var, checks=self.enable_checks
        )
        self._commit(owner, done.func)
        self._rename(owner, name, done.update)
        rv = BlockHandle(done.init, owner)
        self._record("decompose_reduction", (("block", handle), ("loop", loop)), (), (rv,))
        return rv

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """Make a reduce loop spatial, for partial results that a final block adds up; gives the
        block of partial results.

        The block is called ``name_rf``; the handle of the old one now means the final block, which
        follows the nest, or the loops of it below which nobody else uses the result.
        ``factor_axis`` is the place of the new dimension in the buffer of partial
        results, an int; negative counts from the end. The terms of a sum are regrouped: float
        results may differ in their last bits.

        Requires:

        - a reduction block whose update is a sum, product, max or min of its own element and a
          term, beginning with the neutral element (NotReductionBlockError);
        - ``factor_axis`` from -(d + 1) to d for a buffer of d dimensions (ScheduleValueError);
        - one block below the loop, and no other user of its buffer below a reduce loop; a serial
          loop from 0 over reduce axes alone, of an extent that depends on no other loop; no loop
          over spatial and reduce axes at once, none that repeats an instance, and no predicate that
          might leave a partial result without a term (DependenceError).

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
            outer, inner = sch.split(k, [None, 4])
            partial = sch.rfactor(inner, factor_axis=0)

        After::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                B_rf = T.alloc_buffer((4, 4))
                for i, k_0, k_1 in T.grid(4, 3, 4):
                    with T.block("B_rf"):
                        vi, vk_1, vk_0 = T.axis.remap("SSR", [i, k_1, k_0])
                        with T.init():
                            B_rf[vk_1, vi] = T.float32(0)
                        B_rf[vk_1, vi] = B_rf[vk_1, vi] + A[vi, vk_0 * 4 + vk_1]
                for i, k_1 in T.grid(4, 4):
                    with T.block("B"):
                        vi, vk_1 = T.axis.remap("SR", [i, k_1])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + B_rf[vk_1, vi]
        """
        self._place(loop, "rfactor")
        done = reduction.rfactor(self._functions[loop.func_name], loop.var, factor_axis)
        self._commit(loop.func_name, done.func)
        rv = BlockHandle(done.partial, loop.func_name)
        self._record("rfactor", (("loop", loop),), (("factor_axis", factor_axis),), (rv,))
        return rv

    def fuse_reduction_epilogue(
        self, reduction_block: BlockLike, epilogue_block: BlockLike
    ) -> None:
        """Let a reduction begin with what a later block combines its result with, and remove that
        block.

        A bias added to a sum becomes the init of the sum; so does a factor of a product, a lower
        limit of a maximum, an upper limit of a minimum, and what is subtracted from a sum, negated.
        The reduction writes the other block's buffer and keeps its name; fusing again adds the next
        term (a residual, say).

        Integers, maxima and minima keep their values to the bit. A sum of floats takes the bias
        first instead of last: as many roundings, in another order, and a zero may change its sign.
        Other epilogues, such as a relu after the bias, are no step of a sum and are refused: fuse
        the bias, and move the rest by reverse_compute_at.

        Requires:

        - a reduction block with an init, whose update combines its own element and a term
          (NotReductionBlockError); so fuse before decompose_reduction and after rfactor;
        - a complete epilogue with one store, not under a condition, that reads the result at its
          own axes (NotCompleteBlockError);
        - the same operation, with a value of the same dtype that does not read the result
          (DependenceError);
        - a result that only the two blocks use, read in whole, and finished where the epilogue
          stands (DependenceError);
        - inputs of the epilogue that are written before the reduction begins, and an output that
          nothing uses before the epilogue (DependenceError).

        Before::

            @T.prim_func
            def main(
                A: T.Buffer((4, 8), "float32"),
                b: T.Buffer((4,), "float32"),
                D: T.Buffer((4,), "float32"),
            ):
                C = T.alloc_buffer((4,))
                for i, k in T.grid(4, 8):
                    with T.block("C"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            C[vi] = T.float32(0)
                        C[vi] = C[vi] + A[vi, vk]
                for i in range(4):
                    with T.block("D"):
                        vi = T.axis.spatial(4, i)
                        D[vi] = C[vi] + b[vi]

        Schedule::

            sch.fuse_reduction_epilogue("C", "D")

        After::

            @T.prim_func
            def main(
                A: T.Buffer((4, 8), "float32"),
                b: T.Buffer((4,), "float32"),
                D: T.Buffer((4,), "float32"),
            ):
                for i, k in T.grid(4, 8):
                    with T.block("C"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            D[vi] = b[vi]
                        D[vi] = D[vi] + A[vi, vk]
        """
        first, second = self._handle(reduction_block), self._handle(epilogue_block)
        owner, name = self._block(first)
        other, after = self._block(second)
        if other != owner:
            raise ScheduleValueError(
                "fuse_reduction_epilogue",
                f"The blocks are of different functions: {owner!r} and {other!r}.",
            )
        self._commit(owner, fuse_epilogue(self._functions[owner], name, after))
        inputs = (("reduction_block", first), ("epilogue_block", second))
        self._record("fuse_reduction_epilogue", inputs)

"""``SamplingPrimitives``: the face of the primitives in this group.

A method resolves handles, delegates to the implementation, commits the new function and records an
instruction. Its docstring is its entry in docs/primitives.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...expr import Var
from ..by_hand.sample_partitioned_tile import partitioned_tile
from ..primitives import sampling
from ..state import BlockLike, ScheduleState
from ..trace.handles import LoopHandle, LoopRV


class SamplingPrimitives(ScheduleState):
    """Sampling: random decisions, each a variable that later primitives take."""

    def sample_perfect_tile(
        self,
        loop: LoopRV,
        n: int,
        max_innermost_factor: int = 16,
        decision: Sequence[int] | None = None,
    ) -> list[Var]:
        """Draw ``n`` factors of a loop's extent, as values that split takes; ``get`` tells them.

        Every prime factor of the extent goes to one of the places, drawn uniformly; the last factor
        is at most ``max_innermost_factor``. A loop whose extent is no constant gives -1 and ones.
        ``decision`` is the list of factors to take instead of drawing.

        Requires:

        - ``n`` and ``max_innermost_factor`` of at least 1, a decision of ``n`` positive factors
          with the loop's extent as product (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((24,), "float32"), B: T.Buffer((24,), "float32")):
                for i in range(24):
                    with T.block("B"):
                        vi = T.axis.spatial(24, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            (i,) = sch.get_loops("B")
            factors = sch.sample_perfect_tile(i, n=2, decision=[6, 4])
            assert [sch.get(f) for f in factors] == [6, 4]
            sch.split(i, factors)

        After::

            @T.prim_func
            def main(A: T.Buffer((24,), "float32"), B: T.Buffer((24,), "float32")):
                for i_0, i_1 in T.grid(6, 4):
                    with T.block("B"):
                        vi = T.axis.spatial(24, i_0 * 4 + i_1)
                        B[vi] = A[vi] + T.float32(1)
        """
        self._place(loop, "sample_perfect_tile")
        func = self._functions[loop.func_name]
        factors = sampling.perfect_tile(
            self._rng, func, loop.var, n, max_innermost_factor, decision
        )
        result = [self._fresh_value(f, i) for i, f in enumerate(factors)]
        attrs = (("n", n), ("max_innermost_factor", max_innermost_factor))
        self._record("sample_perfect_tile", (("loop", loop),), attrs, result, list(factors))
        return result

    def sample_partitioned_tile(
        self,
        loop: LoopRV,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[Var]:
        """``n`` factors of a loop's extent, as Vars for split, the inner ones a multiple of a
        number.

        The product of the factors from ``partition_pos`` on is a multiple of
        ``innerpart_factor``: what a vector or an intrinsic needs fits into the inner loops,
        whatever is drawn for the rest. An extent that is no multiple of it gives ``[extent, 1,
        ..., 1]``, one that is not constant ``[-1, 1, ..., 1]``. The decision is the list of
        factors.

        Requires:

        - ``n`` of at least 1, ``partition_pos`` from 0 to ``n``, a factor of at least 1, and an
          inner part where the factor is more than 1 (ScheduleValueError);
        - a decision of ``n`` factors with this product and inner product (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
                for i in range(64):
                    with T.block("B"):
                        vi = T.axis.spatial(64, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            (i,) = sch.get_loops("B")
            tile = sch.sample_partitioned_tile(i, 3, 1, 16, decision=[2, 4, 8])
            sch.split(i, tile)

        After::

            @T.prim_func
            def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
                for i_0, i_1, i_2 in T.grid(2, 4, 8):
                    with T.block("B"):
                        vi = T.axis.spatial(64, i_0 * 32 + i_1 * 8 + i_2)
                        B[vi] = A[vi] + T.float32(1)
        """
        self._place(loop, "sample_partitioned_tile")
        func = self._functions[loop.func_name]
        factors = partitioned_tile(
            self._rng, func, loop.var, n, partition_pos, innerpart_factor, decision
        )
        result = [self._fresh_value(f, i) for i, f in enumerate(factors)]
        attrs = (
            ("n", n),
            ("partition_pos", partition_pos),
            ("innerpart_factor", innerpart_factor),
        )
        inputs = (("loop", loop),)
        self._record("sample_partitioned_tile", inputs, attrs, result, list(factors))
        return result

    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> Var:
        """Draw one of the ints ``candidates`` with the weights ``probs``, as a value that
        primitives take; ``get`` tells it.

        ``decision`` is the index of the candidate to take instead of drawing.

        Requires:

        - at least one candidate, as many weights, none of them negative and not all 0, and a
          decision that is an index (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            steps = sch.sample_categorical([0, 16, 64], [0.2, 0.3, 0.5], decision=1)
            assert sch.get(steps) == 16
            sch.annotate("B", "pragma_auto_unroll_max_step", steps)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.block_attr({"pragma_auto_unroll_max_step": 16})
                        B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        index = sampling.categorical(self._rng, candidates, probs, decision)
        rv = self._fresh_value(int(candidates[index]))
        attrs = (("candidates", list(candidates)), ("probs", list(probs)))
        self._record("sample_categorical", (), attrs, (rv,), index)
        return rv

    def sample_compute_location(self, block: BlockLike, decision: int | None = None) -> LoopRV:
        """Draw a place for a block, as a value that compute_at takes.

        The places are the loops of its first consumer under which compute_at may put it, its own
        (-1), and, where compute_inline may, inline (-2), each as likely as the others. ``decision``
        is the number of the loop, counted from the outermost, -1 or -2, to take instead of drawing.

        Requires:

        - a decision that is legal for the block; the error lists those that are
          (ScheduleValueError).

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

            place = sch.sample_compute_location("B", decision=0)
            sch.compute_at("B", place)

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
        func, name = self._block(handle)
        place, var = sampling.compute_location(self._rng, self._functions[func], name, decision)
        kinds = {sampling.ROOT: "root", sampling.INLINE: "inline"}
        rv = LoopHandle(var if var is not None else Var(kinds[place]), func, kinds.get(place, ""))
        self._record("sample_compute_location", (("block", handle),), (), (rv,), place)
        return rv

    def _fresh_value(self, value: int, offset: int = 0) -> Var:
        var = Var(f"v{self._rv_count + offset}")
        self._values = {**self._values, var: value}
        return var

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
        self._record("enter_postproc")

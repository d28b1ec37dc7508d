"""``AnnotationPrimitives``: the face of the primitives in this group.

A method resolves handles, delegates to the implementation, commits the new function and records an
instruction. Its docstring is its entry in docs/primitives.md.
"""

from __future__ import annotations

from typing import Any

from ..primitives import annotate
from ..state import BlockLike, ScheduleState
from ..trace.handles import LoopRV


class AnnotationPrimitives(ScheduleState):
    """Annotations: notes on blocks and loops that lowering, postprocessing or a user reads."""

    def annotate(self, block_or_loop: BlockLike | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Write a note on a block or loop, in place of one with the same key.

        ``ann_val`` is a number, a string or a list of these; a sampled value is put in as its
        integer. Lowering reads ``pragma_auto_unroll_max_step``; on a loop ``prefetch_distance``
        (how many of its iterations ahead the caches are asked for what it loads),
        ``prefetch_next`` (how many iterations ahead of the loop around that moves on to other
        memory) and ``prefetch_region`` (the same for what all iterations of the loop load, in the
        order of memory, and for rows at places that are looked up) and ``sum_block`` (how many
        terms of a sum of floats are added in order); on a block ``non_temporal``
        (1: what it writes goes past the caches, for parameters that the function does not read).
        Tuning rules read keys of their own, and nobody else reads any other.

        Requires:

        - a str as key; numbers, strs, or a list of these as value (ScheduleValueError);
        - a loop that is one, not a place without a loop that was sampled (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            (i, _) = sch.get_loops("B")
            sch.annotate(i, "pragma_auto_unroll_max_step", 16)
            sch.annotate("B", "note", ["rows", 8])

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i in T.serial(8, annotations={"pragma_auto_unroll_max_step": 16}):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            T.block_attr({"note": ["rows", 8]})
                            B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        owner, target, rv = self._target(block_or_loop)
        value = (
            [self._value(v) for v in ann_val]
            if isinstance(ann_val, (list, tuple))
            else self._value(ann_val)
        )
        self._commit(owner, annotate.annotate(self._functions[owner], target, ann_key, value))
        self._record(
            "annotate", (("block_or_loop", rv), ("ann_key", ann_key), ("ann_val", ann_val))
        )

    def unannotate(self, block_or_loop: BlockLike | LoopRV, ann_key: str) -> None:
        """Remove the note with the key ``ann_key`` from a block or loop.

        Requires:

        - a note with this key; the error lists those that are there (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in T.serial(30, annotations={"note": 1}):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            (i,) = sch.get_loops("B")
            sch.unannotate(i, "note")

        After::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in range(30):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)
        """
        owner, target, rv = self._target(block_or_loop)
        self._commit(owner, annotate.unannotate(self._functions[owner], target, ann_key))
        self._record("unannotate", (("block_or_loop", rv),), (("ann_key", ann_key),))

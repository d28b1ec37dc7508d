"""sample_compute_location: a place for a block, drawn at random."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ....support.errors import ScheduleError, ScheduleValueError
from ...analysis.nested_blocks import consumers_of
from ...analysis.paths import find_block, find_inner_block, loops_above, realize_of, scope_path
from ...expr import Var
from ...function import PrimFunc
from ..primitive import BLOCK, SAMPLING, primitive
from ..primitives.compute_at import compute_at
from ..primitives.compute_inline import compute_inline
from ..state import BlockLike, ScheduleState
from ..trace.handles import LoopHandle, LoopRV

ROOT, INLINE = -1, -2


class SampleComputeLocation(ScheduleState):
    @primitive(SAMPLING, block=BLOCK)
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
        func, name = self._block(block)
        places = compute_locations(self._functions[func], name)
        place = self._decide(
            ("sample_compute_location", name),
            decision,
            lambda given: compute_location(self._rng, name, list(places), given),
        )
        self._note(decision=place)
        var = places[place]
        kinds = {ROOT: "root", INLINE: "inline"}
        return LoopHandle(var if var is not None else Var(kinds[place]), func, kinds.get(place, ""))


def compute_locations(func: PrimFunc, block_name: str) -> dict[int, Var | None]:
    """Where a block may be computed: -2, inline; -1, where it is; and i, under the i-th loop of its
    first consumer, whose variable is the value."""
    path = find_inner_block(func, block_name, "sample_compute_location")
    places: dict[int, Var | None] = {}
    try:
        compute_inline(func, block_name)
        places[INLINE] = None
    except ScheduleError:
        pass
    places[ROOT] = None
    scope = scope_path(path)[-1]
    block = realize_of(path).block
    consumers = consumers_of(scope, block)  # type: ignore[arg-type]
    if not consumers:
        return places
    first = find_block(func, consumers[0].block.name, "sample_compute_location")
    for i, loop in enumerate(loops_above(first)):
        try:
            compute_at(func, block_name, loop.var, preserve_unit_loops=True)
        except ScheduleError:
            continue
        places[i] = loop.var
    return places


def compute_location(
    rng: random.Random, block_name: str, places: Sequence[int], decision: int | None
) -> int:
    """One of the places, drawn uniformly; a decision that is not legal is refused."""
    if decision is None:
        return places[rng.randrange(len(places))]
    if decision in places:
        return decision
    raise ScheduleValueError(
        "sample_compute_location",
        f"The block {block_name!r} cannot be computed at place {decision}; legal are "
        f"{list(places)}.",
    )

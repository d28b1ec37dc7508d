"""sample_partitioned_tile: factors of a loop whose inner ones together are a multiple of a number.

The factors are cut in two at a position, ``[outer..., inner...]``. The product of the inner part is
made a multiple of what an intrinsic or a vector needs, so that the nest can be tiled by it whatever
else was drawn.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from math import prod

from ....support.errors import ScheduleValueError
from ...expr import Var
from ...function import PrimFunc
from ..arguments import require_int, require_ints
from ..primitive import ATTR, LOOP, SAMPLING, primitive
from ..primitives.sample_perfect_tile import known_extent, prime_factors
from ..state import ScheduleState
from ..trace.handles import LoopRV

_PRIMITIVE = "sample_partitioned_tile"
_DRAWS = 64


class SamplePartitionedTile(ScheduleState):
    @primitive(SAMPLING, loop=LOOP, n=ATTR, partition_pos=ATTR, innerpart_factor=ATTR)
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
        func = self._functions[loop.func_name]
        extent = known_extent(func, loop.var, _PRIMITIVE)
        factors = self._decide(
            None if extent is None else (_PRIMITIVE, extent, n, partition_pos, innerpart_factor),
            decision,
            lambda given: partitioned_tile(
                self._rng, func, loop.var, n, partition_pos, innerpart_factor, given
            ),
        )
        self._note(decision=list(factors))
        return [self._fresh_value(f, i) for i, f in enumerate(factors)]


def partitioned_tile(
    rng: random.Random,
    func: PrimFunc,
    var: Var,
    n: int,
    partition_pos: int,
    innerpart_factor: int,
    decision: Sequence[int] | None,
) -> list[int]:
    """``n`` factors whose product is the extent of a loop; those from ``partition_pos`` on have a
    product that is a multiple of ``innerpart_factor``.

    Every prime factor goes to a place drawn uniformly; the draws of one prime are repeated while
    too few fall into the inner part, and after 64 of them the missing ones are moved there. A loop
    whose extent is not a constant gives ``[-1, 1, ..., 1]``, one whose extent is no multiple of the
    factor ``[extent, 1, ..., 1]``. A decision is checked and taken.
    """
    _require_numbers(n, partition_pos, innerpart_factor)
    extent = known_extent(func, var, _PRIMITIVE)
    if extent is None:
        return [-1, *([1] * (n - 1))]
    extent = max(extent, 1)
    if decision is not None:
        _require_tile(decision, n, extent, partition_pos, innerpart_factor, var.name)
        return [int(f) for f in decision]
    if extent % innerpart_factor:
        return [extent, *([1] * (n - 1))]
    wanted = Counter(prime_factors(innerpart_factor))
    factors = [1] * n
    for p, count in Counter(prime_factors(extent)).items():
        for place in _places(rng, count, wanted[p], n, partition_pos):
            factors[place] *= p
    return factors


def _places(rng: random.Random, count: int, needed: int, n: int, partition_pos: int) -> list[int]:
    """Places for one prime, at least ``needed`` of them in the inner part."""
    places: list[int] = []
    for _ in range(_DRAWS):
        places = [rng.randrange(n) for _ in range(count)]
        if sum(place >= partition_pos for place in places) >= needed:
            return places
    outer = [i for i, place in enumerate(places) if place < partition_pos]
    for i in outer[: needed - (count - len(outer))]:
        places[i] = rng.randrange(partition_pos, n)
    return places


def _require_numbers(n: int, partition_pos: int, innerpart_factor: int) -> None:
    require_int(n, "n", _PRIMITIVE)
    require_int(partition_pos, "partition_pos", _PRIMITIVE)
    require_int(innerpart_factor, "innerpart_factor", _PRIMITIVE)
    if n < 1:
        raise ScheduleValueError(_PRIMITIVE, f"n must be at least 1; found {n}.")
    if not 0 <= partition_pos <= n:
        raise ScheduleValueError(
            _PRIMITIVE, f"partition_pos must be from 0 to n = {n}; found {partition_pos}."
        )
    if innerpart_factor < 1:
        raise ScheduleValueError(
            _PRIMITIVE, f"innerpart_factor must be at least 1; found {innerpart_factor}."
        )
    if partition_pos == n and innerpart_factor > 1:
        raise ScheduleValueError(
            _PRIMITIVE,
            f"With partition_pos = n = {n} there is no inner part, whose product could be a "
            f"multiple of {innerpart_factor}.",
        )


def _require_tile(
    decision: Sequence[int], n: int, extent: int, partition_pos: int, factor: int, name: str
) -> None:
    require_ints(decision, "the decision", _PRIMITIVE)
    if len(decision) != n or prod(decision) != extent or any(f < 1 for f in decision):
        raise ScheduleValueError(
            _PRIMITIVE,
            f"Expected {n} factors with the product {extent}, the extent of {name!r}; "
            f"found {list(decision)}.",
        )
    if extent % factor == 0 and prod(decision[partition_pos:]) % factor:
        raise ScheduleValueError(
            _PRIMITIVE,
            f"Expected factors whose product from place {partition_pos} on is a multiple of "
            f"{factor}; found {list(decision)}.",
        )

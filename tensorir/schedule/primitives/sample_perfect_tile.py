"""sample_perfect_tile: factors of a loop's extent, drawn at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from ....support.errors import ScheduleValueError
from ...analysis.paths import find_loop, loop_of
from ...expr import IntImm, Var
from ...function import PrimFunc
from ..arguments import require_int, require_ints
from ..primitive import ATTR, LOOP, SAMPLING, primitive
from ..state import ScheduleState
from ..trace.handles import LoopRV


class SamplePerfectTile(ScheduleState):
    @primitive(SAMPLING, loop=LOOP, n=ATTR, max_innermost_factor=ATTR)
    def sample_perfect_tile(
        self,
        loop: LoopRV,
        n: int,
        max_innermost_factor: int | None = None,
        decision: Sequence[int] | None = None,
    ) -> list[Var]:
        """Draw ``n`` factors of a loop's extent, as values that split takes; ``get`` tells them.

        Every prime factor of the extent goes to one of the places, drawn uniformly; the last factor
        is at most ``max_innermost_factor``: where that is None 16, and in the tuner four vectors of
        float32 where that is more, 64 of AVX-512. A loop whose extent is no constant gives -1 and
        ones.
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
        func = self._functions[loop.func_name]
        if max_innermost_factor is None:
            max_innermost_factor = self.innermost_factor
        extent = known_extent(func, loop.var, "sample_perfect_tile")
        factors = self._decide(
            None if extent is None else ("sample_perfect_tile", extent, n, max_innermost_factor),
            decision,
            lambda given: perfect_tile(self._rng, func, loop.var, n, max_innermost_factor, given),
        )
        self._note(decision=list(factors), max_innermost_factor=max_innermost_factor)
        return [self._fresh_value(f, i) for i, f in enumerate(factors)]


@cache
def prime_factors(n: int) -> tuple[int, ...]:
    """The prime factors of ``n``, ascending, with repetition."""
    found: list[int] = []
    p = 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    if n > 1:
        found.append(n)
    return tuple(found)


def known_extent(func: PrimFunc, var: Var, primitive: str) -> int | None:
    """The extent of a loop; None where it is symbolic."""
    extent = loop_of(find_loop(func, var, primitive)).extent
    return extent.value if isinstance(extent, IntImm) else None


def perfect_tile(
    rng: random.Random,
    func: PrimFunc,
    var: Var,
    n: int,
    max_innermost_factor: int,
    decision: Sequence[int] | None,
) -> list[int]:
    """``n`` factors whose product is the extent of a loop, the last at most
    ``max_innermost_factor``.

    Every prime factor goes to a place drawn uniformly; draws with too large a last factor are
    repeated, and after 64 of them the last factor is cut down to the largest that fits. A loop
    whose extent is not a constant gives ``[-1, 1, ..., 1]``, one that never runs ones. A decision
    is checked and taken.
    """
    n = require_int(n, "n", "sample_perfect_tile")
    max_innermost_factor = require_int(
        max_innermost_factor, "max_innermost_factor", "sample_perfect_tile"
    )
    if n < 1:
        raise ScheduleValueError("sample_perfect_tile", f"n must be at least 1; found {n}.")
    if max_innermost_factor < 1:
        raise ScheduleValueError(
            "sample_perfect_tile",
            f"max_innermost_factor must be at least 1; found {max_innermost_factor}.",
        )
    extent = known_extent(func, var, "sample_perfect_tile")
    if extent is None:
        return [-1, *([1] * (n - 1))]
    if decision is not None:
        return _checked_tile(decision, n, extent, var.name)
    if n == 1:
        return [max(extent, 1)]
    primes = prime_factors(extent)
    for _ in range(64):
        factors = [1] * n
        for p in primes:
            factors[rng.randrange(n)] *= p
        if factors[-1] <= max_innermost_factor:
            return factors
    rest = factors[-1]
    factors[-1] = max(d for d in range(1, min(rest, max_innermost_factor) + 1) if rest % d == 0)
    factors[0] *= rest // factors[-1]
    return factors


def _checked_tile(decision: Sequence[int], n: int, extent: int, name: str) -> list[int]:
    decision = require_ints(decision, "the decision", "sample_perfect_tile")
    product = 1
    for f in decision:
        product *= f
    if len(decision) != n or product != max(extent, 1) or any(f < 1 for f in decision):
        raise ScheduleValueError(
            "sample_perfect_tile",
            f"Expected {n} factors with the product {extent}, the extent of {name!r}, all "
            f"positive; found {decision}.",
        )
    return decision

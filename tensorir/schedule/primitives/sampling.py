"""Drawing decisions: tiles, categories, places. Each is a pure function of its arguments and the
generator; the Schedule records what was drawn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import accumulate

from ....support.errors import ScheduleError, ScheduleValueError
from ...analysis.paths import (
    consumers_of,
    find_block,
    find_inner_block,
    find_loop,
    loop_of,
    loops_above,
    realize_of,
    scope_path,
)
from ...expr import Var
from ...function import PrimFunc
from ..arguments import require_floats, require_int, require_ints
from .compute_location import compute_at
from .inline import compute_inline


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
    loop = loop_of(find_loop(func, var, "sample_perfect_tile"))
    extent = getattr(loop.extent, "value", None)
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


def categorical(
    rng: random.Random, candidates: Sequence[int], probs: Sequence[float], decision: int | None
) -> int:
    """The index of a candidate, drawn with the given weights; a decision is checked and taken."""
    candidates = require_ints(candidates, "the candidates", "sample_categorical")
    probs = require_floats(probs, "the probabilities", "sample_categorical")
    if not candidates or len(candidates) != len(probs):
        raise ScheduleValueError(
            "sample_categorical",
            f"Expected as many probabilities as candidates; found {len(candidates)} and "
            f"{len(probs)}.",
        )
    if any(p < 0 for p in probs) or not sum(probs) > 0:
        raise ScheduleValueError(
            "sample_categorical",
            "Expected probabilities of which none is negative and one is positive; found "
            f"{list(probs)}.",
        )
    if decision is not None:
        decision = require_int(decision, "the decision", "sample_categorical")
        if not 0 <= decision < len(candidates):
            raise ScheduleValueError(
                "sample_categorical",
                f"Expected a decision below {len(candidates)}; found {decision}.",
            )
        return decision
    total = list(accumulate(probs))
    draw = rng.random() * total[-1]
    return next((i for i, t in enumerate(total) if draw < t), len(candidates) - 1)


ROOT, INLINE = -1, -2


def compute_locations(func: PrimFunc, block_name: str) -> list[tuple[int, Var | None]]:
    """Where a block may be computed: ``(-2, None)`` inline, ``(-1, None)`` where it is, and
    ``(i, var)`` under the i-th loop of its first consumer."""
    path = find_inner_block(func, block_name, "sample_compute_location")
    places: list[tuple[int, Var | None]] = []
    try:
        compute_inline(func, block_name)
        places.append((INLINE, None))
    except ScheduleError:
        pass
    places.append((ROOT, None))
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
        places.append((i, loop.var))
    return places


def compute_location(
    rng: random.Random, func: PrimFunc, block_name: str, decision: int | None
) -> tuple[int, Var | None]:
    """One of ``compute_locations``, drawn uniformly; a decision that is not legal is refused."""
    places = compute_locations(func, block_name)
    if decision is None:
        return places[rng.randrange(len(places))]
    for place in places:
        if place[0] == decision:
            return place
    raise ScheduleValueError(
        "sample_compute_location",
        f"The block {block_name!r} cannot be computed at place {decision}; legal are "
        f"{[p for p, _ in places]}.",
    )

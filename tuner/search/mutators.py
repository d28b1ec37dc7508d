"""Mutation and crossover of decisions. What comes out are decisions of the same domains, so that
running the space function with them gives a candidate of the same space.

Nothing here knows what the decisions are for; whether a candidate is legal, the space function
says.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from ...tensorir.schedule.primitives.sample_perfect_tile import prime_factors
from .decisions import CATEGORY, FIELD, PLACE, TILE, Draw, Draws, redraw

_RESAMPLE = 0.2
"""How often a tile is drawn anew, and not changed by one factor."""
_KINDS = {TILE: 0.8, FIELD: 0.15, CATEGORY: 0.15, PLACE: 0.05}
"""How much of the mutations each kind of draw gets, where a candidate has all of them."""


def mutable(draws: Draws) -> list[int]:
    """Positions of the draws that have another decision to take."""
    return [i for i, d in enumerate(draws) if not d.is_fixed and _has_choice(d)]


def _has_choice(draw: Draw) -> bool:
    match draw.kind:
        case "tile":
            return int(draw.domain[0]) > 1 and int(draw.domain[1]) > 1
        case "category":
            return len(draw.domain) > 1
        case "field":
            return len(draw.domain) > 2
        case "place":
            return True
        case _:
            return False


def mutate(draws: Draws, rng: random.Random, *, only: Sequence[int] | None = None) -> Draws:
    """``draws`` with one decision changed (of the positions ``only``, where given); the same
    object where there is nothing to change. A place is drawn anew by the space function: its
    decision is left out."""
    places = list(only) if only is not None else mutable(draws)
    if not places:
        return draws
    i = rng.choices(places, [_KINDS.get(draws[p].kind, 0.1) for p in places])[0]
    if draws[i].kind == PLACE:
        return draws[:i] + draws[i + 1 :]
    changed = mutate_draw(draws[i], rng)
    return (*draws[:i], changed, *draws[i + 1 :])


def mutate_draw(draw: Draw, rng: random.Random) -> Draw:
    """A draw with another decision of its domain."""
    if draw.kind == CATEGORY:
        others = [c for c in range(len(draw.domain)) if c != draw.decision]
        return draw.with_decision(rng.choice(others))
    if draw.kind == FIELD:
        return draw.with_decision(
            int(rng.choice([v for v in draw.domain[1:] if v != draw.decision]))
        )
    if draw.kind == TILE and rng.random() >= _RESAMPLE:
        moved = move_factor(draw, rng)
        if moved is not draw:
            return moved
    return draw.with_decision(redraw(draw, rng))


def move_factor(draw: Draw, rng: random.Random) -> Draw:
    """A tile with some prime factors of one level moved to another; the same draw where the bound
    of the innermost allows no move."""
    assert isinstance(draw.decision, tuple)
    _, _, innermost = (int(x) for x in draw.domain)
    factors = list(draw.decision)
    moves = []
    for i, factor in enumerate(factors):
        for j in range(len(factors)):
            if i == j:
                continue
            for d in _divisors(factor):
                if j < len(factors) - 1 or factors[j] * d <= innermost:
                    moves.append((i, j, d))
    if not moves:
        return draw
    i, j, d = rng.choice(moves)
    factors[i] //= d
    factors[j] *= d
    return draw.with_decision(tuple(factors))


def _divisors(n: int) -> list[int]:
    """The divisors of ``n`` above 1."""
    found = {1}
    for p in prime_factors(n):
        found |= {d * p for d in found}
    return sorted(found - {1})


def cross(a: Draws, b: Draws, rng: random.Random, *, only: Sequence[int] | None = None) -> Draws:
    """``a`` with each decision (of the positions ``only``, where given) from ``a`` or ``b``, at
    even odds, where ``b`` has a draw of the same key."""
    others = {d.key: d for d in b}
    places = set(only) if only is not None else set(range(len(a)))
    child = []
    for i, draw in enumerate(a):
        other = others.get(draw.key)
        take = i in places and other is not None and not draw.is_fixed
        child.append(
            draw.with_decision(other.decision)
            if take and other is not None and rng.random() < 0.5
            else draw
        )
    return tuple(child)

"""Decisions as data: what a space function drew, and running it again with other draws.

A space function is a Python function on a Schedule. ``DecidedSchedule`` is a Schedule whose
sampling primitives, and whose ``apply_rule``, take their decisions from a table where it has one,
and draw where not; either way it notes each draw with its domain. So every mutation of a
candidate's draws is again a candidate of the same space, whatever the function does with the
numbers. A draw whose value the function has looked at (``sch.get``) may have steered it: it is a
*control* decision, as is what a rule decides; all others only went into primitives.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ...support.errors import ScheduleValueError
from ...tensorir.expr import Expr, Var
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule, Trace
from ...tensorir.schedule.primitives.sample_perfect_tile import prime_factors
from ...tensorir.visitor import free_vars

Decision = int | tuple[int, ...]
DrawKey = tuple[str, tuple[int | str, ...], int]
"""Kind and domain of a draw, and how many of these came before it."""

TILE, PARTED, CATEGORY, PLACE = "tile", "partitioned_tile", "category", "place"
FIELD = "field"
"""A decision of a rule, by its name."""
KINDS = {
    "sample_perfect_tile": TILE,
    "sample_partitioned_tile": PARTED,
    "sample_categorical": CATEGORY,
    "sample_compute_location": PLACE,
    "apply_rule": FIELD,
}
"""The kinds of draws, by the primitives that make them."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw. The domain of a tile is (extent, n, largest innermost factor), of a partitioned one
    (extent, n, position, inner factor), of a category its candidates, of a place its block, of a
    field its name and its values; the decision of a field is a value, of a category an index."""

    kind: str
    domain: tuple[int | str, ...]
    occurrence: int
    decision: Decision
    is_control: bool = False
    is_fixed: bool = False
    """The space function gave the decision itself."""

    @property
    def key(self) -> DrawKey:
        return (self.kind, _own_domain(self.kind, self.domain), self.occurrence)

    def with_decision(self, decision: Decision) -> Draw:
        return replace(self, decision=decision)


def _own_domain(kind: str, domain: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """What tells a draw's domain from others: a field is the same decision whatever others leave of
    its domain."""
    return domain[:1] if kind == FIELD else domain


Draws = tuple[Draw, ...]


class Ledger:
    """The draws of one run, shared by all copies of its schedule: a rule that was tried and given
    up has drawn too, and must draw the same when it is run again."""

    def __init__(self, given: Iterable[Draw] = ()) -> None:
        self.given: dict[DrawKey, Decision] = {d.key: d.decision for d in given}
        self.counts: dict[tuple[str, tuple[int | str, ...]], int] = {}
        self.draws: list[Draw] = []
        self.numbers: dict[Var, int] = {}

    def next_key(self, kind: str, domain: tuple[int | str, ...]) -> DrawKey:
        own = _own_domain(kind, domain)
        occurrence = self.counts.get((kind, own), 0)
        self.counts[kind, own] = occurrence + 1
        return (kind, own, occurrence)

    def note(
        self, key: DrawKey, domain: tuple[int | str, ...], decision: Decision, *, fixed: bool
    ) -> None:
        kind, _, occurrence = key
        is_control = kind in (PLACE, FIELD)
        self.draws.append(Draw(kind, domain, occurrence, decision, is_control, fixed))

    def mark_read(self, e: Expr) -> None:
        """The value of an expression was asked for: what it consists of is control."""
        for var in free_vars([e]):
            i = self.numbers.get(var)
            if i is not None:
                self.draws[i] = replace(self.draws[i], is_control=True)


class DecidedSchedule(Schedule):
    """A Schedule that takes decisions from a table and keeps a ledger of its draws."""

    def __init__(self, func: PrimFunc, *, seed: int, given: Iterable[Draw] = ()) -> None:
        super().__init__(func, seed=seed)
        self.ledger = Ledger(given)
        self._drawn: int | None = None

    @property
    def draws(self) -> Draws:
        return tuple(self.ledger.draws)

    def get(self, rv: Any) -> Any:
        if isinstance(rv, Expr):
            self.ledger.mark_read(rv)
        return super().get(rv)

    def _decide(
        self, domain: tuple[Any, ...] | None, decision: Any, draw: Callable[[Any], Any]
    ) -> Any:
        self._drawn = None
        if domain is None:
            return super()._decide(domain, decision, draw)
        kind, values = KINDS[domain[0]], domain[1:]
        key = self.ledger.next_key(kind, values)
        given = self.ledger.given.get(key)
        # Fields before may have left another domain than the one that was drawn from.
        if decision is not None or (kind == FIELD and given not in values[1:]):
            given = decision
        try:
            taken = draw(given)
        except ScheduleValueError:
            if decision is not None:
                raise
            taken = draw(None)  # other decisions have made this one illegal
        noted = int(taken) if isinstance(taken, int) else tuple([int(f) for f in taken])
        self._drawn = len(self.ledger.draws)
        self.ledger.note(key, values, noted, fixed=decision is not None)
        return taken

    def _fresh_value(self, value: int, offset: int = 0) -> Var:
        var = super()._fresh_value(value, offset)
        if self._drawn is not None:
            self.ledger.numbers[var] = self._drawn
        return var


def draws_of_trace(text: str) -> Draws:
    """The draws that a recorded trace (JSON) shows, as decisions to run a space function with.
    Those of rules that were given up are not in it."""
    ledger = Ledger()
    for inst in Trace.from_json(text):
        attrs, decision = dict(inst.attrs), inst.decision
        decided: list[tuple[tuple[int | str, ...], Decision]] = []
        match inst.kind:
            case "sample_perfect_tile":
                tile = (prod(decision), attrs["n"], attrs["max_innermost_factor"])
                decided.append((tile, tuple(decision)))
            case "sample_partitioned_tile":
                inner = (attrs["partition_pos"], attrs["innerpart_factor"])
                decided.append(((prod(decision), attrs["n"], *inner), tuple(decision)))
            case "sample_categorical":
                decided.append((tuple([int(c) for c in attrs["candidates"]]), decision))
            case "sample_compute_location":
                decided.append(((dict(inst.inputs)["block"].name,), decision))
            case "apply_rule":
                fields = decision.items()
                decided += [((f"{attrs['rule']}.{name}", value), value) for name, value in fields]
        for domain, value in decided:
            key = ledger.next_key(KINDS[inst.kind], domain)
            ledger.note(key, domain, value, fixed=False)
    return tuple(ledger.draws)


def redraw(draw: Draw, rng: random.Random) -> Decision:
    """Another decision of a draw's domain, uniform as the samplers draw (places excepted: only the
    schedule knows the legal ones)."""
    match draw.kind:
        case "tile":
            extent, n, innermost = (int(x) for x in draw.domain)
            return redraw_tile(extent, n, innermost, rng)
        case "category":
            return rng.randrange(len(draw.domain))
        case "field":
            return int(rng.choice(draw.domain[1:]))
        case _:
            return draw.decision


def redraw_tile(extent: int, n: int, innermost: int, rng: random.Random) -> tuple[int, ...]:
    """Factors of an extent: each prime goes to a place drawn uniformly, while the last factor stays
    within its bound."""
    factors = [1] * n
    for p in sorted(prime_factors(extent), reverse=True):
        fits = n if factors[-1] * p <= innermost or n == 1 else n - 1
        factors[rng.randrange(fits)] *= p
    return tuple(factors)

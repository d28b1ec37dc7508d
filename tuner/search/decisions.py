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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
        # A field is the same decision whatever others leave of its domain.
        domain = self.domain[:1] if self.kind == FIELD else self.domain
        return (self.kind, domain, self.occurrence)

    def with_decision(self, decision: Decision) -> Draw:
        return replace(self, decision=decision)


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
        occurrence = self.counts.get((kind, domain), 0)
        self.counts[kind, domain] = occurrence + 1
        return (kind, domain, occurrence)

    def note(self, key: DrawKey, decision: Decision, values: Sequence[Var], fixed: bool) -> None:
        for var in values:
            self.numbers[var] = len(self.draws)
        self.draws.append(Draw(*key, decision, key[0] == PLACE, fixed))

    def note_field(
        self, name: str, domain: Sequence[int], occurrence: int, value: int, *, fixed: bool
    ) -> None:
        self.draws.append(
            Draw(FIELD, (name, *domain), occurrence, value, is_control=True, is_fixed=fixed)
        )

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

    @property
    def draws(self) -> Draws:
        return tuple(self.ledger.draws)

    def get(self, rv: Any) -> Any:
        if isinstance(rv, Expr):
            self.ledger.mark_read(rv)
        return super().get(rv)

    def sample_perfect_tile(
        self,
        loop: Any,
        n: int,
        max_innermost_factor: int = 16,
        decision: Sequence[int] | None = None,
    ) -> list[Var]:
        extent = self._extent(loop)
        if extent is None:
            return super().sample_perfect_tile(loop, n, max_innermost_factor, decision)
        key = self.ledger.next_key(TILE, (extent, n, max_innermost_factor))
        taken = decision if decision is not None else self._given_tile(key)
        values = super().sample_perfect_tile(loop, n, max_innermost_factor, taken)
        self._note_tile(key, values, decision is not None)
        return values

    def sample_partitioned_tile(
        self,
        loop: Any,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[Var]:
        extent = self._extent(loop)
        if extent is None:
            return super().sample_partitioned_tile(
                loop, n, partition_pos, innerpart_factor, decision
            )
        key = self.ledger.next_key(PARTED, (extent, n, partition_pos, innerpart_factor))
        taken = decision if decision is not None else self._given_tile(key)
        values = super().sample_partitioned_tile(loop, n, partition_pos, innerpart_factor, taken)
        self._note_tile(key, values, decision is not None)
        return values

    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> Var:
        key = self.ledger.next_key(CATEGORY, tuple([int(c) for c in candidates]))
        given = self.ledger.given.get(key)
        taken = decision if decision is not None or not isinstance(given, int) else given
        value = super().sample_categorical(candidates, probs, taken)
        chosen = self._decision()
        self.ledger.note(key, int(chosen), [value], decision is not None)
        return value

    def sample_compute_location(self, block: Any, decision: int | None = None) -> Any:
        name = self._block(self._handle(block))[1]
        key = self.ledger.next_key(PLACE, (name,))
        given = self.ledger.given.get(key)
        if decision is None and isinstance(given, int):
            try:
                place = super().sample_compute_location(block, given)
            except ScheduleValueError:  # other decisions have made this place illegal
                place = super().sample_compute_location(block)
        else:
            place = super().sample_compute_location(block, decision)
        self.ledger.note(key, int(self._decision()), [], decision is not None)
        return place

    def _draw_decision(self, name: str, domain: Sequence[int], decision: int | None) -> int:
        key = self.ledger.next_key(FIELD, (name,))
        given = self.ledger.given.get(key)
        fixed = decision is not None
        # Fields before may have left another domain than the one that was drawn from.
        if decision is None and isinstance(given, int) and given in domain:
            decision = given
        drawn = super()._draw_decision(name, domain, decision)
        self.ledger.note_field(name, domain, key[2], drawn, fixed=fixed)
        return drawn

    def _extent(self, loop: Any) -> int | None:
        extent = getattr(super().get(loop).extent, "value", None)
        return None if extent is None else int(extent)

    def _given_tile(self, key: DrawKey) -> list[int] | None:
        given = self.ledger.given.get(key)
        return list(given) if isinstance(given, tuple) else None

    def _note_tile(self, key: DrawKey, values: list[Var], fixed: bool) -> None:
        self.ledger.note(key, tuple([int(f) for f in self._decision()]), values, fixed)

    def _decision(self) -> Any:
        assert self._instructions is not None
        return self._instructions[1].decision


def draws_of_trace(text: str) -> Draws:
    """The draws that a recorded trace (JSON) shows, as decisions to run a space function with.
    Those of rules that were given up are not in it."""
    ledger = Ledger()
    for inst in Trace.from_json(text):
        attrs = dict(inst.attrs)
        match inst.kind:
            case "sample_perfect_tile":
                extent = _product(inst.decision)
                domain = (extent, attrs["n"], attrs["max_innermost_factor"])
                key, decision = ledger.next_key(TILE, domain), tuple(inst.decision)
            case "sample_partitioned_tile":
                inner = (attrs["partition_pos"], attrs["innerpart_factor"])
                parted = (_product(inst.decision), attrs["n"], *inner)
                key, decision = ledger.next_key(PARTED, parted), tuple(inst.decision)
            case "sample_categorical":
                key = ledger.next_key(CATEGORY, tuple([int(c) for c in attrs["candidates"]]))
                decision = inst.decision
            case "sample_compute_location":
                block = dict(inst.inputs)["block"]
                key, decision = ledger.next_key(PLACE, (block.name,)), inst.decision
            case "apply_rule":
                for name, value in inst.decision.items():
                    field = f"{attrs['rule']}.{name}"
                    occurrence = ledger.next_key(FIELD, (field,))[2]
                    ledger.note_field(field, (value,), occurrence, value, fixed=False)
                continue
            case _:
                continue
        ledger.note(key, decision, [], False)
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


def _product(factors: Iterable[int]) -> int:
    product = 1
    for f in factors:
        product *= f
    return product

"""Rules as data: a rule is an object, what it may decide is a dataclass, and a list has them all.

    func, target ── match ──> Roles | None           what the axes and blocks of a function are
    Roles, target, pick ── decide ──> Decisions      each field a member of its domain
    Schedule, Roles, Decisions ── apply ──> Schedule by primitives; a ScheduleError is a refusal

A field of a ``Decisions`` is declared by ``choice(domain, suggest)``, both functions of the roles,
the target and the fields before it. ``pick`` chooses in the domain: what the model suggests
(``suggested``), what a trace says, or at random; there is no other way to a Decisions, so that all
of these are one space. Blocks that a rule comes upon while it works (the products of a chain, what
is left beside a product) have Decisions of their own, made by the ``Decide`` that ``apply`` is
handed, under the name of a block: ``rows`` is the rule's, ``T_relu.vectors`` a block's.

``Schedule.apply_rule`` runs a rule by its name, and is its one line in the trace (``rows=6`` and
all); ``registry.RULES`` is the list, ``analytic.apply_rules`` walks it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any, ClassVar, Generic, TypeVar

from ...support.errors import RuleMismatchError
from ...support.target import Target
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ...tensorir.schedule.apply_rule import Pick
from ..candidate import SpaceFunction
from ..workload import axis_kinds, blocks_in_order, is_empty

Domain = Callable[[Any, Target, Any], Sequence[int]]
"""Of roles, target, and the fields before (by name): the values a field may have, in order."""
Suggestion = Callable[[Any, Target, Any], int]
"""The value that the analytic model takes, a member of the domain."""


MOST_SHOWN = 4
"""Blocks of a function that an error names."""


@dataclass(frozen=True)
class _Choice:
    domain: Domain
    suggest: Suggestion


def choice(domain: Domain, suggest: Suggestion) -> Any:
    """A field of a Decisions."""
    return field(metadata={"choice": _Choice(domain, suggest)})


def suggested(name: str, domain: Sequence[int], suggest: Callable[[], int], /) -> int:
    """The ``Pick`` of untuned code."""
    return suggest()


@dataclass(frozen=True)
class Decisions:
    """The base of what rules decide: frozen dataclasses of ints, each field a ``choice``."""


@dataclass(frozen=True)
class NoDecisions(Decisions):
    """Of rules that decide nothing but about single blocks."""


D = TypeVar("D", bound=Decisions)
R = TypeVar("R")


@dataclass(frozen=True)
class Decide:
    """Makes Decisions: for a target, by a ``pick``."""

    target: Target
    pick: Pick = suggested

    def __call__(self, kind: type[D], roles: Any, part: str = "") -> D:
        """The decisions of a kind about ``roles``; those of a part of a function are named after
        it. Raises DecisionError for a value outside of its domain."""
        before = SimpleNamespace()
        for f in fields(kind):
            declared: _Choice = f.metadata["choice"]
            domain = declared.domain(roles, self.target, before)
            name = f"{part}.{f.name}" if part else f.name
            setattr(before, f.name, self.pick(name, domain, _later(declared, roles, self, before)))
        return kind(**vars(before))


def _later(declared: _Choice, roles: Any, decide: Decide, before: Any) -> Callable[[], int]:
    return lambda: int(declared.suggest(roles, decide.target, before))


class Rule(ABC, Generic[R, D]):
    """A family of schedules. ``name`` is what traces and reports call it, ``kind`` what the
    functions have that it is for: "one matrix product"."""

    name: ClassVar[str]
    kind: ClassVar[str]
    decisions: type[D]

    @abstractmethod
    def match(self, func: PrimFunc, target: Target) -> R | None:
        """What the function's blocks and axes are to this rule; None for functions of another
        kind. Raises ScheduleError, which says why, for one of its kind that it refuses."""

    def prepare(self, sch: Schedule, roles: R) -> None:
        """What is done before anything is decided; the function is matched again then."""
        return

    def decide(self, roles: R, target: Target, pick: Pick = suggested) -> D:
        """The rule's own decisions, by default the analytic ones."""
        return Decide(target, pick)(self.decisions, roles)

    @abstractmethod
    def apply(self, sch: Schedule, roles: R, decisions: D, decide: Decide) -> None:
        """Schedule the function; ``decide`` is for parts of it. Raises ScheduleError where a
        primitive refuses."""

    def spaces(self, func: PrimFunc, target: Target) -> list[SpaceFunction]:
        """Further design spaces for a function, whose decisions are draws of primitives."""
        return []

    def run(self, sch: Schedule, target: Target, pick: Pick) -> None:
        """All steps, on a schedule whose function nobody scheduled: what ``apply_rule`` calls."""
        self.prepare(sch, self._roles(sch, target))
        roles = self._roles(sch, target)
        self.apply(sch, roles, self.decide(roles, target, pick), Decide(target, pick))

    def _roles(self, sch: Schedule, target: Target) -> R:
        roles = None if is_empty(sch.func) else self.match(sch.func, target)
        if roles is None:
            raise RuleMismatchError(self.name, self.kind, _described(sch.func))
        return roles


def _described(func: PrimFunc) -> str:
    """What a rule found, without the program: most rules are for other functions, and printing one
    takes time."""
    blocks = blocks_in_order(func)
    shown = [f"{b.name!r} (axes {axis_kinds(b) or 'none'})" for b in blocks[:MOST_SHOWN]]
    more = f" and {len(blocks) - MOST_SHOWN} more" if len(blocks) > MOST_SHOWN else ""
    empty = ", of an axis without iterations" if is_empty(func) else ""
    return f"the blocks {', '.join(shown)}{more}{empty}"

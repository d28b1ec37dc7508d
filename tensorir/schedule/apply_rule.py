"""Rules by name: a schedule that a rule of the tuner makes is one instruction, ``apply_rule``.

Rules live in a higher layer, which hands them down as callables (``register_rule``, called when
``burnish.tuner.rules.registry`` is imported). A rule does what it does by the other primitives, on
a schedule of its own, and asks for each of its decisions by name:

    value = pick("rows", (1, 2, 3, 4), suggest)

``Picked`` answers from the decisions that are given, or draws; what was asked and answered is the
decision of the instruction. So the trace has every decision, and replaying it with another one
gives another program of the same rule. A decision outside of the domain that the rule states is a
DecisionError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...support.errors import DecisionError, ScheduleValueError, nearest
from ...support.host import resolve
from ...support.target import Target
from .arguments import require_int, require_text


class Pick(Protocol):
    """Answers with a member of ``domain``; ``suggest`` computes the one that the rule would take,
    where nothing else decides."""

    def __call__(self, name: str, domain: Sequence[int], suggest: Callable[[], int], /) -> int: ...


RuleFunction = Callable[[Any, Target, Pick], None]
"""Schedules the function of a Schedule for a target. Raises ScheduleError where it does not fit."""

_rules: dict[str, RuleFunction] = {}


def register_rule(name: str, rule: RuleFunction) -> None:
    """Make a rule known by its name; the last one of a name counts."""
    _rules[name] = rule


def rule_named(name: str) -> RuleFunction:
    """The rule; ScheduleValueError with the nearest name where there is none."""
    name = require_text(name, "a rule's name", "apply_rule")
    if name not in _rules:
        known = (
            f"There are {', '.join(_rules)}" if _rules else "burnish.tuner.rules.registry has all"
        )
        raise ScheduleValueError(
            "apply_rule", f"There is no rule {name!r}.{nearest(name, _rules)} {known}."
        )
    return _rules[name]


def require_target(target: str | Target) -> Target:
    """The target, ``native`` as the machine at hand, which is what the trace then says;
    ScheduleValueError where its registers or caches are not known."""
    found = target if isinstance(target, Target) else Target(target)
    if found.kind == "native":
        found = resolve(found)
    if not found.is_resolved:
        raise ScheduleValueError(
            "apply_rule",
            f"Expected a target with a CPU whose sizes are known, such as 'native -threads=1' or "
            f"'llvm -mcpu=haswell'; found {str(found)!r}.",
        )
    return found


def require_decisions(decision: Any) -> dict[str, int] | None:
    """Values by name, or None; ScheduleValueError for anything else."""
    if decision is None:
        return None
    if not isinstance(decision, Mapping):
        raise ScheduleValueError(
            "apply_rule", f"Expected decisions by name, such as {{'rows': 4}}; found {decision!r}."
        )
    return {
        require_text(name, "a decision's name", "apply_rule"): require_int(
            value, f"the decision {name!r}", "apply_rule"
        )
        for name, value in decision.items()
    }


@dataclass
class Picked:
    """A ``Pick`` that remembers. ``given`` decisions are taken and what they leave open as the rule
    suggests; where nothing is given at all, decisions are drawn. ``draw`` (name, domain, decision)
    is told of each that has a choice, and draws where the decision is None."""

    rule: str
    given: Mapping[str, int] | None
    draw: Callable[[str, Sequence[int], int | None], int]
    taken: dict[str, int] = field(default_factory=dict)
    refused: dict[str, DecisionError] = field(default_factory=dict)
    """Given decisions that were outside of their domains. A rule that tries one way after another
    goes on behind such an error; ``require_all_known`` raises it in the end."""

    def __call__(self, name: str, domain: Sequence[int], suggest: Callable[[], int], /) -> int:
        if name not in self.taken:
            decision = None
            if self.given is not None:
                decision = self.given[name] if name in self.given else suggest()
                if name in self.given and decision not in domain:
                    self.refused[name] = DecisionError(self.rule, name, decision, domain)
                    raise self.refused[name]
            elif len(domain) == 1:
                decision = domain[0]
            if len(domain) > 1:
                decision = self.draw(f"{self.rule}.{name}", domain, decision)
            assert decision is not None
            self.taken[name] = decision
        value = self.taken[name]
        if value not in domain:
            raise DecisionError(self.rule, name, value, domain)
        return value

    def require_all_known(self) -> None:
        """Raises DecisionError for a given decision that was outside of its domain wherever it was
        asked for, ScheduleValueError for one that the rule did not ask for."""
        for name in self.given or ():
            if name in self.refused and name not in self.taken:
                raise self.refused[name]
            if name not in self.taken:
                raise ScheduleValueError(
                    "apply_rule",
                    f"The rule {self.rule!r} takes no decision {name!r} here."
                    f"{nearest(name, self.taken)} It takes {', '.join(self.taken) or 'none'}.",
                )

"""The built-in design space of a workload, as functions on a Schedule."""

from __future__ import annotations

from ...support.target import Target
from ...tensorir.function import PrimFunc
from ...tensorir.schedule import Schedule
from ..analytic import apply_rules
from ..candidate import SpaceFunction
from ..rules.registry import RULES


def _space_function(target: Target, *, sampled: bool) -> SpaceFunction:
    def apply(sch: Schedule) -> None:
        apply_rules(sch, target, sampled=sampled)

    return apply


def default_space(func: PrimFunc, target: Target) -> list[SpaceFunction]:
    """The rules that fit ``func``, with sampled decisions, and the spaces that rules have beside
    that."""
    further = [space for rule in RULES for space in rule.spaces(func, target)]
    return [_space_function(target, sampled=True), *further]


def analytic_choices(func: PrimFunc, target: Target) -> list[SpaceFunction]:
    """The same rules with the analytic decisions: measured before anything else."""
    return [_space_function(target, sampled=False)]

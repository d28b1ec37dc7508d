"""The built-in design space of a workload, as functions on a Schedule."""

from __future__ import annotations

from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import Schedule
from .analytic import apply_rules, rules_for
from .block_tiles import has_tiles, schedule_products
from .candidate import SpaceFunction
from .chooser import Chooser


def _space_function(target: Target, chooser: Chooser) -> SpaceFunction:
    def apply(sch: Schedule) -> None:
        apply_rules(sch, target, chooser)

    return apply


def _tiles(target: Target) -> SpaceFunction:
    def apply(sch: Schedule) -> None:
        schedule_products(sch, target, Chooser(analytic=False))

    return apply


def default_space(func: PrimFunc, target: Target) -> list[SpaceFunction]:
    """The rules that fit ``func``, with sampled decisions; for products also their tilings in
    general."""
    functions = [_space_function(target, Chooser(analytic=False))]
    rules = [name for name, _ in rules_for(func, target)]
    if ("matmul" in rules or "chain" in rules) and has_tiles(func, target):
        functions.append(_tiles(target))
    return functions


def analytic_choices(func: PrimFunc, target: Target) -> list[SpaceFunction]:
    """The same rules with the analytic decisions: measured before anything else."""
    return [_space_function(target, Chooser(analytic=True))]

"""The built-in design space of a workload, as functions on a Schedule."""

from __future__ import annotations

from ..support.target import Target
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import Schedule
from .analytic import apply_rules
from .chooser import Chooser
from .search import SpaceFunction


def _space_function(target: Target, chooser: Chooser) -> SpaceFunction:
    def apply(sch: Schedule) -> None:
        apply_rules(sch, target, chooser)

    return apply


def default_space(func: PrimFunc, target: Target) -> list[SpaceFunction]:
    """The rules that fit ``func``, with sampled decisions."""
    return [_space_function(target, Chooser(analytic=False))]


def analytic_choices(func: PrimFunc, target: Target) -> list[SpaceFunction]:
    """The same rules with the analytic decisions: measured before anything else."""
    return [_space_function(target, Chooser(analytic=True))]

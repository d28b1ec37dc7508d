"""What torch.export says of named sizes: guards that not all values satisfy, and bounds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from ...support.errors import FrontendError
from .dynamic_shapes import ExportPlan
from .unsaid_guards import (
    ENDLESS,
    TRIED_TOGETHER,
    failing,
    failing_together,
    holds,
    largest_of,
    limits_of,
    near,
    printed,
)  # fmt: skip

MUST_BE_CONSTANT = "Specializations unexpectedly required"
"""What torch says, behind its guards, of a size for which they leave a single value."""
_GUARD = re.compile(
    r"Not all values of (?P<name>\w+) = (?P<size>\S+) in the specified range.*? "
    r"satisfy the generated guard (?P<condition>.*?)\.?$"
)
"""What torch says of a size of which it cannot show that it takes the same branch as the
example's."""
_RANGE = re.compile(r"(\d+) <= (\S+) and \2 <= (\d+|IntInfinity\(\))")
"""A guard that says only how small and how large a size may be."""
_FRACTION = re.compile(r"got (<=?|>=?) for (\w+) \1 (\d+)/(\d+)$")
"""What torch raises where a multiple of a size is to be less than a number, or more."""


def fails_at(condition: Any, names: Mapping[Any, str]) -> list[dict[str, int]] | None:
    """The sizes of named dims, those of one condition together, for which it is false; None for
    conditions of what is not among ``names``, which symbols have."""
    value = condition.meta.get("val") if isinstance(condition, Node) else condition
    expr: Any = getattr(getattr(value, "node", None), "expr", value)
    symbols = sorted(getattr(expr, "free_symbols", ()), key=str)
    if not symbols:
        return [] if bool(expr) else None
    if any(symbol not in names for symbol in symbols):
        return None
    tried = near([int(a) for a in expr.atoms() if a.is_Integer])
    tried |= {*(range(1, 257) if len(symbols) == 1 else TRIED_TOGETHER)}
    text = printed(expr, {symbol: f"size{i}" for i, symbol in enumerate(symbols)})
    found = failing_together(text, [sorted(tried)] * len(symbols))
    return [dict(zip([names[s] for s in symbols], sizes, strict=True)) for sizes in found]


@dataclass(frozen=True)
class Gaps:
    """What torch leaves out of the sizes of named dims."""

    sizes: dict[str, list[int]]
    """By name, those that are left out of the sizes that guards are evaluated for, and that the
    dim may have."""
    guards: list[tuple[str, str]]
    """Names, and what holds for all other sizes of theirs, each of ``size0``."""

    def have(self, sizes: Mapping[str, int]) -> bool:
        """Whether one of these sizes is among what is left out."""
        return not all(holds(guard, sizes[n]) for n, guard in self.guards if n in sizes)


def gaps_of(error: FrontendError, plan: ExportPlan) -> Gaps | None:
    """The sizes of named dims that torch leaves out by guards of one dim each; None where it has
    something else to say, or leaves out all sizes from one on."""
    guards = guards_of(error, plan)
    if not guards:
        return None
    sizes: dict[str, set[int]] = {}
    limits = dict(limits_of(plan))
    for name, guard in guards:
        left_out = failing(guard, *limits[name])
        if sum(n >= ENDLESS[0] for n in left_out) >= len(ENDLESS):
            return None
        sizes.setdefault(name, set()).update(left_out)
    return Gaps({name: sorted(found) for name, found in sizes.items()}, guards)


def guards_of(error: FrontendError, plan: ExportPlan) -> list[tuple[str, str]] | None:
    """What torch says must hold of sizes of named dims, (name, guard of ``size0``); None where it
    has something else to say."""
    said = str(error.__cause__)
    if MUST_BE_CONSTANT in said:
        return None
    found: dict[tuple[str, str], None] = {}
    for line in re.findall(r"^ +- (.*)$", said, re.M):
        guard = _GUARD.match(line)
        if guard is None or guard["name"] not in plan.names:
            return None
        condition = guard["condition"].replace(guard["size"], "size0")
        if "L[" in condition:
            return None
        found[guard["name"], condition] = None
    return list(found) or None


def suggested_bounds(error: FrontendError) -> dict[str, dict[str, int]]:
    """The bounds of named dims under which torch says that a module would export: a table of
    positions has so many rows. A dim that would have to be constant has none."""
    found: dict[str, dict[str, int]] = {}
    for name, given in re.findall(r"^\s*(\w+) = Dim\('\w+', ([^)]*)\)", str(error.__cause__), re.M):
        sides = re.findall(r"(min|max)=(\d+)", given)
        found[name] = {side: int(value) for side, value in sides}
    for line in re.findall(r"^ +- (.*)$", str(error.__cause__), re.M):
        guard = _GUARD.match(line)
        limits = guard and _RANGE.fullmatch(guard["condition"])
        if guard and limits and limits[1] != limits[3]:
            sides = [("min", limits[1]), ("max", limits[3])]
            found[guard["name"]] = {k: int(value) for k, value in sides if value.isdigit()}
        elif guard:
            largest = largest_of(guard["condition"].replace(guard["size"], "size0"))
            if largest is not None:
                known = found.setdefault(guard["name"], {})
                known["max"] = min(known.get("max", largest), largest)
    fraction = _FRACTION.search(str(error.__cause__))
    if fraction:
        whole = int(fraction[3]) // int(fraction[4])
        side = {"max": whole} if fraction[1].startswith("<") else {"min": whole + 1}
        found[fraction[2]] = side
    return found


def on_the_side_of_examples(
    bounds: Mapping[str, Mapping[str, int]], shown: Mapping[str, int]
) -> dict[str, dict[str, int]]:
    """Bounds that the example's sizes are within: where a branch goes the other way for them than
    for the sizes that were tried, those beyond these bounds."""
    found: dict[str, dict[str, int]] = {}
    for name, limits in bounds.items():
        size = shown.get(name)
        low, high = limits.get("min"), limits.get("max")
        if size is not None and low is not None and size < low:
            found[name] = {"max": low - 1}
        elif size is not None and high is not None and size > high:
            found[name] = {"min": high + 1}
        else:
            found[name] = dict(limits)
    return found


__all__ = [
    "MUST_BE_CONSTANT",
    "Gaps",
    "fails_at",
    "gaps_of",
    "guards_of",
    "on_the_side_of_examples",
    "suggested_bounds",
]

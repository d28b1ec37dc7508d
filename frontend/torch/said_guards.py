"""What torch.export says of named sizes: guards that not all values satisfy, and bounds."""

from __future__ import annotations

import re
from typing import Any

from torch.fx import Node

from ...support.errors import FrontendError
from .dynamic_shapes import ExportPlan
from .unsaid_guards import failing, largest_of, near

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
_MOST_GAPS = 16


def fails_at(condition: Any) -> list[int] | None:
    """The sizes for which a condition of one size is false; None for conditions of several, or of
    data."""
    value = condition.meta.get("val") if isinstance(condition, Node) else condition
    expr: Any = getattr(getattr(value, "node", None), "expr", value)
    symbols = list(getattr(expr, "free_symbols", ()))
    if not symbols:
        return [] if bool(expr) else None
    if len(symbols) > 1 or not str(symbols[0]).startswith("s"):
        return None
    tried = near([int(a) for a in expr.atoms() if a.is_Integer])
    return [n for n in sorted({*range(1, 257), *tried}) if not expr.subs(symbols[0], n)]


def gaps_of(error: FrontendError, plan: ExportPlan) -> list[tuple[str, int]] | None:
    """The sizes of named dims that torch leaves out by guards of one dim each; None where it has
    something else to say, or leaves out more than a few."""
    said = str(error.__cause__)
    if MUST_BE_CONSTANT in said:
        return None
    lines = re.findall(r"^ +- (.*)$", said, re.M)
    guards = [_GUARD.match(line) for line in lines]
    found: dict[tuple[str, int], None] = {}
    for guard in guards:
        if guard is None or guard["name"] not in plan.names:
            return None
        condition = guard["condition"].replace(guard["size"], "size0")
        if "L[" in condition:
            return None
        found |= {(guard["name"], n): None for n in failing(condition)}
        if len(found) > _MOST_GAPS:
            return None
    return list(found) if guards else None


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


__all__ = ["MUST_BE_CONSTANT", "fails_at", "gaps_of", "suggested_bounds"]

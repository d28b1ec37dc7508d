"""The documentation of the primitives as data: what the methods' docstrings say, taken apart.

A docstring has a summary, paragraphs, a list after ``Requires:``, and an example of three blocks,
``Before::`` (a program), ``Schedule::`` (statements on ``sch``) and ``After::`` (the program that
results). A method that leaves the program as it is has no ``After::``; what it gives is told by
assertions among the statements. ``docs/primitives.md`` and the tests of the examples are made from
it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...support.errors import InternalError
from .primitive import QUERIES
from .schedule import Schedule
from .trace.rows import ROWS

_PART = re.compile(r"(?m)^(Before|Schedule|After)::\n")
PARTS = ("Before", "Schedule", "After")


@dataclass(frozen=True)
class Entry:
    """One primitive: its name, parameters as text, group, meaning, and example (or None)."""

    name: str
    signature: str
    group: str
    meaning: str
    example: tuple[str, str, str | None] | None


def entries() -> Sequence[Entry]:
    """Every public method of what Schedule is made of, in the order of its bases; aliases are left
    out."""
    return [
        _entry(name, method)
        for base in Schedule.__bases__
        for name, method in vars(base).items()
        if not name.startswith("_") and inspect.isfunction(method) and method.__name__ == name
    ]


def _entry(name: str, method: object) -> Entry:
    assert callable(method)
    parts = _PART.split(inspect.getdoc(method) or "")
    found = tuple(parts[1::2])
    if found not in ((), PARTS, PARTS[:2]):
        raise InternalError(f"The docstring of {name!r} has the parts {found}; expected {PARTS}.")
    example = None
    if found:
        before, schedule, *after = (inspect.cleandoc(p) for p in parts[2::2])
        example = (before, schedule, after[0] if after else None)
    parameters = [
        p.replace(annotation=p.empty)
        for p in inspect.signature(method).parameters.values()
        if p.name != "self"
    ]
    signature = f"{name}{inspect.Signature(parameters)}"
    group = ROWS[name].group if name in ROWS else QUERIES
    return Entry(name, signature, group, parts[0].strip(), example)

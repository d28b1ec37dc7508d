"""The documentation of the primitives as data: what the methods' docstrings say, taken apart.

A docstring has a summary, paragraphs, a list after ``Requires:``, and an example of three blocks,
``Before::`` (a program), ``Schedule::`` (statements on ``sch``) and ``After::`` (the program that
results). A method that leaves the program as it is has no ``After::``; what it gives is told by
assertions among the statements. One whose program is that of the method above it in the class has
no ``Before::``. ``docs/primitives.md`` and the tests of the examples are made from it.
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
    found: list[Entry] = []
    for base in Schedule.__bases__:
        above: str | None = None
        for name in list(vars(base)):
            method = getattr(base, name)
            if name.startswith("_") or not inspect.isfunction(method) or method.__name__ != name:
                continue
            entry = _entry(name, method, above)
            above = entry.example[0] if entry.example else above
            found.append(entry)
    return found


def _entry(name: str, method: object, above: str | None) -> Entry:
    """The entry of a method; ``above`` is the program of the method above it."""
    assert callable(method)
    parts = _PART.split(inspect.getdoc(method) or "")
    found = tuple(parts[1::2])
    if found not in ((), PARTS, PARTS[:2], PARTS[1:], PARTS[1:2]):
        raise InternalError(f"The docstring of {name!r} has the parts {found}; expected {PARTS}.")
    texts = {p: inspect.cleandoc(text) for p, text in zip(found, parts[2::2], strict=True)}
    before = texts.get("Before", above)
    if found and before is None:
        raise InternalError(f"Above the example of {name!r} there is no program.")
    example = (before, texts["Schedule"], texts.get("After")) if found and before else None
    parameters = [
        p.replace(annotation=p.empty)
        for p in inspect.signature(method).parameters.values()
        if p.name != "self"
    ]
    signature = f"{name}{inspect.Signature(parameters)}"
    group = ROWS[name].group if name in ROWS else QUERIES
    return Entry(name, signature, group, parts[0].strip(), example)

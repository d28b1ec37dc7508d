"""The table of instructions: a row for each method of a Schedule that a trace records.

A row is declared over its method (``schedule/primitive.py``) and is all that the rest knows of the
primitive: what a trace holds of its arguments, whether it may be left out when nothing uses what it
gives, whether it takes a decision, and whether it gives a list. Text, JSON and replay ask here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Role: TypeAlias = Literal["query", "sampling", "rewrite", "composite"]
"""A composite rewrites by many steps, which a trace does not hold, and takes decisions by name."""


@dataclass(frozen=True, slots=True)
class ArgumentKind:
    """What becomes of an argument: ``resolve(schedule, primitive, value)`` is what the method gets.

    An *input* holds random variables, or is told together with them; all else are *attributes*. An
    input may go without its name, and, where it ``may_miss``, is left out if there is none.
    """

    resolve: Callable[[Any, str, Any], Any] = lambda _schedule, _primitive, value: value
    is_input: bool = True
    is_named: bool = True
    may_miss: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction. ``arguments`` are in the order of the method's parameters."""

    name: str
    group: str
    role: Role
    arguments: Mapping[str, ArgumentKind]
    gives_list: bool
    """Whether it gives a list, even of one."""

    def recorded(
        self, values: Mapping[str, Any]
    ) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
        """What an instruction holds of the arguments: inputs and attributes, by name."""
        inputs: list[tuple[str, Any]] = []
        attrs: list[tuple[str, Any]] = []
        for name, kind in self.arguments.items():
            value = values[name]
            if kind.may_miss and (value is None or value == []):
                continue
            if not kind.is_named and isinstance(value, tuple):
                inputs += [("", item) for item in value]
                continue
            plain = list(value) if isinstance(value, tuple) else value
            (inputs if kind.is_input else attrs).append((name if kind.is_named else "", plain))
        return inputs, attrs


ROWS: dict[str, Row] = {}
"""Every row by its name; complete when ``schedule.py`` is imported, which names all primitives."""

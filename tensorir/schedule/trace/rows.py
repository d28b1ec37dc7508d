"""The table of instructions: a row for each method of a Schedule that a trace records.

A row is declared over its method (``schedule/primitive.py``) and is all that the rest knows of the
primitive: what a trace holds of its arguments, whether it may be left out when nothing uses what it
gives, whether it takes a decision, and whether it gives a list. Text, JSON and replay ask here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
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


BY_HAND_ROOM = f"{__package__.rpartition('.')[0]}.by_hand"
"""Where the primitives are that no rule calls."""
BY_HAND = {
    "sample_partitioned_tile": "sample_partitioned_tile",
    "sample_compute_location": "sample_compute_location",
    "enter_postproc": "enter_postproc",
    "can_decompose_padding": "decompose_padding",
    "decompose_padding": "decompose_padding",
    "fuse_reduction_epilogue": "fuse_reduction_epilogue",
    "stage_memory": "stage_memory",
    "pack": "pack",
    "cache_inplace": "cache_inplace",
    "reindex_cache_write": "reindex_cache_write",
    "reindex": "reindex",
    "lift_allocation": "lift_allocation",
    "rolling_buffer": "rolling_buffer",
}
"""Their methods, and the file in which each is: imported when it is first asked for."""


class Rows(Mapping[str, Row]):
    """Every row by its name. Those of primitives in ``BY_HAND`` are there when they are asked for,
    and when somebody asks for all."""

    def __init__(self) -> None:
        self._known: dict[str, Row] = {}

    def __setitem__(self, name: str, row: Row) -> None:
        self._known[name] = row

    def __getitem__(self, name: str) -> Row:
        try:
            return self._known[name]
        except KeyError:
            if name not in BY_HAND:
                raise
            import_module(f"{BY_HAND_ROOM}.{BY_HAND[name]}")
            return self._known[name]

    def __iter__(self) -> Iterator[str]:
        for file in BY_HAND.values():
            import_module(f"{BY_HAND_ROOM}.{file}")
        return iter(self._known)

    def __len__(self) -> int:
        return sum(1 for _ in self)


ROWS = Rows()

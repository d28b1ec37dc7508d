"""Converter registry of a front end: rows ``@converts("aten.linear.default")``, and one report of
all that is missing.

A converter is called as ``converter(context, node)`` and returns the graph value (or values) of the
node; what ``context`` and ``node`` are is the front end's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..support.errors import InternalError, UnsupportedOp, UnsupportedOpError

Converter = TypeVar("Converter", bound=Callable[..., Any])


class ConverterRegistry:
    """The converters of one front end, by operator name."""

    def __init__(self, frontend: str) -> None:
        self.frontend = frontend
        self._table: dict[str, Callable[..., Any]] = {}
        self._refused: dict[str, str] = {}

    def converts(self, *names: str) -> Callable[[Converter], Converter]:
        """Register a converter for these operator names; a name is registered once."""

        def register(converter: Converter) -> Converter:
            for name in names:
                if name in self._table:
                    raise InternalError(f"{self.frontend} operator {name!r} has two converters")
                self._table[name] = converter
            return converter

        return register

    def replace(self, name: str, converter: Callable[..., Any]) -> None:
        """Register a converter in the place of whatever this name has."""
        self._table[name] = converter
        self._refused.pop(name, None)

    def refuses(self, reason: str, *names: str) -> None:
        """Note why operators cannot be imported, and what to do instead."""
        for name in names:
            if name in self:
                raise InternalError(f"{self.frontend} operator {name!r} has two rows")
            self._refused[name] = reason

    def __contains__(self, name: object) -> bool:
        """Whether there is a converter, or a reason that there is none."""
        return name in self._table or name in self._refused

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._table[name]

    def get(self, name: str) -> Callable[..., Any] | None:
        """The converter of an operator, or None."""
        return self._table.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Every operator that can be imported, sorted."""
        return tuple(sorted(self._table))

    def check(self, operators: Iterable[tuple[str, str]], *, may_fall_back: bool = False) -> None:
        """Raise UnsupportedOpError with every operator that has no converter, and the reason where
        there is one.

        ``operators`` are pairs (name, where it stands) in model order. ``may_fall_back``: the
        foreign framework can run some of them, which nobody has asked for.
        """
        missing: dict[str, list[str]] = {}
        for name, where in operators:
            if name not in self._table:
                missing.setdefault(name, []).append(where)
        if missing:
            rows = [
                UnsupportedOp(name, len(places), places[0], self._hint(name))
                for name, places in missing.items()
            ]
            raise UnsupportedOpError(rows, self.frontend, may_fall_back=may_fall_back)

    def _hint(self, name: str) -> str:
        reason = self._refused.get(name)
        return f": {reason}" if reason else ""

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

    def converts(self, *names: str) -> Callable[[Converter], Converter]:
        """Register a converter for these operator names; a name is registered once."""

        def register(converter: Converter) -> Converter:
            for name in names:
                if name in self._table:
                    raise InternalError(f"{self.frontend} operator {name!r} has two converters")
                self._table[name] = converter
            return converter

        return register

    def __contains__(self, name: object) -> bool:
        return name in self._table

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._table[name]

    @property
    def names(self) -> tuple[str, ...]:
        """Every operator that can be imported, sorted."""
        return tuple(sorted(self._table))

    def check(self, operators: Iterable[tuple[str, str]]) -> None:
        """Raise UnsupportedOpError with every operator that has no converter.

        ``operators`` are pairs (name, where it stands) in model order.
        """
        missing: dict[str, list[str]] = {}
        for name, where in operators:
            if name not in self._table:
                missing.setdefault(name, []).append(where)
        if missing:
            rows = [UnsupportedOp(name, len(places), places[0]) for name, places in missing.items()]
            raise UnsupportedOpError(rows, self.frontend)

"""Text out: an indenting writer, and names for binders.

Both printers stand on these. Names are stable: they depend on the order in which binders are asked
for and on their hints, never on object addresses, so that the same program always prints the same.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_NOT_IDENTIFIER = re.compile(r"[^0-9A-Za-z_]+")
RESERVED = frozenset(keyword.kwlist) | {"I", "T", "R", "cls", "range"}
"""Names a binder never gets: Python's keywords and the vocabulary of the text form."""


class Writer:
    """Collects lines at the current indentation.

    ``line()`` with no text gives an empty line (without trailing blanks); a text of several lines
    is indented as a whole.
    """

    def __init__(self, indent: str = "    ") -> None:
        self._lines: list[str] = []
        self._indent = indent
        self._depth = 0

    def line(self, text: str = "") -> None:
        """Add a line (or several, split at newlines) at the current depth."""
        prefix = self._indent * self._depth
        for part in text.split("\n"):
            self._lines.append(prefix + part if part else "")

    def lines(self, texts: Iterable[str]) -> None:
        """Add each text as ``line`` does."""
        for text in texts:
            self.line(text)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Everything written inside stands one level deeper."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """``header``, then an indented body; ``pass`` where the body stays empty."""
        self.line(header)
        before = len(self._lines)
        with self.indented():
            yield
            if len(self._lines) == before:
                self.line("pass")

    @property
    def column(self) -> int:
        """The column the next line begins at."""
        return len(self._indent) * self._depth

    def text(self) -> str:
        """Everything written, ending in a newline (or empty)."""
        return "\n".join(self._lines) + "\n" if self._lines else ""

    def __str__(self) -> str:
        return self.text()


def identifier(hint: str) -> str:
    """``hint`` turned into a Python identifier: ``layer-1.weight`` becomes ``layer_1_weight``."""
    text = _NOT_IDENTIFIER.sub("_", hint).strip("_") if not hint.isidentifier() else hint
    if not text:
        return "v"
    return f"v{text}" if text[0].isdigit() else text


class NameTable:
    """Unique identifiers for binders, by identity.

    The first binder with a hint gets it as it is; later ones get ``hint_1``, ``hint_2`` ... A name
    once given stays. The table keeps its binders alive, so that no address is used twice.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken: set[str] = {*RESERVED, *reserved}
        self._names: dict[int, str] = {}
        self._counts: dict[str, int] = {}
        self._kept: list[object] = []

    def name(self, binder: object, hint: str | None = None) -> str:
        """The binder's name; at first sight a fresh one after ``hint`` (or ``binder.name``)."""
        known = self._names.get(id(binder))
        if known is not None:
            return known
        given = self.fresh(hint if hint is not None else str(getattr(binder, "name", "v")))
        self._names[id(binder)] = given
        self._kept.append(binder)
        return given

    def fresh(self, hint: str) -> str:
        """A name nobody has, which is taken from now on."""
        base = identifier(hint)
        candidate = base
        number = self._counts.get(base, 0)
        while candidate in self._taken:
            number += 1
            candidate = f"{base}_{number}"
        self._counts[base] = number
        self._taken.add(candidate)
        return candidate

    def bind(self, binder: object, name: str) -> str:
        """Give a binder exactly this name (two binders may share it, as disjoint scopes do)."""
        self._names[id(binder)] = name
        self._kept.append(binder)
        self._taken.add(name)
        return name

    def __contains__(self, binder: object) -> bool:
        return id(binder) in self._names

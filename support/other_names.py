"""Attributes by the names that other compilers have for them: an error that says ours.

    class Var(Node):
        name: str
        name_hint = OtherName("name")

``var.name_hint`` is an AttributeError, as it would be without the line, with "here it is name". A
class attribute costs nothing where a ``__getattr__`` would slow down every other one.
"""

from __future__ import annotations

from typing import NoReturn


def elsewhere(of: str, name: str, here: str | None) -> AttributeError:
    """The error for a name that ``of`` has not; ``here`` is what does it, where that is known."""
    hint = f"; here it is {here} (docs/from_tvm.md)" if here else ""
    return AttributeError(f"{of} has no attribute {name!r}{hint}")


class OtherName:
    """A name that is none of this class; ``here`` is what does it."""

    def __init__(self, here: str) -> None:
        self.here = here
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise elsewhere(f"{owner.__name__!r} object", self.name, self.here)

"""Attributes by the names that other compilers have for them: an error that says ours.

    class Var(Node):
        name: str
        name_hint = OtherName("name")

``var.name_hint`` is an AttributeError, as it would be without the line, with "here it is name". A
class attribute costs nothing where a ``__getattr__`` would slow down every other one.
"""

from __future__ import annotations

import dis
import sys
from typing import NoReturn

from .errors import InternalError


def elsewhere(of: str, name: str, here: str | None) -> AttributeError:
    """The error for a name that ``of`` has not; ``here`` is what does it, where that is known."""
    hint = f"; here it is {here} (docs/from_tvm.md)" if here else ""
    return AttributeError(f"{of} has no attribute {name!r}{hint}")


def not_in_module(module: str, name: str, here: str | None) -> AttributeError | ImportError:
    """The error that the ``__getattr__`` of a module raises. ``from module import name`` puts words
    of its own in place of an AttributeError's, so that there it is an ImportError, with ours."""
    asks = sys._getframe(2)
    if here and asks.f_code.co_code[asks.f_lasti] == dis.opmap["IMPORT_FROM"]:
        return ImportError(
            f"cannot import name {name!r} from {module!r}; here it is {here} (docs/from_tvm.md)"
        )
    return elsewhere(f"module {module!r}", name, here)


class OtherName:
    """A name that is none of this class; ``here`` is what does it."""

    def __init__(self, here: str) -> None:
        self.here = here
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name not in ("", name):  # a class with slots is made twice
            raise InternalError(f"{owner.__name__}: {self.name} and {name} share one OtherName")
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise elsewhere(f"{owner.__name__!r} object", self.name, self.here)

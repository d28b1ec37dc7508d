"""What options of the command line may be: argparse calls one of these with the text, and shows the
message of what it raises beside the name of the option."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable

_MOST = 2**62


def whole_number(least: int = 1, most: int | None = None) -> Callable[[str], int]:
    """Integers from ``least`` on."""
    wanted = f"of at least {least}" if most is None else f"from {least} to {most}"

    def parse(text: str) -> int:
        try:
            found = int(text)
        except ValueError:
            found = least - 1
        if found < least or found > (_MOST if most is None else most):
            raise ArgumentTypeError(f"expected a whole number {wanted}; found {text!r}")
        return found

    return parse


def number(*, may_be_zero: bool = False) -> Callable[[str], float]:
    """Finite numbers above zero."""

    def parse(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = math.nan
        if not (found >= 0 if may_be_zero else found > 0) or math.isinf(found):
            wanted = "from 0 up" if may_be_zero else "above 0"
            raise ArgumentTypeError(f"expected a number {wanted}; found {text!r}")
        return found

    return parse


def place(text: str) -> str:
    """The name of a file or folder."""
    if not text:
        raise ArgumentTypeError("expected a name; found ''")
    return text


def sizes(text: str) -> dict[str, int]:
    """``batch=8,length=128`` by name."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, is_given, size = part.partition("=")
        name, size = name.strip(), size.strip()
        if not (is_given and name and size.isascii() and size.isdecimal()) or int(size) > _MOST:
            raise ArgumentTypeError(f"expected NAME=N,..., as in batch=8; found {text!r}")
        if name in found:
            raise ArgumentTypeError(f"{name!r} is given twice in {text!r}")
        found[name] = int(size)
    return found


def precision(text: str) -> str | dict[str, str]:
    """A word, or words by layer, as in ``head=float32,*=int8-weights``."""
    if "=" not in text:
        return text
    found: dict[str, str] = {}
    for part in text.split(","):
        pattern, _, word = part.rpartition("=")
        if not pattern.strip() or not word.strip():
            raise ArgumentTypeError(
                f"expected a word, or LAYER=WORD,..., as in 'head=float32,*=int8-weights'; found "
                f"{text!r}"
            )
        found[pattern.strip()] = word.strip()
    return found


__all__ = ["number", "place", "precision", "sizes", "whole_number"]

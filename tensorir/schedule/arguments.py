"""The kinds of plain arguments that primitives take: a wrong one is an error that says which.

Handles are resolved in ``state``; what is left are ints, strings and lists of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...support.errors import ScheduleValueError
from ..expr import Expr


def require_int(value: object, what: str, primitive: str) -> int:
    """The int that ``value`` is (NumPy's included); raises ScheduleValueError."""
    if isinstance(value, (bool, Expr)) or not hasattr(value, "__index__"):
        raise _wrong("an int", value, what, primitive)
    return int(value)


def require_text(value: object, what: str, primitive: str) -> str:
    """The str that ``value`` is; raises ScheduleValueError."""
    if not isinstance(value, str):
        raise _wrong("a str", value, what, primitive)
    return value


def require_list(value: object, what: str, primitive: str) -> Sequence[Any]:
    """The list or tuple that ``value`` is; raises ScheduleValueError."""
    if not isinstance(value, (list, tuple)):
        raise _wrong("a list", value, what, primitive)
    return value


def require_ints(value: object, what: str, primitive: str) -> list[int]:
    """The ints in the list or tuple that ``value`` is; raises ScheduleValueError."""
    items = require_list(value, what, primitive)
    return [require_int(v, f"each of {what}", primitive) for v in items]


def require_floats(value: object, what: str, primitive: str) -> list[float]:
    """The numbers in the list or tuple that ``value`` is; raises ScheduleValueError."""
    items = require_list(value, what, primitive)
    for v in items:
        if isinstance(v, Expr) or not (hasattr(v, "__float__") or hasattr(v, "__index__")):
            raise _wrong("a number", v, f"each of {what}", primitive)
    return [float(v) for v in items]


def _wrong(kind: str, value: object, what: str, primitive: str) -> ScheduleValueError:
    plain = value is None or isinstance(value, (str, int, float, list, tuple, dict))
    found = repr(value) if plain else f"something of type {type(value).__name__}"
    return ScheduleValueError(primitive, f"Expected {kind} as {what}; found {found}.")

"""Where a warning points: the line of whoever called into burnish."""

from __future__ import annotations

import sys

_BETWEEN = (__name__.split(".")[0], "contextlib")
"""Packages whose frames are no caller's; those of ``with`` statements stand between ours."""


def callers_level() -> int:
    """The ``stacklevel`` (for the function that asks) of the first frame outside of burnish.

    Entries are generated code: their frames belong to no module.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__")
        if name is not None and name.split(".")[0] not in _BETWEEN:
            break
        level, frame = level + 1, frame.f_back
    return level

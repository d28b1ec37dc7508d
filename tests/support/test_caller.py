"""Where warnings point."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import Any

import pytest

from burnish.support.caller import callers_level

PLAIN = "def ours():\n    tell('x', stacklevel=level())\n"
DEEPER = "def ours():\n    inner()\ndef inner():\n    tell('x', stacklevel=level())\n"
WITH = """
@contextmanager
def opened():
    tell('x', stacklevel=level())
    yield
def ours():
    with opened():
        pass
"""


def module(name: str, code: str, **names: Any) -> dict[str, Any]:
    """What some code defines in a module of this name."""
    scope = {"__name__": name, **names}
    exec(compile(code, f"{name}.py", "exec"), scope)
    return scope


@pytest.mark.parametrize("code", [PLAIN, DEEPER, WITH], ids=["plain", "deeper", "with"])
def test_a_warning_points_at_the_line_outside_of_the_package(code: str) -> None:
    ours = module(
        "burnish.support.ours",
        code,
        tell=warnings.warn,
        level=callers_level,
        contextmanager=contextmanager,
    )
    theirs = module("theirs", "def call():\n    1 + 1\n    ours()\n", ours=ours["ours"])
    with pytest.warns(UserWarning, match="x") as caught:
        theirs["call"]()
    assert [(w.filename, w.lineno) for w in caught] == [("theirs.py", 3)]

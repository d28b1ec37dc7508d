"""What BURNISH_PRINT_AFTER asks for: passes, and stages by their name or a part of it.

A stage such as ``30-fused`` may be called ``30-fused``, ``fused`` or ``30``. What is the name of a
pass as well means the pass.
"""

from __future__ import annotations

from collections.abc import Collection

from .config import flag
from .errors import ConfigError, nearest

ALL = "all"
"""After every pass."""


def printed_passes(passes: Collection[str], stages: Collection[str] = ()) -> tuple[str, ...]:
    """The names of passes after which the module is printed, or ``all``. Raises ConfigError for
    what is the name of neither a pass nor a stage."""
    return tuple([n for n in _checked(passes, stages) if n == ALL or n in passes])


def printed_stages(passes: Collection[str], stages: Collection[str]) -> tuple[str, ...]:
    """The stages that are printed, by their full names. Raises ConfigError as ``printed_passes``
    does."""
    names = [n for n in _checked(passes, stages) if n not in passes]
    return tuple([s for s in stages if any(n in _names_of(s) for n in names)])


def _names_of(stage: str) -> tuple[str, ...]:
    number, _, name = stage.partition("-")
    return (stage, name, number)


def _checked(passes: Collection[str], stages: Collection[str]) -> tuple[str, ...]:
    asked: tuple[str, ...] = flag("BURNISH_PRINT_AFTER")
    of_stages = [n for s in stages for n in _names_of(s)]
    for name in asked:
        if name != ALL and name not in passes and name not in of_stages:
            listed = f"names of passes: {', '.join(passes)}"
            if stages:
                listed += f"; or of stages: {', '.join(stages)}"
            raise ConfigError(
                f"BURNISH_PRINT_AFTER expects all, or {listed}; found {name!r}."
                f"{nearest(name, (*passes, *of_stages, ALL))}"
            )
    return asked

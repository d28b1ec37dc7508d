"""Sets of sizes by name that a caller gives: ``[{"batch": 1}, {"batch": 32}]``, or one alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..support.errors import ArgumentError, nearest
from ..support.wording import spoken

Sizes: TypeAlias = Mapping[str, int]
"""A value for each of some named sizes."""


def sets_of_sizes(given: Any, argument: str, *, least: int = 0) -> tuple[Sizes, ...]:
    """The sets that were given as ``argument``; of one alone a tuple of one. Raises ArgumentError
    unless they are sizes of ``least`` and more by name."""
    listed = [given] if isinstance(given, Mapping) else given
    if not isinstance(listed, (list, tuple)) or not all(isinstance(s, Mapping) for s in listed):
        raise ArgumentError(
            f'{argument} takes sizes by name, as in [{{"batch": 1}}]; found {given!r}.'
        )
    for sizes in listed:
        for name, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < least:
                wanted = "a size" if not least else f"{least} or more"
                raise ArgumentError(f"{argument}: {name} cannot be {size!r}; expected {wanted}.")
    return tuple([dict(s) for s in listed])


def whole_sizes(
    given: Any, argument: str, names: Sequence[str], *, least: int = 1
) -> tuple[Sizes, ...]:
    """Sets that say what each of ``names`` is, ``least`` or more, and nothing else: what can be
    run, and from 1 on measured. Raises ArgumentError for others."""
    found = sets_of_sizes(given, argument, least=least)
    for sizes in found:
        for name in sizes:
            verify_name(name, argument, names)
        missing = [n for n in names if n not in sizes]
        if missing:
            given = spoken(str(dict(sizes)), ",".join([f"{n}={v}" for n, v in sizes.items()]))
            raise ArgumentError(
                f"{argument}: {given} leaves {', '.join(map(repr, missing))} open; a call needs a "
                "number for each."
            )
    return found


def verify_name(name: str, argument: str, names: Sequence[str]) -> None:
    """Raise ArgumentError unless an input has a size of the name."""
    if name not in names:
        raise ArgumentError(
            f"{argument}: no input has a size {name!r}; there are {', '.join(names) or 'none'}."
            f"{nearest(name, names)} Sizes get names "
            f"{spoken('by dynamic_shapes, or in an ONNX file', 'in the ONNX file')}."
        )


__all__ = ["Sizes", "sets_of_sizes", "verify_name", "whole_sizes"]

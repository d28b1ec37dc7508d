"""Who is spoken to: somebody who calls functions, or somebody at the command line, whose arguments
have other names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_at_command_line = ContextVar("at_command_line", default=False)


@contextmanager
def command_line() -> Iterator[None]:
    """Within the block messages name options: ``--sizes batch=1``."""
    token = _at_command_line.set(True)
    try:
        yield
    finally:
        _at_command_line.reset(token)


def spoken(python: str, command: str) -> str:
    """What is to be written, in the words of whom it is said to."""
    return command if _at_command_line.get() else python


__all__ = ["command_line", "spoken"]

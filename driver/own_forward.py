"""A torch module whose ``forward()`` was replaced by a compiled model of it, as it was before.

``module.forward = burnish.compile(module)`` puts a compiled model in the module's place, and in
that of a part of a larger one. Whoever traces or calls the module itself takes these away
meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .callable_model import CallableModel

_lock = threading.Lock()
_borrowed: dict[int, list[Any]] = {}
"""By module: how many are at it, and the ``forward`` that it gets back."""


@contextmanager
def own_forward(source: Any) -> Iterator[None]:
    """A module and its parts with the ``forward()`` of their classes, where they were given
    compiled models for it. Other sources stay as they are. Any thread may enter, again and
    again: the last one that leaves puts the models back, unless something else was put there."""
    parts = list(source.modules()) if callable(getattr(source, "modules", None)) else []
    taken = [part for part in parts if _take(part)]
    try:
        yield
    finally:
        for part in taken:
            _give_back(part)


def _take(part: Any) -> bool:
    with _lock:
        if id(part) in _borrowed:
            _borrowed[id(part)][0] += 1
            return True
        given = part.__dict__.get("forward")
        if not isinstance(getattr(given, "__self__", given), CallableModel):
            return False
        del part.__dict__["forward"]
        _borrowed[id(part)] = [1, given]
        return True


def _give_back(part: Any) -> None:
    with _lock:
        held = _borrowed[id(part)]
        held[0] -= 1
        if not held[0]:
            del _borrowed[id(part)]
            part.__dict__.setdefault("forward", held[1])


__all__ = ["own_forward"]

"""What is computed of a node once and kept as long as the node lives: nodes never change.

What is kept must not hold the node itself, or it would keep it alive: results are numbers, names,
types, or nodes below it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from .node import Node

N = TypeVar("N", bound=Node)
P = ParamSpec("P")
R = TypeVar("R")

_FORGETTING: dict[Callable[..., Any], Callable[[], None]] = {}


def remembered(function: Callable[Concatenate[N, P], R]) -> Callable[Concatenate[N, P], R]:
    """A function of a node, and of values that can be keys, that computes each answer once. What
    it raises it raises again."""
    known: WeakKeyDictionary[N, dict[Hashable, R]] = WeakKeyDictionary()

    @wraps(function)
    def asked(n: N, /, *args: P.args, **kwargs: P.kwargs) -> R:
        answers = known.get(n)
        if answers is None:
            answers = known[n] = {}
        key = (args, tuple(kwargs.items())) if kwargs else args
        if key not in answers:
            answers[key] = function(n, *args, **kwargs)
        return answers[key]

    _FORGETTING[asked] = known.clear
    return asked


def forget(function: Callable[..., Any]) -> None:
    """Let a remembered function forget all answers, since what it stands on has changed."""
    _FORGETTING[function]()


__all__ = ["forget", "remembered"]

"""Keywords that a function does not have: an error that names the nearest one.

    @hinted
    def compile(model, *, threads=None): ...

    compile(model, thread=1)    TypeError: compile() got an unexpected keyword argument 'thread'.
                                Did you mean 'threads'?

Python says as much by itself from 3.13 on.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from .errors import KeywordError, nearest

T = TypeVar("T", bound=Callable[..., Any])


def hinted(target: T) -> T:
    """A function, or a class with its public methods, whose calls refuse other keywords so."""
    if not isinstance(target, type):
        return cast(T, _hinted(target, target.__name__))
    for name, member in list(vars(target).items()):
        called = target.__name__ if name == "__init__" else f"{target.__name__}.{name}"
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, (staticmethod, classmethod)):
            setattr(target, name, type(member)(_hinted(member.__func__, called)))
        elif inspect.isfunction(member):
            setattr(target, name, _hinted(member, called))
    return target


def _hinted(function: Callable[..., Any], called: str) -> Callable[..., Any]:
    code = inspect.unwrap(function).__code__
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return function
    count = code.co_argcount + code.co_kwonlyargcount
    known = frozenset(code.co_varnames[code.co_posonlyargcount : count])

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        if keywords and not known.issuperset(keywords):
            strange = next(k for k in keywords if k not in known)
            raise KeywordError(
                f"{called}() got an unexpected keyword argument {strange!r}."
                f"{nearest(strange, sorted(known))}"
            )
        return function(*args, **keywords)

    return call


__all__ = ["hinted"]

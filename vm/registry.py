"""Environment functions: Python callables that a program calls by name.

They are destination-passing: called with Tensors, inputs first and outputs last, they write the
outputs in place and return nothing. One table a process, guarded by a lock; a name is registered
once unless ``override=True``. An exception inside one becomes EnvironmentFunctionError, with its
cause.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, overload

from ..support.errors import (
    ArgumentError,
    DuplicateFunctionError,
    EnvironmentFunctionError,
    IndexRangeError,
    UnknownFunctionError,
)
from ..support.keywords import hinted
from .tensor import Tensor

EnvironmentFunction: TypeAlias = Callable[..., Any]
F = TypeVar("F", bound=EnvironmentFunction)

_functions: dict[str, EnvironmentFunction] = {}
_lock = threading.Lock()


@overload
def register_func(name: str, func: F, *, override: bool = False) -> F: ...
@overload
def register_func(name: str, func: None = None, *, override: bool = False) -> Callable[[F], F]: ...
@hinted
def register_func(
    name: str, func: F | None = None, *, override: bool = False
) -> F | Callable[[F], F]:
    """Register an environment function, directly or as a decorator::

        @register_func("env.relu")
        def relu(x, out):
            np.maximum(x.numpy(), 0, out=out.numpy())

    Raises DuplicateFunctionError for a name already taken, unless ``override``.
    """
    if not isinstance(name, str) or not name:
        raise ArgumentError(
            f"register_func takes the function's name first; got {name!r}. "
            'Write @register_func("env.name").'
        )

    def add(function: F) -> F:
        if not callable(function):
            raise ArgumentError(f"register_func({name!r}): {function!r} cannot be called.")
        with _lock:
            if name in _functions and not override:
                raise DuplicateFunctionError(name)
            _functions[name] = function
        return function

    return add if func is None else add(func)


def has_func(name: str) -> bool:
    """Whether an environment function has this name."""
    return name in _functions


def get_func(name: str) -> EnvironmentFunction:
    """The environment function; raises UnknownFunctionError with the nearest name."""
    try:
        return _functions[name]
    except KeyError:
        raise UnknownFunctionError(name, list_funcs(), "the program") from None


def unregister_func(name: str) -> None:
    """Remove an environment function; raises UnknownFunctionError if there is none."""
    with _lock:
        get_func(name)
        del _functions[name]


def list_funcs() -> list[str]:
    """The registered names, sorted."""
    return sorted(_functions)


def call_func(name: str, args: Sequence[object]) -> None:
    """Call an environment function; what it raises becomes EnvironmentFunctionError, but for
    IndexRangeError."""
    function = get_func(name)
    try:
        function(*args)
    except IndexRangeError:  # says all there is to say
        raise
    except Exception as error:
        given = ", ".join([_describe(a) for a in args])
        raise EnvironmentFunctionError(
            f"The environment function {name!r} raised {type(error).__name__}: {error}\n"
            f"It was called with ({given}); the last arguments are outputs to write in place."
        ) from error


def _describe(value: object) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, Tensor) else repr(value)

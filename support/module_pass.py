"""module_pass: a pass from a function, or from a class with ``transform_module``.

    @module_pass(name="rename-main")
    def rename_main(mod, ctx):
        ...
        return mod

    @module_pass(opt_level=1)
    class FuseDense:
        def __init__(self, limit): ...
        def transform_module(self, mod, ctx): ...

The function itself becomes a pass; the class becomes a class of passes. Both stand in pipelines
next to the built-in ones, get a copy of the module, and know the PassContext they run in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, overload

from .errors import BurnishError, ConfigError
from .keywords import hinted
from .passes import Pass, PassContext, kebab_case

Transform = Callable[[Any, PassContext], Any]
Decorator = Callable[[Any], Any]


@overload
def module_pass(pass_func: Transform, *, opt_level: int = 0, name: str | None = None) -> Pass: ...
@overload
def module_pass(
    pass_func: type, *, opt_level: int = 0, name: str | None = None
) -> Callable[..., Pass]: ...
@overload
def module_pass(
    pass_func: None = None, *, opt_level: int = 0, name: str | None = None
) -> Decorator: ...
@hinted
def module_pass(pass_func: Any = None, *, opt_level: int = 0, name: str | None = None) -> Any:
    """Make a pass of a function ``(module, context) -> module``, or a class of passes of a class
    whose ``transform_module(self, module, context)`` does the work; also as a decorator with
    options.

    ``name`` is what instruments and errors call it (else the function's or class's own, in kebab
    case); a PassContext of a lower ``opt_level`` leaves it out of pipelines. Raises ConfigError for
    anything else than such a function or class.
    """

    def make(found: Any) -> Any:
        if inspect.isclass(found):
            _check_signature(getattr(found, "transform_module", None), found.__name__, bound=True)
            return _class_of_passes(found, name or kebab_case(found.__name__), opt_level)
        title = getattr(found, "__name__", type(found).__name__)
        _check_signature(found, title, bound=False)
        made: Any = _class_of_passes(_Transformer, name or kebab_case(title), opt_level)
        made.__doc__ = found.__doc__
        return made(found)

    return make if pass_func is None else make(pass_func)


class _Transformer:
    """The state of a pass that is one function."""

    def __init__(self, function: Transform) -> None:
        self.transform_module = function


def _class_of_passes(base: type, title: str, level: int) -> type[Pass]:
    class ModulePass(Pass):
        name = title
        opt_level = level

        def __init__(self, *args: Any, **options: Any) -> None:
            object.__setattr__(self, "held", base(*args, **options))

        def __getattr__(self, attribute: str) -> Any:
            if attribute == "held":  # not made yet: __init__ raised, or a copy is under way
                raise AttributeError(attribute)
            return getattr(self.held, attribute)

        def run(self, module: Any) -> Any:
            result = self.held.transform_module(module, PassContext.current())
            if not isinstance(result, type(module)):
                raise BurnishError(
                    f"the pass returned {_describe(result)}; expected a {type(module).__name__}. "
                    "End it with: return mod"
                )
            return result

    ModulePass.__name__, ModulePass.__qualname__ = base.__name__, base.__qualname__
    ModulePass.__module__, ModulePass.__doc__ = base.__module__, base.__doc__
    return ModulePass


def _check_signature(function: Any, title: str, *, bound: bool) -> None:
    wanted = (
        "a class with transform_module(self, mod, ctx)" if bound else "a function of (mod, ctx)"
    )
    if not callable(function):
        raise ConfigError(f"module_pass decorates {wanted}; {title!r} is none.")
    try:
        inspect.signature(function).bind(*[None] * (3 if bound else 2))
    except TypeError as error:
        raise ConfigError(
            f"module_pass decorates {wanted}; {title!r} cannot be called so: {error}."
        ) from None


def _describe(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"

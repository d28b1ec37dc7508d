"""Python's own functions that make constants of named sizes, written so that they do not.

    int(n / 2)   float(n)   len(x)   max(n - 3, 0)   isinstance(n, int)   type(x) is Tensor

Python has an ``int()`` and a ``len()`` give one of its integers, and no class of torch's can be
one. So these names mean, in the files that the classes of a module stand in and while it is
exported, what is here. ``int(n / 4)`` is ``n // 4`` then, of which torch knows how often it fits.
Of anything but named sizes and tensors without values they are Python's, where they are called or
asked about; as types (``dtype=float``, what ``type(3)`` is) they are others, for every thread that
runs these files.
"""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

_QUOTIENTS: tuple[Any, ...] = (torch.SymInt, torch.SymFloat)
_RATIO = "burnish_ratio"
"""The attribute of a quotient that has its two whole numbers."""


class SizeBuiltins:
    """The names in some namespaces of Python are those here."""

    def __init__(self, namespaces: Sequence[dict[str, Any]]) -> None:
        self._namespaces = namespaces
        self._held: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        for kind in _QUOTIENTS:
            kind.__truediv__ = _remembering(kind.__truediv__)
        for names in self._namespaces:
            # A file may have a function of its own by such a name.
            new = {k: v for k, v in _TABLE.items() if k not in names}
            self._held.append(new)
            names.update(new)

    def __exit__(self, *raised: Any) -> None:
        for kind in _QUOTIENTS:
            kind.__truediv__ = kind.__truediv__.__wrapped__
        for names, new in zip(self._namespaces, self._held, strict=True):
            for name in new:
                names.pop(name, None)
        self._held = []


def namespaces_of(module: nn.Module) -> list[dict[str, Any]]:
    """Those of the files that a module and what is in it are written in, torch's own not."""
    kinds = [base for part in module.modules() for base in type(part).__mro__]
    files = dict.fromkeys([k.__module__ for k in kinds])
    return [vars(sys.modules[f]) for f in files if f in sys.modules and not _is_ours(f)]


def namespaces_around(module: nn.Module) -> list[dict[str, Any]]:
    """Those of the files that a module and what is in it are written in, and of the functions that
    have names there, or are attributes."""
    own = namespaces_of(module)
    places = [*own, *[vars(part) for part in module.modules()]]
    functions = [x for names in places for x in list(names.values()) if isinstance(x, FunctionType)]
    others = [f.__globals__ for f in functions if not _is_ours(f.__module__ or "builtins")]
    return list({id(names): names for names in (*own, *others)}.values())


def namespaces_at(error: BaseException) -> list[dict[str, Any]]:
    """Those of the files that an error passed through, torch's own not."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [f.f_globals for f in frames if not _is_ours(f.f_globals.get("__name__", "builtins"))]


def _is_ours(file: str) -> bool:
    """Whether a file, by the name it is imported by, is torch's, Python's or of this front end."""
    first = file.partition(".")[0]
    return first == "torch" or first in sys.stdlib_module_names or file.startswith(__package__)


class _Number(type):
    """A class that calls itself one of Python's numbers, and whose calls keep named sizes."""

    kind: type
    named: type
    kept: Callable[[Any], Any]

    def __call__(cls, *args: Any, **options: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], (torch.SymInt, torch.SymFloat)):
            return cls.kept(args[0])
        return cls.kind(*args, **options)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, (cls.kind, cls.named))

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls.kind)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.kind

    def __hash__(cls) -> int:
        return hash(cls.kind)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.kind, name)


def _remembering(divide: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A division of named numbers whose results know what whole number was divided by what."""

    @functools.wraps(divide)
    def divided(over: Any, under: Any) -> Any:
        result = divide(over, under)
        number, by = vars(over).get(_RATIO, (over, 1))
        is_whole = isinstance(under, (int, float)) and under > 0 and under == under // 1
        if isinstance(result, torch.SymFloat) and isinstance(number, torch.SymInt) and is_whole:
            setattr(result, _RATIO, (number, by * int(under)))
        return result

    return divided


def _whole(number: Any) -> Any:
    """``int(number)``. Below 0 it is not what ``//`` gives."""
    over, under = vars(number).get(_RATIO, (number, 0))
    if under and over.node.shape_env.bound_sympy(over.node.expr).lower >= 0:
        return over // under
    return torch.sym_int(number)


class _Integer(metaclass=_Number):
    kind, named, kept = int, torch.SymInt, staticmethod(_whole)


class _Float(metaclass=_Number):
    kind, named, kept = float, torch.SymFloat, staticmethod(torch.sym_float)


class _Type:
    """``type``, whose calls give what tensors and named sizes are when a module runs. All else is
    Python's: its attributes, and classes that are derived of it."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        if len(args) != 1 or options:
            return type(*args, **options)
        (value,) = args
        if isinstance(value, (FakeTensor, FunctionalTensor)):
            return nn.Parameter if isinstance(value, nn.Parameter) else Tensor
        return _NAMED.get(type(value), type(value))

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, type)

    def __subclasscheck__(self, other: type) -> bool:
        return issubclass(other, type)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (type,)

    def __getitem__(self, item: Any) -> Any:
        return type[item]

    def __eq__(self, other: object) -> bool:
        return other is self or other is type

    def __hash__(self) -> int:
        return hash(type)

    def __getattribute__(self, name: str) -> Any:
        return getattr(type, name) if hasattr(type, name) else super().__getattribute__(name)


_NAMED: dict[type, Any] = {
    int: _Integer, torch.SymInt: _Integer, float: _Float, torch.SymFloat: _Float,
    torch.SymBool: bool,
}  # fmt: skip
"""What is called so where ``int`` and ``float`` are those here."""


def _len(value: Any, /) -> Any:
    return value.shape[0] if isinstance(value, Tensor) and value.ndim else len(value)


def _extreme(of_python: Callable[..., Any], of_sizes: Callable[..., Any]) -> Callable[..., Any]:
    """``max`` or ``min``, of which Python's compares, and a comparison is a branch."""

    def called(*args: Any, **options: Any) -> Any:
        values = args
        if len(args) == 1 and isinstance(args[0], (tuple, list)):
            values = tuple(args[0])
        are_numbers = all(isinstance(v, (int, float, torch.SymInt, torch.SymFloat)) for v in values)
        is_named = any(isinstance(v, (torch.SymInt, torch.SymFloat)) for v in values)
        if options or not are_numbers or not is_named:
            return of_python(*args, **options)
        return functools.reduce(of_sizes, values)

    return called


_TABLE: dict[str, Any] = {
    "int": _Integer,
    "float": _Float,
    "len": _len,
    "type": _Type(),
    "max": _extreme(max, torch.sym_max),
    "min": _extreme(min, torch.sym_min),
}


__all__ = ["SizeBuiltins", "namespaces_around", "namespaces_at", "namespaces_of"]

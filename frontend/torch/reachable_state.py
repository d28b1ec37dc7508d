"""What code can keep from one call of a module to the next: all places that it reaches.

    self.cache.keys     self.log[0]     Net.calls     step (a global)     total in hook()

The walk begins at a module and the modules in it, and goes on through plain objects, containers,
classes, hooks and functions, of these to what they close over and the globals that they name. It
stays out of torch, of Python's own library and of tensors, takes the nearest first, and ends after
so many places: of a model that holds more than these, what is farther is not looked at. Arrays of
NumPy have their numbers as a value, up to 1 MiB of them. Of iterators and generators of random
numbers nobody can tell how far they are: their value is ``UNKNOWN``, which may be another each
time.
"""

from __future__ import annotations

import functools
import io
import random
import sys
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.jit import ScriptModule

_OWN = frozenset({*vars(nn.Module()), "_flat_weights", "_flat_weight_refs", "forward"})
"""Attributes that torch keeps its own books in. A recurrent layer lists its weights anew."""
_HOOKS = tuple([name for name in vars(nn.Module()) if name.endswith("_hooks")])
_LEAVES = (Tensor, str, bytes, int, float, complex, type(None), torch.dtype, torch.Size)
_MOST = 20_000
_MOST_BYTES = 1 << 20
"""Of an array of NumPy that is looked at."""
ABSENT = object()


UNKNOWN = object()
"""The value of what may have become something else without showing it."""


@dataclass(frozen=True, eq=False)
class Holder:
    """Something that has values which can be replaced, and those that it has: by key, of a set as
    its one value."""

    name: str
    where: Any
    """A dict, list or deque, or what gives a class, a cell or a set the form of one."""
    values: dict[Any, Any]
    is_object: bool = False
    """Whether keys are the names of attributes."""
    owner: nn.Module | None = None
    """The module whose buffers these are."""
    is_open: bool = True
    """Whether keys that are not among these are another's affair (a few globals of a file)."""

    def name_of(self, key: Any) -> str:
        """How Python calls what stands there."""
        if key is None:
            return self.name
        if not self.is_object:
            return f"{self.name}[{key!r}]"
        is_whole = not self.name or self.name.endswith(" ")
        return f"{self.name}{key}" if is_whole else f"{self.name}.{key}"

    def restore(self) -> None:
        """Give it the values that it had; what still has them is not touched."""
        where = self.where
        if isinstance(where, (list, deque)):
            held = list(self.values.values())
            if len(where) != len(held) or any(a is not b for a, b in zip(where, held, strict=True)):
                where.clear()  # which a class that allows no writes is spared
                where.extend(held)
            return
        for key in self._new():
            _remove(where, key)
        for key, value in self.values.items():
            if value_at(where, key) is value:
                continue
            if value is ABSENT:
                _remove(where, key)
            elif isinstance(where, _Class):
                where[key] = value
            else:
                dict.__setitem__(where, key, value)

    def _new(self) -> list[Any]:
        """Keys that it has since then."""
        if isinstance(self.where, _Class):
            of = self.where.of
            now = _values_of_class(of) if isinstance(of, type) else {}
        else:
            now = self.where if self.is_open else {}
        return [key for key in dict.keys(now) if key not in self.values]


def value_at(where: Any, key: Any) -> Any:
    """What stands there, without a call of the methods that a class of its own may have."""
    if isinstance(where, _Class):
        return where.get(key, ABSENT)
    if isinstance(where, dict):
        return dict.get(where, key, ABSENT)
    return where[key] if key < len(where) else ABSENT


def _remove(where: Any, key: Any) -> None:
    if isinstance(where, _Class):
        where.pop(key, None)
    elif dict.__contains__(where, key):
        dict.__delitem__(where, key)


class _Class(dict[Any, Any]):
    """The attributes of a class, or the slots of an object, as a dict: always read anew."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def get(self, key: Any, other: Any = None) -> Any:
        if isinstance(self.of, type):
            return vars(self.of).get(key, other)
        return getattr(self.of, key, other)

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key, ABSENT)
        if found is ABSENT:
            raise KeyError(key)
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        setattr(self.of, key, value)

    def pop(self, key: Any, *other: Any) -> Any:
        if self.get(key, ABSENT) is not ABSENT:
            delattr(self.of, key)


class _Cell(_Class):
    """What a function closes over, by no key."""

    def get(self, key: Any, other: Any = None) -> Any:
        try:
            return self.of.cell_contents
        except ValueError:  # nothing yet
            return other

    def __setitem__(self, key: Any, value: Any) -> None:
        self.of.cell_contents = value

    def pop(self, key: Any, *other: Any) -> Any:
        del self.of.cell_contents


class _Set(_Class):
    """The members of a set, by no key."""

    def get(self, key: Any, other: Any = None) -> Any:
        return _Members(self.of)

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.of != value:
            self.of.clear()
            self.of.update(value)


class _Members(frozenset[Any]):
    """What was in a set."""


class _Cache(_Class):
    """What ``functools.lru_cache`` keeps: it can only be emptied."""

    def get(self, key: Any, other: Any = None) -> Any:
        info = self.of.cache_info()
        return (info.currsize > 0) * info.misses

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.get(key) != value:
            self.of.cache_clear()

    def pop(self, key: Any, *other: Any) -> Any:
        self.of.cache_clear()


class _Array(_Class):
    """The numbers of an array of NumPy as bytes, by no key."""

    def get(self, key: Any, other: Any = None) -> Any:
        return self.of.tobytes()

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, bytes) and self.get(key) != value:
            np.copyto(self.of, np.frombuffer(value, self.of.dtype).reshape(self.of.shape))


class _Opaque(_Class):
    """Something that gives other values without showing it, by no key."""

    def get(self, key: Any, other: Any = None) -> Any:
        return UNKNOWN

    def __setitem__(self, key: Any, value: Any) -> None:
        """It stays what it is."""


def holders_of(module: nn.Module) -> list[Holder]:
    """All that a module and its code reach, by the names that Python has for it, the nearest
    first."""
    walk = _Walk()
    parts = [(n, m) for n, m in module.named_modules() if not isinstance(m, ScriptModule)]
    for path, part in parts:
        walk.add_module(path, part)
    walk.run()
    return walk.found


class _Walk:
    def __init__(self) -> None:
        self.found: list[Holder] = []
        self._count = 0
        self._seen: set[int] = set()
        self._alive: list[Any] = []
        self._next: deque[tuple[str, Any]] = deque()
        self._named: dict[int, set[str]] = {}
        self._used: set[str] = set()
        self._waiting: dict[str, list[tuple[str, Any]]] = {}
        """Methods by their names, which no code that is reached has used so far."""

    def add_module(self, path: str, part: nn.Module) -> None:
        if id(part) in self._seen:
            return
        self._seen.add(id(part))
        held = {k: v for k, v in vars(part).items() if k not in _OWN}
        self._hold(Holder(path, vars(part), held, True, is_open=False))
        self._hold(Holder(path, part._buffers, dict(part._buffers), True, part))
        for name in _HOOKS:
            hooks = vars(part).get(name)
            for hook in hooks.values() if isinstance(hooks, dict) else ():
                self._next.append((f"{path}.hook" if path else "hook", hook))
        self._next.append((type(part).__name__, type(part)))
        own = vars(part).get("forward")
        if own is not None:
            self._next.append(("forward", own))

    def _hold(self, holder: Holder) -> None:
        self.found.append(holder)
        self._count += len(holder.values)
        # A registry of classes is no state.
        leaves = _LEAVES if holder.is_object else (*_LEAVES, type)
        for key, value in holder.values.items():
            if value is not ABSENT and not isinstance(value, leaves):
                self._next.append((holder.name_of(key), value))

    def run(self) -> None:
        while self._next and self._count < _MOST:
            name, value = self._next.popleft()
            if isinstance(value, _Members):
                for member in value:
                    if not isinstance(member, _LEAVES):
                        self._next.append((name, member))
                continue
            if id(value) in self._seen:
                continue
            self._seen.add(id(value))
            self._alive.append(value)  # ids of what dies are given again
            self._look(name, value)

    def _look(self, name: str, value: Any) -> None:
        if isinstance(value, nn.Module):
            if not isinstance(value, ScriptModule):
                self.add_module(name, value)
        elif isinstance(value, type):
            self._look_at_class(value)
        elif isinstance(value, np.ndarray):
            if not value.dtype.hasobject and value.nbytes <= _MOST_BYTES and value.flags.writeable:
                self._hold(Holder(name, _Array(value), {None: value.tobytes()}, is_open=False))
        elif _is_opaque(value):
            self._hold(Holder(name, _Opaque(value), {None: UNKNOWN}, is_open=False))
        elif not self._is_code(name, value):
            self._look_at_container(name, value)
            self._look_at_object(name, value)

    def _look_at_container(self, name: str, value: Any) -> None:
        if isinstance(value, tuple):
            items = [(f"{name}[{i}]", x) for i, x in enumerate(value)]
            self._next += [(n, x) for n, x in items if not isinstance(x, (*_LEAVES, type))]
        elif isinstance(value, (list, deque)):
            self._hold(Holder(name, value, dict(enumerate(value))))
        elif isinstance(value, dict):
            self._hold(Holder(name, value, dict(dict.items(value))))
        elif isinstance(value, set):
            self._hold(Holder(name, _Set(value), {None: _Members(value)}, is_open=False))

    def _is_code(self, name: str, value: Any) -> bool:
        """Whether this is a function in one of its forms, which then is looked at."""
        match value:
            case types.MethodType():
                self._next += [(name, value.__self__), (name, value.__func__)]
            case staticmethod() | classmethod():
                self._next.append((name, value.__func__))
            case property():
                self._next += [(name, f) for f in (value.fget, value.fset) if f is not None]
            case types.FunctionType():
                self._look_at_function(value)
            case types.BuiltinMethodType():  # random() of random
                if _is_opaque(value.__self__):
                    self._next.append((name, value.__self__))
            case functools.partial():
                self._next += [(name, value.func), (name, value.args), (name, value.keywords)]
            case functools._lru_cache_wrapper():
                self._look_at_cache(name, value)
            case _:
                return False
        return True

    def _look_at_object(self, name: str, value: Any) -> None:
        kind = type(value)
        if is_foreign(kind.__module__) and kind is not types.SimpleNamespace:
            return
        held = getattr(value, "__dict__", None)
        if isinstance(held, dict) and (held or not isinstance(value, types.ModuleType)):
            self._hold(Holder(name, held, dict(held), True))
        slots = [s for base in kind.__mro__ for s in _names_of(vars(base).get("__slots__", ()))]
        slots = [s for s in slots if s not in ("__dict__", "__weakref__")]
        if slots:
            values = {s: getattr(value, s, ABSENT) for s in slots}
            self._hold(Holder(name, _Class(value), values, True, is_open=False))
        self._next.append((kind.__name__, kind))

    def _look_at_class(self, kind: type) -> None:
        if is_foreign(kind.__module__):
            return
        held = _values_of_class(kind)
        self._hold(Holder(f"class {kind.__name__}", _Class(kind), held, True, is_open=False))
        for key, value in vars(kind).items():
            if isinstance(value, _CODE):
                is_used = key in self._used or key == "forward" or key in _CALLED
                waiting = self._next if is_used else self._waiting.setdefault(key, [])
                waiting.append((f"{kind.__name__}.{key}", value))
        self._next += [(base.__name__, base) for base in kind.__bases__]

    def _look_at_function(self, function: types.FunctionType) -> None:
        if function.__globals__.get("__name__", "").startswith(__package__):  # around forward()
            self._next.append(("forward", vars(function).get("__wrapped__")))
            return
        name = function.__qualname__
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for free, cell in cells:
            if id(cell) not in self._seen and free != "__class__":
                self._seen.add(id(cell))
                self._alive.append(cell)
                where = _Cell(cell)
                inside = {None: where.get(None, ABSENT)}
                self._hold(Holder(f"{free} of {name}", where, inside, is_open=False))
        if function.__defaults__:
            self._next.append((f"the defaults of {name}", function.__defaults__))
        if is_foreign(function.__globals__.get("__name__", "builtins")):
            return
        held = dict(function.__dict__)
        self._hold(Holder(f"function {name}", function.__dict__, held, True))
        names = set(_names_in(function.__code__))
        for used in sorted(names - self._used):
            self._next += self._waiting.pop(used, [])
        self._used |= names
        scope = function.__globals__
        self._look_at_scope("global ", scope, names)
        for name in names:
            self._look_at_module(scope.get(name), names)

    def _look_at_scope(self, name: str, scope: dict[str, Any], used: set[str]) -> None:
        """The names of a file that code uses."""
        known = self._named.setdefault(id(scope), set())
        new = sorted(used - known)
        known.update(new)
        values = {n: scope.get(n, ABSENT) for n in new if not n.startswith("__")}
        values = {n: v for n, v in values.items() if not isinstance(v, types.ModuleType)}
        if values:
            self._hold(Holder(name, scope, values, True, is_open=False))

    def _look_at_module(self, module: Any, used: set[str]) -> None:
        """What code uses of a file that it has imported."""
        if module is random and not used.isdisjoint(vars(random)):
            self._next.append(("global random", random.random))
        elif (module is np and "random" in used) or module is np.random:
            own: Any = np.random.random
            self._next.append(("global numpy.random", own.__self__))
        elif isinstance(module, types.ModuleType) and not is_foreign(module.__name__):
            held = {n for n in used if not isinstance(vars(module).get(n), (*_CODE, type))}
            self._look_at_scope(f"global {module.__name__}", vars(module), held & {*vars(module)})

    def _look_at_cache(self, name: str, cache: Any) -> None:
        where = _Cache(cache)
        held = {None: where.get(None)}
        self.found.append(Holder(f"the cache of {name}", where, held, is_open=False))
        self._next.append((name, cache.__wrapped__))


def _is_opaque(value: Any) -> bool:
    is_one = isinstance(value, _OPAQUE) and not isinstance(value, io.IOBase)
    return is_one and is_foreign(type(value).__module__)


def _values_of_class(kind: type) -> dict[str, Any]:
    """The attributes of a class that are no code."""
    held = [(k, v) for k, v in vars(kind).items() if not k.startswith(("__", "_abc_"))]
    return {k: v for k, v in held if not isinstance(v, (*_CODE, *_DESCRIPTORS))}


_OPAQUE = (Iterator, random.Random, np.random.Generator, np.random.RandomState)
_CODE = (types.FunctionType, staticmethod, classmethod, property)
_CALLED = frozenset(
    {"__call__", "__getattr__", "__getitem__", "__len__", "__iter__", "__enter__", "__exit__",
     "__contains__", "__setitem__", "__bool__", "__init__", "__new__", "__post_init__"}
)  # fmt: skip
"""Methods that syntax calls."""
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)


def _names_of(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


def _names_in(code: types.CodeType) -> Iterator[str]:
    """The names that code and functions within it use of its file, and of attributes."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def is_foreign(file: str) -> bool:
    """Whether a file, by the name it is imported by, is torch's, Python's or of this front end:
    none of them keeps what a model's results depend on."""
    first = file.partition(".")[0]
    return first in ("torch", "numpy") or first in _PYTHONS or file.startswith(__package__)


_PYTHONS = sys.stdlib_module_names - {"__main__"}

__all__ = ["ABSENT", "UNKNOWN", "Holder", "holders_of", "is_foreign", "value_at"]

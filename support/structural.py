"""Structural equality and hashing of IR nodes, up to renaming of binders.

Two programs are equal if one becomes the other by renaming variables, buffers, blocks and
functions. Both walks are loops over an explicit stack that visit the fields of a node in one fixed
order (binders first), and both number binders by first sight: the comparison keeps a bijection
between the binders of the two sides, the hash writes a binder's number. So equal programs have
equal hashes.

What is compared
----------------
* **Binders** (classes in ``IDENTITY``) by the bijection. At first sight the two must agree in
  everything but their name (a Var's dtype or type, a Buffer's shape, scope, strides ...).
* **Names** of binders, blocks and functions, the attribute ``global_symbol`` and spans do not
  count, unless ``names=True``. A name that refers (``GlobalVar``, the callee of
  ``call_dps_packed``, the op of a call) does.
* **Attributes** (fields in ``ATTRIBUTES``) as a mapping: without order.
* **Numbers** with their type: ``1``, ``1.0`` and ``True`` differ, ``-0.0`` is not ``0.0``, NaN is
  NaN.
* **Constants** by name and type, or by type and bits: no node holds an array.
* **Modules** (anything with a dict ``functions``): the same names, each function equal on its own.

This file knows nodes by class name only and imports neither IR. It does not simplify: ``a + b`` and
``b + a`` differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from .errors import InternalError, StructuralEqualityError
from .keywords import hinted
from .node import Node, replace

IDENTITY = frozenset({"Var", "Buffer"})
"""Classes (with their subclasses) whose objects are binders: two occurrences are the same only if
they are one object."""

BINDERS: dict[str, tuple[str, ...]] = {
    "PrimFunc": ("params",),
    "Function": ("params",),
    "Block": ("iter_vars", "alloc_buffers", "match_buffers"),
    "IterVar": ("var",),
    "MatchBuffer": ("buffer",),
    "For": ("var",),
    "Let": ("var",),
    "LetStmt": ("var",),
    "Allocate": ("buffer",),
    "Binding": ("var",),
}
"""The fields of a class that bind. They are visited first; a variable that is first seen anywhere
else is free. (The dims in the shape of a bound buffer or parameter are bound with it.)"""

NAMED = frozenset({"Var", "Buffer", "Block", "PrimFunc", "Function"})
"""Classes (with their subclasses) whose field ``name`` is a name for readers."""

ATTRIBUTES = frozenset({"attrs", "annotations"})
"""Fields that hold (key, value) pairs, compared without order."""

SYMBOL_ATTRS = frozenset({"global_symbol"})
"""Attributes that only name the function."""

MARKS = frozenset({"is_scheduled"})
"""Attributes that say where a function has been, not what it computes."""

Path: TypeAlias = "tuple[Path, str] | None"


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to visit a class. Fields are kept last first, ready to be pushed on a stack."""

    tag: str
    steps: tuple[tuple[str, bool | None], ...]
    """For each field: its step of a path, and whether it binds (None: as the node itself stands).
    """
    values: Callable[[Any], tuple[Any, ...]]
    is_binder: bool


_PLANS: dict[bool, dict[type, _Plan]] = {False: {}, True: {}}
"""By whether names count."""


def _backwards(values: Any) -> tuple[Any, ...]:
    return tuple(values[::-1])


def _backwards_dict(values: dict[str, Any]) -> tuple[Any, ...]:
    return _backwards(_sorted_attributes(values, names=True))


_SEQUENCE = _Plan("", (), _backwards, is_binder=False)
_MAPPING = _Plan("", (), _backwards_dict, is_binder=False)
_LEAF = _Plan("", (), lambda _: (), is_binder=False)


def _plan(kind: type, *, names: bool) -> _Plan:
    """The plan of a class met for the first time."""
    plan = _LEAF
    if issubclass(kind, Node):
        plan = _node_plan(kind, names=names)
    elif issubclass(kind, (tuple, list)):
        plan = _SEQUENCE
    elif issubclass(kind, dict):
        plan = _MAPPING
    return _PLANS[names].setdefault(kind, plan)


def _node_plan(kind: type[Node], *, names: bool) -> _Plan:
    binders = BINDERS.get(kind.__name__)
    lineage = {c.__name__ for c in kind.__mro__}
    skipped = {"name"} if lineage & NAMED and not names else set()
    first = [f for f in kind.init_fields if binders and f in binders]
    fields = (*first, *[f for f in kind.init_fields if f not in first and f not in skipped])
    return _Plan(
        tag=f"{kind.__name__}<{','.join(fields)}>",
        steps=tuple(
            [(f".{f}", None if binders is None else f in binders) for f in reversed(fields)]
        ),
        values=_getter(fields, names=names),
        is_binder=not lineage.isdisjoint(IDENTITY),
    )


def _index_steps(count: int) -> tuple[tuple[str, bool | None], ...]:
    """The steps into a sequence, last first."""
    return tuple([(f"[{i}]", None) for i in range(count - 1, -1, -1)])


def _getter(fields: tuple[str, ...], *, names: bool) -> Callable[[Any], tuple[Any, ...]]:
    """A function from a node to the values of these fields, last first."""
    backwards = tuple(reversed(fields))
    if not backwards:
        return lambda _: ()
    if len(backwards) == 1 and backwards[0] not in ATTRIBUTES:
        only = attrgetter(backwards[0])
        return lambda n: (only(n),)
    if not ATTRIBUTES.intersection(backwards):
        return attrgetter(*backwards)

    def with_attributes(n: Any) -> tuple[Any, ...]:
        return tuple(
            [
                _sorted_attributes(getattr(n, f), names=names) if f in ATTRIBUTES else getattr(n, f)
                for f in backwards
            ]
        )

    return with_attributes


def _sorted_attributes(pairs: Any, *, names: bool) -> tuple[tuple[str, Any], ...]:
    items = pairs.items() if isinstance(pairs, dict) else pairs
    if not items:
        return ()
    kept = [(k, v) for k, v in items if names or k not in SYMBOL_ATTRS]
    return tuple(sorted(kept, key=lambda pair: pair[0]))


# -- equality -------------------------------------------------------------------------------------
def structural_equal(a: Any, b: Any, *, names: bool = False, map_free_vars: bool = True) -> bool:
    """Whether ``a`` and ``b`` mean the same up to renaming of binders.

    With ``names`` all names must agree too. With ``map_free_vars=False`` a variable that neither
    side binds must be the same object on both. Works on nodes, modules and tuples of nodes.
    """
    return _compare(a, b, names=names, map_free_vars=map_free_vars) is None


def first_difference(
    a: Any, b: Any, *, names: bool = False, map_free_vars: bool = True
) -> str | None:
    """Where ``a`` and ``b`` first differ (``path: left and right``); None where they are equal."""
    found = _compare(a, b, names=names, map_free_vars=map_free_vars)
    if found is None:
        return None
    path, left, right = found
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(step)
    where = "".join(reversed(steps)).lstrip(".") or "at the root"
    return f"{where}: {left} and {right}"


@hinted
def assert_structural_equal(
    a: Any, b: Any, *, names: bool = False, map_free_vars: bool = True
) -> None:
    """Raise StructuralEqualityError with the first difference, unless ``a`` equals ``b``.

    That a schedule has been at a function (its attribute ``is_scheduled``) is no difference: what a
    schedule made is compared with a program as it is written.
    """
    bare = _unmarked(a), _unmarked(b)
    found = first_difference(*bare, names=names, map_free_vars=map_free_vars)
    if found is not None:
        raise StructuralEqualityError(found, _text(a), _text(b))


def _unmarked(n: Any) -> Any:
    """A module or a function without the marks of schedules; other nodes as they are."""
    functions = _functions(n)
    if functions is not None:
        bare = {name: _unmarked(f) for name, f in functions.items()}
        return SimpleNamespace(functions=bare, attrs=getattr(n, "attrs", ()))
    attrs = getattr(n, "attrs", None)
    if not isinstance(n, Node) or not isinstance(attrs, tuple):
        return n
    kept = tuple([pair for pair in attrs if pair[0] not in MARKS])
    return n if len(kept) == len(attrs) else replace(n, attrs=kept)


def _text(n: Any) -> str:
    """The text of a module or a function, for the error; that of a smaller node is its repr."""
    script = getattr(n, "script", None)
    return str(script()).rstrip() if callable(script) else repr(n)


_Difference: TypeAlias = tuple[Path, str, str]


def _compare(a: Any, b: Any, *, names: bool, map_free_vars: bool) -> _Difference | None:
    left, right = _functions(a), _functions(b)
    if left is None or right is None:
        return _Comparison(names=names, map_free_vars=map_free_vars).run(a, b, None)
    if left.keys() != right.keys():
        return None, f"functions {', '.join(sorted(left))}", f"functions {', '.join(sorted(right))}"
    found = _Comparison(names=names, map_free_vars=map_free_vars).run(
        _sorted_attributes(getattr(a, "attrs", ()), names=names),
        _sorted_attributes(getattr(b, "attrs", ()), names=names),
        (None, "attrs"),
    )
    for name in sorted(left):
        if found is not None:
            break
        scope = _Comparison(names=names, map_free_vars=map_free_vars)
        found = scope.run(left[name], right[name], (None, name))
    return found


def _functions(n: Any) -> dict[str, Any] | None:
    functions = getattr(n, "functions", None)
    return functions if isinstance(functions, dict) and not isinstance(n, Node) else None


class _Comparison:
    """One walk over two trees: a stack of pairs, and the bijection between their binders."""

    def __init__(self, *, names: bool, map_free_vars: bool) -> None:
        self.names = names
        self.map_free_vars = map_free_vars
        self.forward: dict[int, Any] = {}
        self.backward: dict[int, Any] = {}

    def run(self, a: Any, b: Any, path: Path) -> _Difference | None:
        """The first difference in visiting order, or None."""
        plans = _PLANS[self.names]
        stack: list[tuple[Any, Any, Path, bool]] = [(a, b, path, False)]
        while stack:
            x, y, where, binding = stack.pop()
            kind = type(x)
            plan = plans.get(kind) or _plan(kind, names=self.names)
            sequences = plan is _SEQUENCE and type(y) in (tuple, list)
            if not sequences and (plan is _LEAF or kind is not type(y)):
                if x is y or _same_leaf(x, y):
                    continue
                return where, _describe(x), _describe(y)
            if plan.is_binder:
                status = self._match(x, y, binding=binding)
                if status is None:
                    continue
                if status:
                    return where, status[0], status[1]
            left, right = plan.values(x), plan.values(y)
            if len(left) != len(right):
                return where, _items(left), _items(right)
            steps = plan.steps or _index_steps(len(left))
            for u, v, (step, binds) in zip(left, right, steps, strict=True):
                stack.append((u, v, (where, step), binding if binds is None else binds))
        return None

    def _match(self, x: Any, y: Any, *, binding: bool) -> tuple[str, ...] | None:
        """None for partners; () for two binders that are now partners and are to be compared; or
        what stands in the way."""
        if id(x) in self.forward or id(y) in self.backward:
            if self.forward.get(id(x)) is y:
                return None
            if id(x) in self.forward:
                partner = _describe(self.forward[id(x)])
                return f"{_describe(x)}, which stands for {partner},", _describe(y)
            return _describe(
                x
            ), f"{_describe(y)}, which stands for {_describe(self.backward[id(y)])}"
        if x is not y and not (binding or self.map_free_vars):
            return f"free {_describe(x)}", f"another free {_describe(y)}"
        self.forward[id(x)], self.backward[id(y)] = y, x
        return ()


def _same_leaf(x: Any, y: Any) -> bool:
    composite = (Node, tuple, list, dict)
    return not isinstance(x, composite) and not isinstance(y, composite) and _leaf(x) == _leaf(y)


def _items(values: Any) -> str:
    return "1 item" if len(values) == 1 else f"{len(values)} items"


def _describe(x: Any) -> str:
    """A few words for a difference."""
    if isinstance(x, Node):
        for field in ("name", "value", "op"):
            if field in x.init_fields and isinstance(getattr(x, field), (str, int, float)):
                return f"{type(x).__name__} {getattr(x, field)!r}"
        return type(x).__name__
    if isinstance(x, (tuple, list)):
        return _items(x)
    text = repr(str(x)) if isinstance(x, str) else repr(x)
    return text if len(text) <= 60 else text[:57] + "..."


# -- hashing --------------------------------------------------------------------------------------
def structural_hash(n: Any, *, names: bool = False) -> str:
    """A hexadecimal digest (SHA-256) that is equal for equal programs, in every process and run.

    Takes what ``structural_equal`` takes, with free variables mapped. With ``names`` all names
    count.
    """
    functions = _functions(n)
    if functions is None:
        return _digest(n, names=names)
    tokens = [_digest(_sorted_attributes(getattr(n, "attrs", ()), names=names), names=names)]
    for name in sorted(functions):
        tokens += (_leaf(name), _digest(functions[name], names=names))
    return hashlib.sha256("\n".join(tokens).encode()).hexdigest()


def _digest(root: Any, *, names: bool) -> str:
    """The digest of the canonical encoding: one token a value, in visiting order.

    A node is its class with its fields' names (which fixes how many values follow), a sequence its
    length, a binder that was seen before its number; so no two different trees encode alike.
    """
    plans = _PLANS[names]
    seen: dict[int, str] = {}
    tokens: list[str] = []
    emit = tokens.append
    stack: list[Any] = [root]
    pop, push = stack.pop, stack.extend
    while stack:
        x = pop()
        kind = type(x)
        plan = plans.get(kind) or _plan(kind, names=names)
        if plan is _LEAF:
            emit(_leaf(x))
            continue
        values = plan.values(x)
        if plan.is_binder:
            number = seen.get(id(x))
            if number is not None:
                emit(number)
                continue
            seen[id(x)] = f"#{len(seen)}"
        emit(plan.tag or f"({len(values)}")
        push(values)
    return hashlib.sha256("\n".join(tokens).encode()).hexdigest()


def _leaf(x: Any) -> str:
    """The token of a value that is no node: equal exactly for values that mean the same."""
    kind = type(x)
    if kind is str:
        return f"s{len(x)}:{x}"
    if kind is int:
        return f"i{x}"
    match x:
        case str():
            return f"s{len(x)}:{x}"
        case None:
            return "none"
        case bool() | np.bool_():
            return f"b{int(x)}"
        case int() | np.integer():
            return f"i{int(x)}"
        case float() | np.floating():
            return f"f{float(x)!r}"
        case bytes():
            return f"y{hashlib.sha256(x).hexdigest()}"
    raise InternalError(
        f"structural: a node holds a {type(x).__name__}, which has no structural meaning"
    )

"""The node kit both IRs stand on: slotted dataclasses that are never mutated after construction.

A class of nodes is written ``@node class Add(Expr): a: Expr; b: Expr``. Its dataclass fields are
its children and attributes, in constructor order. ``==`` is identity; meaning is compared by
``support.structural``. A rewrite returns the same object where nothing changed, so that "did this
change?" is ``is not``. With ``BURNISH_DEBUG_NODES=1`` assignment after construction raises; it is
not always so because ``frozen=True`` would make construction four times as slow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields
from functools import singledispatch, wraps
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform

from .config import flag
from .errors import InternalError
from .source import Span

N = TypeVar("N", bound="Node")
T = TypeVar("T")
_FREEZE: bool = flag("BURNISH_DEBUG_NODES")
_PLAIN = frozenset({"str", "int", "float", "bool", "DType", "np.ndarray"})
"""Annotations of fields that hold no node."""


class Node:
    """Base of every IR node. ``span`` is where it came from in a source text, or None."""

    __slots__ = ("__weakref__", "_sealed", "_span")
    init_fields: ClassVar[tuple[str, ...]] = ()
    """Names of the constructor's fields, in order; filled in by ``@node``."""
    child_fields: ClassVar[tuple[str, ...]] = ()
    """Those of them that may hold nodes, by their annotation; filled in by ``@node``."""

    @property
    def span(self) -> Span | None:
        return getattr(self, "_span", None)

    def with_span(self: N, span: Span | None) -> N:
        """Attach a source position; called once, by whoever constructs the node."""
        if span is not None:
            object.__setattr__(self, "_span", span)
        return self

    def __repr__(self) -> str:
        return node_repr(self)


@singledispatch
def node_repr(n: Node) -> str:
    """What a prompt shows of a node; the printers register their text of each kind."""
    return object.__repr__(n)


@dataclass_transform(eq_default=False)
def node(cls: type[T]) -> type[T]:
    """Make ``cls`` a slotted identity-compared dataclass and record its constructor fields."""
    made = dataclass(slots=True, eq=False, repr=False)(cls)
    given = [f for f in fields(made) if f.init]  # type: ignore[arg-type]
    made.init_fields = tuple([f.name for f in given])  # type: ignore[attr-defined]
    made.child_fields = tuple([f.name for f in given if f.type not in _PLAIN])  # type: ignore[attr-defined]
    if _FREEZE:
        freeze(made)
    return made


def freeze(cls: type[Any]) -> None:
    """Make assignment to a constructed object of a node class an InternalError (for debugging)."""
    construct = cls.__init__

    @wraps(construct)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        construct(self, *args, **kwargs)
        object.__setattr__(self, "_sealed", True)

    def setattr_(self: Any, name: str, value: Any) -> None:
        if getattr(self, "_sealed", False):
            raise InternalError(f"{type(self).__name__}.{name} was assigned after construction")
        object.__setattr__(self, name, value)

    cls.__init__ = init
    cls.__setattr__ = setattr_  # type: ignore[assignment]


class _Fields(dict[type, Callable[[Any], "tuple[Any, ...]"] | None]):
    """For each class, a function from a node to the values of some of its constructor's fields;
    None where there are none. These walks are most of what a rewrite costs: reading all fields at
    once halves them, and half of all nodes are variables and numbers, with nothing below."""

    def __init__(self, names_of: Callable[[type[Node]], tuple[str, ...]]) -> None:
        super().__init__()
        self.names_of = names_of

    def __missing__(self, kind: type[Node]) -> Callable[[Any], tuple[Any, ...]] | None:
        names = self.names_of(kind)
        found: Callable[[Any], tuple[Any, ...]] | None = None
        if len(names) > 1:
            found = attrgetter(*names)
        elif names:
            only = attrgetter(names[0])

            def found(n: Any) -> tuple[Any, ...]:
                return (only(n),)

        self[kind] = found
        return found


_ALL = _Fields(attrgetter("init_fields"))
_BELOW = _Fields(attrgetter("child_fields"))
"""Of the fields that may hold nodes alone."""
_LAST_FIRST = _Fields(lambda kind: kind.child_fields[::-1])
"""The same, for a stack."""


class _Places(dict[type, "tuple[int, ...]"]):
    """For each class, where among all its fields those stand that may hold nodes."""

    def __missing__(self, kind: type[Node]) -> tuple[int, ...]:
        found = self[kind] = tuple([kind.init_fields.index(f) for f in kind.child_fields])
        return found


_PLACES = _Places()


def children(n: Node) -> list[Node]:
    """The nodes directly below ``n``, in field order, looking into tuples."""
    get = _BELOW[type(n)]
    found: list[Node] = []
    if get is not None:
        for value in get(n):
            if isinstance(value, Node):
                found.append(value)
            elif type(value) is tuple:
                found += [item for item in value if isinstance(item, Node)]
    return found


def map_children(n: N, fn: Callable[[Any], Any]) -> N:
    """``n`` with ``fn`` applied to each child node; ``n`` itself where no child changed."""
    kind: type[Any] = type(n)
    places = _PLACES[kind]
    if not places:
        return n
    get = _ALL[kind]
    assert get is not None  # some of its fields hold nodes
    values = get(n)
    changed: list[Any] | None = None
    for i in places:
        value = values[i]
        new: Any
        if type(value) is tuple:
            new = _map_items(value, fn)
        elif isinstance(value, Node):
            new = fn(value)
        else:
            continue
        if new is value:
            continue
        if changed is None:
            changed = list(values)
        changed[i] = new
    if changed is None:
        return n
    made: N = kind(*changed)
    return made.with_span(n.span)


def _map_items(items: tuple[Any, ...], fn: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The tuple with ``fn`` applied to its nodes; the same one where none changed."""
    changed: list[Any] | None = None
    for i, item in enumerate(items):
        if not isinstance(item, Node):
            continue
        new = fn(item)
        if new is item:
            continue
        if changed is None:
            changed = list(items)
        changed[i] = new
    return items if changed is None else tuple(changed)


def replace(n: N, **changes: Any) -> N:
    """A copy of ``n`` with some constructor fields changed; ``n`` itself if each is the same
    object."""
    get = _ALL[type(n)]
    values = [] if get is None else list(get(n))
    different = False
    names = n.init_fields
    for name, new in changes.items():
        if name not in names:
            raise InternalError(f"{type(n).__name__} is not constructed from {name}")
        i = names.index(name)
        if values[i] is not new:
            values[i] = new
            different = True
    return type(n)(*values).with_span(n.span) if different else n


def walk(n: Node, above: Collection[type] = ()) -> Iterator[Node]:
    """``n`` and all nodes below it, parents first, depth first, left to right; not what is below
    nodes of the classes ``above``."""
    stack = [n]
    pop, push, getters = stack.pop, stack.append, _LAST_FIRST
    while stack:
        top = pop()
        yield top
        kind = type(top)
        get = getters[kind]
        if get is None or kind in above:
            continue
        for value in get(top):
            if type(value) is tuple:
                for item in reversed(value):
                    if isinstance(item, Node):
                        push(item)
            elif isinstance(value, Node):
                push(value)

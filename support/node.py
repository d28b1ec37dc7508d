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


class _Values(dict[type, Callable[[Any], "tuple[Any, ...]"]]):
    """For each class, a function from a node to the values of its constructor's fields. These
    three walks are most of what a rewrite costs, and reading all fields at once halves them."""

    def __init__(self, names_of: Callable[[type[Node]], tuple[str, ...]]) -> None:
        super().__init__()
        self.names_of = names_of

    def __missing__(self, kind: type[Node]) -> Callable[[Any], tuple[Any, ...]]:
        names = self.names_of(kind)
        found: Callable[[Any], tuple[Any, ...]]
        if len(names) > 1:
            found = attrgetter(*names)
        elif names:
            only = attrgetter(names[0])

            def found(n: Any) -> tuple[Any, ...]:
                return (only(n),)
        else:

            def found(n: Any) -> tuple[Any, ...]:
                return ()

        self[kind] = found
        return found


_VALUES = _Values(attrgetter("init_fields"))
_BELOW = _Values(attrgetter("child_fields"))
"""The same for the fields that may hold nodes alone."""


def children(n: Node) -> Iterator[Node]:
    """The nodes directly below ``n``, in field order, looking into tuples."""
    for value in _BELOW[type(n)](n):
        if isinstance(value, Node):
            yield value
        elif type(value) is tuple:
            for item in value:
                if isinstance(item, Node):
                    yield item


def map_children(n: N, fn: Callable[[Any], Any]) -> N:
    """``n`` with ``fn`` applied to each child node; ``n`` itself where no child changed."""
    if not n.child_fields:
        return n
    values = _VALUES[type(n)](n)
    changed: list[Any] | None = None
    for i, value in enumerate(values):
        new: Any
        if isinstance(value, Node):
            new = fn(value)
            if new is value:
                continue
        elif type(value) is tuple and value:
            new = tuple([fn(item) if isinstance(item, Node) else item for item in value])
            for a, b in zip(new, value, strict=True):
                if a is not b:
                    break
            else:
                continue
        else:
            continue
        if changed is None:
            changed = list(values)
        changed[i] = new
    if changed is None:
        return n
    return type(n)(*changed).with_span(n.span)


def replace(n: N, **changes: Any) -> N:
    """A copy of ``n`` with some constructor fields changed; ``n`` itself if each is the same
    object."""
    values = list(_VALUES[type(n)](n))
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
    pop, getters = stack.pop, _BELOW
    while stack:
        top = pop()
        yield top
        if type(top) in above:
            continue
        values = getters[type(top)](top)
        if not values:
            continue
        below: list[Node] = []
        for value in values:
            if isinstance(value, Node):
                below.append(value)
            elif value and type(value) is tuple:
                for item in value:
                    if isinstance(item, Node):
                        below.append(item)
        below.reverse()
        stack += below

"""The node kit both IRs stand on: slotted dataclasses that are never mutated after construction.

A class of nodes is written ``@node class Add(Expr): a: Expr; b: Expr``. Its dataclass fields are
its children and attributes, in constructor order. ``==`` is identity; meaning is compared by
``support.structural``. A rewrite returns the same object where nothing changed, so that "did this
change?" is ``is not``. With ``BURNISH_DEBUG_NODES=1`` assignment after construction raises; it is
not always so because ``frozen=True`` would make construction four times as slow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ClassVar, TypeVar, dataclass_transform

from .config import flag
from .errors import InternalError
from .source import Span

N = TypeVar("N", bound="Node")
T = TypeVar("T")
_FREEZE: bool = flag("BURNISH_DEBUG_NODES")


class Node:
    """Base of every IR node. ``span`` is where it came from in a source text, or None."""

    __slots__ = ("__weakref__", "_sealed", "_span")
    init_fields: ClassVar[tuple[str, ...]] = ()
    """Names of the constructor's fields, in order; filled in by ``@node``."""

    @property
    def span(self) -> Span | None:
        return getattr(self, "_span", None)

    def with_span(self: N, span: Span | None) -> N:
        """Attach a source position; called once, by whoever constructs the node."""
        if span is not None:
            object.__setattr__(self, "_span", span)
        return self


@dataclass_transform(eq_default=False)
def node(cls: type[T]) -> type[T]:
    """Make ``cls`` a slotted identity-compared dataclass and record its constructor fields."""
    made = dataclass(slots=True, eq=False, repr=False)(cls)
    made.init_fields = tuple(f.name for f in fields(made) if f.init)  # type: ignore[attr-defined, arg-type]
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


def children(n: Node) -> Iterator[Node]:
    """The nodes directly below ``n``, in field order, looking into tuples."""
    for name in n.init_fields:
        value = getattr(n, name)
        if isinstance(value, Node):
            yield value
        elif type(value) is tuple:
            for item in value:
                if isinstance(item, Node):
                    yield item


def map_children(n: N, fn: Callable[[Any], Any]) -> N:
    """``n`` with ``fn`` applied to each child node; ``n`` itself where no child changed."""
    changed = False
    values: list[Any] = []
    for name in n.init_fields:
        value = getattr(n, name)
        if isinstance(value, Node):
            new = fn(value)
            if new is not value:
                changed = True
            values.append(new)
        elif type(value) is tuple:
            new_items = tuple([fn(item) if isinstance(item, Node) else item for item in value])
            if any(a is not b for a, b in zip(new_items, value, strict=True)):
                changed = True
                value = new_items
            values.append(value)
        else:
            values.append(value)
    if not changed:
        return n
    return type(n)(*values).with_span(n.span)


def replace(n: N, **changes: Any) -> N:
    """A copy of ``n`` with some constructor fields changed; ``n`` itself if each is the same
    object."""
    if all(getattr(n, name) is value for name, value in changes.items()):
        return n
    values = [changes.pop(name) if name in changes else getattr(n, name) for name in n.init_fields]
    if changes:
        raise InternalError(f"{type(n).__name__} is not constructed from {', '.join(changes)}")
    return type(n)(*values).with_span(n.span)


def walk(n: Node) -> Iterator[Node]:
    """``n`` and all nodes below it, parents first, depth first, left to right."""
    stack = [n]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(list(children(top))))

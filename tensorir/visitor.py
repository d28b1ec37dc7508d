"""Traversal written once: Visitor, Mutator, substitution, buffer replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ..support.node import Node, children, map_children, walk
from ..support.remembered import remembered
from .buffer import Buffer
from .expr import AccessPtr, BufferLoad, Expr, Var
from .stmt import Block, BlockRealize, BufferStore, Stmt

N = TypeVar("N", bound=Node)
_HOLDERS = (Stmt, Block)
"""What statements stand in."""


class Visitor:
    """Calls ``visit_<Class>`` for each node that has such a method, else goes on to its
    children."""

    _table: dict[type, Callable[..., Any]]

    def __init_subclass__(cls) -> None:
        cls._table = {}

    def visit(self, n: Node) -> None:
        kind = type(n)
        method: Any = self._table.get(kind)
        if method is None:
            method = getattr(type(self), f"visit_{kind.__name__}", type(self).generic_visit)
            self._table[kind] = method
        method(self, n)

    def generic_visit(self, n: Node) -> None:
        for child in children(n):
            self.visit(child)


class Mutator:
    """Rebuilds a tree bottom-up; ``visit_<Class>`` returns the replacement of a node.

    Nodes whose children did not change are returned as they were. Buffers are binders and are not
    entered unless a subclass defines ``visit_Buffer``.
    """

    _table: dict[type, Callable[..., Any]]

    def __init_subclass__(cls) -> None:
        cls._table = {}

    def visit(self, n: Any) -> Any:
        kind = type(n)
        method: Any = self._table.get(kind)
        if method is None:
            method = getattr(type(self), f"visit_{kind.__name__}", type(self).generic_visit)
            self._table[kind] = method
        return method(self, n)

    def generic_visit(self, n: Any) -> Any:
        return map_children(n, self.visit)

    def visit_Buffer(self, n: Buffer) -> Any:  # noqa: N802
        return n


class _Substitute(Mutator):
    def __init__(self, mapping: Mapping[int, Expr]) -> None:
        self.mapping = mapping

    def visit_Var(self, n: Var) -> Expr:  # noqa: N802
        return self.mapping.get(id(n), n)


class _ReplaceBuffers(Mutator):
    """Goes only where one of the buffers stands: most statements of a program touch few."""

    def __init__(self, mapping: Mapping[Buffer, Buffer]) -> None:
        self.mapping = mapping

    def visit(self, n: Any) -> Any:
        if isinstance(n, _HOLDERS) and buffers_below(n).isdisjoint(self.mapping):
            return n
        return super().visit(n)

    def visit_Var(self, n: Var) -> Expr:  # noqa: N802
        return n

    def visit_Buffer(self, n: Buffer) -> Buffer:  # noqa: N802
        return self.mapping.get(n, n)


@remembered
def buffers_below(n: Stmt | Block) -> frozenset[Buffer]:
    """The buffers that stand in a statement. A primitive makes few new statements, and only these
    are looked at."""
    found: set[Buffer] = set()
    for child in children(n):
        if isinstance(child, _HOLDERS):
            found |= buffers_below(child)
        else:
            found.update([m for m in walk(child, (Buffer,)) if isinstance(m, Buffer)])
    return frozenset(found)


def substitute(n: N, mapping: Mapping[Var, Expr]) -> N:
    """``n`` with variables replaced (by identity); binders inside are not renamed."""
    if not mapping:
        return n
    return _Substitute({id(v): e for v, e in mapping.items()}).visit(n)  # type: ignore[no-any-return]


def replace_buffers(n: N, mapping: Mapping[Buffer, Buffer]) -> N:
    """``n`` with buffers replaced (by identity) wherever they stand, indices unchanged."""
    if not mapping:
        return n
    return _ReplaceBuffers(mapping).visit(n)  # type: ignore[no-any-return]


def free_vars(nodes: Iterable[Node]) -> list[Var]:
    """Variables that appear in these expressions, in order of first appearance."""
    seen: dict[int, Var] = {}
    for n in nodes:
        for m in walk(n):
            if isinstance(m, Var):
                seen.setdefault(id(m), m)
    return list(seen.values())


def uses(n: Node, var: Var) -> bool:
    """Whether ``var`` appears in ``n``."""
    return any(m is var for m in walk(n))


def loads_in(n: Node) -> list[BufferLoad]:
    """Every load at or below ``n``, those in indices too."""
    return [m for m in walk(n) if isinstance(m, BufferLoad)]


def has_load(n: Node) -> bool:
    """Whether memory is read at or below ``n``."""
    return any(isinstance(m, BufferLoad) for m in walk(n))


def loads_from(n: Node, buffer: Buffer) -> bool:
    """Whether a buffer is read at or below ``n``."""
    return any(isinstance(m, BufferLoad) and m.buffer is buffer for m in walk(n))


def stored_buffer(n: Node) -> Buffer | None:
    """The buffer that a store writes, or a function that is called with a pointer to it."""
    if isinstance(n, BufferStore) or (isinstance(n, AccessPtr) and n.is_written):
        return n.buffer
    return None


def own_pointers(n: Node) -> list[AccessPtr]:
    """The pointers that functions are called with in ``n``, outside of the blocks in it."""
    found: list[AccessPtr] = []
    stack: list[Node] = [n]
    while stack:
        m = stack.pop()
        if isinstance(m, AccessPtr):
            found.append(m)
        if isinstance(m, BlockRealize):
            stack += [m.predicate, *reversed(m.iter_values)]
        else:
            stack += children(m)[::-1]
    return found


def accessed_buffers(n: Node) -> tuple[list[Buffer], list[Buffer]]:
    """The buffers that ``n`` loads from and stores to, each once, in order of first appearance. A
    function that is called with a pointer counts as a load, and as a store where it writes."""
    loads: dict[int, Buffer] = {}
    stores: dict[int, Buffer] = {}
    for m in walk(n):
        if isinstance(m, BufferLoad):
            loads.setdefault(id(m.buffer), m.buffer)
        elif (stored := stored_buffer(m)) is not None:
            stores.setdefault(id(stored), stored)
    return list(loads.values()), list(stores.values())

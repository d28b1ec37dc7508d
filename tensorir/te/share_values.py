"""share_values: what a definition uses several times is computed once.

A definition is a Python function, and a value that it uses twice is one object that stands in the
tree at two places

    for _ in range(11): x = x * sigmoid(x) + abs(x)

so that the tree is three times as large at every step, and whoever walks it has 3**11 paths to go.
Where a tree is much larger than the objects that it is made of, these become Lets, each around the
smallest value that has all the places of its use:

    (a + b) * exp(a + b)    ->    Let(v, a + b, in: v * exp(v))

Small definitions stay as they are written. So does, in a large one, a value that only the branches
of an ``if_then_else`` use and that may not be computed where they are not taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...support.node import Node, children, map_children
from ..expr import BufferLoad, Call, Div, Expr, ExternCall, FloorDiv, FloorMod, Let, Var

MOST_NODES = 500
"""Nodes of a tree that is never shared."""
LEAST_GAIN = 4
"""How many times as large as its objects a tree is that is shared."""


def share_values(value: Expr) -> Expr:
    """``value``, with Lets for what it holds several times where its tree is far larger than its
    objects are many; itself where it is not. It may hold no reduction."""
    order = _objects(value)
    sizes: dict[int, int] = {}
    for n in order:
        sizes[id(n)] = 1 + sum([sizes[id(c)] for c in _parts(n)])
    if sizes[id(value)] <= max(MOST_NODES, LEAST_GAIN * len(order)):
        return value
    return _Sharing(order, sizes).share()


def _parts(n: Expr) -> Iterator[Expr]:
    """What a value is computed of: indices stay with their loads."""
    return (c for c in children(n) if isinstance(c, Expr) and not isinstance(n, BufferLoad))


def _objects(value: Expr) -> list[Expr]:
    """Every object of a value once, after those that it is made of."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack = [(value, False)]
    while stack:
        n, ready = stack.pop()
        if ready:
            order.append(n)
        elif id(n) not in seen:
            seen.add(id(n))
            stack.append((n, True))
            stack.extend([(c, False) for c in _parts(n)])
    return order


class _Sharing:
    """``holder[x]`` is the object that every path from the whole value to ``x`` passes last, its
    immediate dominator: around it stands the Let of ``x``."""

    def __init__(self, order: list[Expr], sizes: dict[int, int]) -> None:
        self.order, self.sizes = order, sizes
        self.place = {id(n): k for k, n in enumerate(order)}
        users: dict[int, list[Expr]] = {id(n): [] for n in order}
        for n in order:
            for c in _parts(n):
                users[id(c)].append(n)
        self.holder: dict[int, Expr] = {id(order[-1]): order[-1]}
        for n in reversed(order[:-1]):
            first, *others = users[id(n)]
            holder = first
            for other in others:
                holder = self._common(holder, other)
            self.holder[id(n)] = holder
        self.data = self._of_data()
        self.traps = self._that_trap()
        self.held: dict[int, list[Expr]] = {}
        for n in order[:-1]:
            if len(users[id(n)]) > 1 and self._is_worth_it(n):
                self.held.setdefault(id(self.holder[id(n)]), []).append(n)
        self.names: dict[int, Var] = {}
        self.made: dict[int, Expr] = {}

    def _common(self, a: Expr, b: Expr) -> Expr:
        while a is not b:
            if self.place[id(a)] < self.place[id(b)]:
                a = self.holder[id(a)]
            else:
                b = self.holder[id(b)]
        return a

    def _of_data(self) -> set[int]:
        """The objects that are more than arithmetic of axes, which the compiler reads itself."""
        found: set[int] = set()
        for n in self.order:
            if isinstance(n, BufferLoad | Call | ExternCall) or any(
                id(c) in found for c in _parts(n)
            ):
                found.add(id(n))
        return found

    def _that_trap(self) -> set[int]:
        """The objects that may not be computed where they are not asked for."""
        traps: set[int] = set()
        for n in self.order:
            divides = isinstance(n, Div | FloorDiv | FloorMod) and not n.dtype.is_float
            if divides or isinstance(n, BufferLoad) or any(id(c) in traps for c in _parts(n)):
                traps.add(id(n))
        return traps

    def _is_worth_it(self, n: Expr) -> bool:
        if self.sizes[id(n)] < 3 or id(n) not in self.data:
            return False
        holder = self.holder[id(n)]
        guards = isinstance(holder, Call) and holder.op == "if_then_else"
        return not (guards and id(n) in self.traps)

    def share(self) -> Expr:
        """The last object, each other one made once of those before it."""
        for n in self.order:
            made = n if isinstance(n, BufferLoad) else map_children(n, self._part)
            for held in reversed(self.held.get(id(n), [])):
                made = Let(self.names[id(held)], self.made[id(held)], made)
            self.made[id(n)] = made
        return self.made[id(self.order[-1])]

    def _part(self, n: Node) -> Node:
        """What stands for an object where another one uses it."""
        if not isinstance(n, Expr):
            return n
        shared = self.held.get(id(self.holder[id(n)]), [])
        if any(n is s for s in shared):
            return self.names.setdefault(id(n), Var(f"value{len(self.names)}", n.dtype))
        return self.made[id(n)]

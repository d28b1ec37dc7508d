"""Whether something is anywhere in a statement, remembered by statement.

Primitives and passes ask of whole functions for what hardly any has (a call of a function of C, a
pointer, an intrinsic that is composed). Statements never change, and a primitive makes few new
ones: only those are looked at, however often it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from weakref import WeakKeyDictionary

from ...support.node import Node, children, walk
from ..buffer import Buffer
from ..stmt import Stmt
from .paths import child_stmts


class Anywhere:
    """Whether ``here`` holds of a statement or of one below it, outside of what ``is_leaf`` ends
    at. ``here`` looks at a statement without its child statements."""

    def __init__(
        self, here: Callable[[Stmt], bool], is_leaf: Callable[[Stmt], bool] = lambda _: False
    ) -> None:
        self.here, self.is_leaf = here, is_leaf
        self.known: WeakKeyDictionary[Stmt, bool] = WeakKeyDictionary()

    def within(self, s: Stmt) -> bool:
        """The answer for ``s``."""
        found = self.known.get(s)
        if found is None:
            below = () if self.is_leaf(s) else child_stmts(s)
            found = self.here(s) or any([self.within(child) for child in below])
            self.known[s] = found
        return found


def own_nodes(s: Stmt) -> Iterator[Node]:
    """A statement and the nodes below it, without its child statements and the shapes of buffers;
    a block's init is its own."""
    below = child_stmts(s)
    yield s
    for child in children(s):
        if not any(child is b for b in below):
            yield from walk(child, (Buffer,))


def anywhere(holds: Callable[[Node], bool]) -> Anywhere:
    """Whether ``holds`` of some node of a statement, the shapes of buffers left out."""
    return Anywhere(lambda s: any(map(holds, own_nodes(s))))


__all__ = ["Anywhere", "anywhere", "own_nodes"]

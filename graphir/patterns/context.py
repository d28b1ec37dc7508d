"""PatternContext: a graph of patterns, with readers as well as operands.

    with PatternContext() as ctx:
        x = wildcard()
        q, k = is_op("linear")(x, is_const()), is_op("linear")(x, is_const())
        q.only_used_by(is_op("sigmoid"))

    matched = ctx.match(func)

Patterns made inside of the ``with`` that are no part of others are its *roots*: each stands for
a binding of its own, of one block. Roots that read what another root is, or are read by one, are
looked for there; the others among all bindings, in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from ..analysis import sequences
from ..expr import BindingBlock, Function, Var
from ..module import IRModule
from ..weights import Weights
from .matching import Found, Matched, Scene, Subject, operands, search
from .pattern import (
    Pattern,
    PatternError,
    Recorder,
    close_recorder,
    open_recorder,
    parts_of,
)


@dataclass(frozen=True)
class Edge:
    """``user`` reads ``producer``, as its operand ``index`` (None: any); alone, where ``only``."""

    producer: Pattern
    user: Pattern
    index: int | None
    only: bool


class PatternContext(Recorder):
    """Patterns and who reads whom. Use it in a ``with`` statement."""

    def __init__(self) -> None:
        self._made: dict[Pattern, None] = {}
        self._edges: list[Edge] = []

    def __enter__(self) -> PatternContext:
        open_recorder(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        close_recorder()

    # -- what is written -----------------------------------------------------------------------
    def made(self, pattern: Pattern) -> None:
        """Told of each pattern that is made in the context."""
        self._made.setdefault(pattern)

    def replaced(self, pattern: Pattern) -> None:
        """Told of each that was the beginning of another."""
        self._made.pop(pattern, None)

    def edge(self, producer: Pattern, user: Pattern, index: int | None, *, only: bool) -> None:
        """Told of each reader."""
        self._made.setdefault(producer)
        self._made.setdefault(user)
        self._edges.append(Edge(producer, user, index, only))

    @property
    def roots(self) -> list[Pattern]:
        """The patterns that are no part of others, in the order in which they were made."""
        inner = {part for p in self._made for q in p.parts for part in parts_of(q)}
        return [p for p in self._made if p not in inner]

    # -- what is asked -------------------------------------------------------------------------
    def match(self, within: Function | IRModule) -> Matched | None:
        """The first match in a function, or in the graph functions of a module; None where there is
        none. Raises PatternError for a context without patterns."""
        if isinstance(within, Function):
            return next(self.matches(within), None)
        for func in within.graph_functions.values():
            found = next(self.matches(func, within.weights), None)
            if found is not None:
                return found
        return None

    def match_dfb(self, block: BindingBlock, func: Function) -> dict[Pattern, Var] | None:
        """The variables of the first match in one block of a function; None where there is none."""
        found = next(self.matches_in(block, Scene.of(func)), None)
        if found is None:
            return None
        return {p: s.atom for p, s in found.found.items() if isinstance(s.atom, Var)}

    def matches(self, func: Function, weights: Weights | None = None) -> Iterator[Matched]:
        """The matches in a function, block by block, in order."""
        scene = Scene.of(func, weights)
        for seq in sequences(func.body):
            for block in seq.blocks:
                yield from self.matches_in(block, scene)

    def matches_in(self, block: BindingBlock, scene: Scene) -> Iterator[Matched]:
        """The matches in one block."""
        roots = self.roots
        if not roots:
            raise PatternError(
                "the PatternContext has no patterns: make them inside of its `with` statement."
            )
        search_ = _Search(block, scene, self._edges)
        for found in search_.all(roots, {}):
            yield Matched(found, scene)


class _Search:
    """One search through a block."""

    def __init__(self, block: BindingBlock, scene: Scene, edges: list[Edge]) -> None:
        self.scene, self.edges = scene, edges
        self.taken: list[Pattern] = []
        """The roots that are matched so far."""
        self.bound = {b.var: b.value for b in block.bindings}
        self.readers: dict[Var, list[Var]] = {}
        for b in block.bindings:
            for atom in operands(b.value):
                var = self._variable(scene.subject(atom))
                if var is not None and b.var not in self.readers.setdefault(var, []):
                    self.readers[var].append(b.var)

    def all(self, waiting: list[Pattern], found: Found) -> Iterator[Found]:
        """Every way to match the roots that are left, each another binding."""
        if not waiting:
            if all(self._holds(e, found) for e in self.edges):
                yield found
            return
        near_by = [r for r in waiting if self._neighbours(r, found) is not None]
        root = near_by[0] if near_by else self._last_reader(waiting)
        near = self._neighbours(root, found)
        rest = [r for r in waiting if r is not root]
        used = {id(found[p].atom) for p in self.taken}
        for var in self.bound if near is None else near:
            subject = self.scene.subject(var)
            if id(subject.atom) in used:
                continue
            for made in search(root, subject, self.scene, found):
                if all(self._holds(e, made) for e in self.edges):
                    self.taken.append(root)
                    yield from self.all(rest, made)
                    self.taken.remove(root)

    def _last_reader(self, waiting: list[Pattern]) -> Pattern:
        """Where a search begins: what the first root leads to. An operand may be a parameter or a
        constant, which no binding makes."""
        root, seen = waiting[0], set[Pattern]()
        while root not in seen:
            seen.add(root)
            users = [e.user for e in self.edges if e.producer is root and e.user in waiting]
            root = users[0] if users else root
        return root

    def _neighbours(self, root: Pattern, found: Found) -> list[Var] | None:
        """The variables that an edge leads to from what is found; None where there is none."""
        for edge in self.edges:
            if edge.user is root and edge.producer in found:
                var = self._variable(found[edge.producer])
                return [] if var is None else self.readers.get(var, [])
            if edge.producer is root and edge.user in found:
                read = [
                    self._variable(self.scene.subject(a)) for a in operands(found[edge.user].value)
                ]
                return list(dict.fromkeys([v for v in read if v is not None]))
        return None

    def _holds(self, edge: Edge, found: Found) -> bool:
        """Whether an edge is there; one whose ends are not both found is no question yet."""
        if edge.producer not in found or edge.user not in found:
            return True
        producer, user = found[edge.producer], found[edge.user]
        var = self._variable(producer)
        if var is None:
            return False
        read = [self._variable(self.scene.subject(a)) for a in operands(user.value)]
        if var not in read or (
            edge.index is not None and (edge.index >= len(read) or read[edge.index] is not var)
        ):
            return False
        return not edge.only or self.scene.reads(var) == read.count(var)

    @staticmethod
    def _variable(subject: Subject) -> Var | None:
        return subject.atom if isinstance(subject.atom, Var) else None

"""Where the circular buffers of rolling_buffer are allocated: around the loop they roll on.

Their content passes from one iteration of that loop to the next. Inside of loops further out, which
may be parallel, each iteration has a circle of its own. The loop is the outermost one in the
predicate ``first iteration or new element`` of the block that fills the buffer, which splitting and
fusing keep true; where no such predicate is left (the loop was cut in parts), it is enough to stand
around all users.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ...support.node import walk
from ..buffer import Buffer
from ..expr import And, Expr, Or, Var
from ..rolling import ROLLING
from ..stmt import (
    Allocate,
    BlockRealize,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    annotation,
)


@dataclass(slots=True)
class RollingPlaces:
    """``inside`` maps the id of a loop to the buffers allocated around its body; ``placed`` has the
    ids of these buffers, ``rolling`` those of all circular ones."""

    inside: dict[int, list[Buffer]] = field(default_factory=dict)
    placed: set[int] = field(default_factory=set)
    rolling: set[int] = field(default_factory=set)


def place_rolling(body: Stmt) -> RollingPlaces:
    """The places of all circular buffers of a function's body."""
    finder = _Finder()
    finder.stmt(body)
    places = RollingPlaces()
    for key, buffer in finder.circular.items():
        places.rolling.add(key)
        limit = len(finder.common[key])
        for i, loop in enumerate(finder.common[key]):
            if loop.var in finder.guards[key]:
                limit = i
                break
        if limit:
            holder = finder.common[key][limit - 1]
            places.inside.setdefault(id(holder), []).append(buffer)
            places.placed.add(key)
    return places


class _Finder:
    """The loops common to all blocks that use a circular buffer, below its allocation, and the
    variables in the guards of the blocks that fill it."""

    def __init__(self) -> None:
        self.loops: list[For] = []
        self.predicates: list[Expr] = []
        """Those of the blocks around: blockize takes the block's own to one of them."""
        self.depth: dict[int, int] = {}
        self.circular: dict[int, Buffer] = {}
        self.guards: dict[int, set[Var]] = {}
        self.common: dict[int, list[For]] = {}
        self.behind: dict[Var, set[Var]] = {}
        """The loop variables that an iter var of a block around is bound to."""

    def stmt(self, s: Stmt) -> None:
        match s:
            case For():
                self.loops.append(s)
                self.stmt(s.body)
                self.loops.pop()
            case SeqStmt():
                for child in s.stmts:
                    self.stmt(child)
            case IfThenElse():
                self.stmt(s.then_case)
                if s.else_case is not None:
                    self.stmt(s.else_case)
            case LetStmt() | Allocate():
                self.stmt(s.body)
            case BlockRealize():
                self._block(s)
            case _:
                return

    def _block(self, s: BlockRealize) -> None:
        block = s.block
        for buffer in block.alloc_buffers:
            self.depth[id(buffer)] = len(self.loops)
        if annotation(block, ROLLING):
            buffer = block.writes[0].buffer
            self.circular[id(buffer)] = buffer
            guards = self.guards.setdefault(id(buffer), set())
            for predicate in (*self.predicates, s.predicate):
                for v in _guard_vars(predicate):
                    guards |= self.behind.get(v, {v})
        for region in (*block.reads, *block.writes):
            key = id(region.buffer)
            if key in self.depth:
                here = self.loops[self.depth[key] :]
                known = self.common.get(key)
                self.common[key] = here if known is None else _common(known, here)
        for it, value in zip(block.iter_vars, s.iter_values, strict=True):
            used = [n for n in walk(value) if isinstance(n, Var)]
            self.behind[it.var] = {loop for v in used for loop in self.behind.get(v, {v})}
        self.predicates.append(s.predicate)
        self.stmt(block.body)
        self.predicates.pop()


def _guard_vars(predicate: Expr) -> set[Var]:
    """The variables of the alternatives in a predicate; limits of domains have none."""
    match predicate:
        case And():
            return _guard_vars(predicate.a) | _guard_vars(predicate.b)
        case Or():
            return {n for n in walk(predicate) if isinstance(n, Var)}
        case _:
            return set()


def _common(a: list[For], b: list[For]) -> list[For]:
    count = 0
    while count < min(len(a), len(b)) and a[count] is b[count]:
        count += 1
    return a[:count]

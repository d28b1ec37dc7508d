"""Lets intermediate buffers that are not live together be one buffer.

Outside of all loops a function is a row of statements, and an intermediate is live from the first
that mentions it to the last:

    X ─────────┐                    for i: X = ..A..       X lives in [0, 1]
    Y     └─────────┐               for i: Y = ..X..       Y lives in [1, 2]
    Z          └─────────           for i: Z = ..Y..       Z lives in [2, 3]: takes the place of X
                                    for i: B = ..Z..

Buffers of one dtype whose lives do not meet become *one buffer* of the larger size, not two at one
address: code generation may go on saying that no two buffers overlap. A buffer inside of a loop may
carry a value from one iteration to the next, so those keep their own place; so do registers and
what is small enough for the stack. Of two symbolic sizes one must be known to be the larger. Runs
on flat buffers, before their places are planned.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...support.node import map_children, walk
from ..buffer import Buffer
from ..expr import Expr, IntImm, Var
from ..function import PrimFunc
from ..stmt import Allocate, LetStmt, SeqStmt, Stmt
from ..visitor import free_vars, replace_buffers
from .plan_allocations import STACK_BUFFER
from .scope import Scope


def share_allocations(func: PrimFunc) -> PrimFunc:
    """``func`` with one Allocate for intermediates that are never live together."""
    found = _Lives(func)
    found.stmt(func.body)
    slots = _assign(found)
    if all(len(s.members) < 2 for s in slots):
        return func
    merged: dict[Buffer, Buffer] = {}
    made: list[Buffer] = []
    for s in slots:
        if len(s.members) < 2:
            continue
        first = s.members[0]
        one = Buffer(first.name, (s.size,), first.dtype, first.scope, alignment=first.alignment)
        made.append(one)
        merged |= dict.fromkeys(s.members, one)
    body = replace_buffers(_without(func.body, {id(b) for b in merged}), merged)
    for b in reversed(made):
        body = Allocate(b, body)
    return PrimFunc(func.params, body, func.attrs, func.name)


@dataclass(slots=True)
class _Life:
    """The statements, by number, between which a buffer is live."""

    buffer: Buffer
    first: int = -1
    last: int = -1


class _Lives:
    """The lives of the intermediates that are allocated outside of all loops."""

    def __init__(self, func: PrimFunc) -> None:
        self.scope = Scope()
        for var in func.shape_vars:
            self.scope.declare_dim(var)
        self.known = {id(v) for v in func.shape_vars}
        self.known |= {id(p) for p in func.params if isinstance(p, Var)}
        self.found: dict[int, _Life] = {}
        self.count = 0

    def stmt(self, s: Stmt) -> None:
        match s:
            case SeqStmt(stmts):
                for x in stmts:
                    self.stmt(x)
            case Allocate(buffer, body, annotations):
                if not annotations and self._may_move(buffer):
                    self.found[id(buffer)] = _Life(buffer)
                self.stmt(body)
            case LetStmt(_, value, body):
                self._mention(value)
                self.stmt(body)
            case _:
                self._mention(s)

    def _may_move(self, buffer: Buffer) -> bool:
        """Whether a buffer takes workspace, of a size that is known when the function begins."""
        if buffer.scope == "register":
            return False
        size = buffer.shape[0]
        if isinstance(size, IntImm):
            return size.value * buffer.dtype.itemsize > STACK_BUFFER
        return all(id(v) in self.known for v in free_vars([size]))

    def _mention(self, n: Stmt | Expr) -> None:
        for m in walk(n, (Buffer,)):
            life = self.found.get(id(m)) if isinstance(m, Buffer) else None
            if life is not None:
                life.first = self.count if life.first < 0 else life.first
                life.last = self.count
        self.count += 1


@dataclass(slots=True)
class _Slot:
    """Memory that ``members`` use one after another; the last of them until ``last``."""

    members: list[Buffer]
    size: Expr
    last: int


def _assign(lives: _Lives) -> list[_Slot]:
    """Each buffer, in the order in which their lives begin, in the free slot that fits it best."""
    slots: list[_Slot] = []
    for life in sorted(lives.found.values(), key=lambda x: (x.first, x.last)):
        best: tuple[int, _Slot, Expr] | None = None
        for s in slots:
            if s.last >= life.first or s.members[0].dtype is not life.buffer.dtype:
                continue
            fit = _fit(lives.scope, s.size, life.buffer.shape[0])
            if fit is not None and (best is None or fit[0] < best[0]):
                best = (fit[0], s, fit[1])
        if best is None or life.first < 0:
            slots.append(_Slot([life.buffer], life.buffer.shape[0], life.last))
            continue
        _, slot, size = best
        slot.size = size
        slot.members.append(life.buffer)
        slot.last = life.last
    return slots


def _fit(scope: Scope, slot: Expr, wanted: Expr) -> tuple[int, Expr] | None:
    """How much a slot and a buffer differ, and the size that holds either; None where that cannot
    be told."""
    gap = scope.linear(slot) - scope.linear(wanted)
    cost = 1 << 62 if gap.terms else abs(gap.const)
    if scope.is_at_least(gap, 0):
        return cost, slot
    return (cost, wanted) if scope.is_below(gap, 1) else None


def _without(s: Stmt, moved: set[int]) -> Stmt:
    """``s`` without the Allocates of ``moved`` buffers; none of them stands in a loop."""
    match s:
        case Allocate(buffer, body, annotations):
            inner = _without(body, moved)
            return inner if id(buffer) in moved else Allocate(buffer, inner, annotations)
        case SeqStmt() | LetStmt():
            return map_children(s, lambda n: n if isinstance(n, Expr) else _without(n, moved))
        case _:
            return s

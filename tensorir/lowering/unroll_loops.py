"""Expands unrolled loops, so that their variables become constants in indices and conditions.

One walk writes the output once: each copy of a body is rebuilt with the values of all unrolled
loops around it. Buffers allocated inside stay one buffer, allocated outside the copies; variables
bound inside are renewed. ``pragma_auto_unroll_max_step`` on a loop (or a block) unrolls the serial
loops below whose total number of steps stays within it. Runs after vectorisation, on flat buffers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...support.errors import CodegenError
from ...support.node import map_children
from ..arith.linear import Linear, render
from ..buffer import Buffer
from ..expr import (
    INDEX,
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    CompareOp,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Not,
    Or,
    Ramp,
    Select,
    Var,
    add,
    logical_and,
    logical_not,
    logical_or,
)
from ..function import PrimFunc
from ..stmt import Allocate, BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt, annotation, seq
from ..visitor import free_vars
from .scope import Scope
from .simplify_loops import NOTHING
from .tile_nests import is_marked

MAX_COPIES = 1 << 14
"""Statements one unrolled loop may become; beyond it the schedule is refused."""

AUTO_UNROLL = "pragma_auto_unroll_max_step"


def unroll_loops(func: PrimFunc) -> PrimFunc:
    """``func`` without unrolled loops.

    Raises CodegenError where an extent is not constant or the expansion exceeds ``MAX_COPIES``.
    """
    unroll = _Unroll(func)
    return PrimFunc(func.params, unroll.stmt(func.body), func.attrs, func.name)


@dataclass(frozen=True, slots=True)
class _Index:
    """An index taken apart: ``base + sum(moved variable * coefficient) + offset``."""

    whole: Expr
    moved: tuple[tuple[int, int], ...]
    base: Expr
    offset: int
    mentioned: frozenset[int]
    """The variables in ``base``."""


class _Unroll:
    def __init__(self, func: PrimFunc) -> None:
        self.scope = Scope()
        for var in func.shape_vars:
            self.scope.declare_dim(var)
        self.values: dict[int, Expr] = {}
        self.hoisted: list[Allocate] = []
        self.bases: dict[int, _Index] = {}
        self.copies = 1
        self.depth = 0
        self.auto = 0

    # -- statements -------------------------------------------------------------------------------
    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case For():
                return self._loop(s)
            case SeqStmt(stmts):
                return seq(*[self.stmt(x) for x in stmts])
            case IfThenElse():
                return self._condition(s)
            case Allocate(buffer, body, annotations):
                if self.depth:
                    if all(a.buffer is not buffer for a in self.hoisted):
                        self.hoisted.append(s)
                    return self.stmt(body)
                return Allocate(buffer, self.stmt(body), annotations)
            case LetStmt(var, value, body):
                new = self.expr(value)
                bound = self._renewed(var)
                return LetStmt(bound, new, self.stmt(body))
            case BufferStore(buffer, value, indices, predicate):
                where = tuple([self.expr(i) for i in indices])
                guard = self.expr(predicate) if predicate is not None else None
                return BufferStore(buffer, self.expr(value), where, guard)
            case _:
                return map_children(s, self.expr)

    def _loop(self, s: For) -> Stmt:
        extent = self.expr(s.extent)
        start = self.expr(s.min)
        limit = annotation(s, AUTO_UNROLL)
        kind = s.kind
        if kind == "serial" and self._auto_unrolls(s):
            kind = "unrolled"
        saved, self.auto = self.auto, int(limit) if limit is not None else self.auto
        if is_marked(s):
            self.auto = 0
        if kind == "unrolled":
            expanded = self._expand(s, start, extent)
            self.auto = saved
            return expanded
        bound = self._renewed(s.var)
        outside = self.hoisted
        if kind == "parallel":
            self.hoisted = []
        with self.scope.loop(bound, start, extent):
            body = self.stmt(s.body)
        if kind == "parallel":
            # Each iteration has buffers of its own, unrolled or not.
            body, self.hoisted = self._allocated(body), outside
        self.auto = saved
        annotations = tuple([(k, v) for k, v in s.annotations if not k.startswith("pragma_")])
        return For(bound, start, extent, kind, body, s.thread, annotations)

    def _auto_unrolls(self, s: For) -> bool:
        if is_marked(s):
            return False
        limit = annotation(s, AUTO_UNROLL)
        steps = _steps(s)
        return steps is not None and steps <= (int(limit) if limit is not None else self.auto)

    def _expand(self, s: For, start: Expr, extent: Expr) -> Stmt:
        if not isinstance(extent, IntImm):
            raise CodegenError(
                f"An unrolled loop needs a constant number of iterations; {s.var.name} has a "
                "symbolic extent. Split it by a constant factor and unroll the inner loop."
            )
        count = extent.value
        if self.copies * count > MAX_COPIES:
            raise CodegenError(
                f"Unrolling {s.var.name} makes more than {MAX_COPIES} copies of its body. Unroll "
                "an inner loop only, or split it by a smaller factor."
            )
        self.copies *= count
        self.depth += 1
        parts = []
        for k in range(count):
            self.values[id(s.var)] = add(start, k)
            part = self.stmt(s.body)
            if part is not NOTHING:
                parts.append(part)
        self.depth -= 1
        self.copies //= count
        del self.values[id(s.var)]
        expanded = seq(*parts) if parts else NOTHING
        return expanded if self.depth else self._allocated(expanded)

    def _allocated(self, body: Stmt) -> Stmt:
        """``body`` inside the buffers that were allocated in its unrolled loops."""
        for a in reversed(self.hoisted):
            body = Allocate(a.buffer, body, a.annotations)
        self.hoisted = []
        return body

    def _renewed(self, var: Var) -> Var:
        if not self.depth:
            # A copy of the same loop may have been renewed before: chunks of a vector share bodies.
            self.values.pop(id(var), None)
            return var
        new = Var(var.name, var.dtype)
        self.values[id(var)] = new
        return new

    def _condition(self, s: IfThenElse) -> Stmt:
        condition = self.expr(s.condition)
        if isinstance(condition, IntImm):
            if condition.value:
                return self.stmt(s.then_case)
            return self.stmt(s.else_case) if s.else_case is not None else NOTHING
        other = self.stmt(s.else_case) if s.else_case is not None else None
        return IfThenElse(condition, self.stmt(s.then_case), other)

    # -- expressions ------------------------------------------------------------------------------
    def expr(self, e: Any) -> Any:
        """``e`` with the values of the unrolled loops put in and constants folded."""
        if not self.values:
            return e
        kind = type(e)
        if kind is Var:
            return self.values.get(id(e), e)
        # The nodes that unrolled tiles consist of, without the generic walk.
        if kind is IntImm or kind is FloatImm or kind is Buffer:
            return e
        if kind is BufferLoad and e.predicate is None:
            index = self.expr(e.indices[0])
            return e if index is e.indices[0] else BufferLoad(e.buffer, (index,))
        if kind is Ramp:
            base, stride = self.expr(e.base), self.expr(e.stride)
            return e if base is e.base and stride is e.stride else Ramp(base, stride, e.lanes)
        if kind is Broadcast:
            value = self.expr(e.value)
            return e if value is e.value else Broadcast(value, e.lanes)
        if getattr(e, "dtype", None) is INDEX and isinstance(e, BinaryOp):
            return self._index(e)
        if kind is Let:
            return self._let(e)
        new = map_children(e, self.expr)
        if new is e:
            return e
        return self._folded(new)

    def _let(self, e: Let) -> Let:
        """A copy binds a variable of its own, which no other copy's body may come to name."""
        value, new = self.expr(e.value), Var(e.var.name, e.var.dtype)
        self.values[id(e.var)] = new
        body = self.expr(e.body)
        del self.values[id(e.var)]
        return Let(new, value, body)

    def _index(self, e: BinaryOp) -> Expr:
        """A linear index is shifted by the constants alone; the varying part is one shared node."""
        known = self.bases.get(id(e))
        if known is None:
            form = self.scope.linear(e)
            moved = {a: c for a, c in form.terms.items() if self._is_known(a)}
            base = render(Linear({a: c for a, c in form.terms.items() if a not in moved}))
            mentioned = frozenset([id(v) for v in free_vars([base])])
            shifts = tuple([(id(a), c) for a, c in moved.items()])
            known = _Index(e, shifts, base, form.const, mentioned)
            self.bases[id(e)] = known
        base, offset = known.base, known.offset
        for var, c in known.moved:
            value = self.values.get(var)
            if not isinstance(value, IntImm):
                del self.bases[id(e)]
                return self._index(e)
            offset += c * value.value
        if not known.mentioned.isdisjoint(self.values):
            base = self._rebuilt(base)
        if isinstance(base, IntImm):
            return IntImm(base.value + offset, INDEX)
        return Add(base, IntImm(offset, INDEX)) if offset else base

    def _is_known(self, atom: Expr) -> bool:
        return isinstance(self.values.get(id(atom)), IntImm)

    def _rebuilt(self, base: Expr) -> Expr:
        new = map_children(base, self._plain) if not isinstance(base, Var) else self._plain(base)
        if new is base:
            return base
        return render(self.scope.linear(new))

    def _plain(self, e: Any) -> Any:
        if type(e) is Var:
            return self.values.get(id(e), e)
        if type(e) is Buffer:
            return e
        if type(e) is BufferLoad:
            return map_children(e, self.expr)
        return map_children(e, self._plain)

    def _folded(self, e: Expr) -> Expr:
        match e:
            case CompareOp():
                return self.scope.compare(e)
            case And(a, b):
                return logical_and(a, b)
            case Or(a, b):
                return logical_or(a, b)
            case Not(a):
                return logical_not(a)
            case Select(IntImm(value), a, b) | Call("if_then_else", (IntImm(value), a, b)):
                chosen: Expr = a if value else b
                return chosen
            case _:
                return e


def _steps(s: Stmt) -> int | None:
    """Innermost iterations of a serial nest of constant extents; None where it is no such nest."""
    match s:
        case For(_, _, extent, kind, body) if kind in ("serial", "unrolled") and isinstance(
            extent, IntImm
        ):
            inner = _steps(body)
            return None if inner is None else inner * extent.value
        case For():
            return None
        case SeqStmt(stmts):
            parts = [_steps(x) for x in stmts]
            return (
                None if any(p is None for p in parts) else max([p for p in parts if p is not None])
            )
        case IfThenElse(_, then_case, else_case):
            parts = [_steps(then_case), _steps(else_case) if else_case is not None else 1]
            return (
                None if any(p is None for p in parts) else max([p for p in parts if p is not None])
            )
        case LetStmt(_, _, body) | Allocate(_, body):
            return _steps(body)
        case _:
            return 1

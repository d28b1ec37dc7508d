"""Puts indices and conditions in canonical form and drops what bounds decide.

One walk with the ranges of the loops around: int64 expressions become linear forms, comparisons
that always or never hold disappear with the dead branch, loops of one iteration give way to their
body and empty loops to nothing; a guard around a loop's whole body moves out of the loop as far as
it does not change there. Float arithmetic is left exactly as written.
"""

from __future__ import annotations

from ...support.node import walk
from ..arith.rules_logic import conjuncts
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var, all_of
from ..function import PrimFunc
from ..stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from .scope import Scope

NOTHING = Evaluate(IntImm(0, INDEX))


def simplify_loops(func: PrimFunc) -> PrimFunc:
    """``func``, without blocks, with simplified indices, conditions and loops."""
    scope = Scope()
    for var in func.shape_vars:
        scope.declare_dim(var)
    body = _Simplify(scope).stmt(func.body)
    return PrimFunc(func.params, body if body is not None else NOTHING, func.attrs, func.name)


def _invariant_guard(loop: For, body: Stmt) -> tuple[Expr | None, Stmt]:
    """What of a guard around a loop's whole body does not change in the loop, and the body under
    the rest of it: asked once, not in each iteration."""
    if (
        loop.kind not in ("serial", "unrolled", "vectorized")
        or not isinstance(body, IfThenElse)
        or body.else_case is not None
    ):
        return None, body
    outside: list[Expr] = []
    inside: list[Expr] = []
    for c in conjuncts(body.condition):
        varies = any(n is loop.var or isinstance(n, BufferLoad) for n in walk(c))
        (inside if varies else outside).append(c)
    if not outside:
        return None, body
    rest = IfThenElse(all_of(inside), body.then_case) if inside else body.then_case
    return all_of(outside), rest


class _Simplify:
    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def stmt(self, s: Stmt) -> Stmt | None:
        """The simplified statement; None where nothing remains."""
        match s:
            case For():
                return self._loop(s)
            case SeqStmt(stmts):
                kept = [x for x in map(self.stmt, stmts) if x is not None]
                return seq(*kept) if kept else None
            case IfThenElse():
                return self._condition(s)
            case LetStmt(var, value, body):
                return self._let(var, self.scope.simplify_value(value), body)
            case Allocate(buffer, body, annotations):
                inner = self.stmt(body)
                return Allocate(buffer, inner, annotations) if inner is not None else None
            case BufferStore(buffer, value, indices, predicate):
                where = tuple([self.scope.simplify(i) for i in indices])
                guard = self.scope.simplify(predicate) if predicate is not None else None
                return BufferStore(buffer, self.scope.simplify_value(value), where, guard)
            case Evaluate(value):
                return (
                    None
                    if isinstance(value, IntImm)
                    else Evaluate(self.scope.simplify_value(value))
                )
            case Block() | BlockRealize():
                raise AssertionError("blocks are lowered before loops are simplified")

    def _loop(self, s: For) -> Stmt | None:
        extent = self.scope.simplify(s.extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            return None
        start = self.scope.simplify(s.min)
        with self.scope.loop(s.var, start, extent):
            body = self.stmt(s.body)
        if body is None:
            return None
        if isinstance(extent, IntImm) and extent.value == 1:
            return body
        outside, body = _invariant_guard(s, body)
        loop = For(s.var, start, extent, s.kind, body, s.thread, s.annotations)
        return loop if outside is None else IfThenElse(outside, loop)

    def _condition(self, s: IfThenElse) -> Stmt | None:
        condition = self.scope.simplify(s.condition)
        if isinstance(condition, IntImm):
            if condition.value:
                return self.stmt(s.then_case)
            return self.stmt(s.else_case) if s.else_case is not None else None
        with self.scope.assuming([condition]):
            then_case = self.stmt(s.then_case)
        else_case = self.stmt(s.else_case) if s.else_case is not None else None
        if then_case is None:
            if else_case is None:
                return None
            return IfThenElse(self.scope.simplify(condition), NOTHING, else_case)
        return IfThenElse(condition, then_case, else_case)

    def _let(self, var: Var, value: Expr, body: Stmt) -> Stmt | None:
        with self.scope.scope():
            if isinstance(value, IntImm) and value.dtype is INDEX:
                self.scope.bind_expr(var, value)
            elif value.dtype is INDEX:
                self.scope.bind_interval(var, self.scope.interval(self.scope.linear(value)))
            inner = self.stmt(body)
        return LetStmt(var, value, inner) if inner is not None else None

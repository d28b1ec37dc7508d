"""Leaves at most one level of parallel loops and gives each its grain.

A parallel loop inside another one runs serially (threads do not nest); a thread_binding loop, a GPU
notion, is a plain loop on a CPU (``split_threads`` saw to what its threads exchange). The grain is
the smallest number of iterations worth a thread, from an estimate of the work of one iteration: a
loop whose extent does not exceed it never wakes the pool. Code generation outlines the loops that
remain parallel.
"""

from __future__ import annotations

from ...support.node import Node, children, map_children
from ..buffer import Buffer
from ..expr import Expr, IntImm, Var
from ..function import PrimFunc
from ..stmt import Allocate, BufferStore, Evaluate, For, IfThenElse, LetStmt, SeqStmt, Stmt

GRAIN = "grain"
"""Annotation of a parallel loop: iterations a thread takes at least."""

_MIN_WORK = 16_000
"""Work, in expression nodes evaluated, that pays for waking a thread (some microseconds)."""
_UNKNOWN_EXTENT = 64


def lower_parallel(func: PrimFunc) -> PrimFunc:
    """``func`` whose parallel loops do not nest and carry their grain."""
    body = _outer(func.body)
    return func if body is func.body else PrimFunc(func.params, body, func.attrs, func.name)


def _outer(s: Stmt) -> Stmt:
    if isinstance(s, For):
        if s.kind == "parallel":
            body = _inner(s.body)
            grain = max(1, -(-_MIN_WORK // max(1, _work(body))))
            return For(s.var, s.min, s.extent, "parallel", body, "", ((GRAIN, grain),))
        body = _outer(s.body)
        if body is s.body and s.kind == "serial":
            return s
        return For(s.var, s.min, s.extent, "serial", body, "", s.annotations)
    return map_children(s, lambda n: n if isinstance(n, Expr | Buffer) else _outer(n))


def _inner(s: Stmt) -> Stmt:
    if isinstance(s, For):
        body = _inner(s.body)
        if body is s.body and s.kind == "serial":
            return s
        return For(s.var, s.min, s.extent, "serial", body, "", s.annotations)
    return map_children(s, lambda n: n if isinstance(n, Expr | Buffer) else _inner(n))


def _work(s: Stmt) -> int:
    """Expression nodes evaluated by one run of a statement, about; vectors count once."""
    match s:
        case For(_, _, extent, _, body):
            times = extent.value if isinstance(extent, IntImm) else _UNKNOWN_EXTENT
            return 2 + times * _work(body)
        case SeqStmt(stmts):
            return sum([_work(x) for x in stmts])
        case IfThenElse(condition, then_case, else_case):
            other = _work(else_case) if else_case is not None else 0
            return _nodes(condition) + max(_work(then_case), other)
        case LetStmt(_, value, body):
            return _nodes(value) + _work(body)
        case Allocate(_, body):
            return _work(body)
        case BufferStore(_, value, _):
            return 2 + _nodes(value)
        case Evaluate(value):
            return _nodes(value)
        case _:
            return 1


def _nodes(e: Expr) -> int:
    count = 0
    stack: list[Node] = [e]
    while stack:
        n = stack.pop()
        if isinstance(n, Expr) and not isinstance(n, Var | IntImm):
            count += 1
            stack.extend(children(n))
    return count

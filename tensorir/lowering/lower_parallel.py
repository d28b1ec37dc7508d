"""Leaves at most one level of parallel loops.

A parallel loop inside another one runs serially (threads do not nest); a thread_binding loop, a GPU
notion, is a plain loop on a CPU (``split_threads`` saw to what its threads exchange). Code
generation outlines the loops that remain parallel.
"""

from __future__ import annotations

from ...support.node import map_children
from ..buffer import Buffer
from ..expr import Expr
from ..function import PrimFunc
from ..stmt import For, Stmt


def lower_parallel(func: PrimFunc) -> PrimFunc:
    """``func`` whose parallel loops do not nest."""
    body = _outer(func.body)
    return func if body is func.body else PrimFunc(func.params, body, func.attrs, func.name)


def _outer(s: Stmt) -> Stmt:
    if isinstance(s, For):
        if s.kind == "parallel":
            return For(s.var, s.min, s.extent, "parallel", _inner(s.body))
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

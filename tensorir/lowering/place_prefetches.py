"""Asks the caches for what later iterations of a loop will read.

A loop annotated with ``prefetch_distance = d`` begins, in iteration ``i``, to fetch the cache lines
that iteration ``i + d`` loads: of every access in its body (inner loops apart) whose address moves
by a constant number of bytes an iteration, each line once. The requests stand between the
statements of the body, spread evenly, so that they do not fill the queue of pending lines at once.
They name elements beyond the end of a buffer near the last iteration, which is no access: a
prefetch never faults. Runs after unrolling, when each load has its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...support.errors import CodegenError
from ...support.node import map_children, replace, walk
from ..buffer import Buffer
from ..expr import (
    INDEX,
    Add,
    Broadcast,
    BufferLoad,
    Expr,
    IntImm,
    Ramp,
)
from ..function import PrimFunc
from ..intrinsics import call_intrin
from ..stmt import (
    Allocate,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    annotation,
    seq,
)
from .linear import Key, Linear, Scope

PREFETCH = "prefetch_distance"
"""The annotation of a loop: how many of its iterations ahead."""

LINE_BYTES = 64
_MOST = 64
"""Prefetches in one iteration; a loop that wants more reads too much at once to gain by them."""


def place_prefetches(func: PrimFunc) -> PrimFunc:
    """``func`` with prefetches in the loops annotated for them.

    Raises CodegenError where the distance is no positive integer.
    """
    scope = Scope()
    for var in func.shape_vars:
        scope.bind_nonnegative(var)
    body = _node(func.body, scope)
    return func if body is func.body else PrimFunc(func.params, body, func.attrs, func.name)


def _node(n: Any, scope: Scope) -> Any:
    """The node with prefetches in the loops below it; expressions hold no loops."""
    if isinstance(n, (Expr, Buffer)):
        return n
    if not isinstance(n, For):
        return map_children(n, lambda child: _node(child, scope))
    with scope.loop(n.var, n.min, n.extent):
        body = _node(n.body, scope)
        distance = annotation(n, PREFETCH)
        if distance is not None:
            body = _with_prefetches(n, body, _positive(n, distance), scope)
    return replace(n, body=body)


def _positive(loop: For, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise CodegenError(
            f"The annotation {PREFETCH} of loop {loop.var.name} is a number of iterations, at "
            f"least 1; found {value!r}."
        )
    return value


def _with_prefetches(loop: For, body: Stmt, distance: int, scope: Scope) -> Stmt:
    wanted = [
        Evaluate(call_intrin("prefetch", BufferLoad(buffer, (index,))))
        for buffer, index in _lines(loop, body, distance, scope)
    ][:_MOST]
    stmts = list(body.stmts) if isinstance(body, SeqStmt) else [body]
    parts: list[Stmt] = []
    for k, request in enumerate(wanted):
        upto = len(stmts) * k // len(wanted)
        parts += stmts[len(parts) - k : upto]
        parts.append(request)
    return seq(*parts, *stmts[len(parts) - len(wanted) :])


def _lines(loop: For, body: Stmt, distance: int, scope: Scope) -> Iterator[tuple[Buffer, Expr]]:
    """The first element of each cache line that the loads of ``body`` touch, ``distance``
    iterations later."""
    streams: dict[tuple[int, Key], tuple[Buffer, Linear, set[int]]] = {}
    for load in _loads(body):
        index = load.indices[0]
        lanes = 1
        if isinstance(index, Broadcast):
            index = index.value
        elif isinstance(index, Ramp):
            if not isinstance(index.stride, IntImm) or index.stride.value != 1:
                continue
            lanes, index = index.lanes, index.base
        elif index.dtype.lanes > 1:
            continue
        form = scope.linear(index)
        step = form.coefficient(loop.var)
        if step is None or not step.is_const or not step.const:
            continue
        later = form.const + step.const * distance
        key = (id(load.buffer), Linear(form.terms, 0).key())
        stream = streams.setdefault(key, (load.buffer, form, set()))
        per_line = max(1, LINE_BYTES // load.buffer.dtype.itemsize)
        # Where a line begins is not known here; elements are counted from that of the stream.
        stream[2].update((later + k) // per_line * per_line for k in range(0, lanes, per_line))
    for buffer, form, offsets in streams.values():
        for offset in sorted(offsets):
            yield buffer, _at(form, offset)


def _at(form: Linear, offset: int) -> Expr:
    base = Linear(form.terms, 0).expr()
    return Add(base, IntImm(offset, INDEX)) if offset else base


def _loads(body: Stmt) -> Iterator[BufferLoad]:
    """The loads of memory in ``body`` but for its inner loops."""
    if isinstance(body, SeqStmt):
        for s in body.stmts:
            yield from _loads(s)
    elif isinstance(body, IfThenElse):
        yield from _loads(body.then_case)
        if body.else_case is not None:
            yield from _loads(body.else_case)
    elif isinstance(body, Allocate | LetStmt):
        yield from _loads(body.body)
    elif isinstance(body, BufferStore):
        for node in walk(body.value):
            if isinstance(node, BufferLoad) and node.buffer.scope != "register":
                yield node

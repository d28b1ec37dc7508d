"""Asks the caches for what later iterations of a loop will read.

A loop annotated with ``prefetch_distance = d`` begins, in iteration ``i``, to fetch the cache lines
that iteration ``i + d`` loads: of every access in its body (inner loops apart) whose address moves
by a constant number of bytes an iteration, each line once, and none that iteration ``i`` loads
itself. The requests stand between the statements of the body, spread evenly, so that they do not
fill the queue of pending lines at once. They name elements beyond the end of a buffer near the last
iteration, which is no access: a prefetch never faults. Its address is computed whether or not the
load would happen, so addresses that are loaded themselves, or divided by what may be zero, or named
by a let below the loop, are not asked for; nor is memory of the function's own that the loop itself
writes. Runs after unrolling, when each load has its place.

A loop annotated with ``prefetch_next`` asks for what it will read once the loops around it have
moved on. Where the loop reads the same memory again while a loop around it turns, and a loop
around that one moves on,

    for p                     moves on: other panels
      for i                   turns: the same panel again
        for k                 annotated: reads W[p, k]
          prefetch(W[p + 1, k])

the requests are spread over the turns: of n lines an iteration of ``k`` reads, each turn asks for
its share. Accesses that move by less than a line an iteration are not asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...support.errors import CodegenError
from ...support.node import map_children, replace, walk
from ..buffer import Buffer
from ..expr import (
    INDEX,
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Ramp,
    Var,
    add,
    floormod,
    mul,
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
PREFETCH_NEXT = "prefetch_next"
"""The annotation of a loop: how many iterations of the loop that moves on are asked for ahead."""

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
    own = frozenset([id(n.buffer) for n in walk(func.body) if isinstance(n, Allocate)])
    body = _node(func.body, scope, (), own)
    return func if body is func.body else PrimFunc(func.params, body, func.attrs, func.name)


def _node(n: Any, scope: Scope, around: tuple[For, ...], own: frozenset[int]) -> Any:
    """The node with prefetches in the loops below it; expressions hold no loops. ``around`` are the
    loops that it stands in, outermost first, ``own`` the buffers that the function allocates."""
    if isinstance(n, (Expr, Buffer)):
        return n
    if not isinstance(n, For):
        return map_children(n, lambda child: _node(child, scope, around, own))
    with scope.loop(n.var, n.min, n.extent):
        body = _node(n.body, scope, (*around, n), own)
        lines: list[tuple[Buffer, Expr]] = []
        distance = annotation(n, PREFETCH)
        if distance is not None:
            lines += _lines(n, body, _positive(n, PREFETCH, distance), scope)
        later = annotation(n, PREFETCH_NEXT)
        if later is not None:
            lines += _next_lines(n, body, _positive(n, PREFETCH_NEXT, later), around, scope)
        if lines:
            made = own & _stored(n.body)
            body = _with_prefetches(body, [(b, i) for b, i in lines if id(b) not in made])
    return replace(n, body=body)


def _positive(loop: For, key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise CodegenError(
            f"The annotation {key} of loop {loop.var.name} is a number of iterations, at "
            f"least 1; found {value!r}."
        )
    return value


def _with_prefetches(body: Stmt, lines: list[tuple[Buffer, Expr]]) -> Stmt:
    wanted = [
        Evaluate(call_intrin("prefetch", BufferLoad(buffer, (index,))))
        for buffer, index in lines[:_MOST]
    ]
    stmts = list(body.stmts) if isinstance(body, SeqStmt) else [body]
    parts: list[Stmt] = []
    for k, request in enumerate(wanted):
        upto = len(stmts) * k // len(wanted)
        parts += stmts[len(parts) - k : upto]
        parts.append(request)
    return seq(*parts, *stmts[len(parts) - len(wanted) :])


def _lines(loop: For, body: Stmt, distance: int, scope: Scope) -> Iterator[tuple[Buffer, Expr]]:
    """The first element of each cache line that the loads of ``body`` touch, ``distance``
    iterations later, but for those that they touch now."""
    for stream in _streams(loop, body, scope):
        now = stream.lines(0)
        for offset in stream.lines(stream.step * distance):
            if offset not in now:
                yield stream.buffer, _at(stream.form, offset)


def _next_lines(
    loop: For, body: Stmt, distance: int, around: tuple[For, ...], scope: Scope
) -> Iterator[tuple[Buffer, Expr]]:
    """The share of this turn in the lines that ``body`` touches when the loop outside the turns has
    moved on by ``distance``."""
    for stream in _streams(loop, body, scope):
        if abs(stream.step) * stream.buffer.dtype.itemsize < LINE_BYTES:
            continue
        steps = [_step(stream.form, outer.var) for outer in around]
        turns = max((n for n, step in enumerate(steps) if step == 0), default=0)
        moves = next((step for step in reversed(steps[:turns]) if step != 0), None)
        if moves is None:
            continue
        lines = stream.lines(moves * distance)
        turn = around[turns]
        count = turn.extent.value if isinstance(turn.extent, IntImm) else len(lines)
        share = math.ceil(len(lines) / count)
        per_line = max(1, LINE_BYTES // stream.buffer.dtype.itemsize)
        if share == len(lines) or lines[-1] - lines[0] != per_line * (len(lines) - 1):
            yield from [(stream.buffer, _at(stream.form, offset)) for offset in lines]
            continue
        for n in range(share):
            number = add(mul(turn.var, IntImm(share, INDEX)), IntImm(n, INDEX))
            line = mul(floormod(number, IntImm(len(lines), INDEX)), IntImm(per_line, INDEX))
            yield stream.buffer, add(_at(stream.form, lines[0]), line)


def _step(form: Linear, var: Var) -> int | None:
    """Elements by which an address moves with a variable; None where that is not constant."""
    step = form.coefficient(var)
    return step.const if step is not None and step.is_const else None


@dataclass(slots=True)
class _Stream:
    """Loads of a buffer whose addresses differ by constants: ``touched`` elements from ``form``,
    which move by ``step`` elements an iteration."""

    buffer: Buffer
    form: Linear
    step: int
    touched: set[int]

    def lines(self, later: int) -> list[int]:
        """The first element of each line, ``later`` elements on. Where a line begins is not known
        here; elements are counted from that of the stream."""
        per_line = max(1, LINE_BYTES // self.buffer.dtype.itemsize)
        return sorted({(n + later) // per_line * per_line for n in self.touched})


def _streams(loop: For, body: Stmt, scope: Scope) -> list[_Stream]:
    """The loads of ``body`` whose address moves by a constant number of elements an iteration."""
    streams: dict[tuple[int, Key], _Stream] = {}
    below = {n.var for n in walk(body) if isinstance(n, (LetStmt, Let))}
    for load in _loads(body):
        index = load.indices[0]
        if not _is_computable(index, below):
            continue
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
        step = _step(form, loop.var)
        if not step:
            continue
        key = (id(load.buffer), Linear(form.terms, 0).key())
        stream = streams.setdefault(key, _Stream(load.buffer, form, step, set()))
        per_line = max(1, LINE_BYTES // load.buffer.dtype.itemsize)
        stream.touched.update(form.const + k for k in range(0, lanes, per_line))
    return list(streams.values())


def _stored(body: Stmt) -> set[int]:
    return {id(n.buffer) for n in walk(body) if isinstance(n, BufferStore)}


def _is_computable(index: Expr, below: set[Var]) -> bool:
    """Whether an index can be computed at the beginning of a body that binds ``below``."""
    for n in walk(index):
        divides = isinstance(n, (FloorDiv, FloorMod)) and not isinstance(n.b, IntImm)
        if divides or isinstance(n, (BufferLoad, Call)) or (isinstance(n, Var) and n in below):
            return False
    return True


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

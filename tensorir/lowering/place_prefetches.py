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

A loop annotated with ``prefetch_region`` asks for what all its iterations will read once the loop
around it has moved on, in the order of memory, each iteration for an equal share. So a loop that
reads several rows side by side lets the caches see one stream through memory,

    for p                     moves on: other rows
      for q                   annotated: reads X[2 * p, q * 32 :], X[2 * p + 1, q * 32 :]
        prefetch(X[2 * (p + 1), q * 64]), ...

and where rows are looked up (``X[Y[p], q]``), the next one is found by looking it up ahead, up to
the last. Those lines are asked for into the second-level cache: rows anywhere in memory would fill
the queue of the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...support.abi import LINE_BYTES
from ...support.errors import CodegenError
from ...support.node import map_children, replace, walk
from ..arith.linear import Linear, render
from ..buffer import Buffer
from ..expr import INDEX, Add, BufferLoad, Expr, IntImm, add, floordiv, floormod, minimum, mul
from ..function import PrimFunc
from ..intrinsics import call_intrin
from ..stmt import (
    LEAVES,
    Allocate,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    annotation,
    seq,
)
from ..visitor import stored_buffer, substitute
from .prefetch_streams import SPARSE, Stream, per_line, streams
from .scope import Scope

PREFETCH = "prefetch_distance"
"""The annotation of a loop: how many of its iterations ahead."""
PREFETCH_NEXT = "prefetch_next"
"""The annotation of a loop: how many iterations of the loop that moves on are asked for ahead."""

PREFETCH_REGION = "prefetch_region"
"""The annotation of a loop: how many iterations of the loop around it that moves on are asked for
ahead, in the order of memory."""

_MOST = 64
"""Prefetches in one iteration; a loop that wants more reads too much at once to gain by them."""


@dataclass(frozen=True, slots=True)
class Line:
    """A cache line to ask for; ``is_looked_up`` where data tell its place."""

    buffer: Buffer
    index: Expr
    is_looked_up: bool = False


def place_prefetches(func: PrimFunc) -> PrimFunc:
    """``func`` with prefetches in the loops annotated for them.

    Raises CodegenError where the distance is no positive integer.
    """
    if not any(isinstance(n, For) and n.annotations for n in walk(func.body, LEAVES)):
        return func
    scope = Scope()
    for var in func.shape_vars:
        scope.declare_dim(var)
    own = frozenset([id(n.buffer) for n in walk(func.body, LEAVES) if isinstance(n, Allocate)])
    made = own | _stored(func.body)
    if made != own and func.attr("inplace", False):
        made |= {id(p) for p in func.params}
    placer = _Placer(scope, own, made)
    body = placer.node(func.body, (), 0)
    return func if body is func.body else PrimFunc(func.params, body, func.attrs, func.name)


@dataclass(frozen=True, slots=True)
class _Placer:
    """``own`` are the buffers that the function allocates, ``made`` those it may write as well."""

    scope: Scope
    own: frozenset[int]
    made: frozenset[int]

    def node(self, n: Any, around: tuple[For, ...], certain: int) -> Any:
        """The node with prefetches in the loops below it; expressions hold no loops. ``around`` are
        the loops that it stands in, outermost first; the first ``certain`` of them may run without
        running it, or bind variables on the way."""
        if isinstance(n, (Expr, Buffer)):
            return n
        if isinstance(n, IfThenElse | LetStmt) or (isinstance(n, For) and not self._runs(n)):
            certain = len(around)
        if not isinstance(n, For):
            return map_children(n, lambda child: self.node(child, around, certain))
        with self.scope.loop(n.var, n.min, n.extent):
            body = self.node(n.body, (*around, n), certain)
            lines = list(self._wanted(n, body, around, certain))
            written = self.own & _stored(n.body) if lines and self.own else frozenset()
            lines = [line for line in lines if id(line.buffer) not in written]
        return replace(n, body=_with_prefetches(body, lines) if lines else body)

    def _runs(self, loop: For) -> bool:
        """Whether a loop has an iteration whatever those around it stand at."""
        return self.scope.is_at_least(self.scope.linear(loop.extent), 1)

    def _wanted(self, n: For, body: Stmt, around: tuple[For, ...], certain: int) -> Iterator[Line]:
        """What the annotations of a loop ask for."""
        distance, later, ahead = [
            None if value is None else _positive(n, key, value)
            for key in (PREFETCH, PREFETCH_NEXT, PREFETCH_REGION)
            for value in (annotation(n, key),)
        ]
        if distance is not None:
            yield from _lines(n, body, distance, self.scope)
        if later is not None:
            yield from _next_lines(n, body, later, around, self.scope)
        if ahead is not None:
            for stream in streams(n, body, self.scope, lookups=True):
                if not self._reads_made(stream):
                    yield from _region_lines(stream, n, ahead, around, certain)

    def _reads_made(self, stream: Stream) -> bool:
        """Whether the stream's places are looked up in what the function itself writes."""
        loads = [n for a in stream.form.terms for n in walk(a) if isinstance(n, BufferLoad)]
        return any(id(load.buffer) in self.made for load in loads)


def _positive(loop: For, key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise CodegenError(
            f"The annotation {key} of loop {loop.var.name} is a number of iterations, at "
            f"least 1; found {value!r}."
        )
    return value


def _with_prefetches(body: Stmt, lines: list[Line]) -> Stmt:
    wanted = [
        Evaluate(
            call_intrin(
                "prefetch_l2" if line.is_looked_up else "prefetch",
                BufferLoad(line.buffer, (line.index,)),
            )
        )
        for line in lines[:_MOST]
    ]
    stmts = list(body.stmts) if isinstance(body, SeqStmt) else [body]
    parts: list[Stmt] = []
    for k, request in enumerate(wanted):
        upto = len(stmts) * k // len(wanted)
        parts += stmts[len(parts) - k : upto]
        parts.append(request)
    return seq(*parts, *stmts[len(parts) - len(wanted) :])


def _lines(loop: For, body: Stmt, distance: int, scope: Scope) -> Iterator[Line]:
    """The first element of each cache line that the loads of ``body`` touch, ``distance``
    iterations later, but for those that they touch now."""
    for stream in streams(loop, body, scope):
        now = stream.lines(0)
        for offset in stream.lines(stream.step * distance):
            if offset not in now:
                yield Line(stream.buffer, _at(stream.form, offset))


def _next_lines(
    loop: For, body: Stmt, distance: int, around: tuple[For, ...], scope: Scope
) -> Iterator[Line]:
    """The share of this turn in the lines that ``body`` touches when the loop outside the turns has
    moved on by ``distance``."""
    for stream in streams(loop, body, scope):
        if abs(stream.step) * stream.buffer.dtype.itemsize < LINE_BYTES:
            continue
        steps = [stream.form.step(outer.var) for outer in around]
        turns = max((n for n, step in enumerate(steps) if step == 0), default=0)
        moves = next((step for step in reversed(steps[:turns]) if step != 0), None)
        if moves is None:
            continue
        lines = stream.lines(moves * distance)
        turn = around[turns]
        count = turn.extent.value if isinstance(turn.extent, IntImm) else len(lines)
        share = math.ceil(len(lines) / count)
        line = per_line(stream.buffer)
        if share == len(lines) or lines[-1] - lines[0] != line * (len(lines) - 1):
            yield from [Line(stream.buffer, _at(stream.form, offset)) for offset in lines]
            continue
        for n in range(share):
            number = add(mul(turn.var, IntImm(share, INDEX)), IntImm(n, INDEX))
            place = mul(floormod(number, IntImm(len(lines), INDEX)), IntImm(line, INDEX))
            yield Line(stream.buffer, add(_at(stream.form, lines[0]), place))


def _region_lines(
    stream: Stream, loop: For, distance: int, around: tuple[For, ...], certain: int
) -> Iterator[Line]:
    """The share of an iteration in the lines that all of the loop's iterations touch when the loop
    around it has moved on by ``distance``."""
    if not isinstance(loop.extent, IntImm) or loop.extent.value < 1:
        return
    span = stream.span(loop.extent.value)
    base = Linear({a: k for a, k in stream.form.terms.items() if a is not loop.var})
    moved = _moved(base, distance, around, certain if stream.is_looked_up else None)
    if span is None or moved is None:
        return
    (first, count), (later, step), line = span, moved, per_line(stream.buffer)
    if count < -(-step // line) <= count * SPARSE:
        count = -(-step // line)  # to where the next region begins, what others read of it as well
    done = add(loop.var, mul(loop.min, IntImm(-1, INDEX)))
    share, rest = divmod(count, loop.extent.value)
    asked = mul(done, IntImm(share, INDEX))
    if rest:
        asked = floordiv(mul(done, IntImm(count, INDEX)), loop.extent)
    begin = add(later, mul(loop.min, IntImm(stream.step, INDEX)))
    for n in range(share + (rest > 0)):
        number = add(asked, IntImm(n, INDEX))
        place = add(mul(number, IntImm(line, INDEX)), IntImm(first, INDEX))
        yield Line(stream.buffer, add(begin, place), is_looked_up=stream.is_looked_up)


def _moved(
    base: Linear, distance: int, around: tuple[For, ...], certain: int | None
) -> tuple[Expr, int] | None:
    """An address after the innermost of the loops ``around`` that moves it has moved on, and by how
    many elements an iteration it moves, 0 where that differs; None where it may not be computed.
    ``certain`` is given where the address is looked up: then not beyond the loop's end, and not
    where the loop is among the first so many, which may run without looking it up."""
    for at, outer in reversed(list(enumerate(around))):
        step = base.step(outer.var)
        if step == 0:
            continue
        if certain is None:
            if step is None:
                return None
            return add(render(base), IntImm(step * distance, INDEX)), step
        if at < certain:
            return None
        last = add(add(outer.min, outer.extent), IntImm(-1, INDEX))
        ahead = minimum(add(outer.var, IntImm(distance, INDEX)), last)
        return substitute(render(base), {outer.var: ahead}), 0
    return None


def _stored(body: Stmt) -> frozenset[int]:
    return frozenset([id(b) for n in walk(body, (Buffer,)) if (b := stored_buffer(n)) is not None])


def _at(form: Linear, offset: int) -> Expr:
    base = render(Linear(form.terms))
    return Add(base, IntImm(offset, INDEX)) if offset else base

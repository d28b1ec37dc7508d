"""Which memory loops read: loads as streams of cache lines that move with the loops around them.

A ``Stream`` is the loads of a loop's body whose addresses differ by constants; it moves by a
constant number of elements with the loop. Loads whose place is looked up in another buffer are
told apart (``Stream.is_looked_up``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...support.abi import LINE_BYTES
from ...support.node import walk
from ..arith.linear import Linear, LinearKey
from ..buffer import Buffer
from ..expr import (
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
)
from ..stmt import Allocate, BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt
from ..visitor import has_load
from .scope import Scope


def per_line(buffer: Buffer) -> int:
    """Elements of a buffer in a cache line."""
    return max(1, LINE_BYTES // buffer.dtype.itemsize)


@dataclass(slots=True)
class Stream:
    """Loads of a buffer whose addresses differ by constants: ``touched`` elements from ``form``,
    which move by ``step`` elements an iteration. ``is_looked_up`` says that the form has elements
    of other buffers in it."""

    buffer: Buffer
    form: Linear
    step: int
    is_looked_up: bool
    touched: set[int]

    def lines(self, later: int) -> list[int]:
        """The first element of each line, ``later`` elements on. Where a line begins is not known
        here; elements are counted from that of the stream."""
        line = per_line(self.buffer)
        return sorted({(n + later) // line * line for n in self.touched})

    def span(self, iterations: int) -> tuple[int, int] | None:
        """The first element of the first line that so many iterations touch, and the number of
        lines up to the last; None where much between them is not touched."""
        if iterations * len(self.touched) > _MOST_LINES:
            return None
        touched = {n for i in range(iterations) for n in self.lines(i * self.step)}
        first = min(touched)
        count = (max(touched) - first) // per_line(self.buffer) + 1
        return (first, count) if count <= len(touched) * SPARSE else None


_MOST_LINES = 1 << 14
"""Lines that are counted one by one."""
SPARSE = 1.25
"""Lines of a span, relative to those that are touched, up to which it is asked for as a whole."""


def streams(loop: For, body: Stmt, scope: Scope, *, lookups: bool = False) -> list[Stream]:
    """The loads of ``body`` whose address moves by a constant number of elements an iteration;
    with ``lookups`` also those at places that elements of other buffers tell, as far as these can
    be read before the body and do not depend on the loop."""
    found: dict[tuple[int, LinearKey], Stream] = {}
    below = {n.var for n in walk(body, (Buffer,)) if isinstance(n, (LetStmt, Let))}
    for load, is_certain in _loads(body):
        index = load.indices[0]
        if not _is_computable(index, below, lookups=lookups and is_certain):
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
        step = form.step(loop.var)
        if not step:
            continue
        key = (id(load.buffer), Linear(form.terms).key)
        is_looked_up = has_load(index)
        stream = found.setdefault(key, Stream(load.buffer, form, step, is_looked_up, set()))
        stream.touched.update(form.const + k for k in range(0, lanes, per_line(load.buffer)))
    return list(found.values())


def _is_computable(index: Expr, below: set[Var], *, lookups: bool) -> bool:
    """Whether an index can be computed at the beginning of a body that binds ``below``."""
    for n in walk(index):
        divides = isinstance(n, (FloorDiv, FloorMod)) and not isinstance(n.b, IntImm)
        looks_up = isinstance(n, BufferLoad) and not (lookups and n.predicate is None)
        if divides or looks_up or isinstance(n, Call) or (isinstance(n, Var) and n in below):
            return False
    return True


def _loads(body: Stmt, *, is_certain: bool = True) -> Iterator[tuple[BufferLoad, bool]]:
    """The loads of memory in ``body`` but for its inner loops, each with whether it happens
    whenever the body runs."""
    if isinstance(body, SeqStmt):
        for s in body.stmts:
            yield from _loads(s, is_certain=is_certain)
    elif isinstance(body, IfThenElse):
        yield from _loads(body.then_case, is_certain=False)
        if body.else_case is not None:
            yield from _loads(body.else_case, is_certain=False)
    elif isinstance(body, Allocate | LetStmt):
        yield from _loads(body.body, is_certain=is_certain)
    elif isinstance(body, BufferStore):
        is_certain = is_certain and body.predicate is None
        nodes = list(walk(body.value, (Buffer,)))
        calls = [n for n in nodes if isinstance(n, Call)]
        choices = {id(m) for n in calls if n.op == "if_then_else" for m in walk(n)}
        for node in nodes:
            if isinstance(node, BufferLoad) and node.buffer.scope != "register":
                yield node, is_certain and node.predicate is None and id(node) not in choices

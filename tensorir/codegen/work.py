"""How long a lowered function may run: where it looks whether it should stop, and which loops are
worth threads.

Work is counted in vector operations: what a core issues once for a whole vector (or a scalar) is
one, whatever its latency; what registers hold as it is asked for is free, functions such as ``exp``
count several, and so does what a cache will not hold: accesses of large buffers, and of places that
other memory tells. Sizes that are not known count as large where the question is how long something
may take, and as 1 where it is how often a look is worth its price. A loop whose extent is in memory
may run for ever: it looks, and a call that comes to one counts as longer than any other.

A loop of much work (``POLLED_WORK``) looks once an iteration, or once a strip of iterations where
one is too short; below it only loops look that are that long in one iteration. So no code runs for
long without a look, and inner loops stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from ...support.abi import POLLED_WORK, UNBOUNDED_WORK
from ...support.node import children, walk
from ..arith import evaluate as arith
from ..buffer import Buffer
from ..expr import (
    INDEX,
    AccessPtr,
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Expr,
    ExternCall,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Min,
    Mul,
    Ramp,
    StringImm,
    Var,
    add,
    floordiv,
    is_const,
    maximum,
    minimum,
    mul,
)
from ..stmt import (
    LEAVES,
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
)
from ..visitor import free_vars, substitute

STRIP_WORK = 512
"""Work of the shortest iterations after each of which a look costs nothing that could be seen."""
THREAD_WORK = 10_000
"""Work that takes a thread as long as it takes to wake it: some microseconds."""
_TYPICAL = 64
"""What a symbolic size is taken for where threads are to share a loop."""
LARGE = 1 << 20
"""What a symbolic size may well be."""
_UNKNOWN = Var("unknown", INDEX)
"""What stands for a value that only the run knows."""
_CACHED = 1 << 25
"""Bytes of the largest buffer whose elements a cache may hold."""
_FAR = 10
"""Operations that an access of a larger one takes beside its own, where memory is read in order."""
_FIRST_WRITE = 512
"""How much longer a loop may take that writes a buffer as large for the first time, row by row: the
system hands out, and clears, a page with each row."""
_MISS = 60
"""Operations of an access at a place that is read from memory: nothing can be fetched ahead."""
_FUNCTION = 12
"""Operations of a call such as ``exp``."""
_FREE = (AccessPtr, Var, IntImm, FloatImm, StringImm, Broadcast, Ramp)

_OPERATIONS = {
    **arith.OPERATIONS,
    FloorDiv: lambda a, b: a // (b or 1),
    FloorMod: lambda a, b: a % (b or 1),
}
"""Of any sizes, 0 included."""

Bounds = dict[Var, tuple[Expr, Expr]]
"""The least and the largest value of each loop variable, over the symbolic sizes."""


class Work:
    """The work of a function's statements. ``dims`` are its symbolic sizes."""

    def __init__(self, body: Stmt, dims: Iterable[Var], vector_bits: int) -> None:
        self.body = body
        self._dims = {id(d) for d in dims}
        self._vector_bits = max(vector_bits, 64)
        self._of: dict[int, Expr] = {}
        self._innermost: Var | None = None
        self._far: dict[int, Expr] = {}
        self._loads: dict[int, bool] = {}
        self._foreign = 0
        self._calls_out: set[int] = set()
        """Loops with a function of C in them."""
        total = self._stmt(body, {})
        if _is_unknown([total]):
            total = maximum(substitute(total, {_UNKNOWN: IntImm(1)}), IntImm(UNBOUNDED_WORK))
        self.total = total
        """Of the whole body, over the symbolic sizes; of any sizes, 0 included."""
        self.is_polled = self.at_most(body) >= POLLED_WORK
        """Whether the function looks at all."""

    def at_most(self, s: Stmt) -> int:
        """The work of a statement where symbolic sizes are large, and unknown ones too large."""
        return evaluate(self._of[id(s)], LARGE, POLLED_WORK)

    def looks_before(self, s: Stmt) -> bool:
        """Whether a statement in a sequence is worth a look before it. A store that was made of
        several, and so is none of the body's, is not."""
        is_known = self.is_polled and id(s) in self._of
        return is_known and self.at_most(s) >= POLLED_WORK // 16

    def strip(self, loop: For) -> int | None:
        """After how many iterations a loop looks; None where it does not."""
        if not self.is_polled:
            return None
        least = POLLED_WORK // _FIRST_WRITE if self._writes_far(loop) else POLLED_WORK
        if self.at_most(loop) < least:
            return None
        return max(1, STRIP_WORK // max(1, evaluate(self._of[id(loop.body)], 1)))

    def grain(self, loop: For) -> int:
        """How many iterations of a parallel loop are worth a thread. A loop that has not twice as
        many wakes none. A function of C, of which nobody knows how long it takes, is worth one."""
        if id(loop) in self._calls_out:
            return 1
        return -(-THREAD_WORK // max(1, evaluate(self._of[id(loop.body)], _TYPICAL, _TYPICAL)))

    def _writes_far(self, loop: For) -> bool:
        stores = (n for n in walk(loop, LEAVES) if isinstance(n, BufferStore))
        return any(is_const(self._is_far(s.buffer), 1) for s in stores)

    # -- counting ---------------------------------------------------------------------------------
    def _stmt(self, s: Stmt, bounds: Bounds) -> Expr:
        found = self._of[id(s)] = self._count(s, bounds)
        return found

    def _count(self, s: Stmt, bounds: Bounds) -> Expr:  # noqa: C901 - one match over a closed set
        match s:
            case SeqStmt(stmts):
                return sum_of([self._stmt(x, bounds) for x in stmts])
            case For(var, start, extent):
                first, last = self._limits(start, bounds)
                low, high = self._limits(extent, bounds)
                size = low if low is high else maximum(low, high)
                inner = {**bounds, var: (first, add(last, add(size, IntImm(-1))))}
                outer, self._innermost = self._innermost, var
                calls = self._foreign
                work = mul(size, self._stmt(s.body, inner))
                self._innermost = outer
                if self._foreign > calls:
                    self._calls_out.add(id(s))
                return work
            case IfThenElse(condition, then_case, else_case):
                work = self._stmt(then_case, bounds)
                if else_case is not None:
                    work = maximum(work, self._stmt(else_case, bounds))
                return add(work, self._operations(condition))
            case LetStmt(var, value, body):
                inner = bounds
                if var.dtype is INDEX:
                    inner = {**bounds, var: self._limits(value, bounds)}
                return add(self._stmt(body, inner), self._operations(value))
            case Allocate(_, body):
                return self._stmt(body, bounds)
            case BufferStore(buffer, value, indices):
                return add(self._operations(value), self._access(buffer, indices, value))
            case Evaluate(value):
                return self._operations(value)
            case Block() | BlockRealize():
                return IntImm(0)
            case _:
                assert_never(s)

    def _limits(self, e: Expr, bounds: Bounds) -> tuple[Expr, Expr]:
        """The expression at either end of the loops around it."""
        if isinstance(e, Min):
            a, b = (self._limits(x, bounds) for x in (e.a, e.b))
            if _is_unknown(a) or _is_unknown(b):
                return b if _is_unknown(a) else a
            return minimum(a[0], b[0]), minimum(a[1], b[1])
        if isinstance(e, Call) and e.op == "bitwise_and":
            masks = [self._limits(x, bounds)[1] for x in e.args]
            known = [m for m in masks if not _is_unknown([m]) and evaluate(m, LARGE) >= 0]
            if known:
                return IntImm(0), known[0]
        used = [v for v in free_vars([e]) if id(v) not in self._dims]
        if not used and not any(isinstance(n, BufferLoad) for n in _nodes(e)):
            return e, e
        if any(v not in bounds for v in used) or any(isinstance(n, BufferLoad) for n in _nodes(e)):
            return IntImm(1), _UNKNOWN
        ends = {v: bounds[v] for v in used}
        low, high = (substitute(e, {v: pair[i] for v, pair in ends.items()}) for i in (0, 1))
        return low, high

    def _operations(self, value: Expr) -> Expr:
        """Vector operations of one evaluation; what is shared in it is evaluated once."""
        counts: list[Expr] = []
        for n in _nodes(value):
            if isinstance(n, BufferLoad):
                counts.append(self._access(n.buffer, n.indices, n))
            elif isinstance(n, ExternCall):
                self._foreign += 1
                counts.append(IntImm(_FUNCTION))
            elif isinstance(n, Call) and n.op != "fma":
                counts.append(IntImm(_FUNCTION * self._vectors(n)))
            elif not isinstance(n, _FREE):
                counts.append(IntImm(self._vectors(n)))
        return sum_of(counts)

    def _access(self, buffer: Buffer, indices: Sequence[Expr], value: Expr) -> Expr:
        """Operations of a load or a store of ``value``: of the lanes one after another, where they
        are apart, and of the vectors it takes otherwise."""
        index, lanes = indices[-1], value.dtype.lanes
        is_row = lanes == 1 or (isinstance(index, Ramp) and is_const(index.stride, 1))
        if buffer.scope == "register":
            return IntImm(0 if is_row and _is_whole(index, lanes) else self._vectors(value))
        count = self._vectors(value) if is_row else lanes
        if self._is_random(indices):
            return IntImm(_MISS * (1 if is_row else lanes))
        return add(IntImm(count), mul(self._is_far(buffer), IntImm(_FAR * count)))

    def _is_random(self, indices: Sequence[Expr]) -> bool:
        """Whether memory tells the place of an access anew in each iteration of the loop around."""
        if not any(map(self._has_load, indices)):
            return False
        return not any(n is self._innermost for i in indices for n in _nodes(i))

    def _has_load(self, e: Expr) -> bool:
        """Whether an index reads memory. Copies of an unrolled body share most of theirs."""
        if isinstance(e, BufferLoad):
            return True
        known = self._loads.get(id(e))
        if known is None:
            parts = [c for c in children(e) if isinstance(c, Expr)]
            known = self._loads[id(e)] = any(map(self._has_load, parts))
        return known

    def _is_far(self, buffer: Buffer) -> Expr:
        """1 where a buffer is too large for a cache, 0 otherwise; one expression for a buffer."""
        known = self._far.get(id(buffer))
        if known is None:
            known = self._far[id(buffer)] = self._how_far(buffer)
        return known

    def _how_far(self, buffer: Buffer) -> Expr:
        size: Expr = IntImm(buffer.dtype.itemsize)
        for extent in buffer.shape:
            size = mul(size, extent)
        if any(id(v) not in self._dims for v in free_vars([size])):
            return IntImm(0)
        return minimum(floordiv(size, IntImm(_CACHED)), IntImm(1))

    def _vectors(self, e: Expr) -> int:
        """The registers that a value takes."""
        return -(-e.dtype.lanes * e.dtype.itemsize * 8 // self._vector_bits)


def _is_unknown(values: Iterable[Expr]) -> bool:
    return any(v is _UNKNOWN for v in free_vars(values))


def _is_whole(index: Expr, lanes: int) -> bool:
    """Whether an access of registers takes one of them as it is; else it puts lanes of several
    together."""
    return lanes == 1 or (
        isinstance(index, Ramp) and isinstance(index.base, IntImm) and index.base.value % lanes == 0
    )


def _nodes(value: Expr) -> Iterable[Expr]:
    """The nodes of a value, indices left out, each once."""
    seen: set[int] = set()
    stack: list[Expr] = [value]
    while stack:
        n = stack.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        yield n
        if not isinstance(n, BufferLoad):
            stack.extend([c for c in children(n) if isinstance(c, Expr)])


def sum_of(parts: Iterable[Expr]) -> Expr:
    """The sum of index expressions, as deep as its terms are few: a term that comes again is
    counted, and numbers are one. A body of a thousand statements has a sum of a few terms."""
    number, counts = 0, dict[int, tuple[Expr, int]]()
    stack = list(parts)[::-1]
    while stack:
        e = stack.pop()
        if isinstance(e, Add):
            stack += [e.b, e.a]
            continue
        if isinstance(e, IntImm):
            number += e.value
            continue
        term, times = (e.a, e.b.value) if isinstance(e, Mul) and isinstance(e.b, IntImm) else (e, 1)
        counts[id(term)] = term, times + (counts[id(term)][1] if id(term) in counts else 0)
    terms = [mul(term, IntImm(times)) for term, times in counts.values()]
    terms.append(IntImm(number))
    while len(terms) > 1:
        pairs = [add(a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[2 * len(pairs) :]
    return terms[0]


def evaluate(e: Expr, size: int, unknown: int = 1) -> int:
    """The value of an index expression where every symbolic size is ``size``, and what only the run
    knows is ``unknown``."""
    return int(arith.evaluate(e, lambda n: unknown if n is _UNKNOWN else size, _OPERATIONS))

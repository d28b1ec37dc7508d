"""How long a lowered function may run, and where it looks whether it should stop.

Work is counted in vector operations: what a core issues once for a whole vector (or a scalar) is
one, whatever its latency; accesses to registers are free, functions such as ``exp`` count several.
Sizes that are not known count as large where the question is how long something may take, and as 1
where it is how often a look is worth its price.

A loop of much work (``POLLED_WORK``) looks once an iteration, or once a strip of iterations where
one is too short; below it only loops look that are that long in one iteration. So no code runs for
long without a look, and inner loops stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from ...support.abi import POLLED_WORK
from ...support.node import children, map_children, replace
from ..expr import (
    INDEX,
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Ramp,
    StringImm,
    Sub,
    Var,
    add,
    const,
    maximum,
    mul,
)
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
)
from ..visitor import free_vars, substitute

STRIP_WORK = 512
"""Work of the shortest iterations after each of which a look costs nothing that could be seen."""
LARGE = 1 << 20
"""What a symbolic size may well be."""
_UNKNOWN = 100
"""What stands for a value that only the run knows; every integer type has it."""
_FUNCTION = 12
"""Operations of a call such as ``exp``."""
_FREE = (Var, IntImm, FloatImm, StringImm, Broadcast, Ramp)

Bounds = dict[Var, tuple[Expr, Expr]]
"""The least and the largest value of each loop variable, over the symbolic sizes."""


class Work:
    """The work of a function's statements. ``dims`` are its symbolic sizes."""

    def __init__(self, body: Stmt, dims: Iterable[Var], vector_bits: int) -> None:
        self.body = body
        self._dims = {id(d) for d in dims}
        self._vector_bits = max(vector_bits, 64)
        self._of: dict[int, Expr] = {}
        self.total = without_traps(self._stmt(body, {}))
        """Of the whole body, over the symbolic sizes; of any sizes, 0 included."""
        self.is_polled = self.at_most(body) >= POLLED_WORK
        """Whether the function looks at all."""

    def at_most(self, s: Stmt) -> int:
        """The work of a statement where symbolic sizes are large."""
        return evaluate(self._of[id(s)], LARGE)

    def looks_before(self, s: Stmt) -> bool:
        """Whether a statement in a sequence is worth a look before it."""
        return self.is_polled and self.at_most(s) >= POLLED_WORK // 16

    def strip(self, loop: For) -> int | None:
        """After how many iterations a loop looks; None where it does not."""
        if not self.is_polled or self.at_most(loop) < POLLED_WORK:
            return None
        return max(1, STRIP_WORK // max(1, evaluate(self._of[id(loop.body)], 1)))

    # -- counting ---------------------------------------------------------------------------------
    def _stmt(self, s: Stmt, bounds: Bounds) -> Expr:
        found = self._of[id(s)] = self._count(s, bounds)
        return found

    def _count(self, s: Stmt, bounds: Bounds) -> Expr:  # noqa: C901 - one match over a closed set
        match s:
            case SeqStmt(stmts):
                total: Expr = IntImm(0)
                for x in stmts:
                    total = add(total, self._stmt(x, bounds))
                return total
            case For(var, start, extent):
                first, last = self._limits(start, bounds)
                low, high = self._limits(extent, bounds)
                size = low if low is high else maximum(low, high)
                inner = {**bounds, var: (first, add(last, add(size, IntImm(-1))))}
                return mul(size, self._stmt(s.body, inner))
            case IfThenElse(condition, then_case, else_case):
                work = self._stmt(then_case, bounds)
                if else_case is not None:
                    work = maximum(work, self._stmt(else_case, bounds))
                return add(work, IntImm(self._operations(condition)))
            case LetStmt(var, value, body):
                inner = bounds
                if var.dtype is INDEX:
                    inner = {**bounds, var: self._limits(value, bounds)}
                return add(self._stmt(body, inner), IntImm(self._operations(value)))
            case Allocate(_, body):
                return self._stmt(body, bounds)
            case BufferStore(buffer, value):
                store = 0 if buffer.scope == "register" else self._vectors(value)
                return IntImm(self._operations(value) + store)
            case Evaluate(value):
                return IntImm(self._operations(value))
            case Block() | BlockRealize():
                return IntImm(0)
            case _:
                assert_never(s)

    def _limits(self, e: Expr, bounds: Bounds) -> tuple[Expr, Expr]:
        """The expression at either end of the loops around it."""
        used = [v for v in free_vars([e]) if id(v) not in self._dims]
        if not used and not any(isinstance(n, BufferLoad) for n in _nodes(e)):
            return e, e
        if any(isinstance(n, BufferLoad) for n in _nodes(e)):
            return const(1, e.dtype), const(_UNKNOWN, e.dtype)
        unknown = {v: (const(1, v.dtype), const(_UNKNOWN, v.dtype)) for v in used}
        ends = {v: bounds.get(v, unknown[v]) for v in used}
        low, high = (substitute(e, {v: pair[i] for v, pair in ends.items()}) for i in (0, 1))
        return low, high

    def _operations(self, value: Expr) -> int:
        """Vector operations of one evaluation; what is shared in it is evaluated once."""
        count = 0
        for n in _nodes(value):
            if isinstance(n, BufferLoad):
                count += 0 if n.buffer.scope == "register" else self._vectors(n)
            elif isinstance(n, Call) and n.op != "fma":
                count += _FUNCTION * self._vectors(n)
            elif not isinstance(n, _FREE):
                count += self._vectors(n)
        return count

    def _vectors(self, e: Expr) -> int:
        """The registers that a value takes."""
        return -(-e.dtype.lanes * e.dtype.itemsize * 8 // self._vector_bits)


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


def without_traps(e: Expr) -> Expr:
    """An index expression with divisors of at least 1. A loop that a size of 0 keeps from running
    may divide by that size; who asks for its work beforehand would."""
    e = map_children(e, without_traps)
    if isinstance(e, FloorDiv | FloorMod | Div) and not isinstance(e.b, IntImm):
        return replace(e, b=maximum(e.b, const(1, e.b.dtype)))
    return e


def evaluate(e: Expr, size: int) -> int:
    """The value of an index expression where every variable is ``size``."""
    match e:
        case IntImm(value):
            return int(value)
        case Var():
            return size
        case Add(a, b):
            return evaluate(a, size) + evaluate(b, size)
        case Sub(a, b):
            return evaluate(a, size) - evaluate(b, size)
        case Mul(a, b):
            return evaluate(a, size) * evaluate(b, size)
        case Min(a, b):
            return min(evaluate(a, size), evaluate(b, size))
        case Max(a, b):
            return max(evaluate(a, size), evaluate(b, size))
        case FloorDiv(a, b):
            return evaluate(a, size) // (evaluate(b, size) or 1)
        case FloorMod(a, b):
            return evaluate(a, size) % (evaluate(b, size) or 1)
        case _:
            return size

"""Turns vectorized loops into vector expressions over Ramp and Broadcast.

A loop of more iterations than a machine vector has lanes is cut into chunks of whole vectors and
one shorter rest; a chunk loop of few iterations is unrolled. Where elementary functions are
computed and registers are few, a chunk is several vectors side by side. Its body is rewritten once:
an index linear in the loop variable becomes a Ramp, what does not vary stays scalar, a condition
that varies becomes the predicate of the loads and stores under it, which run no part of their index
that could stop the process unless some lane is on. What cannot be a vector - a
reduction over the loop variable, a store that does not vary, a nested vectorized loop, an
allocation - stays a serial loop: the result is always that of the loop run in order, iterations
being independent by the schedule's promise. Runs on flat buffers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...support.errors import CodegenError
from ...support.node import Node, map_children, walk
from ..arith.linear import ZERO, Linear, LinearKey, render
from ..buffer import Buffer
from ..expr import (
    BOOL,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    Var,
    add,
    mul,
)
from ..function import PrimFunc
from ..stmt import BufferStore, Evaluate, For, IfThenElse, LetStmt, SeqStmt, Stmt, seq
from .scope import Scope

if TYPE_CHECKING:
    from ...support.instructions import Instructions
    from ...support.target import Target

_UNROLLED_CHUNKS = 8
"""A loop over at most this many whole vectors is unrolled."""
_VALUES = {
    "exp": 4, "exp_negative": 4, "exp2": 4, "expm1": 4, "log": 4, "log2": 4, "log1p": 4,
    "sigmoid": 4, "tanh": 4, "erf": 6, "atan": 4, "gelu": 4,
}  # fmt: skip
"""Elementary functions, long chains of dependent instructions, each with a constant or two; and the
registers for each vector that is computed: its values and a share of the constants. ``erf`` has two
polynomials, and GELU wants the argument again."""
_CONSTANTS = 12
"""Those of one of them, about."""


def _side_by_side(op: str, target: Target) -> int:
    """How many vectors of an elementary function are computed at once, step by step: the CPU waits
    less for each step, and one load of a constant serves them all. Where registers keep the
    constants, the CPU runs ahead to the next vector by itself."""
    if keeps_constants(target.instructions):
        return 1
    return 1 << max(1, target.vector_registers // _VALUES[op]).bit_length() - 1


def keeps_constants(known: Instructions) -> bool:
    """Whether the constants of an elementary function stay in registers, beside its values of two
    vectors."""
    return known.holds(_CONSTANTS + 2 * min(_VALUES.values()))


def vectorize_loops(func: PrimFunc, target: Target) -> PrimFunc:
    """``func`` without vectorized loops.

    Raises CodegenError for a vectorized loop whose extent is not a constant.
    """
    body = _Loops(func, target).stmt(func.body)
    return func if body is func.body else PrimFunc(func.params, body, func.attrs, func.name)


class _NotVectorizable(Exception):
    """The body cannot be a vector: the loop stays serial."""


class _Loops:
    """Finds the vectorized loops, with the ranges of the loops around."""

    def __init__(self, func: PrimFunc, target: Target) -> None:
        self.scope = Scope()
        self.target = target
        for var in func.shape_vars:
            self.scope.declare_dim(var)

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, For):
            if s.kind == "vectorized":
                return self._vectorized(s)
            with self.scope.loop(s.var, s.min, s.extent):
                body = self.stmt(s.body)
            return s if body is s.body else _with(s, s.kind, body)
        return map_children(s, lambda n: n if isinstance(n, Expr | Buffer) else self.stmt(n))

    def _vectorized(self, s: For) -> Stmt:
        if not isinstance(s.extent, IntImm):
            raise CodegenError(
                f"A vectorized loop needs a constant number of iterations; {s.var.name} has a "
                "symbolic extent. Split it by a constant factor and vectorize the inner loop."
            )
        try:
            nodes = _parts(s.body)
            _check_independent(s, nodes, self.scope)
            return self._chunks(s, s.extent.value, nodes)
        except _NotVectorizable:
            with self.scope.loop(s.var, s.min, s.extent):
                body = self.stmt(s.body)
            kind = "unrolled" if _has_registers(_parts(s.body)) else "serial"
            return _with(s, kind, body)

    def _chunks(self, s: For, extent: int, nodes: Sequence[Node]) -> Stmt:
        lanes = self._lanes(s, extent, nodes)
        if extent <= lanes:
            return self._vector(s, s.min, extent)
        whole, rest = divmod(extent, lanes)
        parts: list[Stmt] = []
        if whole == 1:
            parts.append(self._vector(s, s.min, lanes))
        else:
            chunk = Var(f"{s.var.name}_v", s.var.dtype)
            count = IntImm(whole, INDEX)
            with self.scope.loop(chunk, IntImm(0, INDEX), count):
                body = self._vector(s, add(s.min, mul(chunk, lanes)), lanes)
            unroll = whole <= _UNROLLED_CHUNKS or _has_registers(nodes)
            parts.append(
                For(chunk, IntImm(0, INDEX), count, "unrolled" if unroll else "serial", body)
            )
        if rest:
            parts.append(self._vector(s, add(s.min, whole * lanes), rest))
        return seq(*parts)

    def _lanes(self, s: For, extent: int, nodes: Sequence[Node]) -> int:
        """The lanes of a chunk of a loop, whose body has these nodes: those of a machine vector, or
        of several side by side."""
        bits = _widest(nodes, s.var)
        lanes = max(1, self.target.vector_bits // bits)
        functions = _elementary(nodes)
        if not functions:
            return lanes
        at_once = min([_side_by_side(op, self.target) for op in functions])
        most = at_once * self.target.vector_bits // max(bits, 32)
        while lanes * 2 <= min(most, extent):
            lanes *= 2
        return lanes

    def _vector(self, s: For, base: Expr, lanes: int) -> Stmt:
        if lanes == 1:
            return _Body(self.scope, s.var, base, 1).stmt(s.body)
        with self.scope.loop(s.var, base, IntImm(lanes, INDEX)):
            return _Body(self.scope, s.var, base, lanes).stmt(s.body)


def _with(s: For, kind: str, body: Stmt) -> For:
    return For(s.var, s.min, s.extent, kind, body, s.thread, s.annotations)


def _parts(s: Stmt) -> list[Node]:
    """A statement and all below it, the shapes of buffers left out."""
    return list(walk(s, (Buffer,)))


def _has_registers(nodes: Sequence[Node]) -> bool:
    return any(
        isinstance(n, BufferLoad | BufferStore) and n.buffer.scope == "register" for n in nodes
    )


def _elementary(nodes: Sequence[Node]) -> set[str]:
    """The elementary functions that a body computes from memory to memory, without a condition:
    slots of registers are vectors of the machine, and under a mask most of a wide chunk may be
    idle."""
    if any(isinstance(n, IfThenElse) for n in nodes) or _has_registers(nodes):
        return set()
    return {n.op for n in nodes if isinstance(n, Call) and n.op in _VALUES}


def _widest(nodes: Sequence[Node], var: Var) -> int:
    """Bits of the widest element that the body of the loop over ``var`` touches: it decides the
    lanes of a machine vector. A load that is an index, and the same in all iterations, is no
    vector."""
    accesses = [n for n in nodes if isinstance(n, BufferLoad | BufferStore) and n.buffer.ndim]
    places = {
        id(n)
        for a in accesses
        for index in a.indices
        for n in walk(index)
        if isinstance(n, BufferLoad) and not _varies(n, var)
    }
    return max([n.buffer.dtype.bits for n in accesses if id(n) not in places], default=32)


def _check_independent(loop: For, nodes: Sequence[Node], scope: Scope) -> None:
    """Raises _NotVectorizable where an iteration could see what another one stores."""
    stored: dict[int, dict[LinearKey, Linear]] = {}
    loads: list[BufferLoad] = []
    with scope.loop(loop.var, loop.min, loop.extent):
        for n in nodes:
            if isinstance(n, For) and n.kind == "vectorized":
                raise _NotVectorizable
            if isinstance(n, BufferLoad):
                loads.append(n)
            elif isinstance(n, BufferStore):
                form = scope.linear(n.indices[0])
                if form.step(loop.var) == 0 and _varies(n.value, loop.var):
                    raise _NotVectorizable
                stored.setdefault(id(n.buffer), {})[form.key] = form
        for load in loads:
            if id(load.buffer) in stored:
                form = scope.linear(load.indices[0])
                for key, other in stored[id(load.buffer)].items():
                    if key != form.key and not _are_apart(loop, other, form):
                        raise _NotVectorizable


def _are_apart(loop: For, a: Linear, b: Linear) -> bool:
    """Whether places that go by equal steps are further from each other than the loop goes."""
    distance, step = b - a, a.step(loop.var)
    if step is None or distance.terms:
        return False
    assert isinstance(loop.extent, IntImm)
    return abs(distance.const) >= abs(step) * loop.extent.value > 0


def _varies(e: Expr, var: Var) -> bool:
    return any(n is var for n in walk(e))


class _Body:
    """Rewrites the body of one vectorized loop; scalars stay scalar until they meet a vector."""

    def __init__(self, scope: Scope, var: Var, base: Expr, lanes: int) -> None:
        self.scope = scope
        self.var = var
        self.base = base
        self.lanes = lanes
        self.mask: Expr | None = None
        self.lets: dict[int, Var] = {}
        self.forms: dict[int, tuple[Expr, Expr]] = {}

    @contextmanager
    def _under(self, condition: Expr) -> Iterator[None]:
        saved = self.mask
        self.mask = condition if saved is None else And(saved, condition)
        try:
            yield
        finally:
            self.mask = saved

    def _splat(self, e: Expr) -> Expr:
        return e if e.dtype.lanes > 1 or self.lanes == 1 else Broadcast(e, self.lanes)

    # -- statements -------------------------------------------------------------------------------
    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case BufferStore():
                return self._store(s)
            case SeqStmt(stmts):
                return seq(*[self.stmt(x) for x in stmts])
            case For():
                extent, start = self.expr(s.extent), self.expr(s.min)
                if extent.dtype.lanes > 1 or start.dtype.lanes > 1:
                    raise _NotVectorizable
                with self.scope.loop(s.var, start, extent):
                    return For(
                        s.var, start, extent, s.kind, self.stmt(s.body), s.thread, s.annotations
                    )
            case IfThenElse(condition, then_case, else_case):
                return self._condition(self.expr(condition), then_case, else_case)
            case LetStmt(var, value, body):
                new_value = self.expr(value)
                new_var = self._bind(var, new_value)
                return LetStmt(new_var, new_value, self.stmt(body))
            case Evaluate(value):
                new_value = self.expr(value)
                if new_value.dtype.lanes > 1:
                    raise _NotVectorizable
                return Evaluate(new_value)
            case _:
                raise _NotVectorizable

    def _bind(self, var: Var, value: Expr) -> Var:
        if value.dtype.lanes == 1:
            return var
        new = Var(var.name, value.dtype)
        self.lets[id(var)] = new
        return new

    def _condition(self, condition: Expr, then_case: Stmt, else_case: Stmt | None) -> Stmt:
        if condition.dtype.lanes == 1:
            other = self.stmt(else_case) if else_case is not None else None
            return IfThenElse(condition, self.stmt(then_case), other)
        asked = _named(condition)
        with self._under(asked):
            parts = [self.stmt(then_case)]
        if else_case is not None:
            with self._under(Not(asked)):
                parts.append(self.stmt(else_case))
        both = seq(*parts)
        return LetStmt(asked, condition, both) if isinstance(asked, Var) else both

    def _store(self, s: BufferStore) -> Stmt:
        index, value = self._place(s.indices[0]), self.expr(s.value)
        if index.dtype.lanes == 1:
            if self.lanes > 1 and (value.dtype.lanes > 1 or self.mask is not None):
                raise _NotVectorizable
            return BufferStore(s.buffer, value, (index,))
        return BufferStore(s.buffer, self._splat(value), (index,), self.mask)

    # -- expressions ------------------------------------------------------------------------------
    def expr(self, e: Expr) -> Expr:  # noqa: C901 - one match over a closed set
        match e:
            case Var():
                if e is self.var:
                    return (
                        self.base
                        if self.lanes == 1
                        else Ramp(self.base, IntImm(1, INDEX), self.lanes)
                    )
                return self.lets.get(id(e), e)
            case IntImm() | FloatImm():
                return e
            case BufferLoad():
                return self._load(e)
            case Add() | Sub() | Mul() | FloorDiv() | FloorMod() if e.dtype is INDEX:
                return self._index(e)
            case BinaryOp():
                return self._pair(e, self.expr(e.a), self.expr(e.b))
            case CompareOp():
                return self._compare(e)
            case And(a, b) | Or(a, b):
                return self._pair(e, self.expr(a), self.expr(b))
            case Not(a):
                return Not(self.expr(a))
            case Cast(dtype, value):
                inner = self.expr(value)
                return Cast(dtype.with_lanes(inner.dtype.lanes), inner)
            case Select(condition, a, b):
                return self._select(self.expr(condition), self.expr(a), self.expr(b))
            case Call("if_then_else", (condition, a, b)):
                return self._guarded(e, self.expr(condition), a, b)
            case Call(op, args, dtype):
                new = [self.expr(a) for a in args]
                if all(a.dtype.lanes == 1 for a in new):
                    return Call(op, tuple(new), dtype)
                return Call(op, tuple([self._splat(a) for a in new]), dtype.with_lanes(self.lanes))
            case Let(var, value, body):
                new_value = self.expr(value)
                new_var = self._bind(var, new_value)
                return Let(new_var, new_value, self.expr(body))
            case _:
                raise _NotVectorizable

    def _pair(self, e: BinaryOp | CompareOp | And | Or, a: Expr, b: Expr) -> Expr:
        if a.dtype.lanes != b.dtype.lanes:
            a, b = self._splat(a), self._splat(b)
        return type(e)(a, b)

    def _linear(self, e: Expr) -> tuple[Linear, Linear] | None:
        """The coefficient of the loop variable and the rest, where ``e`` is linear in it."""
        form = self.scope.linear(e)
        factor = self.scope.atoms.coefficient(form, self.var)
        if factor is None or any(v in self._atoms(form) for v in self.lets):
            return None
        return factor, self.scope.atoms.without(form, self.var)

    def _atoms(self, form: Linear) -> set[int]:
        return {id(n) for a in form.terms for n in walk(a)}

    def _place(self, e: Expr) -> Expr:
        """The index of an access: a part of it that could stop the process may stay scalar under
        the mask, for whoever runs the access asks the mask first."""
        if isinstance(e, Add | Sub | Mul | FloorDiv | FloorMod) and e.dtype is INDEX:
            return self._index(e, is_place=True)
        return self.expr(e)

    def _index(self, e: Expr, *, is_place: bool = False) -> Expr:
        parts = self._linear(e)
        if parts is None or not (is_place or self._is_free(e)):
            assert isinstance(e, BinaryOp)
            return self._pair(e, self.expr(e.a), self.expr(e.b))
        factor, rest = parts
        if any(
            isinstance(n, BufferLoad) and any(v is self.var for v in walk(n))
            for a in rest.terms
            for n in walk(a)
        ):
            assert isinstance(e, BinaryOp)
            return self._pair(e, self.expr(e.a), self.expr(e.b))
        if factor.key == ZERO.key:
            return render(rest)
        start = render(rest + self._times_base(factor))
        return start if self.lanes == 1 else Ramp(start, render(factor), self.lanes)

    def _times_base(self, factor: Linear) -> Linear:
        return self.scope.atoms.multiply(factor, self.scope.linear(self.base))

    def _compare(self, e: CompareOp) -> Expr:
        """A comparison of linear indices is put as ``ramp op broadcast``, cheap to narrow."""
        if e.a.dtype is INDEX and self.lanes > 1 and self._is_free(e):
            parts = self._linear(Sub(e.a, e.b))
            if parts is not None and not parts[0].terms and abs(parts[0].const) == 1:
                factor, rest = parts
                rest = rest + self._times_base(factor)
                for_all = _for_all_lanes(type(e), rest.scale(factor.const), factor, self.lanes)
                if for_all is not None:
                    return for_all
                ramp = Ramp(IntImm(0, INDEX), IntImm(1, INDEX), self.lanes)
                if factor.const == 1:
                    return type(e)(ramp, Broadcast(render(rest.scale(-1)), self.lanes))
                return type(e)(Broadcast(render(rest), self.lanes), ramp)
        return self._pair(e, self.expr(e.a), self.expr(e.b))

    def _is_free(self, e: Expr) -> bool:
        """Whether the scalars of ``e`` may run whatever the mask says."""
        return self.mask is None or self.lanes == 1 or not may_fault(e, self.scope)

    def _load(self, e: BufferLoad) -> Expr:
        index = self._place(e.indices[0])
        if self.mask is None or self.lanes == 1:
            return BufferLoad(e.buffer, (index,))
        if index.dtype.lanes > 1:
            return BufferLoad(e.buffer, (index,), self.mask)
        scalar = BufferLoad(e.buffer, (index,))
        if not may_fault(scalar, self.scope):
            return scalar
        return BufferLoad(e.buffer, (Broadcast(index, self.lanes),), self.mask)

    def _select(self, condition: Expr, a: Expr, b: Expr) -> Expr:
        if condition.dtype.lanes > 1 or a.dtype.lanes != b.dtype.lanes:
            a, b = self._splat(a), self._splat(b)
        return Select(condition, a, b)

    def _guarded(self, e: Call, condition: Expr, a: Expr, b: Expr) -> Expr:
        if isinstance(condition, IntImm):
            return self.expr(a if condition.value else b)
        if condition.dtype.lanes == 1:
            x, y = self.expr(a), self.expr(b)
            if x.dtype.lanes != y.dtype.lanes:
                x, y = self._splat(x), self._splat(y)
            return Call(e.op, (condition, x, y), x.dtype)
        asked = _named(condition)
        with self._under(asked):
            x = self._splat(self.expr(a))
        with self._under(Not(asked)):
            y = self._splat(self.expr(b))
        is_masked = isinstance(x, BufferLoad) and x.predicate is not None and _is_zero(y)
        chosen = x if is_masked else Select(asked, x, y)
        return Let(asked, condition, chosen) if isinstance(asked, Var) else chosen


def _named(condition: Expr) -> Expr:
    """What stands for a condition in the masks of all that is under it: a variable where it reads
    memory. It reads that under the mask of what it stands under itself, so that conditions of
    conditions would double, and more, at every step."""
    if any(isinstance(n, BufferLoad) for n in walk(condition)):
        return Var("asked", condition.dtype)
    return condition


def _for_all_lanes(kind: type[CompareOp], rest: Linear, factor: Linear, lanes: int) -> Expr | None:
    """``lane + rest`` beside 0 as one comparison, where all lanes lie on the same side: a vector
    that begins at a multiple of its lanes does not cross one. None elsewhere; with a factor of -1
    the comparison is that of ``-(lane + rest)``."""
    if factor.const == -1:
        kind = _TURNED.get(kind, kind)
    if kind in (LE, GT):
        kind, rest = (LT if kind is LE else GE), rest.shift(-1)
    if kind not in (LT, GE) or any(c % lanes for c in (rest.const, *rest.terms.values())):
        return None
    if not rest.terms:
        return IntImm(int((rest.const < 0) == (kind is LT)), BOOL)
    return kind(render(Linear(rest.terms)), IntImm(-rest.const, INDEX))


_TURNED: dict[type[CompareOp], type[CompareOp]] = {LT: GT, GT: LT, LE: GE, GE: LE}


def may_fault(e: Expr, scope: Scope) -> bool:
    """Whether running ``e`` without being asked to could stop the process: an element that may lie
    outside of its buffer."""
    for n in walk(e):
        if isinstance(n, BufferLoad):
            form, size = scope.linear(n.indices[0]), scope.linear(n.buffer.shape[0])
            if not (scope.is_at_least(form, 0) and scope.is_below(form - size, 0)):
                return True
    return False


def _is_zero(e: Expr) -> bool:
    return (
        isinstance(e, Broadcast)
        and isinstance(e.value, IntImm | FloatImm)
        and str(e.value.value) in ("0", "0.0")
    )

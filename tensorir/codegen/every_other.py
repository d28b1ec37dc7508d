"""Stores of bfloat16 that are computed of bfloat16 element by element: the even elements and the
odd ones as two vectors of float32.

    y[i : i + 16] = relu(a[i : i + 16] + b[i : i + 16])

In the order of memory, widening is an unpacking of each half of a vector and a shift, and making
narrow two shuffles of bytes and two across lanes. Every other element of a vector of 32-bit words
is its upper half already, and the others are shifted there: an ``and`` and a shift widen a vector,
a shift and a blend join two. Nothing in between may know at which place it stands. Two stores that
are one register of float32 each, side by side, are made one for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from ...support.dtype import DType
from ...support.node import children, replace, walk
from ..arith import expr_key
from ..expr import (
    EQ,
    FLOAT32,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    Var,
)
from ..stmt import BufferStore, Stmt
from ..visitor import Mutator
from .llvm_expr import OF_THEIR_OWN, ExprEmitter
from .llvm_types import I16, Literal, constant, register_type, rounded_bits, shuffle_mask
from .math import SPLITS_BLOCK

_BFLOAT16 = "bfloat16"
_ELEMENTWISE = (
    Add, Sub, Mul, Div, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or, Not, Select, Cast,
)  # fmt: skip
_COMPUTED = (_BFLOAT16, "float32", "bool")


class EveryOtherEmitter(ExprEmitter):
    """``ExprEmitter`` with such stores; ``apart_lanes`` are the lanes from which on they are made,
    two registers of float32; 0 for never."""

    apart_lanes: int = 0

    def store(self, s: BufferStore) -> None:
        leaves = self._leaves(s)
        if not leaves:
            super().store(s)
            return
        b, lanes = self.builder, s.value.dtype.lanes
        bits = self._bits(s.value, {id(leaf): leaf for leaf in leaves})
        parts = [
            b.shuffle_vector(bits, Literal(bits.type, "poison"), shuffle_mask(tuple(half)))
            for half in (range(lanes // 2), range(lanes // 2, lanes))
        ]
        sixteen = constant(DType("int32").with_lanes(lanes // 2), 16)
        kind = ir.VectorType(I16, lanes)
        even, odd = b.bitcast(b.lshr(parts[0], sixteen), kind), b.bitcast(parts[1], kind)
        take = tuple([k + lanes * (k % 2) for k in range(lanes)])
        joined = Var("joined", s.value.dtype)
        self.bind(joined, b.shuffle_vector(even, odd, shuffle_mask(take)))
        super().store(replace(s, value=joined))

    def _bits(self, value: Expr, leaves: Mapping[int, BufferLoad]) -> ir.Value:
        """The bits of a value, to be stored from their upper halves, its even elements first and
        then the odd ones."""
        named = {k: Var(leaf.buffer.name, leaf.dtype) for k, leaf in leaves.items()}
        known = self.singles
        self.singles = {
            **known,
            **{id(var): self._apart(leaves[k]) for k, var in named.items()},
        }
        found = self.single(_Named(named).visit(value))
        self.singles = known
        lanes = value.dtype.lanes
        bits = self.builder.bitcast(found.value, register_type(DType("int32").with_lanes(lanes)))
        if found.fits:
            return bits
        return rounded_bits(self.builder, found.value, bits, lanes, plain=found.plain)

    def _apart(self, leaf: BufferLoad) -> ir.Value:
        """The even elements and then the odd ones as float32."""
        b, lanes = self.builder, leaf.dtype.lanes
        ints = DType("int32").with_lanes(lanes // 2)
        words = b.bitcast(self.load(leaf), register_type(ints))
        even, odd = b.shl(words, constant(ints, 16)), b.and_(words, constant(ints, -0x10000))
        both = b.shuffle_vector(even, odd, shuffle_mask(tuple(range(lanes))))
        return b.bitcast(both, register_type(FLOAT32.with_lanes(lanes)))

    # -- neighbours -------------------------------------------------------------------------------
    def join(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Statements, of which two in a row that store half of the lanes side by side are one."""
        joined: list[Stmt] = []
        for s in stmts if self.apart_lanes else ():
            both = self._both(joined[-1], s) if joined else None
            if both is None:
                joined.append(s)
            else:
                joined[-1] = both
        return tuple(joined) if self.apart_lanes else stmts

    def _both(self, s: Stmt, t: Stmt) -> BufferStore | None:
        if not (isinstance(s, BufferStore) and isinstance(t, BufferStore)) or self.may_alias:
            return None
        lanes, is_whole = s.value.dtype.lanes, s.predicate is t.predicate is None
        if s.buffer is not t.buffer or s.buffer.dtype != _BFLOAT16 or lanes * 2 != self.apart_lanes:
            return None
        if not is_whole or t.value.dtype.lanes != lanes:
            return None
        index = self._beside(s.indices[0], t.indices[0])
        value = None if index is None else self._beside(s.value, t.value)
        if index is None or value is None:
            return None
        both = replace(s, value=value, indices=(index,))
        reads = {id(n.buffer) for n in walk(value) if isinstance(n, BufferLoad)}
        return both if id(s.buffer) not in reads and self._leaves(both) else None

    def _beside(self, a: Expr, b: Expr) -> Expr | None:
        """The lanes of ``a`` and behind them those of ``b``, where both are computed alike; None
        where they are not."""
        match a, b:
            case Ramp(first, IntImm(1), lanes), Ramp(second, IntImm(1)):
                follows = self.linear(first).shift(lanes).key == self.linear(second).key
                return Ramp(first, IntImm(1), 2 * lanes) if follows else None
            case Broadcast(x, lanes), Broadcast(y):
                return Broadcast(x, 2 * lanes) if expr_key(x) == expr_key(y) else None
            case BufferLoad(buffer, (x,), None), BufferLoad(other, (y,), None):
                index = self._beside(x, y) if buffer is other else None
                return None if index is None else BufferLoad(buffer, (index,))
            case _ if type(a) is type(b) and isinstance(a, (*_ELEMENTWISE, Call)):
                return self._parts_beside(a, b)
            case _:
                return None

    def _parts_beside(self, a: Expr, b: Expr) -> Expr | None:
        below: list[Expr] = []
        for x, y in zip(children(a), children(b), strict=False):
            if not (isinstance(x, Expr) and isinstance(y, Expr)):
                return None
            part = self._beside(x, y)
            if part is None:
                return None
            below.append(part)
        wide = a.dtype.with_lanes(2 * a.dtype.lanes)
        if isinstance(a, Call) and isinstance(b, Call):
            same = a.op == b.op and len(a.args) == len(b.args)
            return Call(a.op, tuple(below), wide) if same else None
        if isinstance(a, Cast):
            return Cast(wide, below[0]) if a.dtype is b.dtype else None
        made: Any = type(a)
        return made(*below)  # type: ignore[no-any-return]

    def _leaves(self, s: BufferStore) -> list[BufferLoad]:
        """What such a store loads; nothing where it is none."""
        lanes = s.value.dtype.lanes
        if (
            not self.apart_lanes
            or s.buffer.dtype != _BFLOAT16
            or lanes % self.apart_lanes
            or s.predicate is not None
            or id(s.buffer) in self.registers
            or not _is_contiguous(s.indices[0])
            or isinstance(s.value, BufferLoad | Broadcast)
        ):
            return []
        found: dict[int, BufferLoad] = {}
        return list(found.values()) if self._is_elementwise(s.value, found, set()) else []

    def _is_elementwise(self, e: Expr, found: dict[int, BufferLoad], seen: set[int]) -> bool:
        """Whether ``e`` is made of elements at one place each; ``found`` are their loads."""
        if id(e) in seen:
            return True
        seen.add(id(e))
        if isinstance(e, Broadcast):
            return e.value.dtype in _COMPUTED
        if isinstance(e, BufferLoad):
            found[id(e)] = e
            plain = e.buffer.dtype == _BFLOAT16 and id(e.buffer) not in self.registers
            return plain and e.predicate is None and _is_contiguous(e.indices[0])
        is_call = isinstance(e, Call) and e.op not in OF_THEIR_OWN and e.op not in SPLITS_BLOCK
        if not (is_call or isinstance(e, _ELEMENTWISE)) or e.dtype.scalar not in _COMPUTED:
            return False
        below = [n for n in children(e) if isinstance(n, Expr)]
        return all(self._is_elementwise(n, found, seen) for n in below)


class _Named(Mutator):
    """Puts Vars in the places of loads."""

    def __init__(self, leaves: Mapping[int, Var]) -> None:
        self.leaves = leaves

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        return self.leaves.get(id(n), n)


def _is_contiguous(index: Expr) -> bool:
    match index:
        case Ramp(_, IntImm(1)):
            return True
        case _:
            return False

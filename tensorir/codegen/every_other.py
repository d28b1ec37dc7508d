"""Stores of bfloat16 that are computed of bfloat16 element by element: the even elements and the
odd ones as two vectors of float32.

    y[i : i + 16] = relu(a[i : i + 16] + b[i : i + 16])

In the order of memory, widening is an unpacking of each half of a vector and a shift, and making
narrow two shuffles of bytes and two across lanes. Every other element of a vector of 32-bit words
is its upper half already, and the others are shifted there: an ``and`` and a shift widen a vector,
a shift and a blend join two. Nothing in between may know at which place it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from llvmlite import ir

from ...support.dtype import DType
from ...support.node import children, map_children, replace
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
from ..stmt import BufferStore
from .llvm_expr import OF_THEIR_OWN, ExprEmitter
from .llvm_types import I16, constant, register_type, rounded_bits, shuffle_mask
from .math import SPLITS_BLOCK

_BFLOAT16 = "bfloat16"
_ELEMENTWISE = (
    Add, Sub, Mul, Div, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or, Not, Select, Cast,
)  # fmt: skip
_COMPUTED = (_BFLOAT16, "float32", "bool")
Leaves: TypeAlias = Mapping[int, Var]


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
        ints = DType("int32").with_lanes(lanes // 2)
        words = [b.bitcast(self.load(leaf), register_type(ints)) for leaf in leaves]
        upper, sixteen = constant(ints, -0x10000), constant(ints, 16)
        even = self._apart(s, leaves, [b.shl(w, sixteen) for w in words])
        odd = self._apart(s, leaves, [b.and_(w, upper) for w in words])
        kind = ir.VectorType(I16, lanes)
        lower, upper_halves = b.bitcast(b.lshr(even, sixteen), kind), b.bitcast(odd, kind)
        take = tuple([k + lanes * (k % 2) for k in range(lanes)])
        joined = Var("joined", s.value.dtype)
        self.bind(joined, b.shuffle_vector(lower, upper_halves, shuffle_mask(take)))
        super().store(replace(s, value=joined))

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

    def _apart(self, s: BufferStore, leaves: list[BufferLoad], bits: list[ir.Value]) -> ir.Value:
        """Bits whose upper halves are what ``s`` stores, of leaves that are float32 of ``bits``."""
        half = s.value.dtype.with_lanes(s.value.dtype.lanes // 2)
        named = {id(leaf): Var(leaf.buffer.name, half) for leaf in leaves}
        single = register_type(FLOAT32.with_lanes(half.lanes))
        known = self.singles
        self.singles = {
            **known,
            **{
                id(named[id(leaf)]): self.builder.bitcast(x, single)
                for leaf, x in zip(leaves, bits, strict=True)
            },
        }
        found = self.single(_Half(named).of(s.value))
        self.singles = known
        ints = register_type(DType("int32").with_lanes(half.lanes))
        result = self.builder.bitcast(found.value, ints)
        if found.fits:
            return result
        return rounded_bits(self.builder, found.value, result, half.lanes, plain=found.plain)


class _Half:
    """Expressions of half as many lanes, with Vars for leaves."""

    def __init__(self, leaves: Leaves) -> None:
        self.leaves = leaves
        self.made: dict[int, Expr] = {}

    def of(self, e: Expr) -> Expr:
        known = self.made.get(id(e))
        if known is None:
            known = self.made[id(e)] = self._of(e)
        return known

    def _of(self, e: Expr) -> Expr:
        leaf = self.leaves.get(id(e))
        if leaf is not None:
            return leaf
        lanes = e.dtype.lanes // 2
        match e:
            case Broadcast(value):
                return Broadcast(value, lanes)
            case Cast(dtype, value):
                return Cast(dtype.with_lanes(lanes), self.of(value))
            case Call(op, args, dtype):
                return Call(op, tuple([self.of(a) for a in args]), dtype.with_lanes(lanes))
            case _:
                made: Any = map_children(e, lambda n: self.of(n) if isinstance(n, Expr) else n)
                return made  # type: ignore[no-any-return]


def _is_contiguous(index: Expr) -> bool:
    match index:
        case Ramp(_, IntImm(1)):
            return True
        case _:
            return False

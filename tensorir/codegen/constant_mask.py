"""Masks that are constants, and loads under them: a run of lanes is loaded by plain loads.

    A.vload([T.Ramp(7, 1, 16)], predicate=T.Ramp(0, 1, 16) >= T.Broadcast(1, 16))

LLVM takes a masked load of 8 or 16 bits lane by lane where the CPU has no masks for them. Of a run
of lanes the largest power of two is loaded twice, from its first and up to its last, and a shuffle
makes one vector of both: nothing beside the run is touched.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ...support.dtype import DType
from ..expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    CompareOp,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Not,
    Or,
    Ramp,
    Sub,
)
from .llvm_types import Literal, memory_type, shuffle_mask

_MADE: dict[type[Expr], Callable[[int, int], int]] = {
    EQ: int.__eq__, NE: int.__ne__, LT: int.__lt__, LE: int.__le__, GT: int.__gt__, GE: int.__ge__,
    And: int.__and__, Or: int.__or__, Add: int.__add__, Sub: int.__sub__, Mul: int.__mul__,
    FloorDiv: int.__floordiv__, FloorMod: int.__mod__,
}  # fmt: skip


def constant_lanes(e: Expr) -> list[int] | None:
    """The value of each lane of an expression of constants; None for any other."""
    match e:
        case IntImm(value):
            return [value]
        case Broadcast(value, lanes):
            one = constant_lanes(value)
            return one and one * lanes
        case Ramp(IntImm(base), IntImm(stride), lanes):
            return [base + stride * k for k in range(lanes)]
        case Not(a):
            inner = constant_lanes(a)
            return inner and [int(not x) for x in inner]
        case BinaryOp() | CompareOp() | And() | Or():
            made = _MADE.get(type(e))
            left, right = constant_lanes(e.a), constant_lanes(e.b)
            if made is None or left is None or right is None:
                return None
            pairs = list(zip(left, right, strict=True))
            if not all(y for _, y in pairs) and isinstance(e, FloorDiv | FloorMod):
                return None
            return [int(made(x, y)) for x, y in pairs]
        case _:
            return None


def run_of(mask: list[int]) -> tuple[int, int] | None:
    """The first lane that is on and the one behind the last, where all between are on; None where
    they are not, and where there is none."""
    on = [k for k, x in enumerate(mask) if x]
    if not on or len(on) != on[-1] - on[0] + 1:
        return None
    return on[0], on[-1] + 1


def load_run(b: ir.IRBuilder, pointer: ir.Value, dtype: DType, run: tuple[int, int]) -> ir.Value:
    """The lanes of a ``run`` at ``pointer``, where its first lane would be; zeros in the others.
    Elements may stand anywhere."""
    first, end = run
    kind = ir.VectorType(memory_type(dtype.scalar), dtype.lanes)
    lanes, size = kind.count, 1 << (end - first).bit_length() - 1
    part = ir.VectorType(kind.element, size)
    starts = [first] if size == end - first else [first, end - size]
    parts = [
        b.load(b.gep(pointer, [ir.Constant(ir.IntType(64), s)], source_etype=kind.element),
               align=dtype.itemsize, typ=part)
        for s in starts
    ]  # fmt: skip
    if len(parts) == 1:
        whole = _widened(b, parts[0], starts[0], lanes)
    else:
        # The part that begins or ends where the vector does needs no shuffle.
        low, high = [_widened(b, p, s, lanes) for p, s in zip(parts, starts, strict=True)]
        seam = first + size if first == 0 else end - size
        take = tuple([k if k < seam else lanes + k for k in range(lanes)])
        whole = b.shuffle_vector(low, high, shuffle_mask(take))
    return kept_lanes(b, whole, [int(first <= k < end) for k in range(lanes)])


def kept_lanes(b: ir.IRBuilder, value: ir.Value, mask: list[int]) -> ir.Value:
    """The lanes of a vector that are on, zeros in the others."""
    zeros = Literal(value.type, "zeroinitializer")
    take = tuple([k if on else len(mask) + k for k, on in enumerate(mask)])
    return b.shuffle_vector(value, zeros, shuffle_mask(take))


def _widened(b: ir.IRBuilder, part: ir.Value, start: int, lanes: int) -> ir.Value:
    """``part`` in the lanes from ``start`` of a vector."""
    size = part.type.count
    take = tuple([min(max(k - start, 0), size - 1) for k in range(lanes)])
    return b.shuffle_vector(part, Literal(part.type, "poison"), shuffle_mask(take))

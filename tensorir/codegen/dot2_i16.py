"""The intrinsic ``dot2_i16``: dot products of two 16-bit integers, accumulated in int32.

The two elements of each lane lie side by side, and are one load where they are neighbours in memory
(``llvm_expr``). A CPU does it with what its ``DotUnit`` (``dot4``) has:

* ``vnni``: ``vpdpwssd``, one instruction;
* ``madd`` (every x86-64): ``pmaddwd`` and an addition, two instructions for two products a lane,
  and so twice the products of a multiply-add of float32 for each instruction that multiplies;
* anything else: both elements are widened to 32 bits, and multiplied there.

All give the same bits: products and sums wrap around at 32 bits, and nothing saturates.
"""

from __future__ import annotations

from llvmlite import ir

from ...support.dtype import DType
from .dot4 import DotUnit, by_pieces, call_as, madd_name
from .llvm_types import constant, register_type


def emit_dot2_i16(
    b: ir.IRBuilder,
    total: ir.Value,
    operands: tuple[ir.Value, ir.Value],
    lanes: int,
    unit: DotUnit,
) -> ir.Value:
    """``total`` plus the dot product of the pairs in each lane of ``operands``."""
    if unit.kind not in ("vnni", "madd") or lanes % 4:
        return _widened(b, total, operands, lanes)

    def piece(sums: ir.Value, first: ir.Value, second: ir.Value, count: int) -> ir.Value:
        if unit.kind == "vnni":
            words = [b.bitcast(v, sums.type) for v in (first, second)]
            return call_as(b, f"llvm.x86.avx512.vpdpwssd.{32 * count}", sums.type, sums, *words)
        return b.add(sums, call_as(b, madd_name(count), sums.type, first, second))

    return by_pieces(b, total, operands, lanes, unit.lanes, piece)


def _widened(
    b: ir.IRBuilder, total: ir.Value, operands: tuple[ir.Value, ir.Value], lanes: int
) -> ir.Value:
    ints = DType("int32").with_lanes(lanes)
    wide, half = register_type(ints), constant(ints, 16)
    words = [b.bitcast(v, wide) for v in operands]
    low = [b.ashr(b.shl(w, half), half) for w in words]
    high = [b.ashr(w, half) for w in words]
    for x, y in (low, high):
        total = b.add(total, b.mul(x, y))
    return total

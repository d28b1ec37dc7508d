"""The intrinsic ``dot2_bf16``: dot products of two bfloat16, accumulated in float32.

The two elements of each lane lie side by side, and are one load where they are neighbours in memory
(``llvm_expr``). What a CPU has for it is its ``PairUnit``:

* ``vdpbf16ps`` (AVX-512 BF16): one instruction. It takes subnormal operands for zero, flushes
  subnormal sums to zero, rounds to nearest even whatever the mode is, and adds the product of the
  elements at odd places first, each product in one rounding.
* ``bfdot`` (AArch64 with bf16): one instruction, which rounds sums to odd where the CPU has no
  extended bf16, and flushes subnormal numbers as well.
* nothing: both elements become float32, exactly, by a shift and by a mask, and two multiply-adds
  sum them in the order of ``vdpbf16ps``. But for subnormal numbers the bits are the same.

A product of two bfloat16 has 16 bits and is exact in float32. The sum of n products in float32, in
any order, has an error of at most ``n * 2**-24`` of the sum of their magnitudes.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from ...support.dtype import DType
from ...support.target import Target
from .dot4 import by_pieces, call_as
from .llvm_types import call_intrinsic, constant, register_type


class _BFloat(ir.Type):
    """LLVM's ``bfloat``, which llvmlite has no class for; only operands of instructions have it."""

    intrinsic_name = "bf16"

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _BFloat)

    def __hash__(self) -> int:
        return hash(_BFloat)


@dataclass(frozen=True)
class PairUnit:
    """What a CPU has for dot products of pairs: the ``name`` of its instruction, empty for none,
    which makes at most ``lanes`` sums."""

    name: str = ""
    lanes: int = 0


def pair_unit(target: Target) -> PairUnit:
    """The target's unit."""
    known = target.instructions.dot_product("bfloat16", "bfloat16")
    return PairUnit() if known is None else PairUnit(known.name, known.lanes)


def emit_dot2(
    b: ir.IRBuilder,
    total: ir.Value,
    operands: tuple[ir.Value, ir.Value],
    lanes: int,
    unit: PairUnit,
) -> ir.Value:
    """``total`` plus the dot product of the pairs in each lane of ``operands``."""
    if not unit.lanes or lanes % 4:
        return _widened(b, total, operands, lanes)

    def piece(sums: ir.Value, first: ir.Value, second: ir.Value, count: int) -> ir.Value:
        pairs = ir.VectorType(_BFloat(), 2 * count)
        if unit.name == "bfdot":
            name = f"llvm.aarch64.neon.bfdot.v{count}f32.v{2 * count}bf16"
        else:
            name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * count}"
        return call_as(b, name, sums.type, sums, b.bitcast(first, pairs), b.bitcast(second, pairs))

    return by_pieces(b, total, operands, lanes, unit.lanes, piece)


def _widened(
    b: ir.IRBuilder, total: ir.Value, operands: tuple[ir.Value, ir.Value], lanes: int
) -> ir.Value:
    ints, floats = (DType(d).with_lanes(lanes) for d in ("int32", "float32"))
    wide = register_type(floats)
    words = [b.bitcast(v, register_type(ints)) for v in operands]
    odd = [b.bitcast(b.and_(w, constant(ints, -(1 << 16))), wide) for w in words]
    even = [b.bitcast(b.shl(w, constant(ints, 16)), wide) for w in words]
    for x, y in (odd, even):
        total = call_intrinsic(b, "fmuladd", wide, [x, y, total])
    return total

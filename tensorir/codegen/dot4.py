"""The intrinsic ``dot4_u8i8``: dot products of four bytes, accumulated in int32.

A CPU with VNNI has an instruction for it, which takes the bytes of each lane side by side. Where
the operands are loads of neighbouring elements they are one load already (``llvm_expr``). Other
CPUs widen, multiply and add; both give the same bits, as nothing saturates.
"""

from __future__ import annotations

from llvmlite import ir

from ...support.dtype import DType
from ...support.target import Target
from .llvm_types import Literal, register_type, shuffle_mask

I8 = ir.IntType(8)

_WITH_VNNI = (
    "cascadelake",
    "cooperlake",
    "icelake",
    "tigerlake",
    "rocketlake",
    "alderlake",
    "raptorlake",
    "meteorlake",
    "arrowlake",
    "lunarlake",
    "sapphirerapids",
    "emeraldrapids",
    "graniterapids",
    "sierraforest",
    "znver4",
    "znver5",
)
"""The beginnings of the names of CPUs that have it, for targets that list no features."""


def vnni_lanes(target: Target) -> int:
    """How many int32 lanes the target's instruction takes at most; 0 where it has none."""
    named = any(f"+{f}" in target.features for f in ("avx512vnni", "avxvnni"))
    removed = any(f"-{f}" in target.features for f in ("avx512vnni", "avxvnni"))
    if not target.is_x86 or removed or not (named or target.cpu.startswith(_WITH_VNNI)):
        return 0
    return target.vector_bits // 32


def interleave(b: ir.IRBuilder, parts: list[ir.Value], lanes: int) -> ir.Value:
    """Four vectors (or scalars) of bytes as one, the bytes of a lane side by side."""
    if lanes == 1:
        result: ir.Value = Literal(ir.VectorType(I8, 4), "poison")
        for t, part in enumerate(parts):
            result = b.insert_element(result, part, ir.Constant(ir.IntType(32), t))
        return result
    pair = tuple([x for j in range(lanes) for x in (j, lanes + j)])
    low = b.shuffle_vector(parts[0], parts[1], shuffle_mask(pair))
    high = b.shuffle_vector(parts[2], parts[3], shuffle_mask(pair))
    quad = [x for j in range(lanes) for k in (0, 2 * lanes) for x in (k + 2 * j, k + 2 * j + 1)]
    return b.shuffle_vector(low, high, shuffle_mask(tuple(quad)))


def emit_dot4(
    b: ir.IRBuilder, total: ir.Value, unsigned: ir.Value, signed: ir.Value, lanes: int, most: int
) -> ir.Value:
    """``total`` plus the dot product of each lane's bytes; ``most`` is ``vnni_lanes``."""
    step = max([n for n in (4, 8, 16) if n <= most], default=0)
    if step == 0 or lanes % 4:
        return _widened(b, total, unsigned, signed, lanes)
    step = next(n for n in (step, 8, 4) if n <= step and lanes % n == 0)
    pieces = []
    for at in range(0, lanes, step):
        pieces.append(
            _instruction(
                b,
                _slice(b, total, at, step, lanes),
                _slice(b, unsigned, 4 * at, 4 * step, 4 * lanes),
                _slice(b, signed, 4 * at, 4 * step, 4 * lanes),
                step,
            )
        )
    result, width = pieces[0], step
    for piece in pieces[1:]:
        # Both operands of a shuffle have one type: the new piece is widened first.
        spread = tuple([min(j, step - 1) for j in range(width)])
        wide = b.shuffle_vector(piece, piece, shuffle_mask(spread)) if width != step else piece
        lanes_of = tuple([*range(width), *range(width, width + step)])
        result = b.shuffle_vector(result, wide, shuffle_mask(lanes_of))
        width += step
    return result


def _slice(b: ir.IRBuilder, value: ir.Value, start: int, count: int, whole: int) -> ir.Value:
    if count == whole:
        return value
    return b.shuffle_vector(value, value, shuffle_mask(tuple(range(start, start + count))))


def _instruction(
    b: ir.IRBuilder, total: ir.Value, unsigned: ir.Value, signed: ir.Value, lanes: int
) -> ir.Value:
    name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
    function = b.module.globals.get(name)
    if function is None:
        kinds = [total.type, unsigned.type, signed.type]
        function = ir.Function(b.module, ir.FunctionType(total.type, kinds), name)
    return b.call(function, [total, unsigned, signed])


def _widened(
    b: ir.IRBuilder, total: ir.Value, unsigned: ir.Value, signed: ir.Value, lanes: int
) -> ir.Value:
    wide = register_type(DType("int32").with_lanes(lanes))
    for t in range(4):
        x, y = (_byte(b, v, t, lanes) for v in (unsigned, signed))
        total = b.add(total, b.mul(b.zext(x, wide), b.sext(y, wide)))
    return total


def _byte(b: ir.IRBuilder, value: ir.Value, t: int, lanes: int) -> ir.Value:
    if lanes == 1:
        return b.extract_element(value, ir.Constant(ir.IntType(32), t))
    return b.shuffle_vector(value, value, shuffle_mask(tuple(range(t, 4 * lanes, 4))))

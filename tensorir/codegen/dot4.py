"""The intrinsics ``dot4_...``: dot products of four bytes, accumulated in int32, exact for all
bytes.

The bytes of each lane lie side by side. Where the operands are loads of neighbouring elements they
are one load already (``llvm_expr``). What a CPU has for it is its ``DotUnit``:

* ``vnni``: one instruction for unsigned times signed bytes. Of two signed bytes the first is taken
  with 128 added, of two unsigned ones the second with 128 taken away, and what that makes too much
  or too little is a dot product of the other operand alone, which the tiles of a product share.
* ``madd`` (every x86-64): the bytes with even and with odd places become two vectors of 16 bits,
  by shifts within their lanes, and ``pmaddwd`` sums products of pairs in 32 bits. The products of
  bytes in 16 bits (``pmaddubsw``) would saturate.
* ``dotprod`` (AArch64): one instruction where both operands are signed or both unsigned, and with
  ``i8mm`` where they differ; else as with ``vnni``.
* ``neon``: products of 16 bits, which hold every product of two bytes, summed in pairs.

All give the same bits: sums wrap around at 32 bits, and nothing saturates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from ...support.dtype import DType
from ...support.target import Target
from .llvm_types import Literal, int_vector, register_type, shuffle_mask, splat

I8 = ir.IntType(8)

Signs = tuple[bool, bool]
"""Whether the bytes of the first and of the second operand are signed."""


@dataclass(frozen=True)
class DotUnit:
    """What a CPU has for dot products of bytes: ``kind`` as in the module's list, empty for
    nothing; at most ``lanes`` sums at once; ``mixed`` says that signs may differ."""

    kind: str = ""
    lanes: int = 0
    mixed: bool = False


def dot_unit(target: Target) -> DotUnit:
    """The target's unit."""
    known = target.instructions
    mixed, same = (known.dot_product(x, "int8") for x in ("uint8", "int8"))
    lanes = target.vector_bits // 32
    if target.is_x86:
        return DotUnit("vnni", mixed.lanes, True) if mixed else DotUnit("madd", lanes)
    if not target.is_aarch64:
        return DotUnit()
    return DotUnit("dotprod", same.lanes, mixed is not None) if same else DotUnit("neon", lanes)


def interleave(b: ir.IRBuilder, parts: list[ir.Value], lanes: int) -> ir.Value:
    """Two or four vectors (or scalars) as one, the elements of a lane side by side."""
    if lanes == 1:
        result: ir.Value = Literal(ir.VectorType(parts[0].type, len(parts)), "poison")
        for t, part in enumerate(parts):
            result = b.insert_element(result, part, ir.Constant(ir.IntType(32), t))
        return result
    pair = shuffle_mask(tuple([x for j in range(lanes) for x in (j, lanes + j)]))
    low = b.shuffle_vector(parts[0], parts[1], pair)
    if len(parts) == 2:
        return low
    high = b.shuffle_vector(parts[2], parts[3], pair)
    quad = [x for j in range(lanes) for k in (0, 2 * lanes) for x in (k + 2 * j, k + 2 * j + 1)]
    return b.shuffle_vector(low, high, shuffle_mask(tuple(quad)))


def emit_dot4(
    b: ir.IRBuilder,
    total: ir.Value,
    operands: tuple[ir.Value, ir.Value],
    lanes: int,
    unit: DotUnit,
    signs: Signs,
) -> ir.Value:
    """``total`` plus the dot product of the bytes in each lane of ``operands``."""
    step = max([n for n in (4, 8, 16) if n <= unit.lanes], default=0)
    if step == 0 or lanes % 4:
        return _widened(b, total, operands, lanes, signs)

    def piece(sums: ir.Value, first: ir.Value, second: ir.Value, count: int) -> ir.Value:
        return _piece(b, sums, (first, second), count, unit, signs)

    return by_pieces(b, total, operands, lanes, step, piece)


Piece = Callable[[ir.Value, ir.Value, ir.Value, int], ir.Value]


def by_pieces(
    b: ir.IRBuilder,
    total: ir.Value,
    operands: tuple[ir.Value, ir.Value],
    lanes: int,
    most: int,
    piece: Piece,
) -> ir.Value:
    """``total``, of a multiple of four ``lanes``, and the elements that belong to them, by pieces
    of ``most`` lanes or as many as divide them."""
    step = next(n for n in (most, 8, 4) if n <= most and lanes % n == 0)
    group = operands[0].type.count // lanes
    pieces = []
    for at in range(0, lanes, step):
        first, second = (_slice(b, v, group * at, group * step, group * lanes) for v in operands)
        pieces.append(piece(_slice(b, total, at, step, lanes), first, second, step))
    result, width = pieces[0], step
    for other in pieces[1:]:
        # Both operands of a shuffle have one type: the new piece is widened first.
        spread = tuple([min(j, step - 1) for j in range(width)])
        wide = b.shuffle_vector(other, other, shuffle_mask(spread)) if width != step else other
        lanes_of = tuple([*range(width), *range(width, width + step)])
        result = b.shuffle_vector(result, wide, shuffle_mask(lanes_of))
        width += step
    return result


def _slice(b: ir.IRBuilder, value: ir.Value, start: int, count: int, whole: int) -> ir.Value:
    if count == whole:
        return value
    return b.shuffle_vector(value, value, shuffle_mask(tuple(range(start, start + count))))


def _piece(
    b: ir.IRBuilder,
    total: ir.Value,
    operands: tuple[ir.Value, ir.Value],
    lanes: int,
    unit: DotUnit,
    signs: Signs,
) -> ir.Value:
    """As many lanes as one instruction has."""
    if signs == (False, True) or signs[0] == signs[1]:
        first, second = operands
    else:  # The unsigned operand is the first of an instruction.
        second, first = operands
    mixed = signs[0] != signs[1]
    match unit.kind:
        case "vnni":
            name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
            if mixed:
                return _call(b, name, total, first, second)
            fill = int_vector(8, [-128] * (4 * lanes))
            if signs[0]:
                sums = _call(b, name, total, _turned(b, first, lanes), second)
                return b.sub(sums, _call(b, name, _zeros(total), fill, second))
            sums = _call(b, name, total, first, _turned(b, second, lanes))
            return b.sub(sums, _call(b, name, _zeros(total), first, fill))
        case "dotprod":
            if not mixed:
                word = "sdot" if signs[0] else "udot"
                return _call(b, f"llvm.aarch64.neon.{word}.v4i32.v16i8", total, first, second)
            if unit.mixed:
                return _call(b, "llvm.aarch64.neon.usdot.v4i32.v16i8", total, first, second)
            name = "llvm.aarch64.neon.sdot.v4i32.v16i8"
            fill = int_vector(8, [-128] * (4 * lanes))
            sums = _call(b, name, total, _turned(b, first, lanes), second)
            return b.sub(sums, _call(b, name, _zeros(total), fill, second))
        case _:
            halves = [_halves(b, v, 2 * lanes, s) for v, s in zip(operands, signs, strict=True)]
            for x, y in zip(*halves, strict=True):
                total = b.add(total, _pairs(b, x, y, total.type, lanes, unit, signs))
            return total


def _turned(b: ir.IRBuilder, value: ir.Value, lanes: int) -> ir.Value:
    """Bytes with 128 added, or taken away: it is the same. Four that stand in every lane are turned
    before they are spread, as LLVM's code generator does not come to an end otherwise."""
    word = _spread_word(value)
    if word is None:
        return b.xor(value, int_vector(8, [-128] * (4 * lanes)))
    turned = b.xor(word, ir.Constant(word.type, -0x7F7F7F80))
    return b.bitcast(splat(b, turned, lanes), value.type)


def _spread_word(value: ir.Value) -> ir.Value | None:
    """The 32 bits that a vector of bytes has in every lane, if it is a splat of them."""
    if not isinstance(value, ir.CastInstr) or not isinstance(value.operands[0], ir.ShuffleVector):
        return None
    inserted = value.operands[0].operands[0]
    if not isinstance(inserted, ir.InsertElement) or inserted.operands[1].type != ir.IntType(32):
        return None
    return inserted.operands[1]


def _halves(b: ir.IRBuilder, value: ir.Value, count: int, signed: bool) -> list[ir.Value]:
    """The bytes at even and at odd places, as ``count`` integers of 16 bits each."""
    pairs = b.bitcast(value, ir.VectorType(ir.IntType(16), count))
    eight = int_vector(16, [8] * count)
    if signed:
        return [b.ashr(b.shl(pairs, eight), eight), b.ashr(pairs, eight)]
    return [b.and_(pairs, int_vector(16, [255] * count)), b.lshr(pairs, eight)]


def _pairs(
    b: ir.IRBuilder,
    x: ir.Value,
    y: ir.Value,
    result: ir.Type,
    lanes: int,
    unit: DotUnit,
    signs: Signs,
) -> ir.Value:
    """The sums of the products of neighbouring 16-bit integers, which are bytes."""
    if unit.kind == "neon":
        word = "saddlp" if any(signs) else "uaddlp"
        return call_as(b, f"llvm.aarch64.neon.{word}.v4i32.v8i16", result, b.mul(x, y))
    return call_as(b, madd_name(lanes), result, x, y)


def madd_name(lanes: int) -> str:
    """LLVM's name of ``pmaddwd`` for so many sums."""
    return {
        4: "llvm.x86.sse2.pmadd.wd",
        8: "llvm.x86.avx2.pmadd.wd",
        16: "llvm.x86.avx512.pmaddw.d.512",
    }[lanes]


def _zeros(like: ir.Value) -> ir.Value:
    return ir.Constant(like.type, None)


def _call(b: ir.IRBuilder, name: str, total: ir.Value, *operands: ir.Value) -> ir.Value:
    return call_as(b, name, total.type, total, *operands)


def call_as(b: ir.IRBuilder, name: str, result: ir.Type, *operands: ir.Value) -> ir.Value:
    function = b.module.globals.get(name)
    if function is None:
        kinds = [v.type for v in operands]
        function = ir.Function(b.module, ir.FunctionType(result, kinds), name)
    return b.call(function, operands)


def _widened(
    b: ir.IRBuilder,
    total: ir.Value,
    operands: tuple[ir.Value, ir.Value],
    lanes: int,
    signs: Signs,
) -> ir.Value:
    wide = register_type(DType("int32").with_lanes(lanes))
    for t in range(4):
        x, y = (
            (b.sext if signed else b.zext)(_byte(b, v, t, lanes), wide)
            for v, signed in zip(operands, signs, strict=True)
        )
        total = b.add(total, b.mul(x, y))
    return total


def _byte(b: ir.IRBuilder, value: ir.Value, t: int, lanes: int) -> ir.Value:
    if lanes == 1:
        return b.extract_element(value, ir.Constant(ir.IntType(32), t))
    return b.shuffle_vector(value, value, shuffle_mask(tuple(range(t, 4 * lanes, 4))))

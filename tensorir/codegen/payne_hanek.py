"""Reduction modulo pi/2 of arguments of any size, after Payne and Hanek (1983), in float64 lanes.

    x = M 2**q, M an integer of 53 bits:    x 2/pi mod 4 = M * (2**q 2/pi mod 4) mod 4

Bits of ``2**q 2/pi`` of weight 4 and more contribute multiples of 4, so a window of 216 bits of
2/pi that begins at weight 2 is enough: 140 bits of the product come out right, and no double comes
closer to a multiple of pi/2 than 2**-62. The bits stand in a constant byte array, lowest first; q
is split into bytes (the window's address) and the rest (a shift of M). M and the window are cut
into digits of 24 bits, whose products and their sums are exact doubles. The only table of this
folder: it serves arguments that no shorter way can serve.

All this is some hundred instructions a vector that hardly anybody runs, so it is a function of its
own, one for each width up to ``_MOST_LANES`` in a module: a short row of sines, all whose vectors
are written out, holds calls of it and not copies.
"""

from __future__ import annotations

import math
from fractions import Fraction

import llvmlite.ir as ir

from ...support.dtype import DType
from .lanes import PI, Lanes

_SMALLEST = 2.0**20
_DIGIT = 24
_WINDOW = 9
_KEPT = 7
_TABLE_BITS = 1182
"""Bits of 2/pi in the table: 6 modulo 8, so that digits begin at bytes, and enough for 2**1023."""
_TABLE_BYTES = 152
_TABLE_NAME = "burnish.two_over_pi"
_FUNCTION_NAME = "burnish.reduce_large"
_MOST_LANES = 8


def _arctan_inverse(x: int, bits: int) -> int:
    """``atan(1 / x) * 2**bits``, by the power series."""
    term = (1 << bits) // x
    total, n, sign = term, 1, 1
    while term:
        term //= x * x
        n, sign = n + 2, -sign
        total += sign * (term // n)
    return total


def two_over_pi() -> bytes:
    """``floor(2/pi * 2**1182)`` as bytes, lowest first, by Machin's formula with 64 guard bits."""
    bits = _TABLE_BITS + 64
    pi = 4 * (4 * _arctan_inverse(5, bits) - _arctan_inverse(239, bits))
    return ((2 << (bits + _TABLE_BITS)) // pi).to_bytes(_TABLE_BYTES, "little")


def _table(module: ir.Module) -> ir.GlobalVariable:
    known = module.globals.get(_TABLE_NAME)
    if isinstance(known, ir.GlobalVariable):
        return known
    kind = ir.ArrayType(ir.IntType(8), _TABLE_BYTES)
    table = ir.GlobalVariable(module, kind, _TABLE_NAME)
    table.initializer = ir.Constant(kind, bytearray(two_over_pi()))
    table.global_constant, table.linkage, table.unnamed_addr = True, "internal", True
    return table


def _load_words(wide: Lanes, offsets: ir.Value) -> ir.Value:
    """The 32-bit words at byte offsets of the table, zero-extended."""
    builder, lanes = wide.builder, wide.dtype.lanes
    table = builder.ptrtoint(_table(builder.module), ir.IntType(64))
    word = ir.IntType(32)
    if lanes == 1:
        pointer = builder.inttoptr(builder.add(table, offsets), ir.PointerType())
        loaded = builder.load(pointer, typ=word)
        loaded.align = 1
        return builder.zext(loaded, wide.int_type)
    words: ir.Value = ir.Constant(ir.VectorType(word, lanes), ir.Undefined)
    for lane in range(lanes):
        index = ir.Constant(word, lane)
        address = builder.add(table, builder.extract_element(offsets, index))
        loaded = builder.load(builder.inttoptr(address, ir.PointerType()), typ=word)
        loaded.align = 1
        words = builder.insert_element(words, loaded, index)
    return builder.zext(words, wide.int_type)


def _digit(wide: Lanes, bits: ir.Value) -> ir.Value:
    """The lowest 24 bits of an integer, as a float."""
    builder = wide.builder
    low = builder.and_(bits, wide.int_const((1 << _DIGIT) - 1))
    magic = (wide.mantissa + wide.bias) << wide.mantissa
    as_float = wide.from_bits(builder.or_(low, wide.int_const(magic)))
    return wide.sub(as_float, wide.const(2.0**wide.mantissa))


def _product_digits(wide: Lanes, size: ir.Value) -> list[ir.Value]:
    """``size * 2/pi mod 4`` as exact integral doubles q[d] of weight ``2**(2 - 24 (d + 1))``, d in
    [0, 7), for finite ``size >= 2**20``."""
    builder = wide.builder
    bits = wide.to_bits(size)
    exponent = wide.shift_right(bits, wide.mantissa)
    # q + 64, positive: size = M * 2**(exponent - bias - 52).
    raised = builder.sub(exponent, wide.int_const(wide.bias + wide.mantissa - 64))
    byte = builder.sub(wide.shift_right(raised, 3), wide.int_const(8))
    implicit = 1 << wide.mantissa
    m = builder.or_(
        builder.and_(bits, wide.int_const(implicit - 1)),
        wide.int_const(implicit),
    )
    m = builder.shl(m, builder.and_(raised, wide.int_const(7)))
    m_digits = [_digit(wide, wide.shift_right(m, _DIGIT * j)) for j in range(3)]
    first = builder.sub(wide.int_const((_TABLE_BITS - 22) // 8), byte)
    window = [
        _digit(wide, _load_words(wide, builder.sub(first, wide.int_const(3 * i))))
        for i in range(_WINDOW)
    ]
    out = []
    for d in range(_KEPT):
        total = wide.mul(m_digits[0], window[d])
        total = wide.fma(m_digits[1], window[d + 1], total)
        out.append(wide.fma(m_digits[2], window[d + 2], total))
    return out


def reduce_large(wide: Lanes, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """``(high, low, n as bits)`` with ``x = n pi/2 + high + low`` modulo 2 pi, ``|high| <= pi/4``.

    Meaningful for ``|x| >= 2**20``; NaN for infinities and NaN; anything for smaller x. Calls a
    function of the module, for a wide vector one after the other of its parts.
    """
    lanes = wide.dtype.lanes
    size = _MOST_LANES if lanes % _MOST_LANES == 0 and lanes.bit_count() == 1 else lanes
    function = _function(wide.builder.module, size)
    parts: list[list[ir.Value]] = [[], [], []]
    for start in range(0, lanes, size):
        piece = x if size == lanes else wide.part(x, start, size)
        found = wide.builder.call(function, [piece])
        for k, values in enumerate(parts):
            values.append(wide.builder.extract_value(found, k))
    high, low, n = (wide.joined(values) for values in parts)
    return high, low, n


def _function(module: ir.Module, lanes: int) -> ir.Function:
    """The function of a module that reduces so many lanes."""
    name = f"{_FUNCTION_NAME}.{lanes}"
    known = module.globals.get(name)
    if isinstance(known, ir.Function):
        return known
    dtype = DType("float64").with_lanes(lanes)
    shape = Lanes(ir.IRBuilder(), dtype)
    kinds = [shape.float_type, shape.float_type, shape.int_type]
    result = ir.LiteralStructType(kinds)
    function = ir.Function(module, ir.FunctionType(result, kinds[:1]), name)
    function.linkage = "internal"
    for attribute in ("nounwind", "noinline", "cold"):
        function.attributes.add(attribute)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    value: ir.Value = ir.Constant(result, ir.Undefined)
    for k, part in enumerate(_reduce_large(Lanes(builder, dtype), function.args[0])):
        value = builder.insert_value(value, part, k)
    builder.ret(value)
    return function


def _reduce_large(wide: Lanes, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """What ``reduce_large`` says, written out."""
    size = wide.abs(x)
    finite = wide.compare("<", size, wide.const(math.inf))
    usable = wide.compare(">=", size, wide.const(_SMALLEST))
    usable = wide.builder.and_(finite, usable)
    digits = _product_digits(wide, wide.select(usable, size, wide.const(_SMALLEST)))
    base, inverse = wide.const(2.0**_DIGIT), wide.const(2.0**-_DIGIT)
    for d in range(_KEPT - 1, -1, -1):
        carry = wide.round_integral(wide.mul(digits[d], inverse))
        digits[d] = wide.sub(digits[d], wide.mul(carry, base))
        if d:
            digits[d - 1] = wide.add(digits[d - 1], carry)
    n = wide.round_integral(wide.mul(digits[0], wide.const(2.0**-22)))
    digits[0] = wide.sub(digits[0], wide.mul(n, wide.const(2.0**22)))
    # Pairs of neighbouring digits add exactly; the last digit only guards the others.
    weighted = [
        wide.mul(digit, wide.const(2.0 ** (2 - _DIGIT * (d + 1)))) for d, digit in enumerate(digits)
    ]
    pairs = [wide.add(weighted[d], weighted[d + 1]) for d in range(0, _KEPT - 1, 2)]
    high, low = wide.two_sum(pairs[0], pairs[1])
    high, low = wide.fast_two_sum(high, wide.add(low, wide.add(pairs[2], weighted[6])))
    half_pi, half_pi_low = (wide.const(p) for p in wide.pieces(PI / Fraction(2), [53]))
    r, error = wide.two_product(high, half_pi)
    error = wide.fma(high, half_pi_low, error)
    r_low = wide.fma(low, half_pi, error)
    sign = wide.copysign(wide.const(1.0), x)
    r = wide.select(finite, wide.mul(r, sign), wide.const(math.nan))
    magic = wide.const(1.5 * 2.0**wide.mantissa)
    return r, wide.mul(r_low, sign), wide.to_bits(wide.fma(n, sign, magic))

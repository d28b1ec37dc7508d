"""fmod: the exact remainder of a truncated division, by long division in base 2**22.

Each round subtracts ``q * (b * 2**k)`` with k chosen so that the quotient's digit q stays below
2**24, which makes both products with the halves of the divisor, and both differences, exact:

    r = |x|;   do  k = max(exponent(r) - exponent(b) - 22, 0);   r -= round(r / (b 2**k)) b 2**k
               while some lane had k > 0;                        if r < 0: r += b

One round is enough for quotients below some 2**22. float32 is divided in float64, and where all
quotients of a vector are below 2**22 without that loop: the float32 quotient rounds to at most one
too many, its product with the divisor has 46 bits, and so ``x - q * b`` is exact in float64. Like
``sin``, ``fmod`` leaves the builder in another basic block than it found it in.
"""

from __future__ import annotations

import math

import llvmlite.ir as ir

from .lanes import Lanes
from .math_exp import scaled

_DIGIT = 22


def fmod(lanes: Lanes, x: ir.Value, y: ir.Value) -> ir.Value:
    """``x - trunc(x / y) * y`` without any rounding, with the sign of x. NaN for an infinite x and
    for ``y == 0``; x itself for an infinite y."""
    if lanes.bits == 32:
        return _fmod_32(lanes, x, y)
    infinity, one = lanes.const(math.inf), lanes.const(1.0)
    a, b = lanes.abs(x), lanes.abs(y)
    x_finite = lanes.compare("<", a, infinity)
    positive = lanes.compare(">", b, lanes.const(0.0))
    usable = lanes.builder.and_(x_finite, lanes.compare("<", b, infinity))
    usable = lanes.builder.and_(usable, positive)
    a, b = lanes.select(usable, a, one), lanes.select(usable, b, one)
    rest = _divide(lanes, a, b)
    rest = lanes.select(lanes.compare("<", rest, lanes.const(0.0)), lanes.add(rest, b), rest)
    # y is infinite or NaN: x, or NaN.
    beyond = lanes.select(lanes.compare("==", lanes.abs(y), infinity), x, lanes.const(math.nan))
    beyond = lanes.select(x_finite, beyond, lanes.const(math.nan))
    return lanes.select(usable, lanes.copysign(rest, x), beyond)


def _fmod_32(lanes: Lanes, x: ir.Value, y: ir.Value) -> ir.Value:
    """By the quotient itself, and by ``fmod`` in float64 where a lane's is too large for that (or
    no number)."""
    builder, wide = lanes.builder, lanes.widened()
    a, b = lanes.abs(x), lanes.abs(y)
    quotient = lanes.div(a, b)
    small = lanes.compare("<", quotient, lanes.const(2.0**_DIGIT))
    small = builder.and_(small, lanes.compare("<", b, lanes.const(math.inf)))
    nearest = lanes.round_integral(quotient)
    above = lanes.compare(">", nearest, quotient)
    q = lanes.select(above, lanes.sub(nearest, lanes.const(1.0)), nearest)
    product = wide.mul(wide.extend(q), wide.extend(b))
    rest = lanes.truncate(wide.sub(wide.extend(a), product))
    rest = lanes.select(lanes.compare("<", rest, lanes.const(0.0)), lanes.add(rest, b), rest)
    quick = lanes.copysign(rest, x)

    before = builder.block
    large = builder.append_basic_block("fmod.large")
    done = builder.append_basic_block("fmod.all")
    builder.cbranch(lanes.any(builder.not_(small)), large, done)
    builder.position_at_end(large)
    exact = lanes.truncate(fmod(wide, wide.extend(x), wide.extend(y)))
    after = builder.block
    builder.branch(done)
    builder.position_at_end(done)
    result = builder.phi(lanes.float_type)
    result.add_incoming(quick, before)
    result.add_incoming(exact, after)
    return result


def _divide(lanes: Lanes, a: ir.Value, b: ir.Value) -> ir.Value:
    """A number of size at most about ``b / 2`` that differs from a by a multiple of b."""
    builder = lanes.builder
    normal, lowered, exponent = _normalised(lanes, b)

    before = builder.block
    head = builder.append_basic_block("fmod")
    done = builder.append_basic_block("fmod.done")
    builder.branch(head)
    builder.position_at_end(head)
    rest = builder.phi(lanes.float_type)
    rest.add_incoming(a, before)
    _, _, rest_exponent = _normalised(lanes, lanes.abs(rest))
    k = builder.sub(builder.sub(rest_exponent, exponent), lanes.int_const(_DIGIT))
    again = builder.icmp_signed(">", k, lanes.int_const(0))
    k = builder.select(again, k, lanes.int_const(0))
    bits = builder.add(builder.sub(k, lowered), lanes.int_const(2 * lanes.bias))
    divisor = scaled(lanes, normal, bits)
    high = lanes.masked(divisor, 27)
    low = lanes.sub(divisor, high)
    digit = lanes.neg(lanes.round_integral(lanes.div(rest, divisor)))
    following = lanes.fma(digit, low, lanes.fma(digit, high, rest))
    rest.add_incoming(following, builder.block)
    builder.cbranch(lanes.any(again), head, done)
    builder.position_at_end(done)
    return following


def _normalised(lanes: Lanes, size: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """``(size * 2**shift, shift, biased exponent of size)`` of a non-negative value, with a shift
    that makes denormals normal; zero gets an exponent below all others."""
    builder = lanes.builder
    scale = lanes.mantissa + 2
    tiny = lanes.compare("<", size, lanes.const(math.ldexp(1.0, 1 - lanes.bias)))
    normal = lanes.select(tiny, lanes.mul(size, lanes.const(2.0**scale)), size)
    shift = builder.select(tiny, lanes.int_const(scale), lanes.int_const(0))
    field = lanes.shift_right(lanes.to_bits(normal), lanes.mantissa)
    return normal, shift, builder.sub(field, shift)

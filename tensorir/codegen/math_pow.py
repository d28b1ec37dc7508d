"""pow and rsqrt.

``|x| ** y = 2 ** (y log2 |x|)``. The product may be 1000 times as large as its last bit may be
wrong, so the logarithm needs ten bits more than the format has. float32 computes it in float64,
with polynomials as short as that allows, and decides its special cases in float32; float64 as an
unevaluated sum of two doubles (Dekker's arithmetic, which needs no fma):

    s = f / (2 + f),  log(1 + f) = 2s + s z (2/3 + z T(z)),  z = s*s

with s, z, ``2/3 + z T`` and all products as sums of two. Signs and special values are those of C99.
"""

from __future__ import annotations

import math
from fractions import Fraction

import llvmlite.ir as ir

from .lanes import LOG2_E, Lanes
from .math_exp import exp2_polynomial, scaled
from .math_log import decompose, normal

Pair = tuple[ir.Value, ir.Value]

# log2((1 + s) / (1 - s)) / s in s**2, |s| <= 0.1716, and (2**r - 1) / r, |r| <= 1/2; relative
# errors of the logarithm and of the power below 2**-45 and 2**-32.
_LOG2_SHORT = (
    2.885390081777851,
    0.9617966941122649,
    0.5770779426603044,
    0.41220922406110433,
    0.31990680380701336,
    0.28288502340748234,
)
_EXP2_SHORT = (
    0.6931471805599453,
    0.24022650922288757,
    0.055504108839096185,
    0.009618056678524637,
    0.001333350238616277,
    0.0001546144469856913,
    1.5297323760701075e-05,
)

# ((log((1 + s) / (1 - s)) / s - 2) / z - 2/3) / z, z = s**2; relative error of the log below
# 2**-73.
_TAIL = (
    0.3999999999999998,
    0.28571428571443835,
    0.2222222221779078,
    0.18181818843966263,
    0.15384558422364475,
    0.13336265042657838,
    0.11675763797698477,
    0.1198193971520313,
)


def rsqrt(lanes: Lanes, x: ir.Value) -> ir.Value:
    """``1 / sqrt(x)``, two correctly rounded steps."""
    return lanes.div(lanes.const(1.0), lanes.sqrt(x))


def _times(lanes: Lanes, a: Pair, b: Pair) -> Pair:
    product, error = lanes.two_product(a[0], b[0])
    error = lanes.fma(a[0], b[1], error)
    error = lanes.fma(a[1], b[0], error)
    return lanes.fast_two_sum(product, error)


def _plus(lanes: Lanes, a: Pair, b: Pair) -> Pair:
    total, error = lanes.two_sum(a[0], b[0])
    return lanes.fast_two_sum(total, lanes.add(error, lanes.add(a[1], b[1])))


def _pair(lanes: Lanes, value: Fraction) -> Pair:
    high, low = lanes.pieces(value, [53])
    return lanes.const(high), lanes.const(low)


def _log2_pair(lanes: Lanes, x: ir.Value) -> Pair:
    """``log2(x)`` of a positive finite x, to some 68 bits."""
    scaled_x, offset = normal(lanes, x)
    m, _, exponent = decompose(lanes, scaled_x)
    k = lanes.sub(exponent, offset)
    f = lanes.sub(m, lanes.const(1.0))
    bottom, bottom_low = lanes.fast_two_sum(lanes.const(2.0), f)
    s = lanes.div(f, bottom)
    product, error = lanes.two_product(s, bottom)
    rest = lanes.sub(lanes.sub(lanes.sub(f, product), error), lanes.mul(s, bottom_low))
    s_pair = (s, lanes.div(rest, bottom))
    z = _times(lanes, s_pair, s_pair)
    third, third_low = _pair(lanes, Fraction(2, 3))
    series, series_low = lanes.fast_two_sum(third, lanes.mul(z[0], lanes.poly(z[0], _TAIL)))
    tail = _times(lanes, z, (series, lanes.add(series_low, third_low)))
    total = _plus(lanes, (lanes.const(2.0), lanes.const(0.0)), tail)
    logarithm = _times(lanes, _times(lanes, s_pair, total), _pair(lanes, LOG2_E))
    return _plus(lanes, (k, lanes.const(0.0)), logarithm)


def _power_32(lanes: Lanes, a: ir.Value, y: ir.Value) -> ir.Value:
    """``a ** y`` for finite a > 0 in float32, through float64; rounded once."""
    wide = lanes.widened()
    scaled_a, offset = normal(lanes, a)
    m, _, exponent = decompose(lanes, scaled_a)
    k = wide.extend(lanes.sub(exponent, offset))
    f = wide.extend(lanes.sub(m, lanes.const(1.0)))
    s = wide.div(f, wide.add(f, wide.const(2.0)))
    logarithm = wide.fma(s, wide.poly(wide.mul(s, s), _LOG2_SHORT), k)
    product = wide.mul(logarithm, wide.extend(y))
    limited = wide.at_most(wide.at_least(product, -160.0), 130.0)
    magic = wide.const(1.5 * 2.0**wide.mantissa + wide.bias)
    shifted = wide.add(limited, magic)
    r = wide.sub(limited, wide.sub(shifted, magic))
    value = wide.fma(wide.poly(r, _EXP2_SHORT), r, wide.const(1.0))
    power = wide.from_bits(wide.shift_left(wide.to_bits(shifted), wide.mantissa))
    return lanes.truncate(wide.mul(value, power))


def _power_64(lanes: Lanes, a: ir.Value, y: ir.Value) -> ir.Value:
    """``a ** y`` for finite a > 0 in float64."""
    high, low = _log2_pair(lanes, a)
    product, error = lanes.two_product(high, y)
    error = lanes.fma(low, y, error)
    limited = lanes.at_most(lanes.at_least(product, -1080.0), 1026.0)
    inside = lanes.compare("==", limited, product)
    error = lanes.select(inside, error, lanes.const(0.0))
    magic = lanes.const(1.5 * 2.0**lanes.mantissa + 2 * lanes.bias)
    shifted = lanes.add(limited, magic)
    r = lanes.add(lanes.sub(limited, lanes.sub(shifted, magic)), error)
    return scaled(lanes, exp2_polynomial(lanes, r), lanes.to_bits(shifted))


def _parity(lanes: Lanes, y: ir.Value) -> tuple[ir.Value, ir.Value]:
    """``(y is integral, y is odd)``; infinities count as even."""
    builder = lanes.builder
    size = lanes.abs(y)
    # Non-negative values below 2 addends round by a smaller addend than round_integral's.
    addend = lanes.const(2.0**lanes.mantissa)

    def is_whole(value: ir.Value) -> ir.Value:
        return lanes.compare("==", lanes.sub(lanes.add(value, addend), addend), value)

    large = lanes.compare(">=", size, addend)
    whole, even = is_whole(size), is_whole(lanes.mul(size, lanes.const(0.5)))
    integral = builder.or_(large, whole)
    small = lanes.compare("<", size, lanes.const(2.0 ** (lanes.mantissa + 1)))
    return integral, builder.and_(builder.and_(integral, small), builder.not_(even))


def pow_(lanes: Lanes, x: ir.Value, y: ir.Value) -> ir.Value:
    """``x ** y``; a negative x with a y that is no integer gives NaN, ``1 ** y`` and ``x ** 0`` are
    1 whatever the other is."""
    builder, select, compare = lanes.builder, lanes.select, lanes.compare
    zero, one, infinity = lanes.const(0.0), lanes.const(1.0), lanes.const(math.inf)
    a = lanes.abs(x)
    value = (_power_32 if lanes.bits == 32 else _power_64)(lanes, a, y)
    integral, odd = _parity(lanes, y)
    # |x| at the ends of the line: 0 or infinity by the sign of y.
    at_zero, at_infinity = compare("==", a, zero), compare("==", a, infinity)
    falls = builder.xor(at_infinity, compare("<", y, zero))
    value = select(builder.or_(at_zero, at_infinity), select(falls, infinity, zero), value)
    value = select(compare("==", a, one), one, value)
    value = select(
        builder.and_(odd, compare("<", lanes.copysign(one, x), zero)), lanes.neg(value), value
    )
    outside = builder.and_(compare("<", x, zero), builder.not_(builder.or_(integral, at_infinity)))
    value = select(outside, lanes.const(math.nan), value)
    value = select(builder.fcmp_ordered("ord", x, y), value, lanes.add(x, y))
    return select(builder.or_(compare("==", x, one), compare("==", y, zero)), one, value)

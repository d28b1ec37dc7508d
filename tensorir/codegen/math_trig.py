"""sin, cos and tan: reduction modulo pi/2, then two short polynomials.

    x = n pi/2 + r,  |r| <= pi/4,    sin(x) = one of sin(r), cos(r), -sin(r), -cos(r) by n mod 4

Below ``2**20 pi/2`` pi/2 is cut into pieces of 33 bits (Cody and Waite), so that ``n * piece`` is
exact with fma and without; float32 is reduced in float64, where two pieces leave r right to far
below its last bit however close x is to a multiple of pi/2. Larger arguments take the reduction of
``payne_hanek``, in a block of its own that is entered only if some lane needs it. tan of float32 is
a quotient of polynomials in float64 too: rounded but once.

These three leave the builder in another basic block than they found it in.
"""

from __future__ import annotations

from fractions import Fraction

import llvmlite.ir as ir

from .lanes import PI, Lanes
from .payne_hanek import reduce_large

_LIMIT = 2.0**20
# (sin(r) / r - 1) / r**2 and (cos(r) - 1 + r**2 / 2) / r**4 in r**2, |r| <= pi/4; relative error
# below 2**-28 and 2**-33 in float32, 2**-58 and 2**-64 in float64.
_SIN = {
    32: (-0.16666655, 0.008332192, -0.00019518782),
    64: (
        -0.16666666666666632,
        0.008333333333322488,
        -0.00019841269829855466,
        2.755731370585807e-06,
        -2.5050760010977726e-08,
        1.5896893097201868e-10,
    ),
}
_COS = {
    32: (0.041666646, -0.0013887301, 2.4430698e-05),
    64: (
        0.0416666666666666,
        -0.0013888888888874472,
        2.480158728966916e-05,
        -2.7557314400097927e-07,
        2.087572912525371e-09,
        -1.1359924801039257e-11,
    ),
}
# tan(r) / r as a quotient in r**2, |r| <= pi/4; relative error below 2**-35.
_TAN_TOP = (1.0, -0.11135504734488293, 0.0010747113376474635)
_TAN_BOTTOM = (1.0, -0.44468837949135676, 0.01597082049215126)


def _reduce_small(wide: Lanes, x: ir.Value, whole: bool) -> tuple[ir.Value, ir.Value, ir.Value]:
    """``(high, low, n as bits)``: ``x - n pi/2`` as an unevaluated sum, for ``|x| < 2**20 pi/2``;
    ``low`` is 0 where not the ``whole`` of it is wanted, as x is of float32."""
    first, second, third, rest = wide.pieces(PI / 2, [33, 33, 33])
    magic = wide.const(1.5 * 2.0**wide.mantissa)
    shifted = wide.fma(x, wide.const(Fraction(2) / PI), magic)
    n = wide.sub(shifted, magic)
    r = wide.fma(n, wide.const(-first), x)
    if not whole:
        r = wide.fma(n, wide.const(-float(PI / 2 - Fraction(first))), r)
        return r, wide.const(0.0), wide.to_bits(shifted)
    high, low = wide.two_sum(r, wide.mul(n, wide.const(-second)))
    high, more = wide.two_sum(high, wide.mul(n, wide.const(-third)))
    low = wide.fma(n, wide.const(-rest), wide.add(low, more))
    high, low = wide.fast_two_sum(high, low)
    return high, low, wide.to_bits(shifted)


def _reduced(wide: Lanes, x: ir.Value, whole: bool) -> tuple[ir.Value, ir.Value, ir.Value]:
    """As ``_reduce_small`` for every x; infinities and NaN give NaN."""
    builder = wide.builder
    small = _reduce_small(wide, x, whole)
    large = builder.fcmp_unordered(">=", wide.abs(x), wide.const(_LIMIT))
    before = builder.block
    with builder.if_then(wide.any(large), likely=False):
        exact = reduce_large(wide, x)
        chosen = [builder.select(large, e, s) for e, s in zip(exact, small, strict=True)]
        inside = builder.block
    merged = []
    for here, there in zip(small, chosen, strict=True):
        phi = builder.phi(here.type)
        phi.add_incoming(here, before)
        phi.add_incoming(there, inside)
        merged.append(phi)
    return merged[0], merged[1], merged[2]


def sin_cos(lanes: Lanes, r: ir.Value, low: ir.Value | None) -> tuple[ir.Value, ir.Value]:
    """``(sin, cos)`` of ``r + low`` for ``|r| <= pi/4``."""
    z = lanes.mul(r, r)
    sine = lanes.mul(lanes.mul(z, r), lanes.poly(z, _SIN[lanes.bits]))
    cosine = lanes.mul(lanes.mul(z, z), lanes.poly(z, _COS[lanes.bits]))
    half = lanes.mul(z, lanes.const(0.5))
    one = lanes.const(1.0)
    top = lanes.sub(one, half)
    if low is not None:
        sine = lanes.fma(low, top, sine)
        cosine = lanes.sub(cosine, lanes.mul(low, r))
        # What 1 - z/2 lost.
        cosine = lanes.add(cosine, lanes.sub(lanes.sub(one, top), half))
    return lanes.add(r, sine), lanes.add(top, cosine)


def _quadrants(lanes: Lanes, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """``(sin r, cos r, n as integers of the format's width, whether n is odd)``."""
    builder = lanes.builder
    if lanes.bits == 64:
        high, low, n = _reduced(lanes, x, True)
        sine, cosine = sin_cos(lanes, high, low)
    else:
        wide = lanes.widened()
        high, _, n = _reduced(wide, wide.extend(x), False)
        sine, cosine = sin_cos(lanes, lanes.truncate(high), None)
        n = builder.trunc(n, lanes.int_type)
    return sine, cosine, n, _is_odd(lanes, n)


def _is_odd(lanes: Lanes, n: ir.Value) -> ir.Value:
    builder = lanes.builder
    return builder.icmp_signed("!=", builder.and_(n, lanes.int_const(1)), lanes.int_const(0))


def in_quadrant(lanes: Lanes, sine: ir.Value, cosine: ir.Value, n: ir.Value) -> ir.Value:
    """The sine of ``r + n pi/2`` from those of r."""
    return _negated_where(lanes, lanes.select(_is_odd(lanes, n), cosine, sine), n)


def _negated_where(lanes: Lanes, value: ir.Value, n: ir.Value) -> ir.Value:
    """``value`` with its sign changed where bit 1 of n is set."""
    builder = lanes.builder
    sign = lanes.shift_left(builder.and_(n, lanes.int_const(2)), lanes.bits - 2)
    return lanes.from_bits(builder.xor(lanes.to_bits(value), sign))


def sin(lanes: Lanes, x: ir.Value) -> ir.Value:
    sine, cosine, n, odd = _quadrants(lanes, x)
    value = _negated_where(lanes, lanes.select(odd, cosine, sine), n)
    # The reduction turns -0 into 0.
    zero = lanes.const(0.0)
    return lanes.select(lanes.compare("==", x, zero), x, value)


def cos(lanes: Lanes, x: ir.Value) -> ir.Value:
    sine, cosine, n, odd = _quadrants(lanes, x)
    turned = lanes.builder.add(n, lanes.int_const(1))
    return _negated_where(lanes, lanes.select(odd, sine, cosine), turned)


def tan(lanes: Lanes, x: ir.Value) -> ir.Value:
    """Sine over cosine, or the like; where n is odd, the negative inverse."""
    if lanes.bits == 64:
        sine, cosine, _, odd = _quadrants(lanes, x)
        return _tan(lanes, x, sine, cosine, odd)
    wide = lanes.widened()
    x = wide.extend(x)
    r, _, n = _reduced(wide, x, False)
    z = wide.mul(r, r)
    sine, cosine = wide.mul(r, wide.poly(z, _TAN_TOP)), wide.poly(z, _TAN_BOTTOM)
    return lanes.truncate(_tan(wide, x, sine, cosine, _is_odd(wide, n)))


def _tan(lanes: Lanes, x: ir.Value, sine: ir.Value, cosine: ir.Value, odd: ir.Value) -> ir.Value:
    top = lanes.select(odd, lanes.neg(cosine), sine)
    value = lanes.div(top, lanes.select(odd, sine, cosine))
    return lanes.select(lanes.compare("==", x, lanes.const(0.0)), x, value)

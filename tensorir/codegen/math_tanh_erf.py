"""tanh, erf and erfc: saturating functions, most of them through the exponential's core.

* ``tanh(x) = t / (t + 2)`` with ``t = exp(2 |x|) - 1``: well conditioned from zero to saturation.
* ``erf(x) = g - 4/27 g**3`` in float32, with ``g = x P(x*x) / Q(x*x)``: the cubic is flat where it
  is 1 (``g = 3/2``), so that it forgives the errors of a quotient where erf saturates and all the
  terms of P and Q count. Few operations, and few values at a time. P and Q: least relative error of
  erf (Lawson's weights), coefficients rounded one after the other, then moved by units in their
  last places while the largest error of the code itself fell.
* ``erf(x) = 1 - exp(-q)`` in float64, with ``q = -log(erfc(|x|))``, a smooth function that is
  nearly a parabola: ``q = a (c0 + a R(a))``, ``c0 = 2 / sqrt(pi)``. An error in q is damped by
  ``q / (exp(q) - 1)``, so R needs few terms where erf saturates, and there is one formula for the
  whole line.
* ``erfc(a) = exp(-a*a) G(y) / (1 + 2a)`` with ``y = (a - 4) / (a + 4)`` (after Shepherd and
Laframboise,
  1981), ``a*a`` as an unevaluated sum. float32 goes through float64, where ``a*a`` is exact, with
  a quotient of polynomials for the rest.
"""

from __future__ import annotations

from fractions import Fraction

import llvmlite.ir as ir

from .lanes import LOG2_E, Lanes
from .math_exp import (
    LOWEST,
    exp_polynomial,
    expm1_polynomial,
    power_of_two,
    reduced,
    reduced_once,
    scaled,
)

_TWO_OVER_SQRT_PI = Fraction("1.12837916709551257389615890312154517168810125865799771368817")
_TANH_LIMIT = {32: 9.25, 64: 19.5}
_ERF_LIMIT = 4.1
_ERF_TOP = (0.014468472, 0.0058468715, -0.00014654413)
_ERF_BOTTOM = (0.88622695, 0.14106436, 0.009540183, 0.0002129361, -1.19317265e-05)
"""P without its first coefficient, which is 1, and Q; relative error of erf below 2**-25."""
_ERF_MORE = 3.0041065e-08
"""What makes up for ``sqrt(pi) / 2``, which Q has rounded up: the slope at zero less 1."""
_WIDE_LIMIT, _WIDE_CENTRE = 5.9375, 2.9375
# (q(a) / a - c0) / a in a - centre; relative error of erf below 2**-57.
_WIDE = (
    0.8130233914422076,
    0.03236517009654093,
    -0.005469592941915144,
    0.0008724998499238745,
    -0.0001262059380136777,
    1.5228625645340583e-05,
    -1.1098534208403284e-06,
    -1.2034568619449357e-07,
    7.753885143260387e-08,
    -2.2260379247606068e-08,
    4.879085288236741e-09,
    -9.008373997391287e-10,
    1.4505874001819566e-10,
    1.0107707484164693e-12,
    4.824982476526258e-13,
    -3.9201295175861756e-12,
    -2.8756375502068285e-12,
    5.473976995464884e-14,
    5.236208868385994e-13,
    1.999970103943574e-13,
    -2.9532140147172216e-16,
    -1.8794811655731666e-14,
    -5.099979709943163e-15,
    -3.611539591795554e-16,
    5.674552495670953e-17,
    8.025084125810174e-18,
)
# exp(a**2) erfc(a) (1 + 2a) in y = (a - 4) / (a + 4), 0 <= a <= 28; relative error below 2**-54.
_ERFCX = (
    1.2329951186255526,
    -0.13962111684056253,
    0.015379652102619622,
    0.06809705425469532,
    -0.10103906603629771,
    0.09373283499825635,
    -0.06633036581236018,
    0.03716751553897611,
    -0.016197734056207735,
    0.005031969964895975,
    -0.0007577732992399645,
    -0.00019925662558173396,
    0.0001506217234482285,
    -2.4399442063317028e-05,
    -1.122218289542388e-05,
    5.710196443071548e-06,
    2.941614946718734e-07,
    -8.259660868192138e-07,
    7.410582777678687e-08,
    1.1033270685772334e-07,
    -1.7470076957618645e-08,
    -1.4070575390657749e-08,
    1.6774215515908293e-09,
    1.198182485692268e-09,
)
_SHORT_LIMIT = 10.1
"""erfc of float32 is zero from here on."""
# exp(a**2) erfc(a) as a quotient in a up to the limit; relative error below 2**-33.
_SHORT_TOP = (
    0.9999999999156797,
    1.4335878365131909,
    0.9998519473913922,
    0.4019276104175812,
    0.09268370897692199,
    0.009996110490693082,
)
_SHORT_BOTTOM = (
    1.0,
    2.561966992540421,
    2.8907223679412475,
    1.8540422582291831,
    0.7212800077608655,
    0.1642764986979123,
    0.01771766787299229,
)
# 2**r on |r| <= 1/2; relative error below 2**-34.
_SHORT_POWER = (
    0.9999999999621082,
    0.6931471807322563,
    0.24022651196047182,
    0.05550410343201454,
    0.009618027431092134,
    0.0013333930508823719,
    0.00015469249508855544,
    1.5200134020627509e-05,
)


def tanh(lanes: Lanes, x: ir.Value) -> ir.Value:
    size, sign = lanes.split_sign(x)
    size = lanes.at_most(size, _TANH_LIMIT[lanes.bits])
    r, bits = reduced_once(lanes, lanes.add(size, size), lanes.bias)
    power = lanes.from_bits(lanes.shift_left(bits, lanes.mantissa))
    rest = lanes.sub(power, lanes.const(1.0))
    t = lanes.fma(power, expm1_polynomial(lanes, r), rest)
    return lanes.with_sign(lanes.div(t, lanes.add(t, lanes.const(2.0))), sign)


def erf(lanes: Lanes, x: ir.Value) -> ir.Value:
    return _erf_by_ratio(lanes, x) if lanes.bits == 32 else _erf_by_exp(lanes, x)


def _erf_by_ratio(lanes: Lanes, x: ir.Value) -> ir.Value:
    x = lanes.at_most(lanes.at_least(x, -_ERF_LIMIT), _ERF_LIMIT)
    square = lanes.mul(x, x)
    top = lanes.fma(lanes.mul(x, square), lanes.poly(square, _ERF_TOP), x)
    g = lanes.div(top, lanes.poly(square, _ERF_BOTTOM))
    # With a positive number where g is a zero, which keeps its sign.
    less = lanes.poly(lanes.mul(g, g), (_ERF_MORE, -4 / 27))
    return lanes.fma(less, g, g)


def _erf_by_exp(lanes: Lanes, x: ir.Value) -> ir.Value:
    size, sign = lanes.split_sign(x)
    a = lanes.at_most(size, _WIDE_LIMIT)
    high, low = lanes.pieces(_TWO_OVER_SQRT_PI, [lanes.mantissa + 1])
    shifted = lanes.sub(a, lanes.const(_WIDE_CENTRE))
    inner = lanes.fma(a, lanes.poly_pairs(shifted, _WIDE), lanes.const(low))
    q = lanes.fma(a, lanes.const(high), lanes.mul(a, inner))
    r, bits = reduced_once(lanes, lanes.neg(q), lanes.bias)
    power = lanes.from_bits(lanes.shift_left(bits, lanes.mantissa))
    rest = lanes.sub(lanes.const(1.0), power)
    value = lanes.fma(lanes.neg(power), expm1_polynomial(lanes, r), rest)
    return lanes.with_sign(value, sign)


def erfc(lanes: Lanes, x: ir.Value) -> ir.Value:
    wide = lanes if lanes.bits == 64 else lanes.widened()
    wide_x = x if lanes.bits == 64 else wide.extend(x)
    tail = _wide_tail(wide, wide_x) if lanes.bits == 64 else _short_tail(wide, wide_x)
    negative = wide.compare("<", wide_x, wide.const(0.0))
    value = wide.select(negative, wide.sub(wide.const(2.0), tail), tail)
    return value if lanes.bits == 64 else lanes.truncate(value)


def _short_tail(lanes: Lanes, x: ir.Value) -> ir.Value:
    """``erfc(|x|)`` in float64 for x of float32, to more digits than it has."""
    a = lanes.at_most(lanes.abs(x), _SHORT_LIMIT)
    exponent = lanes.mul(a, lanes.mul(a, lanes.const(-LOG2_E)))
    magic = lanes.const(1.5 * 2.0**lanes.mantissa + lanes.bias + lanes.bias // 2)
    shifted = lanes.add(exponent, magic)
    n = lanes.sub(shifted, magic)
    power = lanes.poly(lanes.sub(exponent, n), _SHORT_POWER)
    g = lanes.div(lanes.poly(a, _SHORT_TOP), lanes.poly(a, _SHORT_BOTTOM))
    return lanes.mul(g, power_of_two(lanes, power, n, shifted))


def _wide_tail(lanes: Lanes, x: ir.Value) -> ir.Value:
    """``erfc(|x|)`` in float64."""
    a = lanes.at_most(lanes.abs(x), 28.0)
    one, twice, four = lanes.const(1.0), lanes.add(a, a), lanes.add(a, lanes.const(4.0))
    bottom, lost = lanes.two_sum(one, twice)
    # Both quotients from one: 1 / bottom with that of y, which is 2a / (a + 4) - 1, so that it is
    # right near a = 0, where G is steepest.
    inverse = lanes.div(one, lanes.mul(four, bottom))
    y = lanes.fma(lanes.mul(twice, bottom), inverse, lanes.const(-1.0))
    inverse = lanes.mul(inverse, four)
    g = lanes.mul(lanes.poly(y, _ERFCX), inverse)
    g = lanes.sub(g, lanes.mul(g, lanes.mul(lost, inverse)))
    # exp(-a*a) with a*a = high*high + (a - high) (a + high), the first product exact.
    high = lanes.masked(a, 27)
    exponent = lanes.at_least(lanes.neg(lanes.mul(high, high)), 2 * LOWEST[64])
    r, bits = reduced(lanes, exponent, 2 * lanes.bias)
    r = lanes.sub(r, lanes.mul(lanes.sub(a, high), lanes.add(a, high)))
    return scaled(lanes, lanes.mul(exp_polynomial(lanes, r), g), bits)

"""exp, exp_negative, exp2, expm1, sigmoid, sinh and cosh: one range reduction, one polynomial.

    x = n ln 2 + r,  |r| <= ln 2 / 2,    exp(x) = 2**n (1 + r + r*r q(r))

n is found by adding a large number: ``t = x log2(e) + magic`` holds n in its low mantissa bits, and
as ``magic`` also carries twice the exponent bias, shifting halves of those bits into the exponent
gives two powers of two whose product is ``2**n``. Multiplying by one after the other is right from
the overflow down through the denormals, with a single rounding; AVX-512 has an instruction for it.
ln 2 is cut in two so that ``n *
high`` is exact without fma (Cody and Waite). Polynomials: Remez exchange on the relative error,
computed in 50 digits, coefficients rounded one after the other with the rest refitted.
"""

from __future__ import annotations

from collections.abc import Callable

import llvmlite.ir as ir

from .lanes import LN2, LOG2_E, Lanes

# (exp(r) - 1 - r) / r**2 on |r| <= ln 2 / 2; relative error of exp below 2**-28 and 2**-57.
_EXP = {
    32: (0.49999994, 0.1666652, 0.04166818, 0.008368782, 0.0013827648),
    64: (
        0.500000000000001,
        0.16666666666666421,
        0.04166666666653492,
        0.008333333333490069,
        0.0013888888942525518,
        0.0001984126951308022,
        2.4801494135013535e-05,
        2.7557582522901174e-06,
        2.7629908092536783e-07,
        2.5000808215538785e-08,
    ),
}
# (exp(r) - 1) / r on |r| <= ln 2 / 2; relative error of exp below 2**-23: a product less.
_EXP_SHORT = (0.9999997, 0.4999915, 0.16667648, 0.04189784, 0.008289716)
# (2**r - 1) / r on |r| <= 1/2; relative error of 2**r below 2**-26 and 2**-57.
_EXP2 = {
    32: (0.6931472, 0.24022594, 0.055503663, 0.009625404, 0.0013387682, 0.00013351333),
    64: (
        0.6931471805599453,
        0.24022650695909997,
        0.05550410866482378,
        0.009618129107670945,
        0.0013333558145891815,
        0.00015403530314438352,
        1.5252734328794207e-05,
        1.3215550710322628e-06,
        1.0177857860188526e-07,
        7.031447956863957e-09,
        4.485236188155311e-10,
        5.770574467056714e-11,
    ),
}
# (sinh(x) / x - 1) / x**2 in x**2 on [0, 1]; relative error of sinh below 2**-31 and 2**-62.
_SINH = {
    32: (0.16666667, 0.0083333105, 0.00019842894, 2.782228e-06),
    64: (
        0.16666666666666666,
        0.008333333333333573,
        0.00019841269841061192,
        2.755731931006361e-06,
        2.505208942131486e-08,
        1.606133786852867e-10,
        7.503360818755076e-13,
        6.472596759627782e-15,
    ),
}
LOWEST = {32: -104.0, 64: -746.0}
"""exp is zero below."""
_HIGHEST = {32: 90.0, 64: 711.0}
_LOWEST_EXP2 = {32: -151.0, 64: -1076.0}
_HIGHEST_EXP2 = {32: 129.0, 64: 1025.0}
_EXPM1_FLOOR = {32: -17.5, 64: -38.0}
"""expm1 rounds to -1 below."""
_EXPM1_CEILING = {32: 88.9, 64: 709.95}
"""expm1 overflows above, and half of ``2**n`` does not yet."""


def reduced(lanes: Lanes, x: ir.Value, offset: int) -> tuple[ir.Value, ir.Value]:
    """``(r, bits)``: the reduced argument, and an integer whose low bits are ``n + offset``."""
    r, _, shifted = _reduced(lanes, x, offset)
    return r, lanes.to_bits(shifted)


def _reduced(lanes: Lanes, x: ir.Value, offset: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    """``(r, n, shifted)``: the reduced argument, n as a float (-n where no ``scale`` wants it: LLVM
    makes a subtraction of magic an addition of a second constant), and the float that holds ``n +
    offset`` in its low bits."""
    magic = lanes.const(1.5 * 2.0**lanes.mantissa + offset)
    high, low = lanes.pieces(LN2, [16 if lanes.bits == 32 else 40])
    shifted = lanes.fma(x, lanes.const(LOG2_E), magic)
    sign = -1 if lanes.scales else 1
    n = lanes.sub(shifted, magic) if lanes.scales else lanes.sub(magic, shifted)
    r = lanes.fma(n, lanes.const(sign * high), x)
    return lanes.fma(n, lanes.const(sign * low), r), n, shifted


def reduced_once(lanes: Lanes, x: ir.Value, offset: int) -> tuple[ir.Value, ir.Value]:
    """``reduced`` with ln 2 in one piece: r is wrong by ``n 2**-29`` (float32; ``n 2**-55``), which
    is as nothing where ``exp(x)`` is a small part of the result once n is large."""
    magic = lanes.const(1.5 * 2.0**lanes.mantissa + offset)
    shifted = lanes.fma(x, lanes.const(LOG2_E), magic)
    r = lanes.fma(lanes.sub(magic, shifted), lanes.const(LN2), x)
    return r, lanes.to_bits(shifted)


def scaled(lanes: Lanes, value: ir.Value, bits: ir.Value) -> ir.Value:
    """``value * 2**n`` for bits that hold ``n + 2 * bias``; rounded once, NaN stays NaN."""
    half = lanes.shift_right(bits, 1)
    first = lanes.from_bits(lanes.shift_left(half, lanes.mantissa))
    second = lanes.from_bits(lanes.shift_left(lanes.builder.sub(bits, half), lanes.mantissa))
    return lanes.mul(lanes.mul(value, first), second)


def _scaled_down(lanes: Lanes, value: ir.Value, bits: ir.Value) -> ir.Value:
    """``value * 2**n`` for n up to half the bias, and bits that hold ``n + bias + bias // 2``: the
    first product is exact, and the second one's factor is a constant."""
    first = lanes.from_bits(lanes.shift_left(bits, lanes.mantissa))
    return lanes.mul(lanes.mul(value, first), lanes.const(2.0 ** -(lanes.bias // 2)))


def power_of_two(lanes: Lanes, value: ir.Value, n: ir.Value, shifted: ir.Value) -> ir.Value:
    """``value * 2**n`` for n up to half the bias, and a float that holds ``n + bias + bias // 2``
    in its low bits."""
    if lanes.scales:
        return lanes.scale(value, n)
    return _scaled_down(lanes, value, lanes.to_bits(shifted))


def exp_polynomial(lanes: Lanes, r: ir.Value) -> ir.Value:
    """``exp(r)`` for ``|r| <= ln 2 / 2``."""
    one = lanes.const(1.0)
    return lanes.fma(lanes.fma(lanes.poly(r, _EXP[lanes.bits]), r, one), r, one)


def _short_polynomial(lanes: Lanes, r: ir.Value) -> ir.Value:
    """``exp(r)`` for ``|r| <= ln 2 / 2`` in float32, to a unit in the last place or two."""
    return lanes.fma(lanes.poly(r, _EXP_SHORT), r, lanes.const(1.0))


def expm1_polynomial(lanes: Lanes, r: ir.Value) -> ir.Value:
    """``exp(r) - 1`` for ``|r| <= ln 2 / 2``."""
    return lanes.fma(lanes.mul(r, r), lanes.poly(r, _EXP[lanes.bits]), r)


def exp2_polynomial(lanes: Lanes, r: ir.Value) -> ir.Value:
    """``2**r`` for ``|r| <= 1/2``."""
    return lanes.fma(lanes.poly(r, _EXP2[lanes.bits]), r, lanes.const(1.0))


def _exp_clamped(lanes: Lanes, x: ir.Value, shift: int = 0) -> ir.Value:
    """``exp(x) * 2**shift`` for x within the limits."""
    r, n, shifted = _reduced(lanes, x, 2 * lanes.bias + shift)
    value = exp_polynomial(lanes, r)
    if lanes.scales:
        return lanes.scale(value, lanes.add(n, lanes.const(shift)) if shift else n)
    return scaled(lanes, value, lanes.to_bits(shifted))


def _exp_negative(
    lanes: Lanes, x: ir.Value, polynomial: Callable[[Lanes, ir.Value], ir.Value]
) -> ir.Value:
    """``exp(x)`` for x up to zero, with fewer instructions; ``polynomial`` is that of exp."""
    x = lanes.at_least(x, LOWEST[lanes.bits])
    r, n, shifted = _reduced(lanes, x, lanes.bias + lanes.bias // 2)
    return power_of_two(lanes, polynomial(lanes, r), n, shifted)


def exp_negative(lanes: Lanes, x: ir.Value) -> ir.Value:
    """``exp(x)`` for x up to zero, where it cannot overflow; float32 with one product less."""
    return _exp_negative(lanes, x, _short_polynomial if lanes.bits == 32 else exp_polynomial)


def exp(lanes: Lanes, x: ir.Value) -> ir.Value:
    x = lanes.at_most(lanes.at_least(x, LOWEST[lanes.bits]), _HIGHEST[lanes.bits])
    return _exp_clamped(lanes, x)


def exp2(lanes: Lanes, x: ir.Value) -> ir.Value:
    x = lanes.at_most(lanes.at_least(x, _LOWEST_EXP2[lanes.bits]), _HIGHEST_EXP2[lanes.bits])
    magic = lanes.const(1.5 * 2.0**lanes.mantissa + 2 * lanes.bias)
    shifted = lanes.add(x, magic)
    r = lanes.sub(x, lanes.sub(shifted, magic))
    return scaled(lanes, exp2_polynomial(lanes, r), lanes.to_bits(shifted))


def expm1_parts(lanes: Lanes, x: ir.Value, *, halved: bool = False) -> ir.Value:
    """``exp(x) - 1`` (half of it where asked), for x from the floor up to where ``2**n`` overflows.

    ``2**n p + (2**n - 1)`` with ``p = exp(r) - 1``: the subtraction is exact or far below the
    result.
    """
    r, bits = reduced(lanes, x, lanes.bias - (1 if halved else 0))
    power = lanes.from_bits(lanes.shift_left(bits, lanes.mantissa))
    p = expm1_polynomial(lanes, r)
    return lanes.fma(power, p, lanes.sub(power, lanes.const(0.5 if halved else 1.0)))


def expm1(lanes: Lanes, x: ir.Value) -> ir.Value:
    # Halved, so that 2**n is finite for the largest results; denormals would lose a bit, and as
    # expm1(x) rounds to x there, they are passed through, signed zeros with them.
    clamped = lanes.at_least(x, _EXPM1_FLOOR[lanes.bits])
    clamped = lanes.at_most(clamped, _EXPM1_CEILING[lanes.bits])
    half = expm1_parts(lanes, clamped, halved=True)
    tiny = lanes.compare("<", lanes.abs(x), lanes.const(2.0 ** -(lanes.mantissa + 2)))
    return lanes.select(tiny, x, lanes.add(half, half))


def sigmoid(lanes: Lanes, x: ir.Value) -> ir.Value:
    """``1 / (1 + exp(-x))`` through ``exp(-|x|)``, which cannot overflow, so that results down to
    the denormals keep their precision."""
    one = lanes.const(1.0)
    e = _exp_negative(lanes, lanes.neg(lanes.abs(x)), exp_polynomial)
    top = lanes.select(lanes.compare("<", x, lanes.const(0.0)), e, one)
    return lanes.div(top, lanes.add(e, one))


def _half_exp(lanes: Lanes, x: ir.Value) -> ir.Value:
    """``exp(|x|) / 2``, infinite only where sinh and cosh are."""
    return _exp_clamped(lanes, lanes.at_most(lanes.abs(x), _HIGHEST[lanes.bits]), shift=-1)


def cosh(lanes: Lanes, x: ir.Value) -> ir.Value:
    half = _half_exp(lanes, x)
    return lanes.add(half, lanes.div(lanes.const(0.25), half))


def sinh(lanes: Lanes, x: ir.Value) -> ir.Value:
    half = _half_exp(lanes, x)
    large = lanes.sub(half, lanes.div(lanes.const(0.25), half))
    size = lanes.abs(x)
    square = lanes.mul(x, x)
    small = lanes.fma(lanes.mul(size, square), lanes.poly(square, _SINH[lanes.bits]), size)
    small_wanted = lanes.compare("<", size, lanes.const(1.0))
    return lanes.copysign(lanes.select(small_wanted, small, large), x)

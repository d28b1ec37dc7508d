"""log, log2, log10 and log1p: exponent and mantissa by integer arithmetic, then a polynomial.

    x = 2**k (1 + f),  sqrt(1/2) <= 1 + f < sqrt(2),    log(x) = k ln 2 + log(1 + f)

f is exact. In float32 ``log(1 + f) = f - f*f/2 + f**3 P(f)``; in float64 a polynomial in f would
need 20 terms, and the odd series in ``s = f / (2 + f)`` is taken instead: ``log(1 + f) = f - (f*f/2
- s (f*f/2 + R(s*s)))``. Denormals are scaled up first; zero gives minus infinity, negative numbers
NaN. Polynomials as in ``math_exp``.
"""

from __future__ import annotations

import math
from fractions import Fraction

import llvmlite.ir as ir

from .lanes import LN2, LOG2_E, LOG10_2, LOG10_E, Lanes

# (log(1 + f) - f + f**2 / 2) / f**3; relative error of the logarithm below 2**-27.
_LOG_32 = (
    0.3333333,
    -0.2500082,
    0.20001237,
    -0.16623397,
    0.14201605,
    -0.1315969,
    0.127623,
    -0.07636542,
)
# (log((1 + s) / (1 - s)) / s - 2) / s**2 in s**2, |s| <= 0.1716; relative error below 2**-59.
_LOG_64 = (
    0.6666666666666734,
    0.39999999999415664,
    0.2857142874241067,
    0.22222198552294475,
    0.181835661795777,
    0.15313986697175247,
    0.14796731058997142,
)
# (log(1 + f) / f - 1) / f / log(base), float32; relative error below 2**-26.
_LOG2_32 = (
    -0.72134733,
    0.48089823,
    -0.36069658,
    0.28856748,
    -0.23961851,
    0.20460068,
    -0.19105534,
    0.18617034,
    -0.109958746,
)
_LOG10_32 = (
    -0.21714719,
    0.1447648,
    -0.10858049,
    0.08686747,
    -0.072132364,
    0.061590943,
    -0.05751339,
    0.056042857,
    -0.03310088,
)


def _sqrt_half_bits(lanes: Lanes) -> int:
    """Bits of sqrt(1/2), where the mantissa's range begins."""
    return 0x3F3504F3 if lanes.bits == 32 else 0x3FE6A09E667F3BCD


def decompose(lanes: Lanes, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """``(m, k + bias as an integer, k + bias)`` of a positive normal x: ``x == 2**k * m``."""
    builder = lanes.builder
    bits = lanes.to_bits(x)
    one = lanes.bias << lanes.mantissa
    # Biased, the exponent is positive and a logical shift finds it.
    raised = builder.add(bits, lanes.int_const(one - _sqrt_half_bits(lanes)))
    exponent = lanes.shift_right(raised, lanes.mantissa)
    lowered = builder.sub(bits, lanes.shift_left(exponent, lanes.mantissa))
    m = lanes.from_bits(builder.add(lowered, lanes.int_const(one)))
    # The integer becomes a float by standing in the low bits of 2**mantissa.
    magic = (lanes.mantissa + lanes.bias) << lanes.mantissa
    as_float = lanes.from_bits(builder.or_(exponent, lanes.int_const(magic)))
    return m, exponent, lanes.sub(as_float, lanes.const(2.0**lanes.mantissa))


def normal(lanes: Lanes, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """``(scaled x, bias + scale)``: denormals multiplied up, with what to take off their
    exponent."""
    scale = lanes.mantissa + 2
    tiny = lanes.compare("<", x, lanes.const(math.ldexp(1.0, 1 - lanes.bias)))
    scaled = lanes.select(tiny, lanes.mul(x, lanes.const(2.0**scale)), x)
    offset = lanes.select(tiny, lanes.const(lanes.bias + scale), lanes.const(lanes.bias))
    return scaled, offset


def log_mantissa(lanes: Lanes, f: ir.Value, k: ir.Value) -> ir.Value:
    """``log(1 + f) + k ln 2``."""
    high, low = (lanes.const(p) for p in lanes.pieces(LN2, [16 if lanes.bits == 32 else 40]))
    square = lanes.mul(f, f)
    if lanes.bits == 32:
        tail = lanes.mul(lanes.mul(square, f), lanes.poly(f, _LOG_32))
        tail = lanes.fma(k, low, tail)
        tail = lanes.fma(lanes.const(-0.5), square, tail)
        return lanes.fma(k, high, lanes.add(f, tail))
    half_square = lanes.mul(lanes.const(0.5), square)
    correction = _log_correction(lanes, f, half_square)
    tail = lanes.sub(half_square, lanes.fma(k, low, correction))
    return lanes.sub(lanes.mul(k, high), lanes.sub(tail, f))


def _log_correction(lanes: Lanes, f: ir.Value, half_square: ir.Value) -> ir.Value:
    """``log(1 + f) - f + f*f/2`` in float64."""
    s = lanes.div(f, lanes.add(f, lanes.const(2.0)))
    z = lanes.mul(s, s)
    series = lanes.mul(z, lanes.poly(z, _LOG_64))
    return lanes.mul(s, lanes.add(half_square, series))


def _with_specials(lanes: Lanes, x: ir.Value, value: ir.Value, pole: float) -> ir.Value:
    """The logarithm's limits: minus infinity at the pole, NaN below it, infinity and NaN kept."""
    value = lanes.select(lanes.compare("<", x, lanes.const(math.inf)), value, x)
    at = lanes.const(pole)
    value = lanes.select(lanes.compare("<", x, at), lanes.const(math.nan), value)
    return lanes.select(lanes.compare("==", x, at), lanes.const(-math.inf), value)


def log(lanes: Lanes, x: ir.Value) -> ir.Value:
    scaled, offset = normal(lanes, x)
    m, _, exponent = decompose(lanes, scaled)
    k = lanes.sub(exponent, offset)
    return _with_specials(lanes, x, log_mantissa(lanes, lanes.sub(m, lanes.const(1.0)), k), 0.0)


def log1p(lanes: Lanes, x: ir.Value) -> ir.Value:
    """The rounding error of ``1 + x`` goes back into f, scaled as the sum was."""
    one = lanes.const(1.0)
    total, error = lanes.two_sum(one, x)
    m, biased, exponent = decompose(lanes, total)
    # 2**(1 - k): for the largest k, whose error is nil, the exponent field is exactly 0.
    inverse = lanes.builder.sub(lanes.int_const(2 * lanes.bias + 1), biased)
    power = lanes.from_bits(lanes.shift_left(inverse, lanes.mantissa))
    f = lanes.fma(lanes.mul(error, lanes.const(0.5)), power, lanes.sub(m, one))
    value = log_mantissa(lanes, f, lanes.sub(exponent, lanes.const(lanes.bias)))
    tiny = lanes.compare("<", lanes.abs(x), lanes.const(2.0 ** -(lanes.mantissa + 2)))
    return lanes.select(tiny, x, _with_specials(lanes, x, value, -1.0))


def log2(lanes: Lanes, x: ir.Value) -> ir.Value:
    return _log_base(lanes, x, LOG2_E, Fraction(1), _LOG2_32)


def log10(lanes: Lanes, x: ir.Value) -> ir.Value:
    return _log_base(lanes, x, LOG10_E, LOG10_2, _LOG10_32)


def _log_base(
    lanes: Lanes, x: ir.Value, factor: Fraction, step: Fraction, table: tuple[float, ...]
) -> ir.Value:
    """``log(x) * factor`` with ``step = ln 2 * factor``, the factors cut so that the leading
    product is exact: powers of the base come out exactly, and nothing is lost near 1."""
    scaled, offset = normal(lanes, x)
    m, _, exponent = decompose(lanes, scaled)
    k = lanes.sub(exponent, offset)
    f = lanes.sub(m, lanes.const(1.0))
    square = lanes.mul(f, f)
    if lanes.bits == 32:
        factor_high, factor_low = (lanes.const(p) for p in lanes.pieces(factor, [24]))
        step_high, step_low = (lanes.const(p) for p in lanes.pieces(step, [14]))
        tail = lanes.fma(square, lanes.poly(f, table), lanes.mul(f, factor_low))
        tail = lanes.fma(k, step_low, tail)
        tail = lanes.fma(f, factor_high, tail)
        value = lanes.fma(k, step_high, tail)
    else:
        value = _log_base_64(lanes, f, square, k, factor, step)
    return _with_specials(lanes, x, value, 0.0)


def _log_base_64(
    lanes: Lanes, f: ir.Value, square: ir.Value, k: ir.Value, factor: Fraction, step: Fraction
) -> ir.Value:
    factor_high, factor_low = (lanes.const(p) for p in lanes.pieces(factor, [26]))
    step_high, step_low = (lanes.const(p) for p in lanes.pieces(step, [40]))
    half_square = lanes.mul(lanes.const(0.5), square)
    high = lanes.masked(lanes.sub(f, half_square), 27)
    low = lanes.sub(lanes.sub(f, high), half_square)
    low = lanes.add(low, _log_correction(lanes, f, half_square))
    product = lanes.mul(high, factor_high)
    tail = lanes.fma(lanes.add(low, high), factor_low, lanes.mul(low, factor_high))
    tail = lanes.fma(k, step_low, tail)
    total, error = lanes.two_sum(lanes.mul(k, step_high), product)
    return lanes.add(total, lanes.add(error, tail))

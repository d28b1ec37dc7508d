"""Functions of which results of half precision want fewer steps.

float16 and bfloat16 are computed in float32 and rounded to 11 and 8 bits, so that a relative error
of some 2**-14 moves hardly any result.

* ``gelu(x) = max(x, 0) - |x| exp(-q) / 2`` with ``q = -log(erfc(|x| / sqrt(2)))``: nothing cancels,
  and q is a smooth function that is nearly a parabola.
* ``sin`` and ``cos``: below ``2**16`` the multiples of pi/2 are cut into pieces of 8 bits, so that
  products with their numbers are exact in float32 itself, with fma and without.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import llvmlite.ir as ir

from . import math_trig
from .lanes import PI, Lanes
from .math_exp import power_of_two

_GELU_LIMIT = {"bfloat16": 14.2, "float16": 5.75}
"""What is taken off ``max(x, 0)`` beyond is less than half of the least number."""
# -q / (|x| ln 2) in |x| up to the limit; absolute error of q below 2**-14.4, of float16 2**-14.2.
_GELU_TAIL = {
    "bfloat16": (
        *(-1.1508535, -0.45925, -0.053524256, 0.00847895, -0.000976548),
        *(7.7603794e-05, -3.9905208e-06, 1.1874656e-07, -1.5466773e-09),
    ),
    "float16": (
        *(-1.1506338, -0.46044264, -0.051789515, 0.0074015126, -0.00064390197, 2.4959628e-05),
    ),
}
# 2**r / 2 on |r| <= 1/2; relative error below 2**-18.
_HALF_POWER = (0.49999964, 0.3465609, 0.12012372, 0.02795893, 0.0047850506)
_TRIG_LIMIT = 2.0**16


def short_gelu(lanes: Lanes, x: ir.Value, *, narrow: str) -> ir.Value:
    """0 for minus infinity; to be rounded to ``narrow``."""
    a = lanes.at_most(lanes.abs(x), _GELU_LIMIT[narrow])
    magic = lanes.const(1.5 * 2.0**lanes.mantissa + lanes.bias + lanes.bias // 2)
    exponent = lanes.mul(a, lanes.poly(a, _GELU_TAIL[narrow]))
    shifted = lanes.add(exponent, magic)
    n = lanes.sub(shifted, magic)
    half = power_of_two(lanes, lanes.poly(lanes.sub(exponent, n), _HALF_POWER), n, shifted)
    return lanes.fma(lanes.neg(a), half, lanes.at_least(x, 0.0))


def _short(full: Callable[[Lanes, ir.Value], ir.Value], turn: int) -> Callable[..., ir.Value]:
    """The sine of ``x + turn pi/2``, where ``full`` gives it for any x."""

    def emit(lanes: Lanes, x: ir.Value, *, narrow: str) -> ir.Value:
        builder = lanes.builder
        magic = lanes.const(1.5 * 2.0**lanes.mantissa)
        shifted = lanes.fma(x, lanes.const(Fraction(2) / PI), magic)
        n = lanes.sub(shifted, magic)
        r = x
        for piece in lanes.pieces(PI / 2, [8, 8, 8]):
            r = lanes.fma(n, lanes.const(-piece), r)
        sine, cosine = math_trig.sin_cos(lanes, r, None)
        quadrant = builder.add(lanes.to_bits(shifted), lanes.int_const(turn))
        quick = math_trig.in_quadrant(lanes, sine, cosine, quadrant)
        if not turn:
            zero = lanes.compare("==", x, lanes.const(0.0))
            quick = lanes.select(zero, x, quick)
        before = builder.block
        large = builder.fcmp_unordered(">=", lanes.abs(x), lanes.const(_TRIG_LIMIT))
        with builder.if_then(lanes.any(large), likely=False):
            exact = full(lanes, x)
            inside = builder.block
        result = builder.phi(lanes.float_type)
        result.add_incoming(quick, before)
        result.add_incoming(exact, inside)
        return result

    return emit


short_sin = _short(math_trig.sin, 0)
short_cos = _short(math_trig.cos, 1)

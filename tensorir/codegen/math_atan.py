"""atan, atan2, asin and acos: arguments folded to a short interval, then an odd polynomial.

    atan(y / x), a = |y|, b = |x|:    a <= tan(pi/8) b:    atan(a / b)
                                      a <= tan(3pi/8) b:   pi/4 + atan((a - b) / (a + b))
                                      beyond:              pi/2 + atan(-b / a)

One division serves all three cases (its operands are selected), and pi/4 and pi/2 are sums of two
floats. ``asin(s) = s + s**3 P(s*s)`` for ``s <= 1/2``, and ``asin(a) = pi/2 - 2 asin(sqrt((1 -
a)/2))`` above. Polynomials as in ``math_exp``.
"""

from __future__ import annotations

import math

import llvmlite.ir as ir

from .lanes import PI, Lanes

# (atan(t) / t - 1) / t**2 in t**2, |t| <= tan(pi/8); relative error below 2**-30 and 2**-63.
_ATAN = {
    32: (-0.33333316, 0.19998533, -0.14244512, 0.10600185, -0.0609277),
    64: (
        -0.33333333333333326,
        0.19999999999997092,
        -0.14285714285315881,
        0.11111111083708003,
        -0.09090907984409581,
        0.07692279167562839,
        -0.0666617419387326,
        0.05876511850304042,
        -0.052151533267801344,
        0.04490460552619731,
        -0.03317281112519558,
        0.014891946185078218,
    ),
}
# (asin(s) / s - 1) / s**2 in s**2, |s| <= 1/2; relative error below 2**-31 and 2**-59.
_ASIN = {
    32: (0.1666666, 0.07500521, 0.04451365, 0.031835787, 0.014330751, 0.03767019),
    64: (
        0.16666666666666763,
        0.07499999999970107,
        0.04464285717528984,
        0.030381942675396074,
        0.022372215882261525,
        0.017351596365191277,
        0.013981002815435567,
        0.011397463024906523,
        0.010788156478488886,
        0.0036773053815194884,
        0.021776618796688612,
        -0.021094880370439863,
        0.03268739170359285,
    ),
}
_TAN_PI_8 = math.sqrt(2.0) - 1.0
_TAN_3PI_8 = math.sqrt(2.0) + 1.0


def _fold(lanes: Lanes, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """``(t, base, low part of base)`` with ``atan(a / b) = base + atan(t)`` for ``a, b >= 0``."""
    steep = lanes.compare(">", a, lanes.mul(b, lanes.const(_TAN_3PI_8)))
    middle = lanes.compare(">", a, lanes.mul(b, lanes.const(_TAN_PI_8)))
    top = lanes.select(steep, lanes.neg(b), lanes.select(middle, lanes.sub(a, b), a))
    bottom = lanes.select(steep, a, lanes.select(middle, lanes.add(a, b), b))
    half, half_low = lanes.pieces(PI / 2, [lanes.mantissa + 1])
    zero = lanes.const(0.0)
    base = [
        lanes.select(steep, lanes.const(part), lanes.select(middle, lanes.const(part / 2), zero))
        for part in (half, half_low)
    ]
    return lanes.div(top, bottom), base[0], base[1]


def _atan_series(lanes: Lanes, t: ir.Value) -> ir.Value:
    """``atan(t) - t`` for ``|t| <= tan(pi/8)``."""
    z = lanes.mul(t, t)
    return lanes.mul(lanes.mul(t, z), lanes.poly(z, _ATAN[lanes.bits]))


def atan(lanes: Lanes, x: ir.Value) -> ir.Value:
    t, base, low = _fold(lanes, lanes.abs(x), lanes.const(1.0))
    tail = lanes.add(_atan_series(lanes, t), low)
    return lanes.copysign(lanes.add(base, lanes.add(t, tail)), x)


def atan2(lanes: Lanes, y: ir.Value, x: ir.Value) -> ir.Value:
    """The angle of ``(x, y)`` in (-pi, pi], signed zeros and infinities as in C99."""
    zero, one = lanes.const(0.0), lanes.const(1.0)
    a, b = lanes.abs(y), lanes.abs(x)
    larger = lanes.select(lanes.compare(">", a, b), a, b)
    # Quartered where a + b, or the bound on the ratio, could overflow.
    huge = lanes.compare(">", larger, lanes.const(2.0 ** (lanes.bias - 3)))
    scale = lanes.select(huge, lanes.const(0.25), one)
    infinite = lanes.const(math.inf)
    both = lanes.builder.and_(lanes.compare("==", a, infinite), lanes.compare("==", b, infinite))
    a = lanes.select(both, one, lanes.mul(a, scale))
    b = lanes.select(both, one, lanes.mul(b, scale))
    b = lanes.select(lanes.compare("==", lanes.add(a, b), zero), one, b)
    t, base, low = _fold(lanes, a, b)
    series = _atan_series(lanes, t)
    # For x < 0 the angle is pi minus the folded one: every part but pi changes its sign.
    behind = lanes.compare("<", lanes.copysign(one, x), zero)
    pi, pi_low = lanes.pieces(PI, [lanes.mantissa + 1])
    forward = lanes.add(base, lanes.add(t, lanes.add(series, low)))
    rest = lanes.sub(lanes.sub(lanes.const(pi_low), low), series)
    backward = lanes.add(lanes.sub(lanes.const(pi), base), lanes.sub(rest, t))
    value = lanes.copysign(lanes.select(behind, backward, forward), y)
    # Selected away above: a NaN beside a number that decides every comparison.
    return lanes.select(lanes.builder.fcmp_ordered("ord", y, x), value, lanes.add(x, y))


def _asin_parts(lanes: Lanes, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """``(whether |x| > 1/2, s, asin(s) - s)``; s is |x| or ``sqrt((1 - |x|) / 2)``."""
    a = lanes.abs(x)
    half = lanes.const(0.5)
    large = lanes.compare(">", a, half)
    outer = lanes.mul(lanes.sub(lanes.const(1.0), a), half)
    z = lanes.select(large, outer, lanes.mul(a, a))
    root = lanes.sqrt(outer)
    s = lanes.select(large, root, a)
    series = lanes.mul(lanes.mul(s, z), lanes.poly(z, _ASIN[lanes.bits]))
    return large, s, series


def asin(lanes: Lanes, x: ir.Value) -> ir.Value:
    large, s, series = _asin_parts(lanes, x)
    half_pi, half_pi_low = (lanes.const(p) for p in lanes.pieces(PI / 2, [lanes.mantissa + 1]))
    tail = lanes.sub(half_pi_low, lanes.add(series, series))
    upper = lanes.add(half_pi, lanes.sub(tail, lanes.add(s, s)))
    return lanes.copysign(lanes.select(large, upper, lanes.add(s, series)), x)


def acos(lanes: Lanes, x: ir.Value) -> ir.Value:
    """``pi/2 - asin(x)`` in the middle, ``2 asin(s)`` near 1, ``pi - 2 asin(s)`` near -1."""
    large, s, series = _asin_parts(lanes, x)
    half_pi, half_pi_low = lanes.pieces(PI / 2, [lanes.mantissa + 1])
    negative = lanes.compare("<", x, lanes.const(0.0))
    signed = lanes.copysign(s, x)
    signed_series = lanes.copysign(series, x)
    middle = lanes.add(lanes.sub(lanes.const(half_pi_low), signed_series), lanes.neg(signed))
    middle = lanes.add(lanes.const(half_pi), middle)
    near = lanes.add(s, series)
    near = lanes.add(near, near)
    far_tail = lanes.sub(lanes.const(half_pi_low), series)
    far = lanes.add(lanes.const(half_pi), lanes.sub(far_tail, s))
    far = lanes.add(far, far)
    return lanes.select(large, lanes.select(negative, far, near), middle)

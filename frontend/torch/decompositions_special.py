"""Special functions of torch, written with elementary ones.

    approximated   Bessel and Airy functions, erfcx, quantiles: on each piece of the axis a smooth
                   factor is the Chebyshev series through values that torch itself gives in float64
    closed         gamma functions by Stirling's series, Hurwitz' zeta by Euler and Maclaurin,
                   Chebyshev polynomials as cosines

All is computed in float64, whatever the dtype, and rounded once: whoever calls these functions
calls them seldom. A series has some 1e-14 of error relative to the largest value of its piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from .decompositions import aten, decomposes

Series = Sequence[float]
_DEGREE = 40
_NEGLIGIBLE = 2e-15
"""The part of the first coefficient below which the last ones are left out."""
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""Those of even index from 2 on."""


def _series(function: Callable[[Tensor], Tensor], low: float, high: float) -> Series:
    """The coefficients of a smooth function between two ends."""

    def values(t: np.ndarray) -> Any:
        x = torch.from_numpy((high + low) / 2 + (high - low) / 2 * t)
        return function(x).numpy()

    with _disable_current_modes():  # these are numbers, not operators of the graph at hand
        found = chebyshev.chebinterpolate(values, _DEGREE)
    return [float(c) for c in chebyshev.chebtrim(found, _NEGLIGIBLE * np.abs(found).max())]


def _evaluate(series: Series, x: Tensor, low: float, high: float) -> Tensor:
    """Clenshaw's recurrence; beyond the ends it stays at their values."""
    t = ((x - (high + low) / 2) / ((high - low) / 2)).clamp(-1, 1)
    last, before = torch.full_like(t, series[-1]), torch.zeros_like(t)
    for c in reversed(series[1:-1]):
        last, before = 2 * t * last - before + c, last
    return t * last - before + series[0]


class Fit:
    """A smooth function of float64 on an interval, approximated when it is first needed."""

    def __init__(self, function: Callable[[Tensor], Tensor], low: float, high: float) -> None:
        self.ends = (low, high)
        self.series = cache(lambda: _series(function, low, high))

    def __call__(self, x: Tensor) -> Tensor:
        return _evaluate(self.series(), x, *self.ends)


def in_float64(*ops: Any) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """The decomposition of operators of one tensor or several: computed in float64, and rounded to
    the dtype that torch gives the result."""

    def register(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def rounded(*given: Any) -> Tensor:
            dtype = given[0].dtype if isinstance(given[0], Tensor) else torch.get_default_dtype()
            if len(given) > 1:
                dtype = torch.result_type(given[0], given[1])
            if not dtype.is_floating_point:
                dtype = torch.get_default_dtype()
            wide = [
                x.double() if isinstance(x, Tensor) else torch.full((), x, dtype=torch.float64)
                for x in given
            ]
            return function(*wide).to(dtype)

        decomposes(*ops)(rounded)
        return function

    return register


def _odd_as(x: Tensor, magnitude: Tensor) -> Tensor:
    """A function of |x|, with the sign of x."""
    return torch.where(x < 0, -magnitude, magnitude)


# -- gamma functions -----------------------------------------------------------------------------
_SHIFT = 8
"""Arguments below are brought above it, where asymptotic series are exact."""


def _sine_of_pi(x: Tensor) -> Tensor:
    """sin(pi x), of which nothing is lost near its zeros; without the sign."""
    return torch.sin(math.pi * (x - x.round())).abs()


def _lgamma_of_positive(x: Tensor) -> Tensor:
    product = x
    for k in range(1, _SHIFT):
        product = product * (x + k)
    is_small = x < _SHIFT
    shifted = torch.where(is_small, x + _SHIFT, x)
    inverse = 1 / shifted
    square, tail = inverse * inverse, torch.zeros_like(x)
    for j in reversed(range(len(BERNOULLI))):
        n = 2 * (j + 1)
        tail = tail * square + BERNOULLI[j] / (n * (n - 1))
    value = (shifted - 0.5) * (shifted.log() - 1) + (math.log(2 * math.pi) - 1) / 2
    value = value + tail * inverse
    value = torch.where(shifted.isinf(), shifted, value)
    return torch.where(is_small, value - product.log(), value)


@in_float64(aten.lgamma.default)
def lgamma(x: Tensor) -> Tensor:
    """The logarithm of the absolute value; infinite at 0, -1, -2 ..."""
    is_low = x < 0.5
    positive = _lgamma_of_positive(torch.where(is_low, 1 - x, x))
    reflected = math.log(math.pi) - _sine_of_pi(x).log() - positive
    value = torch.where(is_low, reflected, positive)
    return torch.where(x.isinf() | ((x <= 0) & (x == x.floor())), math.inf, value)


@in_float64(aten.digamma.default)
def digamma(x: Tensor) -> Tensor:
    """At 0 infinite, of the other sign; at -1, -2 ... NaN."""
    is_low = x < 0
    positive = torch.where(is_low, 1 - x, x)
    terms = torch.zeros_like(x)
    for k in range(_SHIFT):
        terms = terms + 1 / (positive + k)
    is_small = positive < _SHIFT
    shifted = torch.where(is_small, positive + _SHIFT, positive)
    square, tail = 1 / (shifted * shifted), torch.zeros_like(x)
    for j in reversed(range(len(BERNOULLI))):
        tail = (tail + BERNOULLI[j] / (2 * (j + 1))) * square
    value = shifted.log() - 0.5 / shifted - tail
    value = torch.where(is_small, value - terms, value)
    angle = math.pi * (x - x.round())
    value = torch.where(is_low, value - math.pi / angle.tan(), value)
    value = torch.where(is_low & (x == x.floor()), math.nan, value)
    return torch.where(x == 0, torch.copysign(torch.full_like(x, math.inf), -x), value)


def _zeta_of_positive(s: Tensor, q: Tensor) -> Tensor:
    """The sum of (q + k) ** -s, k from 0 on, by Euler's and Maclaurin's formula."""
    total = torch.zeros_like(q)
    for k in range(_SHIFT + 2):
        total = total + (q + k).pow(-s)
    end = q + (_SHIFT + 2)
    power = end.pow(-s)
    total = total + power * end / (s - 1) + power / 2
    factor, square = s * power / end, 1 / (end * end)
    for j in range(len(BERNOULLI)):
        n = 2 * (j + 1)
        total = total + factor * (BERNOULLI[j] / math.factorial(n))
        factor = factor * (s + (n - 1)) * (s + n) * square
    return total


@in_float64(
    aten.special_zeta.default, aten.special_zeta.other_scalar, aten.special_zeta.self_scalar
)
def zeta(s: Tensor, q: Tensor) -> Tensor:
    """Hurwitz' zeta function; of negative ``q`` for whole ``s``. The terms of one sign and those of
    the other are sums of their own: where q is negative, ``steps`` terms have a negative base."""
    steps = (-q).ceil().clamp(min=0)
    first = q + steps
    first = torch.where(first == 0, 1.0, first)
    least = 1 - steps - q  # the smallest base without its sign
    negative = _zeta_of_positive(s, least.clamp(min=1e-300)) - _zeta_of_positive(s, 1 - q)
    is_odd = torch.fmod(s, 2) != 0
    value = _zeta_of_positive(s, first)
    value = torch.where(q < 0, value + torch.where(is_odd, -negative, negative), value)
    value = torch.where((q <= 0) & (s != s.floor()), math.nan, value)
    value = torch.where((q <= 0) & (q == q.floor()), math.inf, value)
    return torch.where(s == 1, math.inf, torch.where(s < 1, math.nan, value))


@decomposes(aten.polygamma.default)
def polygamma(n: int, x: Tensor) -> Tensor:
    """The n-th derivative of digamma."""
    if n == 0:
        return torch.digamma(x)
    dtype = x.dtype if x.dtype.is_floating_point else torch.get_default_dtype()
    order = torch.full((), n + 1, dtype=torch.float64)
    sign = 1.0 if n % 2 else -1.0
    return (sign * math.factorial(n) * zeta(order, x.double())).to(dtype)


# -- the normal distribution ---------------------------------------------------------------------
_ERFCX = Fit(lambda t: torch.special.erfcx(4 / t - 4) / t, 1e-12, 1.0)
_QUANTILE_IN_MIDDLE = Fit(
    lambda q: torch.where(q == 0, math.sqrt(2 * math.pi), torch.special.ndtri(0.5 + q) / q),
    -0.3, 0.3,
)  # fmt: skip
_NEAR_TAIL = Fit(lambda y: torch.special.ndtri(torch.exp(-y * y)), 1.1, 6.0)
_FAR_TAIL = Fit(lambda y: torch.special.ndtri(torch.exp(-y * y)) / y, 6.0, 27.0)


@in_float64(aten.special_erfcx.default)
def erfcx(x: Tensor) -> Tensor:
    """exp(x * x) * erfc(x), which the fit has of |x|."""
    t = 4 / (4 + x.abs())
    value = _ERFCX(t) * t
    return torch.where(x < 0, 2 * torch.exp(x * x) - value, value)


@in_float64(aten.special_ndtri.default)
def ndtri(p: Tensor) -> Tensor:
    """The quantile of the normal distribution."""
    middle = p - 0.5
    return _quantile(p, 1 - p, middle)


def _quantile(below: Tensor, above: Tensor, middle: Tensor) -> Tensor:
    """Of the probabilities on both sides, and what is between them and a half."""
    is_low = middle < 0
    side = torch.where(is_low, below, above)
    y = torch.sqrt(-torch.log(side))
    tail = torch.where(y < 6, _NEAR_TAIL(y), _FAR_TAIL(y) * y)
    tail = torch.where(side == 0, -math.inf, tail)
    tail = torch.where(is_low, tail, -tail)
    value = torch.where(middle.abs() <= 0.25, _QUANTILE_IN_MIDDLE(middle) * middle, tail)
    return torch.where((side < 0) | side.isnan(), math.nan, value)


@in_float64(aten.erfinv.default)
def erfinv(x: Tensor) -> Tensor:
    return _quantile((1 + x) / 2, (1 - x) / 2, x / 2) / math.sqrt(2)


# -- Bessel functions ----------------------------------------------------------------------------
_FAR = 8.0
"""Where the exponential is split off."""
_WAVES = 5.0
"""Where the oscillation is: torch's own values have a step of 3e-7 there."""
_NEAR_K = 2.0


def _inverse(function: Callable[[Tensor], Tensor], at: float = _FAR) -> Fit:
    """A fit of what is a smooth function of ``at / x`` from ``at`` to infinity."""
    return Fit(lambda t: function(at / t), 1e-6, 1.0)


def _root(x: Tensor) -> Tensor:
    return x.sqrt()


_I0 = Fit(torch.special.i0e, 0, _FAR), _inverse(lambda x: torch.special.i0e(x) * _root(x))
_I1 = Fit(torch.special.i1e, 0, _FAR), _inverse(lambda x: torch.special.i1e(x) * _root(x))


def _scaled_i(fits: tuple[Fit, Fit], magnitude: Tensor) -> Tensor:
    far = fits[1](_FAR / magnitude) / _root(magnitude)
    return torch.where(magnitude < _FAR, fits[0](magnitude), far)


@in_float64(aten.special_i0e.default)
def i0e(x: Tensor) -> Tensor:
    return _scaled_i(_I0, x.abs())


@in_float64(aten.i0.default, aten.special_modified_bessel_i0.default)
def i0(x: Tensor) -> Tensor:
    return i0e(x) * x.abs().exp()


@in_float64(aten.special_i1e.default)
def i1e(x: Tensor) -> Tensor:
    return _odd_as(x, _scaled_i(_I1, x.abs()))


@in_float64(aten.special_i1.default, aten.special_modified_bessel_i1.default)
def i1(x: Tensor) -> Tensor:
    return i1e(x) * x.abs().exp()


def _regular_k0(x: Tensor) -> Tensor:
    return torch.special.modified_bessel_k0(x) + (x / 2).log() * torch.special.i0(x)


def _regular_k1(x: Tensor) -> Tensor:
    return (torch.special.modified_bessel_k1(x) - (x / 2).log() * torch.special.i1(x)) * x


_K0 = (
    Fit(_regular_k0, 1e-9, _NEAR_K),
    _inverse(lambda x: torch.special.scaled_modified_bessel_k0(x) * _root(x), _NEAR_K),
)
_K1 = (
    Fit(_regular_k1, 1e-9, _NEAR_K),
    _inverse(lambda x: torch.special.scaled_modified_bessel_k1(x) * _root(x), _NEAR_K),
)


def _k(x: Tensor, near: Tensor, far: Fit, *, scaled: bool) -> Tensor:
    """Of both pieces; infinite at 0, and NaN below."""
    tail = far(_NEAR_K / x) / _root(x)
    if scaled:
        near = near * x.exp()
    else:
        tail = tail * (-x).exp()
    value = torch.where(x <= _NEAR_K, near, tail)
    return torch.where(x == 0, math.inf, torch.where(x < 0, math.nan, value))


def _k0(x: Tensor, *, scaled: bool) -> Tensor:
    return _k(x, _K0[0](x) - (x / 2).log() * i0(x), _K0[1], scaled=scaled)


def _k1(x: Tensor, *, scaled: bool) -> Tensor:
    return _k(x, _K1[0](x) / x + (x / 2).log() * i1(x), _K1[1], scaled=scaled)


in_float64(aten.special_modified_bessel_k0.default)(lambda x: _k0(x, scaled=False))
in_float64(aten.special_scaled_modified_bessel_k0.default)(lambda x: _k0(x, scaled=True))
in_float64(aten.special_modified_bessel_k1.default)(lambda x: _k1(x, scaled=False))
in_float64(aten.special_scaled_modified_bessel_k1.default)(lambda x: _k1(x, scaled=True))


class _Oscillation:
    """J and Y of one order far out: two smooth amplitudes, of a cosine and a sine."""

    def __init__(self, j: Callable[..., Tensor], y: Callable[..., Tensor], order: int) -> None:
        self.phase = math.pi / 4 + order * math.pi / 2

        def amplitude(x: Tensor, *, quadrature: bool) -> Tensor:
            c, s = torch.cos(x - self.phase), torch.sin(x - self.phase)
            own = y(x) * c - j(x) * s if quadrature else j(x) * c + y(x) * s
            return own * _root(x)

        self.fits = [
            Fit(lambda t, q=q: amplitude(_WAVES / t, quadrature=q), 1e-3, 1.0)  # type: ignore[misc]
            for q in (False, True)
        ]

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """J and Y."""
        p, q = (fit(_WAVES / x) for fit in self.fits)
        c, s = torch.cos(x - self.phase), torch.sin(x - self.phase)
        root = _root(x)
        return (p * c - q * s) / root, (p * s + q * c) / root


def _regular_y0(x: Tensor) -> Tensor:
    return torch.special.bessel_y0(x) - 2 / math.pi * x.log() * torch.special.bessel_j0(x)


def _regular_y1(x: Tensor) -> Tensor:
    j = torch.special.bessel_j1(x)
    return (torch.special.bessel_y1(x) - 2 / math.pi * x.log() * j) * x


_FAR_0 = _Oscillation(torch.special.bessel_j0, torch.special.bessel_y0, 0)
_FAR_1 = _Oscillation(torch.special.bessel_j1, torch.special.bessel_y1, 1)
_J0, _J1 = Fit(torch.special.bessel_j0, 0, _WAVES), Fit(torch.special.bessel_j1, 0, _WAVES)
_Y0, _Y1 = Fit(_regular_y0, 1e-9, _WAVES), Fit(_regular_y1, 1e-9, _WAVES)


@in_float64(aten.special_bessel_j0.default)
def bessel_j0(x: Tensor) -> Tensor:
    size = x.abs()
    return torch.where(size <= _WAVES, _J0(size), _FAR_0(size)[0])


@in_float64(aten.special_bessel_j1.default)
def bessel_j1(x: Tensor) -> Tensor:
    size = x.abs()
    return _odd_as(x, torch.where(size <= _WAVES, _J1(size), _FAR_1(size)[0]))


def _y(x: Tensor, near: Tensor, far: Tensor) -> Tensor:
    value = torch.where(x <= _WAVES, near, far)
    return torch.where(x == 0, -math.inf, torch.where(x < 0, math.nan, value))


@in_float64(aten.special_bessel_y0.default)
def bessel_y0(x: Tensor) -> Tensor:
    return _y(x, _Y0(x) + 2 / math.pi * x.log() * _J0(x), _FAR_0(x)[1])


@in_float64(aten.special_bessel_y1.default)
def bessel_y1(x: Tensor) -> Tensor:
    return _y(x, _Y1(x) / x + 2 / math.pi * x.log() * _J1(x), _FAR_1(x)[1])


@in_float64(aten.special_spherical_bessel_j0.default)
def spherical_bessel_j0(x: Tensor) -> Tensor:
    value = torch.where(x.abs() < 1e-4, 1 - x * x / 6, x.sin() / x)
    return torch.where(x.isinf(), 0.0, value)


# -- the Airy function ---------------------------------------------------------------------------
_AIRY_FAR = 9.0
_AIRY_NEAR = 2.09
"""Where torch's own values have steps."""
_AIRY_SERIES = [
    math.gamma(3 * k + 0.5) / (54**k * math.factorial(k) * math.gamma(k + 0.5)) for k in range(16)
]


def _airy_tail(t: Tensor) -> Tensor:
    """What is smooth of Ai at ``_AIRY_NEAR / t``."""
    x = _AIRY_NEAR / t
    return torch.special.airy_ai(x) * torch.exp(2 / 3 * x.pow(1.5)) * x.pow(0.25)


_AIRY = (
    Fit(torch.special.airy_ai, -_AIRY_FAR, -_AIRY_NEAR - 1e-9),
    Fit(torch.special.airy_ai, -_AIRY_NEAR, _AIRY_NEAR),
)
_AIRY_TAIL = Fit(_airy_tail, _AIRY_NEAR / 100, 1.0 - 1e-9)


@in_float64(aten.special_airy_ai.default)
def airy_ai(x: Tensor) -> Tensor:
    """Falling on the right, oscillating on the left; there the asymptotic series."""
    size = x.abs()
    zeta_ = 2 / 3 * size.pow(1.5)
    root = size.pow(0.25)
    right = _AIRY_TAIL(_AIRY_NEAR / size) * torch.exp(-zeta_) / root
    even, odd, power = torch.zeros_like(x), torch.zeros_like(x), torch.ones_like(x)
    for k, c in enumerate(_AIRY_SERIES):
        term = c * (-1) ** (k // 2) * power
        even, odd = (even, odd + term) if k % 2 else (even + term, odd)
        power = power / zeta_
    angle = zeta_ - math.pi / 4
    left = (even * angle.cos() + odd * angle.sin()) / (root * math.sqrt(math.pi))
    value = torch.where(x < -_AIRY_NEAR, _AIRY[0](x), _AIRY[1](x))
    value = torch.where(x < -_AIRY_FAR, left, torch.where(x > _AIRY_NEAR, right, value))
    return torch.where(x.isinf(), math.nan, value)


# -- Chebyshev polynomials -----------------------------------------------------------------------
def _angles(x: Tensor) -> tuple[Tensor, Tensor]:
    """The angle whose cosine is x; beyond 1 that whose hyperbolic cosine is |x|."""
    return torch.acos(x.clamp(-1, 1)), torch.acosh(x.abs().clamp(min=1))


def _first_kind(x: Tensor, n: Tensor) -> Tensor:
    angle, beyond = _angles(x)
    sign = torch.where((x < 0) & (torch.fmod(n, 2) != 0), -1.0, 1.0)
    return torch.where(x.abs() <= 1, torch.cos(n * angle), sign * torch.cosh(n * beyond))


def _second_kind(x: Tensor, n: Tensor) -> Tensor:
    """The quotient of sines, n + 1 at the ends of the interval."""
    angle, beyond = _angles(x)
    sign = torch.where((x < 0) & (torch.fmod(n, 2) != 0), -1.0, 1.0)
    inside = torch.sin((n + 1) * angle) / angle.sin()
    outside = sign * torch.sinh((n + 1) * beyond) / beyond.sinh()
    value = torch.where(x.abs() < 1, inside, outside)
    return torch.where(x.abs() == 1, sign * (n + 1), value)


def _third_kind(x: Tensor, n: Tensor) -> Tensor:
    """V(n) = U(n) - U(n - 1)."""
    return _second_kind(x, n) - torch.where(n > 0, _second_kind(x, n - 1), 0.0)


def _fourth_kind(x: Tensor, n: Tensor) -> Tensor:
    """W(n) = U(n) + U(n - 1)."""
    return _second_kind(x, n) + torch.where(n > 0, _second_kind(x, n - 1), 0.0)


def _register_polynomials() -> None:
    kinds = {"t": _first_kind, "u": _second_kind, "v": _third_kind, "w": _fourth_kind}
    for letter, function in kinds.items():
        for prefix, shifted in (("", False), ("shifted_", True)):
            packet = getattr(aten, f"special_{prefix}chebyshev_polynomial_{letter}")

            def polynomial(
                x: Tensor, n: Tensor, function: Any = function, shifted: bool = shifted
            ) -> Tensor:
                degree = n.trunc()
                value = function(2 * x - 1 if shifted else x, degree)
                value = torch.where(degree == 0, 1.0, value)
                return torch.where(degree < 0, 0.0, value)

            in_float64(packet.default, packet.x_scalar, packet.n_scalar)(polynomial)


_register_polynomials()

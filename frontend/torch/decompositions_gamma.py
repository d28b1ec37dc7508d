"""The incomplete gamma functions of torch, in float64 and rounded once.

    far below a     the power series of P, as one axis of terms
    far above a     the double exponential quadrature of Q's integral, as one axis of nodes
    near a large a  Temme's uniform expansion (DLMF 8.12), of which the coefficients are fractions

Each gives the smaller of P and Q = 1 - P, so that neither loses digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import torch
from torch import Tensor

from .decompositions import aten
from .decompositions_special import in_float64, lgamma

_TERMS = 110
"""Of the series: each is less than 0.7 of the one before, or it is one of a small ``a``."""
_NODES, _STEP, _REACH = 144, 0.066, 3.8
"""Of the quadrature, in its logarithmic scale."""
_LARGE = 20.0
"""From where on Temme's expansion has all digits."""
_NEAR = 0.3
"""How far from ``a``, as a part of it, that expansion is taken."""
_POWERS, _ORDERS = 26, 12
"""Powers of eta, and of 1 / a, in it."""
_NEGLIGIBLE = 1e-17
"""Below this, at the largest eta and the least a, a term is left out."""
_FEW = 3.0
"""The least x of the quadrature, whose integrand is too steep below."""


@in_float64(aten.igamma.default)
def igamma(a: Tensor, x: Tensor) -> Tensor:
    """P, the part of the gamma function's integral up to ``x``."""
    lower, value = _smaller(a, x)
    return _with_limits(a, x, torch.where(lower, value, 1 - value), 0.0)


@in_float64(aten.igammac.default)
def igammac(a: Tensor, x: Tensor) -> Tensor:
    """Q, the part from ``x`` on."""
    lower, value = _smaller(a, x)
    return _with_limits(a, x, torch.where(lower, 1 - value, value), 1.0)


def _with_limits(a: Tensor, x: Tensor, value: Tensor, at_zero: float) -> Tensor:
    """At the ends of both axes, in torch's order; NaN where an operand is negative."""
    value = torch.where(a.isnan() | x.isnan(), math.nan, value)
    value = torch.where(x.isinf(), 1 - at_zero, value)
    value = torch.where(a.isinf(), torch.where(x.isinf(), math.nan, at_zero), value)
    value = torch.where(x == 0, at_zero, value)
    value = torch.where(a == 0, torch.where(x > 0, 1 - at_zero, math.nan), value)
    return torch.where((a < 0) | (x < 0), math.nan, value)


def _smaller(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Whether it is P, and the value."""
    a, x = torch.broadcast_tensors(a, x)
    is_near = (a >= _LARGE) & ((x - a).abs() < _NEAR * a)
    lower = x < torch.maximum(a + 1, torch.full_like(a, _FEW))
    lower = torch.where(is_near, x < a, lower)
    # What is computed beside the branch that is taken must be a number, and no more.
    few = x.clamp(max=_FEW)
    below = torch.where(lower, x, few)
    factor = torch.exp(a * x.log() - x - lgamma(a + 1))
    step = torch.arange(1, _TERMS, dtype=torch.float64)
    terms = (below.unsqueeze(-1) / (a.unsqueeze(-1) + step)).cumprod(-1)
    series = factor * (1 + terms.sum(-1))
    # An even grid over all reals brought to the positive ones: Takahasi and Mori, 1974.
    grid = torch.arange(_NODES, dtype=torch.float64) * _STEP - _REACH
    nodes = (grid - (-grid).exp()).exp()
    weights = _STEP * nodes * (1 + (-grid).exp()) * (-nodes).exp()
    above = torch.where(lower, torch.full_like(x, math.inf), x)
    powers = torch.exp((a - 1).unsqueeze(-1) * torch.log1p(nodes / above.unsqueeze(-1)))
    integral = factor * (a / x) * (weights * powers).sum(-1)
    value = torch.where(lower, series, integral)
    return lower, torch.where(is_near, _temme(a, x, lower), value)


def _temme(a: Tensor, x: Tensor, lower: Tensor) -> Tensor:
    """P where that is asked for, else Q."""
    off = ((x - a) / a).clamp(-_NEAR, _NEAR)
    a = a.clamp(min=_LARGE, max=1e300)
    # eta ** 2 / 2 = off - log(1 + off), of which nothing is lost by its series.
    square = torch.zeros_like(off)
    for n in range(40, 1, -1):
        square = square * -off + 2 / n
    eta = off * square.sqrt()
    total = torch.zeros_like(a)
    for row in reversed(_coefficients()):
        inner = torch.zeros_like(a)
        for c in reversed(row):
            inner = inner * eta + c
        total = total / a + inner
    rest = torch.exp(-0.5 * a * eta * eta) / (2 * math.pi * a).sqrt() * total
    sign = torch.where(lower, -1.0, 1.0)
    return 0.5 * torch.erfc(sign * eta * (a / 2).sqrt()) + sign * rest


@cache
def _coefficients() -> Sequence[Sequence[float]]:
    """Of eta ** n in the factor of a ** -k, by k: DLMF 8.12.9 to 8.12.12."""
    size = _POWERS + 2 * _ORDERS
    # mu = off as a series of eta: mu' * mu = eta * (1 + mu).
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, size + 2):
        known = sum(((n + 1 - i) * mu[i] * mu[n + 1 - i] for i in range(2, n)), Fraction(0))
        mu.append((mu[n - 1] - known) / (n + 1))
    inverse = [Fraction(1)]  # of mu / eta
    for n in range(1, size + 1):
        inverse.append(-sum((mu[i + 1] * inverse[n - i] for i in range(1, n + 1)), Fraction(0)))
    row = inverse[1:]
    rows = [row]
    for _ in range(1, _ORDERS):
        # The last row's derivative through eta, and the multiple of 1 / mu that takes its pole.
        row = [(n + 2) * row[n + 2] - row[1] * inverse[n + 1] for n in range(len(row) - 2)]
        rows.append(row)
    kept = []
    for k, r in enumerate(rows):
        sizes = [abs(float(c)) * 0.34**n / _LARGE**k for n, c in enumerate(r[:_POWERS])]
        count = max([n + 1 for n, size in enumerate(sizes) if size > _NEGLIGIBLE], default=0)
        kept.append([float(c) for c in r[:count]])
    return kept

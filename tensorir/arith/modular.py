"""Modular bounds: ``value = coefficient * q + base`` for some integer q.

``coefficient`` 0 means the value is exactly ``base``; 1 means nothing is known. ``base`` is in
``[0, coefficient)`` where the coefficient is not 0. Sound, like ``bounds``.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from ..expr import Expr, FloorMod, Max, Min
from .linear import Linear

if TYPE_CHECKING:
    from .facts import Facts

Modulus = tuple[int, int]
UNKNOWN: Modulus = (1, 0)


def normal(coefficient: int, base: int) -> Modulus:
    """The pair with a non-negative coefficient and a base below it."""
    coefficient = abs(coefficient)
    return (coefficient, base % coefficient) if coefficient else (0, base)


def linear_modular(s: Facts, x: Linear) -> Modulus:
    """The modulus of a sum: the gcd of its terms' coefficients."""
    coefficient, base = 0, x.const
    for atom, k in x.terms.items():
        c, b = atom_modular(s, atom)
        coefficient = gcd(coefficient, k * c)
        base += k * b
        if coefficient == 1:
            return UNKNOWN
    return normal(coefficient, base)


def join(a: Modulus, b: Modulus) -> Modulus:
    """What holds of a value that satisfies one of the two."""
    return normal(gcd(a[0], b[0], a[1] - b[1]), a[1])


def atom_modular(s: Facts, atom: Expr) -> Modulus:
    """The modulus of an atom."""
    known = s.moduli.get(atom)
    if known is None:
        known = s.moduli[atom] = _atom(s, atom)
    return known


def _atom(s: Facts, atom: Expr) -> Modulus:
    factors = s.atoms.factors_of(atom)
    if len(factors) > 1:
        coefficient, base = 0, 1
        for f in factors:
            c, b = atom_modular(s, f)
            coefficient, base = gcd(coefficient * c, coefficient * b, base * c), base * b
        return normal(coefficient, base)
    parts = s.atoms.parts.get(atom)
    if parts is None:
        return UNKNOWN
    x, d = parts
    if isinstance(atom, Min | Max):
        return join(linear_modular(s, x), linear_modular(s, d))
    if isinstance(atom, FloorMod):
        # x % d differs from x by a multiple of d.
        c, b = linear_modular(s, x)
        dc, db = linear_modular(s, d)
        return normal(gcd(c, dc, db), b)
    return UNKNOWN

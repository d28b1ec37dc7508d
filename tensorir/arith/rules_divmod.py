"""Rules for ``x // c`` and ``x % c``, both rounding towards minus infinity.

Two tables for constant divisors ``c > 1`` (``FLOORDIV_RULES``, ``FLOORMOD_RULES``) and two
functions for symbolic ones. A rule takes the canonical dividend and returns the canonical result or
None; the first line of its docstring is the rule. In these lines ``{u in [0, c)}`` is a condition.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING

from ..expr import Expr, FloorDiv, FloorMod
from .bounds import linear_interval
from .linear import ZERO, Linear, constant
from .modular import linear_modular
from .prove import is_divisor_positive, prove_nonneg

if TYPE_CHECKING:
    from .simplify import Simplifier

DivRule = Callable[["Simplifier", Linear, int], "Linear | None"]


# -- shared decompositions -----------------------------------------------------------------------
def _one_step(s: Simplifier, x: Linear, c: int) -> int | None:
    """The quotient, where the bounds of ``x`` leave only one."""
    low, high = linear_interval(s, x)
    if low is None or high is None or low // c != high // c:
        return None
    return low // c


def _split_multiples(x: Linear, c: int) -> tuple[Linear, Linear]:
    """``q, r`` with ``x = c * q + r``: q takes the terms that c divides, and the constant's
    share."""
    quotient: dict[Expr, int] = {}
    rest: dict[Expr, int] = {}
    for atom, k in x.terms.items():
        if k % c:
            rest[atom] = k
        else:
            quotient[atom] = k // c
    return Linear(quotient, x.const // c), Linear(rest, x.const % c)


def _common_factor(x: Linear, c: int) -> int:
    """The gcd of ``c`` and the coefficients."""
    g = c
    for k in x.terms.values():
        g = gcd(g, k)
        if g == 1:
            break
    return g


def _coarse_and_fine(s: Simplifier, x: Linear, c: int) -> tuple[int, Linear, Linear] | None:
    """``g, t, u`` with ``x = g * t + u``, ``u in [0, g)`` and ``g > 1`` a divisor of c."""
    if len(x.terms) < 2:
        return None
    tried = {1}
    for k in x.terms.values():
        g = gcd(k, c)
        if g in tried:
            continue
        tried.add(g)
        coarse = {atom: c // g for atom, c in x.terms.items() if c % g == 0}
        fine = Linear({atom: c for atom, c in x.terms.items() if c % g}, x.const)
        step = _one_step(s, fine, g)
        if step is not None:
            return g, Linear(coarse, step), fine.shift(-step * g)
    return None


# -- x // c --------------------------------------------------------------------------------------
def div_one_step(s: Simplifier, x: Linear, c: int) -> Linear | None:
    """x // c  ->  q    {x in [q * c, q * c + c)}"""
    step = _one_step(s, x, c)
    return None if step is None else constant(step)


def div_split(s: Simplifier, x: Linear, c: int) -> Linear | None:
    """(c * x + y) // c  ->  x + y // c"""
    quotient, rest = _split_multiples(x, c)
    if not quotient.terms and not quotient.const:
        return None
    return quotient + s.floordiv(rest, constant(c))


def div_common_factor(s: Simplifier, x: Linear, c: int) -> Linear | None:
    """(g * x + y) // (g * c)  ->  (x + y // g) // c    for a constant y"""
    g = _common_factor(x, c)
    if g == 1:
        return None
    reduced = Linear({atom: k // g for atom, k in x.terms.items()}, x.const // g)
    return s.floordiv(reduced, constant(c // g))


def div_coarse(s: Simplifier, x: Linear, c: int) -> Linear | None:
    """(g * x + u) // (g * c)  ->  x // c    {u in [0, g)}"""
    split = _coarse_and_fine(s, x, c)
    if split is None:
        return None
    g, coarse, _ = split
    return s.floordiv(coarse, constant(c // g))


def div_nested(s: Simplifier, x: Linear, c: int) -> Linear | None:
    """(x // a + y) // b  ->  (x + a * y) // (a * b)    for constants a > 0 and y"""
    if len(x.terms) != 1:
        return None
    ((atom, k),) = x.terms.items()
    if k != 1 or type(atom) is not FloorDiv:
        return None
    n, d = s.atoms.parts[atom]
    if d.terms or d.const <= 0:
        return None
    return s.floordiv(n.shift(x.const * d.const), constant(d.const * c))


def div_of_remainder(s: Simplifier, x: Linear, c: int) -> Linear | None:
    """x % (a * b) // a  ->  x // a % b    for a constant b > 0"""
    atom = x.single
    if atom is None or type(atom) is not FloorMod:
        return None
    n, d = s.atoms.parts[atom]
    if d.terms or d.const <= 0 or d.const % c:
        return None
    return s.floormod(s.floordiv(n, constant(c)), constant(d.const // c))


FLOORDIV_RULES: tuple[DivRule, ...] = (
    div_one_step,
    div_split,
    div_common_factor,
    div_coarse,
    div_nested,
    div_of_remainder,
)


# -- x % c ---------------------------------------------------------------------------------------
def mod_one_step(s: Simplifier, x: Linear, c: int) -> Linear | None:
    """x % c  ->  x - q * c    {x in [q * c, q * c + c)}"""
    step = _one_step(s, x, c)
    return None if step is None else x.shift(-step * c)


def mod_reduce(s: Simplifier, x: Linear, c: int) -> Linear | None:
    """(c * x + y) % c  ->  y % c,  and  (a * (x % b) + y) % c  ->  (a * x + y) % c    {c divides a
    * b}"""
    result = constant(x.const % c)
    changed = result.const != x.const
    for atom, k in x.terms.items():
        if k % c == 0:
            changed = True
            continue
        if type(atom) is FloorMod:
            n, d = s.atoms.parts[atom]
            if not d.terms and d.const > 0 and (k * d.const) % c == 0:
                result, changed = result + n.scale(k), True
                continue
        # Other coefficients stay, so that x // c and x % c keep the same x.
        result = result + Linear({atom: k})
    return s.floormod(result, constant(c)) if changed else None


def mod_common_factor(s: Simplifier, x: Linear, c: int) -> Linear | None:
    """(g * x + y) % (g * c)  ->  g * ((x + y // g) % c) + y % g    for a constant y"""
    g = _common_factor(x, c)
    if g == 1:
        return None
    reduced = Linear({atom: k // g for atom, k in x.terms.items()}, x.const // g)
    return s.floormod(reduced, constant(c // g)).scale(g).shift(x.const % g)


def mod_known(s: Simplifier, x: Linear, c: int) -> Linear | None:
    """x % c  ->  r    {x = c * q + r by its modulus}"""
    if not s.known_moduli:
        return None
    coefficient, base = linear_modular(s, x)
    return constant(base % c) if coefficient % c == 0 else None


def mod_coarse(s: Simplifier, x: Linear, c: int) -> Linear | None:
    """(g * x + u) % (g * c)  ->  g * (x % c) + u    {u in [0, g)}"""
    split = _coarse_and_fine(s, x, c)
    if split is None:
        return None
    g, coarse, fine = split
    return s.floormod(coarse, constant(c // g)).scale(g) + fine


FLOORMOD_RULES: tuple[DivRule, ...] = (
    mod_one_step,
    mod_reduce,
    mod_common_factor,
    mod_coarse,
    mod_known,
)


# -- symbolic divisors ---------------------------------------------------------------------------
def _degree(s: Simplifier, atom: Expr) -> int:
    return len(s.atoms.factors_of(atom))


def divide_polynomial(s: Simplifier, x: Linear, d: Linear) -> tuple[Linear, Linear]:
    """``q, r`` with ``x = q * d + r``: long division by the term of ``d`` with the most factors."""
    lead = max(d.terms, key=lambda atom: _degree(s, atom))
    weight = d.terms[lead]
    quotient = ZERO
    for _ in range(8):
        for atom, k in x.terms.items():
            rest = s.atoms.remove_factors(atom, lead) if k % weight == 0 else None
            if rest is None:
                continue
            step = Linear({s.atoms.product(rest): k // weight}) if rest else constant(k // weight)
            quotient = quotient + step
            x = x - s.atoms.multiply(step, d)
            break
        else:
            return quotient, x
    return quotient, x


def _within(s: Simplifier, x: Linear, d: Linear) -> bool:
    """Whether ``0 <= x < d``, where ``d`` is positive."""
    if not x.terms and x.const == 0:
        return True
    spare = d.shift(-1)
    return _prove(s, x, spare) and _prove(s, spare - x, spare)


def _prove(s: Simplifier, x: Linear, spare: Linear) -> bool:
    """Whether ``x >= 0``, where ``spare >= 0`` is known because a divisor is not 0."""
    return prove_nonneg(s, x) or prove_nonneg(s, x - spare)


def floordiv_symbolic(s: Simplifier, x: Linear, d: Linear) -> Linear:
    """(x * m + y) // m  ->  x + y // m,  and  y // m  ->  0    {y in [0, m)},  and
    x // a // m  ->  x // (a * m)    {a, m > 0}"""
    if not x.terms and not x.const:
        return ZERO
    if type(x.single) is FloorDiv and is_divisor_positive(s, d):
        n, inner = s.atoms.parts[x.single]
        if is_divisor_positive(s, inner):
            return s.floordiv(n, s.atoms.multiply(inner, d))
    quotient, rest = divide_polynomial(s, x, d)
    if not rest.terms and not rest.const:
        return quotient
    if is_divisor_positive(s, d):
        if _within(s, rest, d):
            return quotient
        if rest.const < 0 and _within(s, rest + d, d):
            return quotient.shift(-1)
    return quotient + s.atoms.binary(FloorDiv, rest, d)


def floormod_symbolic(s: Simplifier, x: Linear, d: Linear) -> Linear:
    """(x * m + y) % m  ->  y % m,  and  y % m  ->  y    {y in [0, m)}"""
    _, rest = divide_polynomial(s, x, d)
    if not rest.terms and not rest.const:
        return ZERO
    if is_divisor_positive(s, d):
        if _within(s, rest, d):
            return rest
        if rest.const < 0 and _within(s, rest + d, d):
            return rest + d
    return s.atoms.binary(FloorMod, rest, d)

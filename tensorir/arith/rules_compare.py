"""Comparisons of int64 expressions, and minima and maxima: decided by proof, else put in one form.

A comparison is read as ``d = a - b`` against 0. Where the sign of ``d`` is proved it is a constant;
else common terms cancel, a common factor goes, and every term stands with a positive coefficient on
its side (``i0 * 8 + i1 < m``). The operator is kept: a text keeps the direction its author gave it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import TYPE_CHECKING, Any

from ..expr import BOOL, EQ, GE, GT, LE, LT, NE, Expr, IntImm, Min
from .bounds import linear_interval
from .linear import Linear, render
from .modular import linear_modular
from .prove import prove_nonneg

if TYPE_CHECKING:
    from .simplify import Simplifier

TRUE = IntImm(1, BOOL)
FALSE = IntImm(0, BOOL)

# What ``d = a - b`` must satisfy: the sum that is >= 0 exactly if the comparison holds, and the one
# that is >= 0 exactly if it does not.
_HOLDS: dict[type, Callable[[Linear], Linear]] = {
    LT: lambda d: d.scale(-1).shift(-1),
    LE: lambda d: d.scale(-1),
    GT: lambda d: d.shift(-1),
    GE: lambda d: d,
}
_FAILS: dict[type, Callable[[Linear], Linear]] = {
    LT: lambda d: d,
    LE: lambda d: d.shift(-1),
    GT: lambda d: d.scale(-1),
    GE: lambda d: d.scale(-1).shift(-1),
}
NEGATED: dict[type, type] = {LT: GE, GE: LT, LE: GT, GT: LE, EQ: NE, NE: EQ}


def inequality(kind: type, difference: Linear) -> Linear:
    """The sum that is non-negative exactly where the ordering ``kind`` holds of ``difference`` and
    0."""
    return _HOLDS[kind](difference)


def decide(s: Simplifier, kind: type, d: Linear) -> bool | None:
    """Whether ``d kind 0``, where that can be proved either way."""
    if kind is EQ or kind is NE:
        equal = _decide_equal(s, d)
        return equal if equal is None or kind is EQ else not equal
    if prove_nonneg(s, _HOLDS[kind](d)):
        return True
    return False if prove_nonneg(s, _FAILS[kind](d)) else None


def _decide_equal(s: Simplifier, d: Linear) -> bool | None:
    if not d.terms:
        return d.const == 0
    low, high = linear_interval(s, d)
    if low == high == 0:
        return True
    if (low is not None and low > 0) or (high is not None and high < 0):
        return False
    coefficient, base = linear_modular(s, d)
    if base and coefficient != 1:
        return False
    if prove_nonneg(s, d.shift(-1)) or prove_nonneg(s, d.scale(-1).shift(-1)):
        return False
    return True if s.facts and prove_nonneg(s, d) and prove_nonneg(s, d.scale(-1)) else None


def _reduced(kind: type, d: Linear) -> Linear:
    """``d`` divided by the gcd of its coefficients, the constant rounded so that the sign test
    stays."""
    g = 0
    for k in d.terms.values():
        g = gcd(g, k)
        if g == 1:
            return d
    if kind is EQ or kind is NE:
        g = gcd(g, d.const)
        return d.divide(g) if g > 1 else d
    terms = {atom: k // g for atom, k in d.terms.items()}
    # d < 0 and d >= 0 round the constant down, d <= 0 and d > 0 round it up.
    const = d.const // g if kind is LT or kind is GE else -(-d.const // g)
    return Linear(terms, const)


def compare(s: Simplifier, e: Any) -> Expr:
    """The simplified comparison of two int64 expressions."""
    kind: Any = type(e)
    a, b = s.linear(e.a), s.linear(e.b)
    d = a - b
    known = decide(s, kind, d)
    if known is not None:
        return TRUE if known else FALSE
    d = _reduced(kind, d)
    left = Linear({atom: k for atom, k in d.terms.items() if k > 0})
    right = Linear({atom: -k for atom, k in d.terms.items() if k < 0})
    if not right.terms or (d.const < 0 and left.terms):
        right = right.shift(-d.const)
    else:
        left = left.shift(d.const)
    return kind(render(left), render(right))  # type: ignore[no-any-return]


def extremum(s: Simplifier, kind: type, a: Linear, b: Linear) -> Linear:
    """min(a, b)  ->  a    {a <= b},  also against the operands of a nested minimum; the same for
    max"""
    operands: list[Linear] = []
    for x in (*_operands(s, kind, a), *_operands(s, kind, b)):
        if any(_dominates(s, kind, y, x) for y in operands):
            continue
        operands = [y for y in operands if not _dominates(s, kind, x, y)]
        operands.append(x)
    result = operands[0]
    for x in operands[1:]:
        result = s.atoms.binary(kind, result, x)
    return result


def _operands(s: Simplifier, kind: type, x: Linear) -> tuple[Linear, ...]:
    atom = x.single
    if atom is not None and type(atom) is kind:
        a, b = s.atoms.parts[atom]
        return (*_operands(s, kind, a), *_operands(s, kind, b))
    return (x,)


def _dominates(s: Simplifier, kind: type, x: Linear, y: Linear) -> bool:
    """Whether ``kind(x, y)`` is ``x``."""
    return prove_nonneg(s, y - x if kind is Min else x - y)

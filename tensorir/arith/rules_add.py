"""Rules for sums: quotients and remainders that belong together are joined again.

``SUM_RULES`` is tried in order on a sum that holds a FloorDiv or FloorMod; each rule returns the
new sum or None. The first line of a rule's docstring is the rule. Cancelling and collecting need no
rule: they are what the canonical form is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..expr import FloorDiv, FloorMod, Mul
from .linear import Linear, constant

if TYPE_CHECKING:
    from .simplify import Simplifier

_ROUNDED = frozenset((FloorDiv, FloorMod))
SumRule = Callable[["Simplifier", Linear], "Linear | None"]


def _without(x: Linear, part: Linear) -> Linear | None:
    """``x - part``, if the terms of ``part`` all stand in ``x`` as they are."""
    if not part.terms:
        return None
    for atom, k in part.terms.items():
        if x.terms.get(atom) != k:
            return None
    return x - part


def join_remainder(s: Simplifier, x: Linear) -> Linear | None:
    """(x // c * c + x % c) * y  ->  x * y"""
    for atom, k in x.terms.items():
        factors = s.atoms.factors_of(atom)
        for i, f in enumerate(factors):
            if type(f) is not FloorMod:
                continue
            n, d = s.atoms.parts[f]
            quotient = s.floordiv(n, d)
            others = factors[:i] + factors[i + 1 :]
            scale = Linear({s.atoms.product(others): k}) if others else constant(k)
            whole = s.atoms.multiply(s.atoms.multiply(quotient, d), scale)
            rest = _without(x, whole + Linear({atom: k}))
            if rest is not None and quotient.terms:
                return rest + s.atoms.multiply(n, scale)
    return None


def join_split_remainder(s: Simplifier, x: Linear) -> Linear | None:
    """x // a % b * a + x % a  ->  x % (a * b)    for constants a, b > 0"""
    remainders = [atom for atom in x.terms if type(atom) is FloorMod]
    if len(remainders) < 2:
        return None
    for low in remainders:
        k = x.terms[low]
        n, d = s.atoms.parts[low]
        if d.terms or d.const <= 0:
            continue
        for high in remainders:
            if x.terms[high] != k * d.const or high is low:
                continue
            m, e = s.atoms.parts[high]
            if not e.terms and e.const > 0 and s.floordiv(n, d).key == m.key:
                joined = s.floormod(n, constant(d.const * e.const))
                return x - Linear({low: k, high: k * d.const}) + joined.scale(k)
    return None


def remainder_of_difference(s: Simplifier, x: Linear) -> Linear | None:
    """x - x // c * c  ->  x % c"""
    for atom, k in x.terms.items():
        if type(atom) is not FloorDiv:
            continue
        n, d = s.atoms.parts[atom]
        if d.terms or d.const <= 0 or k % d.const:
            continue
        weight = -k // d.const
        rest = _without(x, Linear(n.terms).scale(weight) + Linear({atom: k}))
        if rest is not None:
            return rest + (s.floormod(n, d) - constant(n.const)).scale(weight)
    return None


def multiple_of_remainder(s: Simplifier, x: Linear) -> Linear | None:
    """x - x % c  ->  x // c * c,  and  x + (-x) % c  ->  (x + c - 1) // c * c    for a constant
    c > 0"""
    for atom, k in x.terms.items():
        if type(atom) is not FloorMod:
            continue
        n, d = s.atoms.parts[atom]
        if d.terms or d.const <= 0:
            continue
        rest = _without(x, Linear(n.terms).scale(-k) + Linear({atom: k}))
        if rest is None:
            continue
        if all(weight < 0 for weight in n.terms.values()):
            whole = s.floordiv(n.scale(-1).shift(d.const - 1), d)
        else:
            whole = s.floordiv(n, d).scale(-1)
        return rest.shift(k * n.const) + whole.scale(k * d.const)
    return None


def exact_quotient(s: Simplifier, x: Linear) -> Linear | None:
    """x // c * c  ->  x - r    if x % c is known to be the constant r"""
    if not s.known_moduli:
        return None
    for atom, k in x.terms.items():
        if type(atom) is not FloorDiv:
            continue
        n, d = s.atoms.parts[atom]
        if d.terms or d.const <= 0 or k % d.const:
            continue
        remainder = s.floormod(n, d)
        if not remainder.terms:
            return x - Linear({atom: k}) + (n - remainder).scale(k // d.const)
    return None


SUM_RULES: tuple[SumRule, ...] = (
    join_remainder,
    join_split_remainder,
    remainder_of_difference,
    multiple_of_remainder,
    exact_quotient,
)


def rewrite_sum(s: Simplifier, x: Linear) -> Linear:
    """``x`` after all the rules; ``x`` itself where none applies. Each rule removes an atom."""
    while _may_rewrite(s, x):
        for rule in SUM_RULES:
            new = rule(s, x)
            if new is not None:
                x = new
                break
        else:
            return x
    return x


def _may_rewrite(s: Simplifier, x: Linear) -> bool:
    """Whether there is a quotient or remainder (perhaps in a product) beside something else."""
    if len(x.terms) < 2 and not s.known_moduli:
        return False
    return any(
        type(f) in _ROUNDED
        for atom in x.terms
        for f in (s.atoms.factors_of(atom) if type(atom) is Mul else (atom,))
    )

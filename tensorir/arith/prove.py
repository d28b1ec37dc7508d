"""Proof of ``x >= 0`` for a canonical sum, by a bounded search over sound lower bounds.

Each *step* replaces something in ``x`` by a bound of it and gives a goal that implies the first::

    m - m // 8 * 8  >= 0      quotient:  m // 8 * 8 <= m
    <=  m - m       >= 0      holds

A step returns alternatives; an alternative is a tuple of sums which must all be proved. The search
is limited in depth and in the number of goals (``Facts.max_goals``): a proof that needs more is not
found, and "not proved" never means "false".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import TYPE_CHECKING

from ..expr import Expr, FloorDiv, FloorMod, Max, Min, Mul, Var
from .bounds import atom_interval, linear_interval
from .linear import ZERO, Linear

if TYPE_CHECKING:
    from .facts import Facts

MAX_DEPTH = 8
Goals = tuple[Linear, ...]
Step = Callable[["Facts", Linear], Iterator[Goals]]


def tighten(x: Linear) -> Linear:
    """The sum divided by the gcd of its coefficients, the constant rounded down."""
    g = 0
    for k in x.terms.values():
        g = gcd(g, k)
        if g == 1:
            return x
    if g <= 1:
        return x
    return Linear({atom: k // g for atom, k in x.terms.items()}, x.const // g)


class _Search:
    def __init__(self, s: Facts) -> None:
        self.s = s
        self.seen: set[object] = set()

    def holds(self, x: Linear, depth: int) -> bool:
        x = tighten(x)
        low, high = linear_interval(self.s, x)
        if low is not None and low >= 0:
            return True
        if depth == 0 or (high is not None and high < 0):
            return False
        key = x.key
        if key in self.seen or len(self.seen) >= self.s.max_goals:
            return False
        self.seen.add(key)
        return any(
            all(self.holds(goal, depth - 1) for goal in goals)
            for step in STEPS
            for goals in step(self.s, x)
        )


def prove_nonneg(s: Facts, x: Linear) -> bool:
    """Whether ``x >= 0`` is proved for all values that bindings and constraints allow."""
    low, high = linear_interval(s, x)
    if low is not None and low >= 0:
        return True
    if (high is not None and high < 0) or _only_bounds_matter(s, x):
        return False
    return _Search(s).holds(x, MAX_DEPTH)


def _only_bounds_matter(s: Facts, x: Linear) -> bool:
    """Whether no step can apply: plain variables, nothing symbolic known of them."""
    if s.facts or s.symbolic_bounds or s.not_empty:
        return False
    return all(type(atom) is Var for atom in x.terms)


def is_divisor_positive(s: Facts, d: Linear) -> bool:
    """Whether a divisor is positive: non-negative is enough, as division by zero is undefined."""
    if not d.terms:
        return d.const > 0
    low = linear_interval(s, d).min
    return low is not None and low >= 0


def _substitute(s: Facts, x: Linear, atom: Expr, k: int, bound: Linear) -> Linear:
    """``x`` with the term ``k * atom`` replaced by ``k * bound``."""
    rest = Linear({a: c for a, c in x.terms.items() if a is not atom}, x.const)
    return rest + bound.scale(k)


def quotients(s: Facts, x: Linear) -> Iterator[Goals]:
    """``d * (n // d)`` lies in ``[n - d + 1, n]``; the sum is scaled to hold a multiple of d."""
    for atom, k in x.terms.items():
        factors = s.atoms.factors_of(atom)
        for i, f in enumerate(factors):
            if type(f) is not FloorDiv:
                continue
            n, d = s.atoms.parts[f]
            others = factors[:i] + factors[i + 1 :]
            if not d.terms and d.const > 0:
                scale = d.const // gcd(d.const, k)
                bound = n if k < 0 else n.shift(1 - d.const)
                weight = k * scale // d.const
            elif d.single is not None and others and is_divisor_positive(s, d):
                left = s.atoms.remove_factors(s.atoms.product(others), d.single)
                if left is None:
                    continue
                scale, weight, others = 1, k, left
                bound = n if k < 0 else n - d.shift(-1)
            else:
                continue
            if others:
                if not all(_nonneg(s, o) for o in others):
                    continue
                bound = s.atoms.multiply(bound, Linear({s.atoms.product(others): 1}))
            rest = Linear({a: c for a, c in x.terms.items() if a is not atom}, x.const)
            yield (rest.scale(scale) + bound.scale(weight),)


def cleared_quotients(s: Facts, x: Linear) -> Iterator[Goals]:
    """``n // d <= r`` exactly if ``n < (r + 1) * d``; ``n // d >= r`` exactly if ``n >= r * d``."""
    for atom, k in x.terms.items():
        if type(atom) is not FloorDiv or abs(k) != 1:
            continue
        n, d = s.atoms.parts[atom]
        if not is_divisor_positive(s, d):
            continue
        rest = Linear({a: c for a, c in x.terms.items() if a is not atom}, x.const)
        if k < 0:
            yield (s.atoms.multiply(rest.shift(1), d).shift(-1) - n,)
        else:
            yield (n + s.atoms.multiply(rest, d),)


def _nonneg(s: Facts, atom: Expr) -> bool:
    low = atom_interval(s, atom).min
    return low is not None and low >= 0


def symbolic_ranges(s: Facts, x: Linear) -> Iterator[Goals]:
    """A variable with symbolic bounds is replaced by one of them, also inside a product of
    non-negative factors."""
    if not s.symbolic_bounds:
        return
    for atom, k in x.terms.items():
        factors = s.atoms.factors_of(atom)
        for i, f in enumerate(factors):
            known = s.symbolic_bounds.get(f)
            if known is None:
                continue
            others = factors[:i] + factors[i + 1 :]
            if not all(_nonneg(s, o) for o in others):
                continue
            bound = known[0] if k > 0 else known[1]
            if bound is None:
                continue
            if others:
                bound = s.atoms.multiply(bound, Linear({s.atoms.product(others): 1}))
            yield (_substitute(s, x, atom, k, bound),)


def remainders(s: Facts, x: Linear) -> Iterator[Goals]:
    """``n % d`` lies in ``[0, d - 1]``, and is ``n - d * (n // d)``."""
    for atom, k in x.terms.items():
        if type(atom) is not FloorMod:
            continue
        n, d = s.atoms.parts[atom]
        if not is_divisor_positive(s, d):
            continue
        yield (_substitute(s, x, atom, k, ZERO if k > 0 else d.shift(-1)),)
        if k < 0 and _linear_nonneg(s, n):
            yield (_substitute(s, x, atom, k, n),)


def _linear_nonneg(s: Facts, x: Linear) -> bool:
    low = linear_interval(s, x).min
    return low is not None and low >= 0


def extrema(s: Facts, x: Linear) -> Iterator[Goals]:
    """``max(a, b)`` is at least either, and is one of the two; the same for ``min``."""
    for atom, k in x.terms.items():
        kind = type(atom)
        if kind is not Min and kind is not Max:
            continue
        a, b = (_substitute(s, x, atom, k, part) for part in s.atoms.parts[atom])
        if (kind is Max) == (k > 0):
            yield (a,)
            yield (b,)
        else:
            yield (a, b)


def facts(s: Facts, x: Linear) -> Iterator[Goals]:
    """``x - t * f >= 0`` for a constraint ``f >= 0`` with an atom of the same sign as in ``x``."""
    for f in (*s.facts, *[f for pair in s.not_empty.values() for f in pair]):
        tried: set[int] = set()
        for atom, c in f.terms.items():
            k = x.terms.get(atom)
            if k is None or k * c <= 0:
                continue
            scale = abs(c) // gcd(k, c)
            t = k * scale // c
            if t not in tried:
                tried.add(t)
                yield (x.scale(scale) - f.scale(t),)


def products(s: Facts, x: Linear) -> Iterator[Goals]:
    """``a * r + b * r`` is non-negative if ``r`` and ``a + b`` are."""
    if x.const or len(x.terms) < 2:
        return
    first = next(iter(x.terms))
    for f in s.atoms.factors_of(first):
        if not _nonneg(s, f) or type(first) is not Mul:
            continue
        quotient = s.atoms.divide_exactly(x, f)
        if quotient is not None:
            yield (quotient,)


def digits(s: Facts, x: Linear) -> Iterator[Goals]:
    """``n % 8`` is ``n // 4 % 2 * 4 + n % 4``, where the digit ``n // 4 % 2`` is a term too."""
    for atom, k in x.terms.items():
        if type(atom) is not FloorMod:
            continue
        n, d = s.atoms.parts[atom]
        if d.terms or d.const <= 0:
            continue
        for other in x.terms:
            a = _digit_place(s, other, n)
            if a is None or other is atom or d.const % a:
                continue
            place = Linear({}, a)
            digit = s.atoms.binary(
                FloorMod, s.atoms.binary(FloorDiv, n, place), Linear({}, d.const // a)
            )
            rest = s.atoms.binary(FloorMod, n, place)
            yield (_substitute(s, x, atom, k, digit.scale(a) + rest),)


def _digit_place(s: Facts, atom: Expr, n: Linear) -> int | None:
    """The ``a`` of an atom ``n // a % b``, or None."""
    if type(atom) is not FloorMod:
        return None
    quotient = s.atoms.parts[atom][0].single
    if quotient is None or type(quotient) is not FloorDiv:
        return None
    dividend, divisor = s.atoms.parts[quotient]
    if divisor.terms or divisor.const <= 0 or dividend.key != n.key:
        return None
    return divisor.const


def split_remainders(s: Facts, x: Linear) -> Iterator[Goals]:
    """``n % d`` is ``n - n // d * d``, where the quotient is a term too: with ``m // 4 % 2`` as the
    end of a loop, ``m // 4 - m // 8 * 2 - m // 4 % 2`` is 0."""
    for atom, k in x.terms.items():
        if type(atom) is not FloorMod:
            continue
        split = _quotient_form(s, atom)
        if split is not None and all(a in x.terms for a in split[0].terms):
            yield (_substitute(s, x, atom, k, split[1]),)


def _quotient_form(s: Facts, atom: Expr) -> tuple[Linear, Linear] | None:
    """``n // d`` and ``n - n // d * d`` of a remainder by a positive constant."""
    n, d = s.atoms.parts[atom]
    if d.terms or d.const <= 0:
        return None
    quotient = s.floordiv(n, d)
    return quotient, n - quotient.scale(d.const)


def without_remainders(s: Facts, x: Linear) -> Linear:
    """The same sum with ``n % d`` written as ``n - n // d * d``."""
    for atom, k in list(x.terms.items()):
        split = _quotient_form(s, atom) if type(atom) is FloorMod else None
        if split is not None:
            x = _substitute(s, x, atom, k, split[1])
    return x


STEPS: tuple[Step, ...] = (
    facts,
    digits,
    split_remainders,
    cleared_quotients,
    quotients,
    symbolic_ranges,
    remainders,
    extrema,
    products,
)

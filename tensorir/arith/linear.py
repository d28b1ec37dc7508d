"""The canonical form of int64 index arithmetic: a sum of ``coefficient * atom`` and a constant.

Every rule of this folder works on a ``Linear``; ``Atoms`` interns the atoms (variables, products,
quotients, remainders, minima, ...), so that inside one analyzer two atoms are equal exactly if they
are one object, and ``x - x`` cancels however it was written. The order of the terms is the order of
first appearance and is kept for printing only: ``Linear.key`` ignores it. Nothing here knows facts
about variables; see ``simplify`` for the driver and ``bounds`` for what values an atom can take.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, TypeAlias

from ...support.node import Node
from ..expr import (
    INDEX,
    Add,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Sub,
    Var,
)
from ..visitor import uses

LinearKey: TypeAlias = tuple[frozenset[tuple[Expr, int]], int]
_COMMUTATIVE = (Min, Max)


class Linear:
    """``sum(coefficient * atom) + const``; ``terms`` never holds a zero. Immutable by agreement."""

    __slots__ = ("_key", "const", "terms")

    def __init__(self, terms: dict[Expr, int], const: int = 0) -> None:
        self.terms = terms
        self.const = const
        self._key: LinearKey | None = None

    @property
    def key(self) -> LinearKey:
        """Equal for equal sums, whatever the order of their terms."""
        key = self._key
        if key is None:
            key = self._key = (frozenset(self.terms.items()), self.const)
        return key

    def __add__(self, other: Linear) -> Linear:
        if not other.terms:
            return Linear(self.terms, self.const + other.const) if other.const else self
        if not self.terms and not self.const:
            return other
        terms = self.terms.copy()
        for atom, k in other.terms.items():
            total = terms.get(atom, 0) + k
            if total:
                terms[atom] = total
            else:
                del terms[atom]
        return Linear(terms, self.const + other.const)

    def __sub__(self, other: Linear) -> Linear:
        terms = self.terms.copy()
        for atom, k in other.terms.items():
            total = terms.get(atom, 0) - k
            if total:
                terms[atom] = total
            else:
                del terms[atom]
        return Linear(terms, self.const - other.const)

    def scale(self, k: int) -> Linear:
        """``k`` times the sum."""
        if k == 1:
            return self
        if k == 0:
            return ZERO
        return Linear({atom: c * k for atom, c in self.terms.items()}, self.const * k)

    def shift(self, k: int) -> Linear:
        """The sum plus a constant."""
        return Linear(self.terms, self.const + k) if k else self

    def divide(self, k: int) -> Linear:
        """The sum divided by ``k``, which divides every coefficient and the constant."""
        return Linear({atom: c // k for atom, c in self.terms.items()}, self.const // k)

    def step(self, var: Var) -> int | None:
        """What the sum grows by with ``var``; None where ``var`` stands inside an atom."""
        if any(type(atom) is not Var and uses(atom, var) for atom in self.terms):
            return None
        return self.terms.get(var, 0)

    @property
    def single(self) -> Expr | None:
        """The atom, where the sum is exactly one atom."""
        if len(self.terms) == 1 and not self.const:
            ((atom, k),) = self.terms.items()
            return atom if k == 1 else None
        return None


ZERO = Linear({}, 0)
ONE = Linear({}, 1)


_SMALL = [Linear({}, value) for value in range(-8, 129)]


def constant(value: int) -> Linear:
    """The sum without terms."""
    return _SMALL[value + 8] if -8 <= value <= 128 else Linear({}, value)


def _written_order(factor: Expr) -> tuple[bool, str]:
    return (False, factor.name) if isinstance(factor, Var) else (True, "")


class Atoms:
    """The interning table: one object for each atom, with the canonical operands it is made of."""

    def __init__(self) -> None:
        self._table: dict[Hashable, Expr] = {}
        self.parts: dict[Expr, tuple[Linear, Linear]] = {}
        """Operands of interned FloorDiv, FloorMod, Div, Min and Max atoms."""
        self.factors: dict[Expr, tuple[Expr, ...]] = {}
        """Factors (two or more, none constant) of interned products."""

    def binary(self, kind: type[Any], a: Linear, b: Linear) -> Linear:
        """The atom ``kind(a, b)``."""
        pair = frozenset((a.key, b.key)) if kind in _COMMUTATIVE else (a.key, b.key)
        key = (kind, pair)
        atom = self._table.get(key)
        if atom is None:
            atom = self._table[key] = kind(render(a), render(b))
            self.parts[atom] = (a, b)
        return Linear({atom: 1})

    def opaque(self, e: Expr) -> Linear:
        """An expression nothing is known about, as an atom."""
        return Linear({self._table.setdefault(expr_key(e), e): 1})

    def product(self, factors: tuple[Expr, ...]) -> Expr:
        """The atom of a product of non-constant atoms, whatever their order.

        It is written with its variables first, by name, so that what an analyzer has seen before
        does not decide how a product prints.
        """
        if len(factors) == 1:
            return factors[0]
        key = (Mul, tuple(sorted(map(id, factors))))
        atom = self._table.get(key)
        if atom is None:
            factors = tuple(sorted(factors, key=_written_order))
            atom = factors[0]
            for f in factors[1:]:
                atom = Mul(atom, f)
            self._table[key] = atom
            self.factors[atom] = factors
        return atom

    def factors_of(self, atom: Expr) -> tuple[Expr, ...]:
        """The factors of a product; the atom itself where it is none."""
        return self.factors.get(atom) or (atom,)

    def remove_factors(self, atom: Expr, divisor: Expr) -> tuple[Expr, ...] | None:
        """The factors of ``atom / divisor``, or None where the one does not contain the other."""
        rest = list(self.factors_of(atom))
        for f in self.factors_of(divisor):
            for i, r in enumerate(rest):
                if r is f:
                    del rest[i]
                    break
            else:
                return None
        return tuple(rest)

    def coefficient(self, x: Linear, var: Var) -> Linear | None:
        """The factor of ``var`` in ``x``, perhaps symbolic; None where ``var`` has a power or
        stands inside another factor."""
        found = ZERO
        for atom, k in x.terms.items():
            if atom is var:
                found = found.shift(k)
            elif type(atom) is not Var and uses(atom, var):
                rest = tuple([f for f in self.factors_of(atom) if f is not var])
                if len(rest) + 1 != len(self.factors_of(atom)) or any(uses(f, var) for f in rest):
                    return None
                found = found + Linear({self.product(rest): k})
        return found

    def without(self, x: Linear, var: Var) -> Linear:
        """The terms of ``x`` in which ``var`` is no factor."""
        kept = {a: k for a, k in x.terms.items() if not any(f is var for f in self.factors_of(a))}
        return Linear(kept, x.const)

    def divide_exactly(self, x: Linear, divisor: Expr) -> Linear | None:
        """``x / divisor`` where every term contains the atom ``divisor``."""
        if x.const:
            return None
        terms: dict[Expr, int] = {}
        const = 0
        for atom, k in x.terms.items():
            rest = self.remove_factors(atom, divisor)
            if rest is None:
                return None
            if rest:
                terms[self.product(rest)] = k
            else:
                const = k
        return Linear(terms, const)

    def multiply(self, a: Linear, b: Linear) -> Linear:
        """The product, multiplied out."""
        if not b.terms:
            return a.scale(b.const)
        if not a.terms:
            return b.scale(a.const)
        result: dict[Expr, int] = {}
        for x, p in a.terms.items():
            for y, q in b.terms.items():
                atom = self.product(self.factors_of(x) + self.factors_of(y))
                result[atom] = result.get(atom, 0) + p * q
        product = Linear({atom: k for atom, k in result.items() if k}, a.const * b.const)
        if a.const:
            product = product + Linear({y: a.const * q for y, q in b.terms.items()})
        if b.const:
            product = product + Linear({x: b.const * p for x, p in a.terms.items()})
        return product


def render(x: Linear) -> Expr:
    """The sum as an expression: positive terms, negative terms, constant last."""
    const = x.const
    result: Expr | None = None
    negative: list[tuple[Expr, int]] = []
    for atom, k in x.terms.items():
        if k < 0:
            negative.append((atom, -k))
        else:
            term = atom if k == 1 else Mul(atom, IntImm(k, INDEX))
            result = term if result is None else Add(result, term)
    if result is None:
        if const > 0 or not negative:
            result, const = IntImm(const, INDEX), 0
        else:
            atom, k = negative.pop(0)
            result = Sub(IntImm(0, INDEX), atom) if k == 1 else Mul(atom, IntImm(-k, INDEX))
    for atom, k in negative:
        result = Sub(result, atom if k == 1 else Mul(atom, IntImm(k, INDEX)))
    if const > 0:
        return Add(result, IntImm(const, INDEX))
    return Sub(result, IntImm(-const, INDEX)) if const < 0 else result


def expr_key(e: Any) -> Hashable:
    """A hashable that two nodes share exactly if they are structurally equal (variables and buffers
    by identity, floats by their text so that NaN equals NaN and -0.0 is not 0.0)."""
    kind = type(e)
    if kind is Var:
        return e  # type: ignore[no-any-return]
    if kind is IntImm:
        return (IntImm, e.value, e.dtype)
    if kind is FloatImm:
        return (FloatImm, repr(e.value), e.dtype)
    if isinstance(e, Expr):
        return (kind.__name__, e.dtype, *[expr_key(getattr(e, name)) for name in e.init_fields])
    if kind is tuple:
        return tuple([expr_key(item) for item in e])
    return e  # type: ignore[no-any-return]


def same_structure(a: Node, b: Node) -> bool:
    """Whether two expressions are structurally equal; quick where they share objects."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b) or kind is Var:
        return False
    if kind is IntImm:
        return a.value == b.value and a.dtype is b.dtype  # type: ignore[attr-defined]
    for name in a.init_fields:
        x, y = getattr(a, name), getattr(b, name)
        if x is y:
            continue
        if isinstance(x, Expr) and isinstance(y, Expr):
            if not same_structure(x, y):
                return False
        elif expr_key(x) != expr_key(y):
            return False
    return True


def total(parts: Iterable[Linear]) -> Linear:
    """The sum of several sums."""
    result = ZERO
    for p in parts:
        result = result + p
    return result


def offset_of(e: Expr) -> tuple[Expr, int]:
    """An expression as it is written, and the constant that is added to it: ``x`` and -3 of
    ``x - 3``."""
    if isinstance(e, Add | Sub) and isinstance(e.b, IntImm):
        return e.a, e.b.value if isinstance(e, Add) else -e.b.value
    return e, 0


def same_extent(a: Expr, b: Expr) -> bool:
    """Whether two extents are plainly the same."""
    return a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value)

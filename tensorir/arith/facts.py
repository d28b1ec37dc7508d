"""What is known about variables: bindings of loops and dimensions, and temporary constraints.

A constraint becomes a sum that is not negative (``i < m`` is ``m - 1 - i >= 0``), tighter bounds of
its atoms, and, for ``m % 8 == 0``, a known remainder. Conditions that read memory are not recorded:
they may not hold any more a statement later. ``Simplifier`` adds the walk over expressions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from ..buffer import Range
from ..expr import EQ, INDEX, NE, Expr, FloorDiv, FloorMod, IntImm, Not, Var
from .bounds import NON_NEGATIVE, Interval, atom_interval, intersect, linear_interval
from .linear import Atoms, Linear, constant
from .modular import Modulus, normal
from .prove import tighten, without_remainders
from .rules_compare import inequality
from .rules_logic import COMPARISONS, conjuncts, is_stable

Domain: TypeAlias = Range | int | tuple[int, int]


class Facts(ABC):
    """The facts, and the memos that hold as long as they do."""

    max_goals = 80
    """Goals that a search for a proof may look at."""

    def __init__(self) -> None:
        self.atoms = Atoms()
        self.var_intervals: dict[Expr, Interval] = {}
        self.substitutions: dict[Expr, Linear] = {}
        self.symbolic_bounds: dict[Expr, tuple[Linear | None, Linear | None]] = {}
        self.not_empty: dict[Expr, tuple[Linear, Linear]] = {}
        """For a variable whose bounds leave one value and whose domain is symbolic: that the domain
        has an element at all, which nothing else says once the value has replaced the variable; and
        the same without remainders."""
        self.facts: list[Linear] = []
        """Sums known to be non-negative."""
        self.truths: list[tuple[Expr, bool]] = []
        """Conditions that are no integer comparisons, and what they are known to be."""
        self.narrowed: dict[Expr, Interval] = {}
        """Bounds of atoms that follow from constraints."""
        self.known_moduli: dict[Expr, Modulus] = {}
        """Remainders of atoms that follow from constraints."""
        self.being_bounded: set[Expr] = set()
        self.forget()

    @abstractmethod
    def linear(self, e: Expr) -> Linear:
        """The canonical form of an int64 expression."""

    @abstractmethod
    def simplify(self, e: Expr) -> Expr:
        """The canonical form of any expression."""

    @abstractmethod
    def floordiv(self, x: Linear, d: Linear) -> Linear:
        """The canonical form of ``x // d``."""

    def forget(self) -> None:
        """Start new memos: what is known has changed."""
        self.memo: dict[Expr, Expr] = {}
        self.linears: dict[Expr, Linear] = {}
        self.intervals: dict[Expr, Interval] = dict(self.narrowed)
        self.moduli: dict[Expr, Modulus] = dict(self.known_moduli)

    def declare_dim(self, var: Var) -> None:
        """``var`` is a symbolic dimension: at least 0."""
        self.var_intervals[var] = intersect(self.var_intervals.get(var, NON_NEGATIVE), NON_NEGATIVE)
        self.forget()

    def bind(self, var: Var, domain: Domain) -> None:
        """``var`` takes the values of ``domain``; an earlier binding of it is replaced."""
        if isinstance(domain, Range) and type(domain.extent) is type(domain.min) is IntImm:
            least = domain.min.value
            self._bind_constants(var, least, least + domain.extent.value - 1)
            return
        self._unbind(var)
        if isinstance(domain, tuple):
            low, high = constant(domain[0]), constant(domain[1])
        elif isinstance(domain, Range):
            low = self.linear(domain.min)
            high = low + self.linear(domain.extent).shift(-1)
        else:
            low, high = constant(0), constant(domain - 1)
        if low.key == high.key:
            self.substitutions[var] = low
        elif low.terms or high.terms:
            self.symbolic_bounds[var] = (low if low.terms else None, high if high.terms else None)
        known = Interval(linear_interval(self, low).min, linear_interval(self, high).max)
        self.var_intervals[var] = known
        if known.min is not None and known.min == known.max and (low.terms or high.terms):
            self.not_empty[var] = high - low, without_remainders(self, high - low)
        self.forget()

    def _bind_constants(self, var: Var, least: int, most: int) -> None:
        """The common case, without sums: a loop from one number to another."""
        bound = var in self.var_intervals or var in self.substitutions
        if bound or self.narrowed or self.known_moduli:
            self._unbind(var)
        elif self.memo or self.linears or self.intervals or self.moduli:
            self.forget()
        if least == most:
            self.substitutions[var] = constant(least)
        self.var_intervals[var] = Interval(least, most)

    def bind_expr(self, var: Var, value: Expr) -> None:
        """``var`` is ``value``."""
        self._unbind(var)
        self.substitutions[var] = self.linear(value)
        self.forget()

    def bind_interval(self, var: Var, known: Interval) -> None:
        """``var`` lies in ``known``, of which either end may be open."""
        self._unbind(var)
        self.var_intervals[var] = known
        self.forget()

    def _unbind(self, var: Var) -> None:
        for table in (
            self.substitutions,
            self.symbolic_bounds,
            self.narrowed,
            self.known_moduli,
            self.not_empty,
        ):
            table.pop(var, None)
        self.forget()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Bindings made inside end with the ``with``; the memos before it come back."""
        memos = self.memo, self.linears, self.intervals, self.moduli
        known = self.var_intervals, self.substitutions, self.symbolic_bounds, self.not_empty
        constraints = self.narrowed, self.known_moduli
        self.var_intervals, self.substitutions, self.symbolic_bounds, self.not_empty = (
            self.var_intervals.copy(),
            self.substitutions.copy(),
            self.symbolic_bounds.copy(),
            self.not_empty.copy(),
        )
        self.narrowed, self.known_moduli = self.narrowed.copy(), self.known_moduli.copy()
        self.forget()
        try:
            yield
        finally:
            (
                self.var_intervals,
                self.substitutions,
                self.symbolic_bounds,
                self.not_empty,
            ) = known
            self.narrowed, self.known_moduli = constraints
            self.memo, self.linears, self.intervals, self.moduli = memos

    @contextmanager
    def assuming(self, conditions: Iterable[Expr]) -> Iterator[None]:
        """Inside, the conditions hold; those that cannot be used are ignored."""
        parts = [p for c in conditions for p in conjuncts(self.simplify(c))]
        memos = self.memo, self.linears, self.intervals, self.moduli
        known = self.facts, self.truths, self.narrowed, self.known_moduli
        self.facts, self.truths = self.facts[:], self.truths[:]
        self.narrowed, self.known_moduli = self.narrowed.copy(), self.known_moduli.copy()
        self.forget()
        try:
            for part in parts:
                if is_stable(part):
                    self._assume(part)
            self.forget()
            yield
        finally:
            self.facts, self.truths, self.narrowed, self.known_moduli = known
            self.memo, self.linears, self.intervals, self.moduli = memos

    def _assume(self, e: Any) -> None:
        kind: Any = type(e)
        if kind not in COMPARISONS or e.a.dtype is not INDEX:
            if kind is Not:
                self.truths.append((e.a, False))
            elif kind is not IntImm:
                self.truths.append((e, True))
            return
        d = self.linear(e.a) - self.linear(e.b)
        if kind is EQ:
            self._add_fact(d)
            self._add_fact(d.scale(-1))
            self._add_modulus(d)
        elif kind is NE:
            low, high = linear_interval(self, d)
            if low == 0:
                self._add_fact(d.shift(-1))
            elif high == 0:
                self._add_fact(d.scale(-1).shift(-1))
        else:
            self._add_fact(inequality(kind, d))

    def _add_modulus(self, d: Linear) -> None:
        """``n % c == r`` also tells what ``n`` is, modulo c."""
        for atom, k in d.terms.items():
            if type(atom) is FloorMod and len(d.terms) == 1 and abs(k) == 1:
                n, divisor = self.atoms.parts[atom]
                if n.single is not None and not divisor.terms:
                    self.known_moduli[n.single] = normal(divisor.const, -d.const // k)

    def _add_fact(self, f: Linear, depth: int = 2) -> None:
        f = tighten(f)
        if not f.terms:
            return
        self.facts.append(f)
        for atom, k in f.terms.items():
            rest = Linear({a: c for a, c in f.terms.items() if a is not atom}, f.const)
            most = linear_interval(self, rest).max
            if most is None:
                continue
            limit = Interval(-(most // k), None) if k > 0 else Interval(None, most // -k)
            before = atom_interval(self, atom)
            after = intersect(before, limit)
            if after != before:
                self.narrowed[atom] = self.intervals[atom] = after
                self._narrow_dividend(atom, after, depth)

    def _narrow_dividend(self, atom: Expr, known: Interval, depth: int) -> None:
        """``n // c <= q`` means ``n <= q * c + c - 1``."""
        if type(atom) is not FloorDiv or not depth:
            return
        n, d = self.atoms.parts[atom]
        if d.terms or d.const <= 0:
            return
        if known.max is not None:
            self._add_fact(constant(known.max * d.const + d.const - 1) - n, depth - 1)
        if known.min is not None:
            self._add_fact(n.shift(-known.min * d.const), depth - 1)

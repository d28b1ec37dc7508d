"""Affine index arithmetic of schedules: bindings are sums of ``coefficient * digit of a loop``.

A *digit* is the part ``var % upper // lower`` of a loop variable; a plain variable is the digit of
all of it. Split gives sums of variables, fuse gives digits, and what a primitive wants to know of a
binding (does it tell iterations apart, which box does a loop sweep) is a question about digits,
which is answered here from constant extents. Simplification and proofs are ``arith.Analyzer``'s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...support.node import walk
from ..arith import Analyzer, expr_key
from ..buffer import Range
from ..expr import (
    Add,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Mul,
    Sub,
    Var,
    add,
    is_const,
    maximum,
    minimum,
    mul,
    sub,
)
from ..stmt import For


class Bounds:
    """The ranges of loop variables and axes, and what follows from them.

    Two analyzers are made on demand. The one that simplifies must not replace a loop of extent 1 by
    0, because bindings go on naming that loop, so it takes such a loop for one of extent 2 (which
    is sound: fewer facts).
    """

    __slots__ = ("_prover", "_simplifier", "ranges")

    def __init__(self, ranges: Mapping[Var, Range] | None = None) -> None:
        self.ranges: dict[Var, Range] = dict(ranges or {})
        self._simplifier: Analyzer | None = None
        self._prover: Analyzer | None = None

    def __or__(self, other: Bounds) -> Bounds:
        return Bounds(self.ranges | other.ranges) if other.ranges else self

    def __contains__(self, v: object) -> bool:
        return v in self.ranges

    def constant_extent(self, v: Var) -> int | None:
        """The extent of a variable that begins at 0, where it is a constant."""
        r = self.ranges[v]
        return r.extent.value if isinstance(r.extent, IntImm) else None

    def begins_at_zero(self, v: Var) -> bool:
        """Whether the range of ``v`` begins at 0."""
        return is_const(self.ranges[v].min, 0)

    def simplify(self, e: Expr) -> Expr:
        """``e`` in canonical form; loops of extent 1 stay."""
        if isinstance(e, (Var, IntImm)):
            return e
        analyzer = self._simplifier
        if analyzer is None:
            analyzer = self._simplifier = _recent.simplifiers.of(self, _new_simplifier)
        return analyzer.simplify(e)

    def key(self) -> tuple[Hashable, ...]:
        """The same for the same ranges of the same variables."""
        return tuple(
            [
                x.value if type(x) is IntImm else x
                for v, r in self.ranges.items()
                for x in (v, r.min, r.extent)
            ]
        )

    def with_dims(self) -> Analyzer:
        """An analyzer that knows the variables of extents to be at least 0: they are symbolic
        dimensions, and a loop with a negative extent does not run."""
        analyzer = Analyzer()
        for r in self.ranges.values():
            if not isinstance(r.extent, IntImm):
                for n in walk(r.extent):
                    if isinstance(n, Var) and n not in self.ranges:
                        analyzer.declare_dim(n)
        return analyzer

    @property
    def prover(self) -> Analyzer:
        """An analyzer that knows the ranges."""
        analyzer = self._prover
        if analyzer is None:
            analyzer = self._prover = _recent.provers.of(self, _new_prover)
        return analyzer

    def proves(self, condition: Expr) -> bool:
        """Whether a condition always holds."""
        if isinstance(condition, IntImm):
            return condition.value != 0
        return self.prover.can_prove(condition)

    def proves_equal(self, a: Expr, b: Expr) -> bool:
        """Whether two index expressions are always equal."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value == b.value
        return a is b or self.prover.can_prove_equal(a, b)

    def proves_le(self, a: Expr, b: Expr) -> bool:
        """Whether ``a <= b`` always holds."""
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return a.value <= b.value
        if a is b:
            return True
        least = self.prover.least_difference(b, a)
        if least is not None and least >= 0:
            return True
        gap = self.prover.simplify(sub(b, a))
        low = self.prover.bounds(gap).min
        return (low is not None and low >= 0) or self.prover.can_prove(gap >= 0)


def _new_simplifier(bounds: Bounds) -> Analyzer:
    analyzer = bounds.with_dims()
    for v, r in bounds.ranges.items():
        most = r.extent.value if type(r.extent) is IntImm else analyzer.bounds(r.extent).max
        analyzer.bind(v, Range(r.min, IntImm(2)) if most is not None and most <= 1 else r)
    return analyzer


def _new_prover(bounds: Bounds) -> Analyzer:
    analyzer = bounds.with_dims()
    for v, r in bounds.ranges.items():
        analyzer.bind(v, r)
    return analyzer


class _Analyzers:
    """The analyzers of the ranges that were asked about last. One primitive asks about the same
    loops many times, and so does the next; what an analyzer has found out stays true."""

    LIMIT = 64

    def __init__(self) -> None:
        self.known: dict[Hashable, Analyzer] = {}

    def of(self, bounds: Bounds, make: Callable[[Bounds], Analyzer]) -> Analyzer:
        key = bounds.key()
        found = self.known.get(key)
        if found is None:
            if len(self.known) >= self.LIMIT:
                self.known.clear()
            found = self.known[key] = make(bounds)
        return found


class _Recent(threading.local):
    """An analyzer is for one thread at a time: constraints are put on it and taken off."""

    def __init__(self) -> None:
        self.simplifiers = _Analyzers()
        self.provers = _Analyzers()


_recent = _Recent()


def loop_bounds(loops: Iterable[For]) -> Bounds:
    """The ranges of loop variables."""
    return Bounds({loop.var: Range(loop.min, loop.extent) for loop in loops})


# -- sums ------------------------------------------------------------------------------------------
def terms_of(e: Expr) -> tuple[list[tuple[Expr, int]], int]:
    """A simplified expression as ``(atom, coefficient)`` pairs and a constant."""
    terms: list[tuple[Expr, int]] = []
    const = _add_terms(e, 1, terms)
    return terms, const


def _add_terms(e: Expr, k: int, terms: list[tuple[Expr, int]]) -> int:
    if isinstance(e, IntImm):
        return k * e.value
    if isinstance(e, Add):
        return _add_terms(e.a, k, terms) + _add_terms(e.b, k, terms)
    if isinstance(e, Sub):
        return _add_terms(e.a, k, terms) + _add_terms(e.b, -k, terms)
    if isinstance(e, Mul) and isinstance(e.b, IntImm):
        return _add_terms(e.a, k * e.b.value, terms)
    terms.append((e, k))
    return 0


def sum_of(terms: Sequence[tuple[Expr, int]], const: int) -> Expr:
    """The expression of a sum."""
    result: Expr = IntImm(0)
    for atom, k in terms:
        result = add(result, mul(atom, k)) if k > 0 else sub(result, mul(atom, -k))
    return add(result, const) if const >= 0 else sub(result, -const)


# -- digits ----------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Digit:
    """``var % upper // lower``; ``upper`` is None for all of a variable whose extent is not
    constant.

    ``extent`` is how many values it takes, None where that is not constant.
    """

    var: Var
    lower: int
    upper: int | None

    @property
    def extent(self) -> int | None:
        return None if self.upper is None else -(-self.upper // self.lower)

    @property
    def even(self) -> bool:
        """Whether all its values are taken equally often."""
        return self.upper is not None and self.upper % self.lower == 0


def digit_of(atom: Expr, bounds: Bounds) -> Digit | None:
    """The digit of a bounded variable that an atom is, or None. The variable must begin at 0."""
    if isinstance(atom, Var):
        if atom not in bounds or not bounds.begins_at_zero(atom):
            return None
        return Digit(atom, 1, bounds.constant_extent(atom))
    if (
        not isinstance(atom, (FloorDiv, FloorMod))
        or not isinstance(atom.b, IntImm)
        or atom.b.value < 1
    ):
        return None
    d, c = digit_of(atom.a, bounds), atom.b.value
    if d is None:
        return None
    if isinstance(atom, FloorDiv):
        return Digit(d.var, d.lower * c, d.upper)
    upper = d.lower * c
    if d.upper is None or d.upper % upper == 0:
        return Digit(d.var, d.lower, upper)
    return d if d.upper <= upper else None


def overlapping(digits: Sequence[Digit]) -> bool:
    """Whether two digits of one variable share a part of it, or cut it unevenly."""
    by_var: dict[Var, list[Digit]] = {}
    for d in digits:
        by_var.setdefault(d.var, []).append(d)
    for group in by_var.values():
        group.sort(key=lambda d: d.lower)
        for a, b in pairwise(group):
            if a.upper is None or b.lower < a.upper or b.lower % a.upper:
                return True
    return False


def is_independent(values: Sequence[Expr], bounds: Bounds) -> bool:
    """Whether ``values`` are affine in the variables of ``bounds`` and each combination of digits
    gives another tuple of values: an injective map of the digits, with coefficients that are not
    negative.

    Every value must be a sum of digits with coefficients that grow at least as fast as the extents
    below them, and no digit may serve twice. Symbolic dimensions may be added as constants. Values
    that together are one sum written in a mixed radix (loops fused and then split) count as it.
    """
    return _independent_digits(values, bounds) is not None


def undetermined(values: Sequence[Expr], bounds: Bounds) -> list[Var] | None:
    """The variables of ``bounds`` that independent values do not determine: iterations that differ
    in these alone have equal values. None where the values are not independent."""
    digits = _independent_digits(values, bounds)
    if digits is None:
        return None
    found: list[Var] = []
    for v in bounds.ranges:
        extent = bounds.constant_extent(v)
        if extent is not None and extent <= 1:
            continue
        reach: int | None = 1
        for d in sorted([d for d in digits if d.var is v], key=lambda d: d.lower):
            if d.lower != reach:
                break
            reach = d.upper
        if reach is not None and (extent is None or reach < extent):
            found.append(v)
    return found


def _independent_digits(values: Sequence[Expr], bounds: Bounds) -> list[Digit] | None:
    digits: list[Digit] = []
    for value in _joined(values, bounds):
        if isinstance(value, Var):
            terms: list[tuple[Expr, int]] = [(value, 1)]
        else:
            terms, _ = terms_of(bounds.simplify(value))
        steps: list[tuple[int, Digit]] = []
        for atom, k in terms:
            d = digit_of(atom, bounds)
            if d is None:
                if mentions(atom, bounds):
                    return None
                continue
            if k < 0:
                return None
            if d.extent != 1:
                steps.append((k, d))
        if not _grows(steps):
            return None
        digits.extend([d for _, d in steps])
    return None if overlapping(digits) else digits


def _joined(values: Sequence[Expr], bounds: Bounds) -> list[Expr]:
    """The values with ``e // c`` and ``e % c`` (of any number of places) replaced by ``e``, which
    they determine and are determined by; ``e`` is a sum, for a variable has digits of its own."""
    simple = [v if isinstance(v, Var) else bounds.simplify(v) for v in values]
    places: dict[Hashable, list[tuple[int, int | None, int]]] = {}
    sums: dict[Hashable, Expr] = {}
    for i, v in enumerate(simple):
        whole, lower, upper = _place_of(_without_constant(v))
        if isinstance(whole, (Add, Sub)) and (lower, upper) != (1, None):
            key = expr_key(whole)
            sums[key] = whole
            places.setdefault(key, []).append((lower, upper, i))
    for key, found in places.items():
        found.sort(key=lambda p: p[0])
        uppers = [upper for _, upper, _ in found]
        if [lower for lower, _, _ in found] == [1, *uppers[:-1]] and uppers[-1] is None:
            for _, _, i in found:
                simple[i] = IntImm(0)
            simple[found[0][2]] = sums[key]
    return _joined_by_sizes(simple, bounds)


def _joined_by_sizes(values: list[Expr], bounds: Bounds) -> list[Expr]:
    """``e // size`` and ``e % size`` with a symbolic size, replaced by ``e``: loops fused over
    sizes that are not known, innermost first."""
    again = True
    while again:
        again = False
        for i, v in enumerate(values):
            if not isinstance(v, FloorMod) or isinstance(v.b, IntImm) or mentions(v.b, bounds):
                continue
            quotient = _quotient_key(FloorDiv(v.a, v.b), bounds)
            for j, w in enumerate(values):
                if j != i and isinstance(w, FloorDiv) and _quotient_key(w, bounds) == quotient:
                    values[i], values[j] = IntImm(0), v.a
                    again = True
                    break
    return values


def _quotient_key(e: FloorDiv, bounds: Bounds) -> Hashable:
    """Equal for quotients in one step or in several, ``x // a // b`` and ``x // (a * b)``."""
    whole, divisor = e.a, e.b
    while isinstance(whole, FloorDiv):
        divisor = mul(whole.b, divisor)
        whole = whole.a
    return expr_key(bounds.simplify(whole)), expr_key(bounds.simplify(divisor))


def _without_constant(e: Expr) -> Expr:
    return e.a if isinstance(e, (Add, Sub)) and isinstance(e.b, IntImm) else e


def _place_of(e: Expr) -> tuple[Expr, int, int | None]:
    """``e`` as ``whole % upper // lower``, with ``upper`` None where nothing is cut off."""
    if not isinstance(e, (FloorDiv, FloorMod)) or not isinstance(e.b, IntImm) or e.b.value < 1:
        return e, 1, None
    whole, lower, upper = _place_of(e.a)
    if isinstance(e, FloorDiv):
        step = lower * e.b.value
        return (whole, step, upper) if upper is None or upper % step == 0 else (e, 1, None)
    top = lower * e.b.value
    return (whole, lower, top) if upper is None or upper % top == 0 else (e, 1, None)


def _grows(steps: list[tuple[int, Digit]]) -> bool:
    steps.sort(key=lambda t: t[0])
    reach: int | None = 1
    for k, d in steps:
        if reach is None or k < reach:
            return False
        reach = k * d.extent if d.extent is not None else None
    return True


def mentions(e: Expr, bounds: Bounds) -> bool:
    """Whether a bounded variable appears in ``e``."""
    if isinstance(e, Var):
        return e in bounds
    return any(isinstance(n, Var) and n in bounds for n in walk(e))


# -- sweeps ----------------------------------------------------------------------------------------
@dataclass(slots=True)
class Sweep:
    """What an index covers while some loops run: ``[start, start + extent)``.

    ``exact`` says that every value of it is taken; ``digits`` are the parts of loops it uses.
    """

    start: Expr
    extent: Expr
    exact: bool
    digits: list[Digit]


def sweep(index: Expr, inner: Bounds, bounds: Bounds) -> Sweep | None:
    """The range of ``index`` while the loops of ``inner`` run; None where it cannot be told.

    ``bounds`` are those of all variables. Terms without inner variables are the fixed start.
    """
    terms, const = terms_of(bounds.simplify(index))
    fixed: list[tuple[Expr, int]] = []
    steps: list[tuple[int, Digit]] = []
    exact = True
    low, high = const, const
    unbounded: tuple[int, Digit] | None = None
    for atom, k in terms:
        if not mentions(atom, inner):
            fixed.append((atom, k))
            continue
        d = digit_of(atom, inner)
        if d is not None and k > 0:
            steps.append((k, d))
            if d.extent is not None:
                high += k * (d.extent - 1)
            elif unbounded is not None or d.lower != 1 or d.upper is not None:
                return None
            else:
                unbounded = (k, d)
            continue
        exact = False
        limits = bounds.prover.bounds(atom)
        if limits.min is None or limits.max is None:
            return None
        low += min(k * limits.min, k * limits.max)
        high += max(k * limits.min, k * limits.max)
    digits = [d for _, d in steps]
    start = sum_of(fixed, low)
    length = high - low + 1
    if unbounded is None:
        return Sweep(start, IntImm(length), exact and _dense(steps), digits)
    k, d = unbounded
    dense = _dense([t for t in steps if t[1] is not d]) and k <= length
    extent = bounds.simplify(add(mul(sub(bounds.ranges[d.var].extent, 1), k), length))
    return Sweep(start, extent, exact and dense, digits)


def _dense(steps: Sequence[tuple[int, Digit]]) -> bool:
    """Whether the sum takes every value from 0 to its maximum."""
    reach = 1
    for k, d in sorted(steps, key=lambda t: t[0]):
        if d.extent is None or not d.even or k > reach:
            return False
        reach += k * (d.extent - 1)
    return True


def steps_without_gap(start: Expr, length: int, loops: Bounds, bounds: Bounds) -> bool:
    """Whether ranges of ``length`` that begin at each value of ``start``, while ``loops`` run,
    leave no gap: every coefficient is at most what the smaller terms and the length reach."""
    terms, _ = terms_of(bounds.simplify(start))
    steps: list[tuple[int, Digit]] = []
    for atom, k in terms:
        if not mentions(atom, loops):
            continue
        d = digit_of(atom, loops)
        if d is None or k < 0 or (d.extent is not None and not d.even):
            return False
        steps.append((k, d))
    steps.sort(key=lambda t: t[0])
    reach = length
    for i, (k, d) in enumerate(steps):
        if k > reach:
            return False
        if d.extent is None:
            return i == len(steps) - 1
        reach += k * (d.extent - 1)
    return True


def low_and_high(a: tuple[Expr, Expr], b: tuple[Expr, Expr], bounds: Bounds) -> tuple[Expr, Expr]:
    """Start and extent of the smallest range around two ranges (start, extent)."""
    low = bounds.simplify(minimum(a[0], b[0]))
    high = bounds.simplify(maximum(add(*a), add(*b)))
    return low, bounds.simplify(sub(high, low))

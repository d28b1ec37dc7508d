"""What schedules know of loops: their ranges, and the boxes that indices cover while some of them
run.

A *sweep* is the range of an index while loops run; it asks ``arith`` which pieces of loops the
index is made of (``iter_map``), and says whether every value is taken. Simplification and proofs
are ``arith.Analyzer``'s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...support.node import walk
from ..arith import Analyzer
from ..arith.iter_map import Decomposition, IterSplit, all_taken
from ..arith.iter_map import undetermined as undetermined_loops
from ..arith.linear import Linear, constant, render
from ..arith.simplify import Simplifier
from ..buffer import Range
from ..expr import Expr, IntImm, Var, add, maximum, minimum, sub
from ..stmt import For


class Bounds:
    """The ranges of loop variables and axes, and what follows from them.

    Two analyzers are made on demand. The one that simplifies must not replace a loop of extent 1 by
    0, because bindings go on naming that loop, so it takes such a loop for one of extent 2 (which
    is sound: fewer facts).
    """

    __slots__ = ("_parts", "_prover", "_simplifier", "ranges")

    def __init__(self, ranges: Mapping[Var, Range] | None = None) -> None:
        self.ranges: dict[Var, Range] = dict(ranges or {})
        self._simplifier: Analyzer | None = None
        self._prover: Analyzer | None = None
        self._parts: Decomposition | None = None

    def __or__(self, other: Bounds) -> Bounds:
        return Bounds(self.ranges | other.ranges) if other.ranges else self

    def __contains__(self, v: object) -> bool:
        return v in self.ranges

    @property
    def simplifier(self) -> Analyzer:
        """An analyzer that leaves loops of extent 1."""
        analyzer = self._simplifier
        if analyzer is None:
            analyzer = self._simplifier = _recent.simplifiers.of(self, _new_simplifier)
        return analyzer

    def simplify(self, e: Expr) -> Expr:
        """``e`` in canonical form; loops of extent 1 stay."""
        return e if isinstance(e, (Var, IntImm)) else self.simplifier.simplify(e)

    def linear(self, e: Expr) -> Linear:
        """The canonical form itself; loops of extent 1 stay."""
        return self.simplifier.simplifier.linear(e)

    def digits_of(self, inner: Bounds) -> Decomposition:
        """What takes forms apart into digits of the loops of ``inner`` that begin at 0."""
        s = self.simplifier.simplifier
        parts = inner._parts
        if parts is None or parts.s is not s:
            parts = inner._parts = Decomposition(s, _extents(inner, s))
        return parts

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
        least, most = self.prover.difference(b, a)
        if least is not None and least >= 0:
            return True
        if most is not None and most < 0:
            return False
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


# -- iterations ------------------------------------------------------------------------------------
def undetermined(values: Sequence[Expr], bounds: Bounds) -> list[Var] | None:
    """The variables of ``bounds`` that the values do not determine: iterations that differ in
    others have other values.

    None where the values are no affine map of the variables that tells the digits it uses of them
    apart. Symbolic dimensions may be added as constants, and variables must begin at 0.
    """
    s = bounds.prover.simplifier
    loops = _extents(bounds, s)
    if len(loops) < len(bounds.ranges):
        others = Bounds({v: r for v, r in bounds.ranges.items() if v not in loops})
        if any(mentions(e, others) for e in values):
            return None
    return undetermined_loops(values, loops, s)


def _extents(bounds: Bounds, s: Simplifier) -> dict[Var, Linear]:
    """The extents of the variables that begin at 0."""
    return {
        v: s.linear(r.extent)
        for v, r in bounds.ranges.items()
        if type(r.min) is IntImm and r.min.value == 0
    }


def is_independent(values: Sequence[Expr], bounds: Bounds) -> bool:
    """Whether ``values`` are affine in the variables of ``bounds`` and each combination of the
    digits they use gives another tuple of values."""
    return undetermined(values, bounds) is not None


def mentions(e: Expr, bounds: Bounds) -> bool:
    """Whether a bounded variable appears in ``e``."""
    if isinstance(e, Var):
        return e in bounds
    return any(isinstance(n, Var) and n in bounds for n in walk(e))


# -- sweeps ----------------------------------------------------------------------------------------
@dataclass(slots=True)
class Sweep:
    """What an index covers while some loops run: ``[start, start + extent)``.

    ``exact`` says that every value of it is taken, if ``digits``, the parts of loops it uses, take
    all combinations of theirs.
    """

    start: Expr
    extent: Expr
    exact: bool
    digits: list[IterSplit]


def sweep(index: Expr, inner: Bounds, bounds: Bounds) -> Sweep | None:
    """The range of ``index`` while the loops of ``inner`` run; None where it cannot be told.

    ``bounds`` are those of all variables. Terms without inner variables are the fixed start.
    """
    form = bounds.linear(index)
    fixed = {atom: k for atom, k in form.terms.items() if not mentions(atom, inner)}
    steps, others = _steps(form, inner, bounds)
    low = length = 0
    for atom, k in others:
        limits = bounds.prover.bounds(atom)
        if limits.min is None or limits.max is None:
            return None
        low += min(k * limits.min, k * limits.max)
        length += abs(k) * (limits.max - limits.min)
    start = render(Linear(fixed, form.const + low))
    length += sum([k * (p.extent.const - 1) for k, p in steps])
    extent = constant(length + 1)
    for k, p in steps:
        if p.extent.terms:
            extent = extent + Linear(p.extent.terms).scale(k)
    exact = not others and _leaves_no_gap(steps, 1)
    return Sweep(start, bounds.simplify(render(extent)), exact, [p for _, p in steps])


def _steps(
    form: Linear, inner: Bounds, bounds: Bounds
) -> tuple[list[tuple[int, IterSplit]], list[tuple[Expr, int]]]:
    """The terms that move with loops of ``inner``: digits that move up, and others."""
    parts = bounds.digits_of(inner)
    steps: list[tuple[int, IterSplit]] = []
    others: list[tuple[Expr, int]] = []
    for atom, k in form.terms.items():
        if mentions(atom, inner):
            p = parts.split(atom) if k > 0 else None
            if p is None:
                others.append((atom, k))
            elif p.extent.terms or p.extent.const != 1:
                steps.append((k, p))
    return steps, others


def _leaves_no_gap(steps: Sequence[tuple[int, IterSplit]], length: int) -> bool:
    """Whether ranges of ``length`` that begin at each sum leave no gap: every coefficient is at
    most what the smaller terms and the length reach."""
    reach: int | None = length
    for k, p in sorted(steps, key=lambda t: (len(t[1].extent.terms), t[0])):
        if reach is None or k > reach:
            return False
        reach = None if p.extent.terms else reach + k * (p.extent.const - 1)
    return True


def steps_without_gap(start: Expr, length: int, loops: Bounds, bounds: Bounds) -> bool:
    """Whether ranges of ``length`` that begin at each value of ``start``, while ``loops`` run,
    leave no gap."""
    steps, others = _steps(bounds.linear(start), loops, bounds)
    return not others and _leaves_no_gap(steps, length)


def overlapping(digits: Sequence[IterSplit], bounds: Bounds) -> bool:
    """Whether digits of one loop share a part of it, or cut it unevenly: they do not take all
    combinations of their values, as far as is known."""
    return not all_taken(digits, bounds.simplifier.simplifier)


def low_and_high(a: tuple[Expr, Expr], b: tuple[Expr, Expr], bounds: Bounds) -> tuple[Expr, Expr]:
    """Start and extent of the smallest range around two ranges (start, extent)."""
    low = bounds.simplify(minimum(a[0], b[0]))
    high = bounds.simplify(maximum(add(*a), add(*b)))
    return low, bounds.simplify(sub(high, low))

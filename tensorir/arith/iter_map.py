"""Affine iterator maps: index expressions as sums of pieces of loops.

A loop variable is a *mark*, a counter ``[0, extent)``. A *split* is a piece of a mark,
``mark // lower % extent * scale``. A *sum* of splits is *compact* if its scales chain, each the one
before times its extent: then it counts through ``[0, extent)`` itself and can be a mark again
(fused loops). With ``f`` in ``[0, 24)``::

    f // 4, f % 4                        two splits of one mark, which cover it: a bijection
    (f0 * 6 + f1) // 4                   a split of the mark f0 * 6 + f1

``detect_iter_map`` reads indices this way. Splits of a mark that overlap (``i + k`` of a
convolution is two marks with overlapping scales) are no map; splits that leave a part of a mark
unused make a map that is not injective; pieces rounded up (``m // 8, m % 8``) one that is not
surjective. A predicate ``i0 * 8 + i1 < 100`` makes its left side a mark of extent 100. After TVM's
``DetectIterMap``.

A ``Decomposition`` is what all questions here begin with: which loops a tuple of indices tells
apart (``undetermined``), and whether splits take all combinations of their values (``all_taken``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..buffer import Range
from ..expr import GE, GT, INDEX, LE, LT, Expr, ExprLike, FloorDiv, FloorMod, Var, as_expr
from ..visitor import free_vars
from .linear import ONE, ZERO, Linear, LinearKey, constant, render
from .prove import prove_nonneg
from .rules_compare import inequality
from .rules_logic import conjuncts

if TYPE_CHECKING:
    from ..stmt import BlockRealize
    from .analyzer import Analyzer
    from .simplify import Simplifier


@dataclass(eq=False, slots=True)
class IterMark:
    """A counter ``[0, extent)``: a loop variable, or a compact sum of splits."""

    source: Var | IterSum
    extent: Linear


@dataclass(eq=False, slots=True)
class IterSplit:
    """``mark // lower % extent * scale``."""

    mark: IterMark
    lower: Linear
    extent: Linear
    scale: Linear


@dataclass(eq=False, slots=True)
class IterSum:
    """``sum(splits) + base``, the splits in ascending order of scale where it is compact.

    ``extent`` is the number of values of a compact sum (its smallest scale taken as the unit), else
    None.
    """

    splits: list[IterSplit]
    base: Linear
    extent: Linear | None
    is_unit: bool
    """Whether the smallest scale is 1."""


@dataclass(eq=False, slots=True)
class IterMap:
    """One sum an index. Each value of the box of the sums is reached (``is_surjective``), each at
    most once (``is_injective``)."""

    sums: tuple[IterSum, ...]
    is_injective: bool
    is_surjective: bool

    @property
    def is_bijective(self) -> bool:
        return self.is_injective and self.is_surjective


class _NotAffineError(Exception):
    """Leaves the recursion; never seen outside."""


def _is_one(x: Linear) -> bool:
    return not x.terms and x.const == 1


def _is_whole(p: IterSplit) -> bool:
    return _is_one(p.lower) and p.extent is p.mark.extent


class Decomposition:
    """Indices as sums of splits of ``loops``, which begin at 0 and have these extents.

    ``with_offsets`` makes marks of sums that begin later too, as if they began at 0: enough to ask
    what splits tell, but then not all of their values are reached.
    """

    def __init__(
        self, s: Simplifier, loops: Mapping[Var, Linear], *, with_offsets: bool = False
    ) -> None:
        self.s = s
        self.with_offsets = with_offsets
        self.marks: dict[Expr | LinearKey, IterMark] = {}
        self.loops: dict[Expr, Linear] = {var: extent for var, extent in loops.items()}
        self.used: dict[IterMark, list[IterSplit]] = {}
        self.noted: list[IterSplit] = []
        """The splits of the sums that were noted, without those of marks below them."""
        self.constrained: dict[Var, Linear] = {}
        """Stand-in variables for sums that a predicate bounds, with the sum."""

    # -- predicates ------------------------------------------------------------------------------
    def add_predicate(self, predicate: Expr) -> list[Linear]:
        """Make bounded sums into marks; returns the bounds ``>= 0`` that could not be."""
        bounds: list[tuple[Linear, Linear]] = []
        left_over: list[Linear] = []
        for c in conjuncts(predicate):
            if not isinstance(c, LT | LE | GT | GE) or c.a.dtype is not INDEX:
                raise _NotAffineError
            f = inequality(type(c), self.s.linear(c.a) - self.s.linear(c.b))
            inside = Linear({a: -k for a, k in f.terms.items() if self.depends(a)})
            bounds.append((inside, f + inside))
        for inside, limit in sorted(bounds, key=lambda b: len(b[0].terms)):
            self._constrain(inside, limit.shift(1), left_over)
        return left_over

    def _constrain(self, inside: Linear, extent: Linear, left_over: list[Linear]) -> None:
        inside = self.replace_constrained(inside)
        try:
            total = self.sum_of(inside)
        except _NotAffineError:
            total = None
        if (
            total is None
            or total.extent is None
            or not total.is_unit
            or total.base.key != ZERO.key
            or not prove_nonneg(self.s, total.extent - extent)
        ):
            if (
                total is None
                or total.extent is None
                or not prove_nonneg(self.s, extent - total.extent)
            ):
                left_over.append(extent.shift(-1) - inside)
            return
        var = inside.single
        if var in self.loops:
            assert isinstance(var, Var)
            self.loops[var] = extent
            self.marks[var] = IterMark(self.marks[var].source, extent)
            return
        stand_in = Var("constrained")
        self.constrained[stand_in] = inside
        self.loops[stand_in] = extent
        self.marks[stand_in] = IterMark(total, extent)

    def replace_constrained(self, x: Linear) -> Linear:
        """``x`` with bounded sums replaced by their stand-ins, smallest first."""
        for stand_in, inside in self.constrained.items():
            first, weight = next(iter(inside.terms.items()))
            k = x.terms.get(first, 0)
            if k == 0 or k % weight:
                continue
            times = k // weight
            if all(x.terms.get(a) == c * times for a, c in inside.terms.items()):
                x = x - inside.scale(times) + Linear({stand_in: times})
        return x

    def depends(self, atom: Expr) -> bool:
        """Whether an atom holds a loop variable."""
        return atom in self.loops or any(n in self.loops for n in free_vars([atom]))

    # -- parsing ---------------------------------------------------------------------------------
    def sum_of(self, x: Linear) -> IterSum:
        """The sum of splits that ``x`` is; raises _NotAffineError."""
        splits = []
        base = constant(x.const)
        for atom, k in x.terms.items():
            if not self.depends(atom):
                base = base + Linear({atom: k})
                continue
            inner, scale = self._factor(atom, k)
            split = self._split(inner)
            if not _is_one(split.extent):
                splits.append(IterSplit(split.mark, split.lower, split.extent, scale))
        return self._chain(splits, base)

    def _factor(self, atom: Expr, k: int) -> tuple[Expr, Linear]:
        """The factor that depends on the loops, and the product of the others."""
        factors = self.s.atoms.factors_of(atom)
        inner = [f for f in factors if self.depends(f)]
        outer = tuple([f for f in factors if not self.depends(f)])
        if len(inner) != 1:
            raise _NotAffineError
        return inner[0], Linear({self.s.atoms.product(outer): k}) if outer else constant(k)

    def split(self, atom: Expr) -> IterSplit | None:
        """The piece of a loop that an atom is, with scale 1; None where it is none."""
        try:
            found = self._split(atom)
        except _NotAffineError:
            return None
        return found if isinstance(found.mark.source, Var) else None

    def _split(self, atom: Expr) -> IterSplit:
        """One piece of one mark, with scale 1."""
        if atom in self.loops:
            mark = self.marks.get(atom)
            if mark is None:
                assert isinstance(atom, Var)
                mark = self.marks[atom] = IterMark(atom, self.loops[atom])
            return IterSplit(mark, ONE, mark.extent, ONE)
        if not isinstance(atom, FloorDiv | FloorMod):
            raise _NotAffineError
        n, d = self.s.atoms.parts[atom]
        if any(self.depends(a) for a in d.terms) or not prove_nonneg(self.s, d):
            raise _NotAffineError
        whole = self._whole(n)
        if isinstance(atom, FloorMod) and prove_nonneg(self.s, d - whole.extent):
            return IterSplit(whole.mark, whole.lower, whole.extent, ONE)
        # A piece that is cut off above wraps around: x % 6 // 4 is no digit of x.
        reached = self.s.atoms.multiply(whole.lower, whole.extent)
        is_top = prove_nonneg(self.s, reached - whole.mark.extent)
        if not is_top and self.s.floormod(whole.extent, d).key != ZERO.key:
            raise _NotAffineError
        if isinstance(atom, FloorMod):
            return IterSplit(whole.mark, whole.lower, d, ONE)
        lower = self.s.atoms.multiply(whole.lower, d)
        extent = self.s.floordiv(whole.extent + d.shift(-1), d)
        return IterSplit(whole.mark, lower, extent, ONE)

    def _whole(self, n: Linear) -> IterSplit:
        """A dividend as one split: a single piece, or a compact sum made a mark."""
        total = self.sum_of(self.replace_constrained(n))
        begins_later = total.base.key != ZERO.key
        if total.extent is None or not total.is_unit:
            raise _NotAffineError
        if begins_later and not (self.with_offsets and prove_nonneg(self.s, total.base)):
            raise _NotAffineError
        if len(total.splits) == 1 and not begins_later:
            return total.splits[0]
        mark = self.marks.get(n.key)
        if mark is None:
            mark = self.marks[n.key] = IterMark(total, total.base + total.extent)
        return IterSplit(mark, ONE, mark.extent, ONE)

    def _chain(self, splits: list[IterSplit], base: Linear) -> IterSum:
        """Order the splits so that each scale is the one before times its extent."""
        ordered = _compact(self.s, splits)
        if ordered is not None:
            extent = ONE
            for p in ordered:
                extent = self.s.atoms.multiply(extent, p.extent)
            unit = not ordered or _is_one(ordered[0].scale)
            return IterSum(ordered, base, extent, unit)
        if any(p.scale.terms for p in splits):
            raise _NotAffineError
        ordered = sorted(splits, key=lambda p: p.scale.const)
        reach: int | None = 0
        for p in ordered:
            if reach is None or p.scale.const <= reach:
                raise _NotAffineError
            # How far the last one goes does not matter.
            reach = None if p.extent.terms else reach + p.scale.const * (p.extent.const - 1)
        return IterSum(ordered, base, None, is_unit=False)

    # -- use of the marks ------------------------------------------------------------------------
    def note(self, total: IterSum) -> None:
        """Count the splits of a sum, and once those of the marks below it."""
        self.noted += total.splits
        self._note(total)

    def _note(self, total: IterSum) -> None:
        for p in total.splits:
            known = self.used.get(p.mark)
            if known is None:
                self.used[p.mark] = [p]
                if isinstance(p.mark.source, IterSum):
                    self._note(p.mark.source)
            else:
                known.append(p)

    def cover(self) -> tuple[bool, bool]:
        """Whether all marks are fully used (injective), and with no rounding up (surjective).

        Raises _NotAffineError where two splits overlap.
        """
        covered = [self._cover(mark, splits) for mark, splits in self.used.items()]
        marks = {m.source for m in self.used}
        injective = all(full for full, _ in covered) and all(
            var in self.constrained or var in marks or _is_one(extent)
            for var, extent in self.loops.items()
        )
        return injective, all(every for _, every in covered)

    def lost(self) -> set[Var]:
        """The loops that what is used of them does not tell. Raises _NotAffineError where two
        splits overlap, or do not tell a sum of loops."""
        known: dict[IterMark, list[IterSplit]] = {}
        for p in self.noted:
            known.setdefault(p.mark, []).append(p)
        parted: set[Var] = set()
        while sums := [m for m in known if isinstance(m.source, IterSum)]:
            # A sum of sums before those below it, whose splits it may tell.
            mark = max(sums, key=_depth)
            assert isinstance(mark.source, IterSum)
            splits = known.pop(mark)
            below: Sequence[IterSplit] = mark.source.splits
            if not self._cover(mark, splits)[0]:
                below = self._low_part(mark.source, splits)
                parted |= _loops_below(mark)
            for p in below:
                known.setdefault(p.mark, []).append(p)
        told = {
            mark.source
            for mark, splits in known.items()
            if self._cover(mark, splits)[0] and isinstance(mark.source, Var)
        }
        if not parted <= told:
            raise _NotAffineError
        return {v for v in self.loops if isinstance(v, Var)} - told

    def _low_part(self, total: IterSum, splits: list[IterSplit]) -> list[IterSplit]:
        """What the lowest digits of a sum tell of its parts: with ``f`` in [0, 16) those of
        ``e * 16 + f`` below 160 are ``f`` and ``e % 10``. An offset changes nothing. Raises
        _NotAffineError where they are no lowest digits, or end in the middle of one."""
        reached = ONE
        for p in _by_lower(self.s, splits):
            if p.lower.key != reached.key:
                raise _NotAffineError
            reached = self.s.atoms.multiply(p.lower, p.extent)
        found: list[IterSplit] = []
        below = ONE
        for p in total.splits:
            if below.key == reached.key:
                break
            above = self.s.atoms.multiply(below, p.extent)
            if self.s.floormod(reached, above).key == ZERO.key:
                found.append(p)
                below = above
                continue
            part = self.s.floordiv(reached, below)
            even = self.s.floormod(reached, below).key == ZERO.key
            top = self.s.atoms.multiply(p.lower, p.extent) - p.mark.extent
            unwrapped = self.s.floormod(p.extent, part).key == ZERO.key or prove_nonneg(self.s, top)
            if not even or not unwrapped:
                raise _NotAffineError
            found.append(IterSplit(p.mark, p.lower, part, p.scale))
            below = reached
        if below.key != reached.key:
            raise _NotAffineError
        return found

    def _cover(self, mark: IterMark, splits: list[IterSplit]) -> tuple[bool, bool]:
        """Whether the splits of a mark tell its value, and take all combinations of theirs."""
        if len(splits) == 1 and _is_whole(splits[0]):
            return True, True
        is_full, reached = True, ONE
        for p in _by_lower(self.s, splits):
            if p.lower.key != reached.key:
                # A gap: the part below this split is unused. An overlap is no map.
                if not prove_nonneg(self.s, p.lower - reached):
                    raise _NotAffineError
                is_full = False
            reached = self.s.atoms.multiply(p.lower, p.extent)
        if reached.key == mark.extent.key:
            return is_full, True
        if not prove_nonneg(self.s, reached - mark.extent):
            # The upper part of the mark is unused, or nothing is known.
            return False, prove_nonneg(self.s, mark.extent - reached)
        # Rounded up: not all combinations of several splits are reached.
        return is_full, len(splits) == 1


def _depth(mark: IterMark) -> int:
    """How many sums are inside of one another, down to loops."""
    if not isinstance(mark.source, IterSum):
        return 0
    return 1 + max([_depth(p.mark) for p in mark.source.splits], default=0)


def _loops_below(mark: IterMark) -> set[Var]:
    """The loops that a mark is made of."""
    if not isinstance(mark.source, IterSum):
        return {mark.source}
    found: set[Var] = set()
    return found.union(*[_loops_below(p.mark) for p in mark.source.splits])


def _compact(s: Simplifier, splits: list[IterSplit]) -> list[IterSplit] | None:
    """The splits as a chain of scales, smallest first; None where there is none."""
    rest = list(splits)
    chain: list[IterSplit] = []
    if not rest:
        return chain
    expected = min((p.scale for p in rest), key=lambda x: (len(x.terms), abs(x.const), x.const))
    if not expected.terms and expected.const <= 0:
        return None
    while rest:
        found = next((p for p in rest if p.scale.key == expected.key), None)
        if found is None:
            return None
        rest.remove(found)
        chain.append(found)
        expected = s.atoms.multiply(expected, found.extent)
    return chain


def _by_lower(s: Simplifier, splits: list[IterSplit]) -> list[IterSplit]:
    """The splits of one mark, lowest first; symbolic ones by what their chain needs."""
    if all(not p.lower.terms for p in splits):
        return sorted(splits, key=lambda p: p.lower.const)
    rest, ordered, reached = list(splits), [], ONE
    while rest:
        found = next((p for p in rest if p.lower.key == reached.key), None)
        if found is None:
            raise _NotAffineError
        rest.remove(found)
        ordered.append(found)
        reached = s.atoms.multiply(found.lower, found.extent)
    return ordered


def undetermined(
    indices: Sequence[Expr], loops: Mapping[Var, Linear], s: Simplifier
) -> list[Var] | None:
    """The loops that the indices do not tell: iterations that differ in others have other indices.

    None where an index is no sum of splits, and where splits overlap or leave open what a sum of
    loops is. ``s`` knows the loops, which begin at 0 and have these extents.
    """
    used = {v: extent for v, extent in loops.items() if not _runs_once(extent, s)}
    parts = Decomposition(s, used, with_offsets=True)
    try:
        for i in indices:
            parts.note(parts.sum_of(s.linear(i)))
        lost = parts.lost()
    except _NotAffineError:
        return None
    return [v for v in loops if v in lost]


def _runs_once(extent: Linear, s: Simplifier) -> bool:
    """Whether a loop has one iteration, or none; the simplifier writes 0 for the variable then."""
    return _is_one(extent) or (bool(extent.terms) and prove_nonneg(s, ONE - extent))


def all_taken(splits: Sequence[IterSplit], s: Simplifier) -> bool:
    """Whether splits of loops are known to take all combinations of their values.

    Those of one loop are digits of it, each a multiple of what those below reach, and together they
    do not reach beyond the loop, which runs at all.
    """
    by_loop: dict[object, list[IterSplit]] = {}
    for p in splits:
        by_loop.setdefault(p.mark.source, []).append(p)
    for group in by_loop.values():
        if len(group) == 1 and _is_whole(group[0]):
            continue
        most, step = ZERO, ONE
        for p in sorted(group, key=lambda p: (len(p.lower.terms), p.lower.const)):
            if p.lower.key != step.key and (
                p.lower.terms or step.terms or p.lower.const % step.const
            ):
                return False
            most = most + s.atoms.multiply(p.extent.shift(-1), p.lower)
            step = s.atoms.multiply(p.lower, p.extent)
        extent = group[0].mark.extent
        if s.floormod(extent, step).key != ZERO.key and not prove_nonneg(
            s, extent.shift(-1) - most
        ):
            return False
    return True


def detect_iter_map(
    indices: Sequence[ExprLike],
    loops: Mapping[Var, ExprLike],
    predicate: Expr | None,
    analyzer: Analyzer,
) -> IterMap | None:
    """The indices as an affine map of the loops ``[0, extent)`` where ``predicate`` holds.

    Variables that are not in ``loops`` count as constants. None where an index is no sum of splits,
    or splits overlap. With a predicate that bounds something else than a compact sum, the map is
    not known to be surjective.
    """
    s = analyzer.simplifier
    with analyzer.scope():
        for var, extent in loops.items():
            analyzer.bind(var, Range(as_expr(0), as_expr(extent)))
        extents = {var: s.linear(as_expr(extent)) for var, extent in loops.items()}
        detector = Decomposition(s, {v: e for v, e in extents.items() if not _is_one(e)})
        try:
            left_over = [] if predicate is None else detector.add_predicate(s.simplify(predicate))
            sums = tuple(
                [
                    detector.sum_of(detector.replace_constrained(s.linear(as_expr(i))))
                    for i in indices
                ]
            )
            for total in sums:
                detector.note(total)
            injective, surjective = detector.cover()
        except _NotAffineError:
            return None
    compact = all(t.extent is not None for t in sums)
    unused = any(detector.marks[v] not in detector.used for v in detector.constrained)
    return IterMap(sums, injective, surjective and compact and not left_over and not unused)


def is_affine_binding(
    realize: BlockRealize, loops: Mapping[Var, ExprLike], analyzer: Analyzer
) -> bool:
    """Whether the loops around a block run through the whole domain of its iter vars.

    Each value of the iter vars' box must be reached. A loop that no iter var uses is allowed (the
    block then runs again for the same values).
    """
    found = detect_iter_map(realize.iter_values, loops, realize.predicate, analyzer)
    if found is None:
        return False
    if found.is_surjective:
        return all(
            t.extent is not None
            and t.is_unit
            and analyzer.can_prove_equal(render(t.base), iv.dom.min)
            and analyzer.can_prove_equal(render(t.extent), iv.dom.extent)
            for t, iv in zip(found.sums, realize.block.iter_vars, strict=True)
        )
    return found.is_injective and _same_count(realize, loops, analyzer)


def _same_count(realize: BlockRealize, loops: Mapping[Var, ExprLike], analyzer: Analyzer) -> bool:
    """An injective map into a box is onto it if the predicate leaves as many points as the box has.

    Counts where the predicate is one bound of a compact sum of whole loops.
    """
    s = analyzer.simplifier
    with analyzer.scope():
        extents = {}
        for var, extent in loops.items():
            analyzer.bind(var, Range(as_expr(0), as_expr(extent)))
            extents[var] = s.linear(as_expr(extent))
        detector = Decomposition(s, {v: e for v, e in extents.items() if not _is_one(e)})
        try:
            if detector.add_predicate(s.simplify(realize.predicate)):
                return False
        except _NotAffineError:
            return False
        points = ONE
        bounded: set[Expr] = set()
        for stand_in, inside in detector.constrained.items():
            if any(atom not in detector.loops or atom in bounded for atom in inside.terms):
                return False
            bounded.update(inside.terms)
            bounded.add(stand_in)
            points = s.atoms.multiply(points, detector.loops[stand_in])
        for loop, loop_extent in detector.loops.items():
            if loop not in bounded:
                points = s.atoms.multiply(points, loop_extent)
        box = ONE
        with analyzer.constraint(realize.predicate):
            for iv, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
                low = analyzer.can_prove(value >= iv.dom.min)
                if not low or not analyzer.can_prove(value < iv.dom.min + iv.dom.extent):
                    return False
                box = s.atoms.multiply(box, s.linear(iv.dom.extent))
        return points.key == box.key

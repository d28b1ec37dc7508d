"""Buffer regions: what a block reads and writes, and boxes of buffers as sets.

``infer_regions`` collects the accesses of a block's body in order of first appearance, one box a
buffer, over the block's iter vars. ``relax_region`` is the union of a box over loops: exact where
the bounds are affine in the loop variables and no variable occurs twice in a bound, else larger,
and the whole dimension where nothing is known. Boxes never get smaller than the truth.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from ...support.node import Node, walk
from ...support.structural import structural_equal
from ..buffer import Buffer, BufferRegion, Range
from ..expr import (
    AccessPtr,
    BufferLoad,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Ramp,
    Var,
    const,
    maximum,
    minimum,
)
from ..stmt import (
    BlockRealize,
    BufferStore,
    For,
    IterVar,
    LetStmt,
    MatchBuffer,
    Stmt,
)
from ..visitor import Visitor, substitute, uses
from .analyzer import Analyzer
from .bounds import atom_interval
from .linear import Linear, constant, expr_key, render
from .prove import is_divisor_positive, prove_nonneg
from .rules_compare import extremum
from .simplify import Simplifier

Loops: TypeAlias = Sequence[tuple[Var, Range]]
ONE = const(1)


# -- the union over loops ------------------------------------------------------------------------
class _Elimination:
    """Replaces one loop variable by what makes a sum smallest or largest."""

    def __init__(self, s: Simplifier, var: Var, low: Linear, high: Linear) -> None:
        self.s, self.var, self.low, self.high = s, var, low, high

    def limit(self, x: Linear, *, upper: bool) -> Linear | None:
        """The greatest (or least) value of ``x``, or a bound of it; None where there is none."""
        result = Linear({}, x.const)
        for atom, k in x.terms.items():
            if uses(atom, self.var):
                bound = self._atom(atom, upper == (k > 0))
                if bound is None:
                    return None
                result = result + bound.scale(k)
            else:
                result = result + Linear({atom: k})
        return result

    def _atom(self, atom: Expr, upper: bool) -> Linear | None:
        if atom is self.var:
            return self.high if upper else self.low
        if len(self.s.atoms.factors_of(atom)) > 1:
            return self._product(atom, upper)
        parts = self.s.atoms.parts.get(atom)
        if parts is None:
            return self._constant(atom, upper)
        a, b = parts
        if isinstance(atom, Min | Max):
            x, y = self.limit(a, upper=upper), self.limit(b, upper=upper)
            if x is None or y is None:
                return None
            return extremum(self.s, type(atom), x, y)
        if uses(render(b), self.var) or not is_divisor_positive(self.s, b):
            return self._constant(atom, upper)
        low, high = self.limit(a, upper=False), self.limit(a, upper=True)
        if isinstance(atom, FloorDiv):
            chosen = high if upper else low
            return None if chosen is None else self.s.floordiv(chosen, b)
        return self._remainder(low, high, b, upper) if isinstance(atom, FloorMod) else None

    def _remainder(self, low: Linear | None, high: Linear | None, d: Linear, upper: bool) -> Linear:
        if low is not None and high is not None:
            if self.s.floordiv(low, d).key == self.s.floordiv(high, d).key:
                return self.s.floormod(high if upper else low, d)
            if upper and prove_nonneg(self.s, low):
                return extremum(self.s, Min, high, d.shift(-1))
        return d.shift(-1) if upper else constant(0)

    def _product(self, atom: Expr, upper: bool) -> Linear | None:
        factors = self.s.atoms.factors_of(atom)
        inner = [f for f in factors if uses(f, self.var)]
        outer = tuple([f for f in factors if not uses(f, self.var)])
        if len(inner) == 1 and outer:
            weight = Linear({self.s.atoms.product(outer): 1})
            if prove_nonneg(self.s, weight):
                bound = self._atom(inner[0], upper)
                return None if bound is None else self.s.atoms.multiply(bound, weight)
        return self._constant(atom, upper)

    def _constant(self, atom: Expr, upper: bool) -> Linear | None:
        value = atom_interval(self.s, atom)[upper]
        return None if value is None else constant(value)


def limits(
    analyzer: Analyzer, expr: Expr, loops: Loops, last: Expr | None = None
) -> tuple[Expr | None, Expr | None]:
    """The least value of ``expr`` and the greatest of ``last`` (by default ``expr``).

    ``loops`` are taken over their domains, outermost first; None where no bound
    free of the loops is known.
    """
    s = analyzer.simplifier
    with analyzer.scope():
        for var, domain in loops:
            analyzer.bind(var, domain)
        low: Linear | None = s.linear(expr)
        high: Linear | None = low if last is None else s.linear(last)
        for var, domain in reversed(loops):
            least = s.linear(domain.min)
            most = least + s.linear(domain.extent).shift(-1)
            step = _Elimination(s, var, least, most)
            low = None if low is None else step.limit(low, upper=False)
            high = None if high is None else step.limit(high, upper=True)
    return (
        None if low is None else analyzer.simplify(render(low)),
        None if high is None else analyzer.simplify(render(high)),
    )


def relax_region(region: BufferRegion, loops: Loops, analyzer: Analyzer) -> BufferRegion:
    """A box that holds ``region`` for all values of the loop variables, outermost loop first.

    The box is not clipped to the buffer (``clip_region``). A dimension without a known bound
    becomes the whole dimension.
    """
    if not loops:
        return region
    ranges = tuple(
        [
            _relax_range(r, size, loops, analyzer)
            for r, size in zip(region.region, region.buffer.shape, strict=True)
        ]
    )
    if all(a is b for a, b in zip(ranges, region.region, strict=True)):
        return region
    return BufferRegion(region.buffer, ranges)


def _relax_range(r: Range, size: Expr, loops: Loops, analyzer: Analyzer) -> Range:
    if not any(uses(r.min, v) or uses(r.extent, v) for v, _ in loops):
        return r
    low, high = limits(analyzer, r.min, loops, r.min + r.extent - 1)
    if low is None or high is None:
        return Range(const(0), size)
    return Range(low, analyzer.simplify(high - low + 1))


# -- boxes as sets -------------------------------------------------------------------------------
def _end(r: Range) -> Expr:
    return r.min + r.extent


def clip_region(region: BufferRegion, analyzer: Analyzer) -> BufferRegion:
    """The part of ``region`` inside its buffer; ``region`` itself where it is proved to be
    inside."""
    ranges = []
    for r, size in zip(region.region, region.buffer.shape, strict=True):
        low, high = r.min, _end(r)
        inside_low = analyzer.can_prove(low >= 0)
        inside_high = analyzer.can_prove(high <= size)
        if inside_low and inside_high:
            ranges.append(r)
            continue
        low = low if inside_low else maximum(low, 0)
        high = high if inside_high else minimum(high, size)
        ranges.append(Range(analyzer.simplify(low), analyzer.simplify(high - low)))
    if all(a is b for a, b in zip(ranges, region.region, strict=True)):
        return region
    return BufferRegion(region.buffer, tuple(ranges))


def region_union(a: BufferRegion, b: BufferRegion, analyzer: Analyzer) -> BufferRegion:
    """The smallest box around two boxes of one buffer."""
    ranges = tuple([_union(x, y, analyzer) for x, y in zip(a.region, b.region, strict=True)])
    if all(x is y for x, y in zip(ranges, a.region, strict=True)):
        return a
    return BufferRegion(a.buffer, ranges)


def _union(a: Range, b: Range, analyzer: Analyzer) -> Range:
    if _covers(a, b, analyzer):
        return a
    if _covers(b, a, analyzer):
        return b
    low = analyzer.simplify(minimum(a.min, b.min))
    high = maximum(_end(a), _end(b))
    return Range(low, analyzer.simplify(high - low))


def _covers(outer: Range, inner: Range, analyzer: Analyzer) -> bool:
    if outer is inner:
        return True
    return analyzer.can_prove(outer.min <= inner.min) and analyzer.can_prove(
        _end(inner) <= _end(outer)
    )


def region_covers(outer: BufferRegion, inner: BufferRegion, analyzer: Analyzer) -> bool:
    """Whether ``inner`` is proved to lie inside ``outer`` (a box of the same buffer)."""
    return outer.buffer is inner.buffer and all(
        _covers(o, i, analyzer) for o, i in zip(outer.region, inner.region, strict=True)
    )


def region_intersects(a: BufferRegion, b: BufferRegion, analyzer: Analyzer) -> bool:
    """Whether two boxes may share an element: false only where they are proved to be disjoint."""
    if a.buffer is not b.buffer:
        return False
    return not any(
        analyzer.can_prove(_end(x) <= y.min) or analyzer.can_prove(_end(y) <= x.min)
        for x, y in zip(a.region, b.region, strict=True)
    )


def point_region(buffer: Buffer, indices: Sequence[Expr]) -> BufferRegion:
    """One element; for a Ramp index (after vectorisation) the range it spans."""
    return BufferRegion(buffer, tuple([_point(i) for i in indices]))


def _point(index: Expr) -> Range:
    if not isinstance(index, Ramp):
        return Range(index, ONE)
    span = index.stride * (index.lanes - 1)
    return Range(minimum(index.base, index.base + span), maximum(span, span * -1) + 1)


def full_region(buffer: Buffer) -> BufferRegion:
    """The whole buffer."""
    return BufferRegion(buffer, tuple([Range(const(0), size) for size in buffer.shape]))


# -- the regions of a block ----------------------------------------------------------------------
class _Accesses(Visitor):
    """Collects accesses as boxes over what is in scope outside the loops that were entered."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.loops: list[tuple[Var, Range]] = []
        self.lets: dict[Var, Expr] = {}
        self.reads: dict[Buffer, BufferRegion] = {}
        self.writes: dict[Buffer, BufferRegion] = {}
        self.local: set[Buffer] = set()
        self.views: set[Buffer] = set()

    def _note(self, table: dict[Buffer, BufferRegion], region: BufferRegion) -> None:
        if region.buffer in self.local:
            return
        if self.lets:
            region = _map_region(region, self.lets)
        if self.local or self.views:
            region = _seen_outside(region, self.local | self.views)
        relaxed = relax_region(region, self.loops, self.analyzer)
        if relaxed is not region:
            relaxed = _clip_constants(relaxed, self.analyzer)
        before = table.get(region.buffer)
        if before is not None and table is self.reads:
            before, relaxed = _without_lookups(before, relaxed)
        table[region.buffer] = (
            relaxed if before is None else region_union(before, relaxed, self.analyzer)
        )

    def visit_Buffer(self, n: Buffer) -> None:  # noqa: N802
        """Shapes are not accesses."""

    def visit_BufferLoad(self, n: BufferLoad) -> None:  # noqa: N802
        self._note(self.reads, point_region(n.buffer, n.indices))
        for i in n.indices:
            self.visit(i)

    def visit_AccessPtr(self, n: AccessPtr) -> None:  # noqa: N802
        """What a called function touches, nobody sees: all of the buffer, where the program does
        not say it."""
        for i in (*n.element.indices, n.offset):
            self.visit(i)
        if "r" in n.mask:
            self._note(self.reads, full_region(n.buffer))
        if n.is_written:
            self._note(self.writes, full_region(n.buffer))

    def visit_BufferStore(self, n: BufferStore) -> None:  # noqa: N802
        self.visit(n.value)
        for i in n.indices:
            self.visit(i)
        self._note(self.writes, point_region(n.buffer, n.indices))

    def visit_For(self, n: For) -> None:  # noqa: N802
        self.visit(n.min)
        self.visit(n.extent)
        bounds = Range(n.min, n.extent)
        if self.lets:
            bounds = substitute(bounds, self.lets)
        self.loops.append((n.var, bounds))
        self.visit(n.body)
        self.loops.pop()

    def visit_LetStmt(self, n: LetStmt) -> None:  # noqa: N802
        self._let(n.var, n.value, n.body)

    def visit_Let(self, n: Let) -> None:  # noqa: N802
        self._let(n.var, n.value, n.body)

    def _let(self, var: Var, value: Expr, body: Node) -> None:
        self.visit(value)
        self.lets[var] = substitute(value, self.lets)
        self.visit(body)
        del self.lets[var]

    def visit_BlockRealize(self, n: BlockRealize) -> None:  # noqa: N802
        """A nested block says itself what it touches."""
        for v in (*n.iter_values, n.predicate):
            self.visit(v)
        block = n.block
        values = {iv.var: value for iv, value in zip(block.iter_vars, n.iter_values, strict=True)}
        for table, regions in ((self.reads, block.reads), (self.writes, block.writes)):
            for r in regions:
                if r.buffer not in block.alloc_buffers:
                    self._note(table, _map_region(r, values))


def _seen_outside(region: BufferRegion, inner: Collection[Buffer]) -> BufferRegion:
    """A box in terms that mean something outside of the block that declares the buffers ``inner``:
    whole along an axis where their values tell the place."""
    ranges = [
        Range(const(0), size)
        if any(isinstance(n, BufferLoad) and n.buffer in inner for n in walk(r))
        else r
        for r, size in zip(region.region, region.buffer.shape, strict=True)
    ]
    return BufferRegion(region.buffer, tuple(ranges))


def _without_lookups(a: BufferRegion, b: BufferRegion) -> tuple[BufferRegion, BufferRegion]:
    """Two boxes that are read, whole along the axes where they differ and data tell the places: no
    proof will bound those, and a minimum of many of them takes minutes to simplify."""
    first, second = list(a.region), list(b.region)
    for d, (x, y) in enumerate(zip(a.region, b.region, strict=True)):
        looked_up = any(isinstance(n, BufferLoad) for r in (x, y) for n in walk(r))
        if looked_up and not structural_equal(x, y, map_free_vars=False):
            first[d] = second[d] = Range(const(0), a.buffer.shape[d])
    if all(x is y for x, y in zip(first, a.region, strict=True)):
        return a, b
    return BufferRegion(a.buffer, tuple(first)), BufferRegion(b.buffer, tuple(second))


def _map_region(region: BufferRegion, values: Mapping[Var, Expr]) -> BufferRegion:
    return BufferRegion(region.buffer, tuple([substitute(r, values) for r in region.region]))


def _clip_constants(region: BufferRegion, analyzer: Analyzer) -> BufferRegion:
    """A relaxed box may leave the buffer where a predicate or a guard keeps the access inside."""
    clipped = clip_region(region, analyzer)
    ranges = tuple(
        [
            new if isinstance(new.min, IntImm) and isinstance(new.extent, IntImm) else old
            for new, old in zip(clipped.region, region.region, strict=True)
        ]
    )
    return BufferRegion(region.buffer, ranges)


def _reads_within(read: BufferRegion, written: BufferRegion, analyzer: Analyzer) -> bool:
    pairs = zip(read.region, written.region, strict=True)
    if all(r.extent is w.extent and expr_key(r.min) == expr_key(w.min) for r, w in pairs):
        return True
    return region_covers(written, read, analyzer)


def infer_regions(
    block_body: Stmt,
    init: Stmt | None,
    iter_vars: Sequence[IterVar],
    *,
    alloc_buffers: Sequence[Buffer] = (),
    match_buffers: Sequence[MatchBuffer] = (),
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """The regions that a block reads and writes, over its iter vars and what stands outside it.

    One box a buffer, in order of first appearance. The reads of its own output are left out for a
    block with an init (the reduction starts by writing it), but not those of elements that other
    instances write. Nested blocks count with the regions
    they declare; ``alloc_buffers`` (the block's own) do not count, and what is touched through one
    of its views, the ``match_buffers``, is the view's source.
    """
    analyzer = Analyzer()
    for iv in iter_vars:
        if not (isinstance(iv.dom.extent, IntImm) and iv.dom.extent.value == 1):
            analyzer.bind(iv.var, iv.dom)
    accesses = _Accesses(analyzer)
    accesses.local.update(alloc_buffers)
    accesses.views.update([m.buffer for m in match_buffers])
    if init is not None:
        accesses.visit(init)
    accesses.visit(block_body)
    for m in match_buffers:
        for r in m.source.region:
            accesses.visit(r)
    reads = accesses.reads
    if init is not None:
        own = accesses.writes
        reads = {
            b: r for b, r in reads.items() if b not in own or not _reads_within(r, own[b], analyzer)
        }
    views = {m.buffer: m.source for m in match_buffers}
    return _with_sources(reads, views, analyzer), _with_sources(accesses.writes, views, analyzer)


def _with_sources(
    regions: Mapping[Buffer, BufferRegion],
    views: Mapping[Buffer, BufferRegion],
    analyzer: Analyzer,
) -> tuple[BufferRegion, ...]:
    """The regions, with that of a view replaced by its source; one a buffer."""
    if not views:
        return tuple(regions.values())
    joined: dict[Buffer, BufferRegion] = {}
    for r in regions.values():
        while r.buffer in views:
            r = views[r.buffer]
        before = joined.get(r.buffer)
        joined[r.buffer] = r if before is None else region_union(before, r, analyzer)
    return tuple(joined.values())

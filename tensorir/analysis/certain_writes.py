"""What one run of a block writes for certain, as against what it declares.

T.writes says where a block may write. Whoever copies a buffer, or lets a reader see nothing but one
writer's elements, needs more: that each of them *is* written, whatever the data. A store behind a
condition, a nested block whose predicate leaves instances out, and a declared box larger than the
loops inside are all within the law, and leave elements as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any
from weakref import WeakKeyDictionary

from ...support.node import replace
from ..arith import expr_key
from ..arith.linear import Linear, render
from ..buffer import Buffer, BufferRegion, Range
from ..expr import (
    EQ,
    LT,
    AccessPtr,
    Expr,
    ExternCall,
    IntImm,
    Ramp,
    Var,
    add,
    all_of,
    is_const,
    sub,
)
from ..stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    IterVar,
    LetStmt,
    SeqStmt,
    Stmt,
)
from ..visitor import Mutator, has_load, substitute, uses
from .affine import Bounds, loop_bounds, overlapping, sweep
from .block_kinds import domain_bounds
from .conditions import TRUE, conjuncts
from .nested_blocks import Nested
from .region_cover import Box, axis_limited, contains, covers_domain, touched

_KNOWN: WeakKeyDictionary[Block, dict[int, bool]] = WeakKeyDictionary()
"""What ``writes_whole`` found, by the region's position. Values hold no nodes: a value that leads
to its own key would keep every program that was ever asked about."""

_MOST_BOXES = 64
"""Boxes of one body that are put together; more are an unrolled loop in no known order."""


def written_box(region: BufferRegion, n: Nested, inner: Sequence[For], bounds: Bounds) -> Box:
    """``touched`` for a write region of ``n``: exact only where all of the box is written for
    certain when the loops ``inner`` run."""
    box = touched(region, n, inner, bounds)
    if box.exact:
        box.exact = _is_cut_outside(region, n.realize, bounds) and writes_whole(n.block, region)
    return box


def writes_whole(block: Block, region: BufferRegion) -> bool:
    """Whether the block, run for all values of its reduce axes, writes each element of ``region``,
    one of its write regions."""
    if _is_the_store(block, region):
        return True
    at = next((i for i, own in enumerate(block.writes) if own is region), None)
    if at is None:
        return _Certain(block, region.buffer).holds(region)
    known = _KNOWN.setdefault(block, {})
    if at not in known:
        known[at] = _Certain(block, region.buffer).holds(region)
    return known[at]


def _certain_parts(block: Block) -> list[Stmt]:
    """What surely runs when the block does: its init, which does not wait for the reduce axes, and
    its body, where these have values at all."""
    parts = [] if block.init is None else [block.init]
    if all(_is_positive(it.dom.extent) for it in block.iter_vars if it.kind == "reduce"):
        parts.append(block.body)
    return parts


def _is_the_store(block: Block, region: BufferRegion) -> bool:
    """The common case: the init or the body is one store, of the one element of the region."""
    for s in _certain_parts(block):
        if not isinstance(s, BufferStore) or s.buffer is not region.buffer or not _is_bare(s):
            continue
        if all(
            is_const(r.extent, 1) and (i is r.min or expr_key(i) == expr_key(r.min))
            for i, r in zip(s.indices, region.region, strict=True)
        ):
            return True
    return False


def _is_bare(s: BufferStore) -> bool:
    """Whether a store has no predicate that could skip it."""
    return s.predicate is None or is_const(s.predicate, 1)


def _is_positive(extent: Expr, bounds: Bounds | None = None) -> bool:
    return (bounds or Bounds()).proves_le(IntImm(1), extent)


def _is_cut_outside(region: BufferRegion, realize: BlockRealize, bounds: Bounds) -> bool:
    """Whether the instances that conditions on the axes' domains leave out would have written
    beyond the buffer alone: a domain may also end before the buffer does."""
    for c in conjuncts(realize.predicate):
        it = None if bounds.proves(c) else axis_limited(c, realize, bounds)
        if (
            it is not None
            and uses(region, it.var)
            and not any(
                _leaves(r, dim, it, realize.block, at_end=isinstance(c, LT))
                for r, dim in zip(region.region, region.buffer.shape, strict=True)
            )
        ):
            return False
    return True


def _leaves(r: Range, dim: Expr, it: IterVar, block: Block, *, at_end: bool) -> bool:
    """Whether a range lies outside of its dimension for all values of an axis beyond the end, or
    before the start, of its domain; it is one of a sum that grows with the axis by at least 1."""
    here = domain_bounds(block)
    beyond = add(it.dom.min, it.dom.extent) if at_end else sub(it.dom.min, 1)
    step = here.simplify(sub(substitute(r.min, {it.var: add(it.var, 1)}), r.min))
    if uses(step, it.var) or not here.proves_le(IntImm(1), step):
        return False
    start = substitute(r.min, {it.var: beyond})
    return here.proves_le(dim, start) if at_end else here.proves_le(add(start, r.extent), IntImm(0))


def covered_within(nested: Sequence[Nested], fixed: Sequence[For]) -> Nested | None:
    """The first block that reads what another of these blocks writes, but not provably earlier in
    the same iteration of the loops ``fixed``; None if there is none.

    A box that a block does not write for certain proves nothing.
    """
    writers: dict[int, list[tuple[int, Nested, BufferRegion]]] = {}
    for position, n in enumerate(nested):
        for region in n.block.writes:
            writers.setdefault(id(region.buffer), []).append((position, n, region))
    for position, n in enumerate(nested):
        bounds = loop_bounds([*fixed, *n.loops])
        for region in n.block.reads:
            others = writers.get(id(region.buffer), [])
            if all(w is n for _, w, _ in others):
                continue
            if not any(
                p < position and _written_before(w, wr, n, region, bounds)
                for p, w, wr in others
                if w is not n
            ):
                return n
    return None


def _written_before(
    w: Nested, written: BufferRegion, n: Nested, read: BufferRegion, bounds: Bounds
) -> bool:
    """Whether the writer has written what is read, in the whole of the loops or else in one
    iteration of those that both are below: tiles with gaps between them are boxes each."""
    same = takewhile(lambda pair: pair[0] is pair[1], zip(w.loops, n.loops, strict=False))
    return any(
        _writes_all(
            Nested(w.realize, w.loops[k:], w.conditions),
            written,
            touched(read, n, n.loops[k:], bounds),
            bounds,
        )
        for k in dict.fromkeys((0, len(list(same))))
    )


def _writes_all(w: Nested, region: BufferRegion, need: Box, bounds: Bounds) -> bool:
    w = _counted(_first_iterations(w), bounds)
    known = bounds | loop_bounds(w.loops)
    box = written_box(region, w, w.loops, known)
    if not box.exact or not covers_domain(w, known):
        return False
    return contains(box, need, known, region.buffer.shape)


def _first_iterations(n: Nested) -> Nested:
    """A block that runs in the first iteration of some of its loops only, as one below loops of one
    iteration: what it writes there is there in all later ones."""
    kept: list[Expr] = []
    loops = list(n.loops)
    for c in conjuncts(n.realize.predicate):
        at = [i for i, loop in enumerate(loops) if _is_first_iteration(c, loop)]
        if at:
            loops[at[0]] = replace(loops[at[0]], extent=IntImm(1))
        else:
            kept.append(c)
    if len(loops) == len(n.loops) and all(a is b for a, b in zip(loops, n.loops, strict=True)):
        return n
    return Nested(replace(n.realize, predicate=all_of(kept)), loops, n.conditions)


def _counted(n: Nested, bounds: Bounds) -> Nested:
    """A block below loops that a condition cuts, ``i * 128 + j < 130`` as split writes it, as one
    below a single loop of that many iterations: where the loops reach each number below the end,
    and the block's axes use nothing but that number of them."""
    for c in conjuncts(n.realize.predicate):
        if isinstance(c, LT) and isinstance(c.b, IntImm):
            n = _counted_by(n, c, c.b.value, bounds | loop_bounds(n.loops)) or n
    return n


def _counted_by(n: Nested, c: LT, end: int, bounds: Bounds) -> Nested | None:
    cut = [x for x in n.loops if uses(c.a, x.var)]
    reach = sweep(c.a, loop_bounds(cut), bounds) if cut else None
    if reach is None or not reach.exact or overlapping(reach.digits, bounds):
        return None
    if not is_const(reach.start, 0) or not bounds.proves_le(IntImm(end), reach.extent):
        return None
    count = Var("count", c.a.dtype)
    counting = _Counting(bounds, bounds.linear(c.a), count, [x.var for x in cut])
    values = tuple([counting.visit(v) for v in n.realize.iter_values])
    rest = [other for other in conjuncts(n.realize.predicate) if other is not c]
    loops = [x for x in n.loops if x not in cut]
    left = (*values, *rest, *n.conditions, *[e for x in loops for e in (x.min, x.extent)])
    if any(uses(e, x.var) for e in left for x in cut):
        return None
    loops.append(replace(cut[-1], var=count, min=IntImm(0), extent=IntImm(end)))
    realize = replace(n.realize, iter_values=values, predicate=all_of(rest))
    return Nested(realize, loops, n.conditions)


class _Counting(Mutator):
    """Indices with a variable for a sum of loops."""

    def __init__(self, bounds: Bounds, counted: Linear, count: Var, loops: Sequence[Var]) -> None:
        self.bounds, self.counted, self.count, self.loops = bounds, counted, count, loops

    def visit(self, n: Any) -> Any:
        if isinstance(n, Expr) and n.dtype == self.count.dtype:
            rest = self.bounds.linear(n) - self.counted
            if not any(uses(atom, x) for atom in rest.terms for x in self.loops):
                return add(self.count, render(rest))
        return super().visit(n)


def _is_first_iteration(c: Expr, loop: For) -> bool:
    """Whether a condition is ``loop == its first value``, of a serial loop."""
    return (
        isinstance(c, EQ)
        and c.a is loop.var
        and loop.kind == "serial"
        and isinstance(c.b, IntImm)
        and isinstance(loop.min, IntImm)
        and c.b.value == loop.min.value
    )


# -- inside of a block -----------------------------------------------------------------------------
class _Certain:
    """One walk over the body of a block, with the loops entered and the values of lets."""

    def __init__(self, block: Block, buffer: Buffer) -> None:
        self.block = block
        self.buffer = buffer
        self.views = {m.buffer: m.source for m in block.match_buffers if m.source.buffer is buffer}
        self.loops: list[For] = []
        self.lets: dict[Var, Expr] = {}
        self.axes = domain_bounds(block)

    def holds(self, region: BufferRegion) -> bool:
        """Whether some of the boxes written, put together, hold all of the region."""
        boxes = [box for part in _certain_parts(self.block) for box in self.boxes(part)]
        whole = Box([r.min for r in region.region], [r.extent for r in region.region], True)
        shape = region.buffer.shape
        return any(contains(b, whole, self.axes, shape) for b in self.joined(boxes))

    def boxes(self, s: Stmt) -> Iterator[Box]:  # noqa: C901 - one case a node
        """Boxes of the buffer that a statement surely writes, over the axes and what stands
        outside of the block."""
        match s:
            case BufferStore():
                if _is_bare(s):
                    ranges = [_point(i) for i in s.indices]
                    if None not in ranges:
                        region = BufferRegion(s.buffer, tuple([r for r in ranges if r]))
                        yield from self._written(region, None)
            case SeqStmt(stmts):
                for child in stmts:
                    yield from self.boxes(child)
            case For():
                self.loops.append(s)
                yield from self.boxes(s.body)
                self.loops.pop()
            case LetStmt():
                self.lets[s.var] = substitute(s.value, self.lets)
                yield from self.boxes(s.body)
                del self.lets[s.var]
            case IfThenElse(_, then_case, else_case) if else_case is not None:
                other = self.joined(list(self.boxes(else_case)))
                for box in self.joined(list(self.boxes(then_case))):
                    if any(contains(x, box, self.axes) for x in other):
                        yield box
            case BlockRealize():
                for w in s.block.writes:
                    if w.buffer is self.buffer or w.buffer in self.views:
                        yield from self._written(w, s)
            case Evaluate(ExternCall(args=args)):
                if any(isinstance(a, AccessPtr) and self._is_whole(a) for a in args):
                    yield from self._declared()
            case _:
                return

    def _is_whole(self, p: AccessPtr) -> bool:
        """Whether a function of C has a pointer to write the buffer with: it writes all that the
        block declares."""
        return p.mask == "w" and (p.buffer is self.buffer or p.buffer in self.views)

    def _declared(self) -> Iterator[Box]:
        bounds = self.axes | loop_bounds(self.loops)
        if all(_is_positive(x.extent, bounds) for x in self.loops):
            for w in self.block.writes:
                if w.buffer is self.buffer:
                    yield Box([r.min for r in w.region], [r.extent for r in w.region], True)

    def _written(self, region: BufferRegion, realize: BlockRealize | None) -> Iterator[Box]:
        """What a region becomes while the loops entered run, where all of that is written; of a
        view, its source, where it is all of the view."""
        loops = [substitute(loop, self.lets) for loop in self.loops] if self.lets else self.loops
        bounds = self.axes | loop_bounds(loops)
        if realize is None:
            at = substitute(region, self.lets)
            axes = tuple([it.var for it in self.block.iter_vars])
            n = Nested(BlockRealize(axes, TRUE, self.block), loops, [])
            box = touched(at, n, loops, bounds)
            used = at
        else:
            values = tuple([substitute(v, self.lets) for v in realize.iter_values])
            condition = substitute(realize.predicate, self.lets)
            n = Nested(BlockRealize(values, condition, realize.block), loops, [])
            box = written_box(region, n, loops, bounds)
            box.exact = box.exact and covers_domain(n, bounds)
            pairs = zip(realize.block.iter_vars, values, strict=True)
            used = substitute(region, {it.var: value for it, value in pairs})
        if not box.exact or has_load(used):
            return  # an index that is read may be another from one statement to the next
        if any(not uses(used, x.var) and not _is_positive(x.extent, bounds) for x in loops):
            return
        source = self.views.get(region.buffer)
        if source is None:
            if region.buffer is self.buffer:
                yield box
            return
        shape = list(region.buffer.shape)
        if contains(box, Box([IntImm(0)] * len(shape), list(shape), True), self.axes):
            yield Box([r.min for r in source.region], [r.extent for r in source.region], True)

    def joined(self, boxes: Sequence[Box]) -> list[Box]:
        """Boxes with those put together that together are one."""
        result = list(boxes)[:_MOST_BOXES]
        again = True
        while again:
            again = False
            for i, a in enumerate(result):
                for j in range(i + 1, len(result)):
                    both = self._together(a, result[j])
                    if both is not None:
                        result[i] = both
                        del result[j]
                        again = True
                        break
                if again:
                    break
        return result

    def _together(self, a: Box, b: Box) -> Box | None:
        """Two boxes as one, where they differ in one dimension only and meet there."""
        equal = self.axes.proves_equal
        pairs = list(zip(a.starts, a.extents, b.starts, b.extents, strict=True))
        other = [d for d, (s, e, t, f) in enumerate(pairs) if not (equal(s, t) and equal(e, f))]
        if not other:
            return a
        if len(other) > 1:
            return None
        (d,) = other
        s, e, t, f = pairs[d]
        if not self.axes.proves_le(s, t):
            s, e, t, f = t, f, s, e
        end = add(s, e)
        if not (self.axes.proves_le(s, t) and self.axes.proves_le(t, end)):
            return None
        if not self.axes.proves_le(end, add(t, f)):
            return a if self.axes.proves_le(add(t, f), end) and s is pairs[d][0] else None
        starts, extents = list(a.starts), list(a.extents)
        starts[d], extents[d] = s, self.axes.simplify(sub(add(t, f), s))
        return Box(starts, extents, True)


def _point(index: Expr) -> Range | None:
    """The elements of one index; None for lanes that are not side by side."""
    if not isinstance(index, Ramp):
        return Range(index, IntImm(1))
    return Range(index.base, IntImm(index.lanes)) if is_const(index.stride, 1) else None

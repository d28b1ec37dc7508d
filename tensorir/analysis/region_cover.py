"""Which box of a buffer a block touches while some loops run, and whether one box holds another.

Regions are written over iter vars; bindings put loops in their place, and ``sweep`` lets some of
these loops run. Used to place producers and consumers under loops and to prove that an iteration
reads only what it wrote itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ...support.node import Node
from ..arith import IterSplit
from ..buffer import Buffer, BufferRegion
from ..expr import GE, LT, Expr, IntImm, Var, add, is_const, sub
from ..stmt import Block, BlockRealize, For, IterVar
from ..visitor import substitute
from .affine import (
    Bounds,
    loop_bounds,
    low_and_high,
    overlapping,
    steps_without_gap,
    sweep,
)
from .block_kinds import binding_map, binds
from .conditions import conjuncts
from .nested_blocks import Nested
from .paths import Path, all_loops_above, realize_of


@dataclass(slots=True)
class Box:
    """``[start, start + extent)`` in each dimension; ``exact`` says that all of it is touched.

    A dimension whose range could not be told spans the whole buffer.
    """

    starts: list[Expr]
    extents: list[Expr]
    exact: bool


def touched(region: BufferRegion, n: Nested, inner: Sequence[For], bounds: Bounds) -> Box:
    """What ``n`` touches through one of its regions while the loops ``inner`` run and the others
    stay.

    ``bounds`` are those of all loops around it. The box may reach beyond the buffer where the block
    has a predicate.
    """
    bindings = binding_map(n.realize)
    moving = loop_bounds(inner)
    starts: list[Expr] = []
    sizes: list[Expr] = []
    exact = not n.conditions
    digits: list[IterSplit] = []
    for r, dim in zip(region.region, region.buffer.shape, strict=True):
        low = bindings.get(r.min, r.min) if isinstance(r.min, Var) else substitute(r.min, bindings)
        s = sweep(low, moving, bounds)
        if s is None or not isinstance(r.extent, IntImm):
            starts.append(IntImm(0))
            sizes.append(dim)
            whole = s is not None and is_const(s.start, 0) and bounds.proves_equal(r.extent, dim)
            exact = exact and whole
            continue
        starts.append(s.start)
        sizes.append(
            s.extent if r.extent.value == 1 else bounds.simplify(s.extent + (r.extent.value - 1))
        )
        dense = s.exact or steps_without_gap(low, r.extent.value, moving, bounds)
        exact = exact and dense
        digits.extend(s.digits)
    return Box(starts, sizes, exact and not overlapping(digits, bounds))


@dataclass(slots=True)
class Whole:
    """What a block touches of a buffer over all its loops."""

    buffer: Buffer
    box: Box
    bounds: Bounds
    written: bool


def whole_boxes(path: Path, buffer: Buffer | None = None) -> list[Whole]:
    """What a block touches over all its loops: one entry for each of its regions, or for each of
    those of one buffer."""
    loops = all_loops_above(path)
    realize = realize_of(path)
    known = _boxes.setdefault(realize, {})
    key = (buffer, *[part for loop in loops for part in (loop.var, loop.min, loop.extent)])
    found = known.get(key)
    if found is None:
        found = known[key] = _whole_boxes(realize, loops, buffer)
    return found


_boxes: WeakKeyDictionary[BlockRealize, dict[tuple[Node | None, ...], list[Whole]]] = (
    WeakKeyDictionary()
)
"""By block, and the loops that it stood in: nodes do not change, and primitives that cut a loop
into parts ask of all blocks around again and again."""


def _whole_boxes(realize: BlockRealize, loops: list[For], buffer: Buffer | None) -> list[Whole]:
    n = Nested(realize, loops, [])
    bounds = loop_bounds(loops)
    sides = ((realize.block.reads, False), (realize.block.writes, True))
    return [
        Whole(r.buffer, touched(r, n, loops, bounds), bounds, written)
        for regions, written in sides
        for r in regions
        if buffer is None or r.buffer is buffer
    ]


def in_conflict(a: Sequence[Whole], b: Sequence[Whole]) -> bool:
    """Whether two blocks may touch one element that one of them writes."""
    return any(
        x.buffer is y.buffer
        and (x.written or y.written)
        and not apart(x.box, y.box, x.bounds | y.bounds)
        for x in a
        for y in b
    )


def covers_domain(n: Nested, bounds: Bounds) -> bool:
    """Whether the block runs for every value its loops give it, but those outside of its axes'
    domains.

    Holds where the predicate only says what the domains say anyway.
    """
    return not n.conditions and all(
        says_domain(c, n.realize, bounds) for c in conjuncts(n.realize.predicate)
    )


def says_domain(c: Expr, realize: BlockRealize, bounds: Bounds) -> bool:
    """Whether a condition is ``binding < end of the domain``, as split writes it, or ``binding >=
    its start``, perhaps with the same offset on both sides."""
    return axis_limited(c, realize, bounds) is not None


def axis_limited(c: Expr, realize: BlockRealize, bounds: Bounds) -> IterVar | None:
    """The axis whose domain's end (of ``<``) or start (of ``>=``) a condition says, or None."""
    if not isinstance(c, (LT, GE)):
        return None
    room = sub(c.b, c.a) if isinstance(c, LT) else sub(c.a, c.b)
    for it, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        end = add(it.dom.min, it.dom.extent)
        wanted = sub(end, value) if isinstance(c, LT) else sub(value, it.dom.min)
        if bounds.proves_equal(room, wanted):
            return it
    return None


def union(a: Box, b: Box, bounds: Bounds) -> Box:
    """The smallest box around two; exact only where one holds the other."""
    if contains(a, b, bounds):
        return a
    if contains(b, a, bounds):
        return b
    ranges = [
        low_and_high((s, e), (t, f), bounds)
        for s, e, t, f in zip(a.starts, a.extents, b.starts, b.extents, strict=True)
    ]
    return Box([low for low, _ in ranges], [extent for _, extent in ranges], False)


def contains(outer: Box, inner: Box, bounds: Bounds, shape: Sequence[Expr] | None = None) -> bool:
    """Whether ``inner`` lies in ``outer``; with ``shape``, what reaches beyond the buffer is
    ignored."""
    for d, (s, e, t, f) in enumerate(
        zip(outer.starts, outer.extents, inner.starts, inner.extents, strict=True)
    ):
        if not bounds.proves_le(s, t):
            return False
        end = add(s, e)
        if not bounds.proves_le(add(t, f), end) and (
            shape is None or not bounds.proves_le(shape[d], end)
        ):
            return False
    return True


def apart(a: Box, b: Box, bounds: Bounds) -> bool:
    """Whether two boxes provably have nothing in common."""
    for s, e, t, f in zip(a.starts, a.extents, b.starts, b.extents, strict=True):
        if bounds.proves_le(add(s, e), t) or bounds.proves_le(add(t, f), s):
            return True
    return False


def instances_clash(block: Block, varied: Collection[Var]) -> bool:
    """Whether two instances that differ in one of the spatial axes ``varied`` provably write one
    element: then the axes do not say what spatial axes say, and the instances have an order.

    Tried are the first instance and its neighbours, which finds the usual mistakes (``B[i + j]``,
    ``B[i // 2]``, two elements an instance); that no clash is found is no proof.
    """
    axes = [it for it in block.iter_vars if it.kind == "spatial" and not is_const(it.dom.extent, 1)]
    plain = [{r.min for r in w.region if is_const(r.extent, 1)} for w in block.writes]
    moved = [it for it in axes if any(it.var not in indices for indices in plain)]
    bounds = Bounds({it.var: it.dom for it in block.iter_vars if it.kind != "spatial"})
    first: dict[Var, Expr] = {it.var: it.dom.min for it in block.iter_vars if it.kind == "spatial"}
    places = {it.var: first | {it.var: add(it.dom.min, 1)} for it in moved}
    for v in places:
        if v not in varied:
            continue
        others = [first, *(place for other, place in places.items() if other is not v)]
        for place in others:
            if any(_meet(w, places[v], place, bounds) for w in block.writes):
                return True
    return False


def iterations_clash(realize: BlockRealize, var: Var) -> bool:
    """``instances_clash`` for the axes that run over a loop."""
    bound = [v for v, value in binding_map(realize).items() if binds([value], var)]
    return instances_clash(realize.block, bound)


def _meet(w: BufferRegion, a: Mapping[Var, Expr], b: Mapping[Var, Expr], bounds: Bounds) -> bool:
    """Whether a region provably has an element in common at two instances."""
    for r in w.region:
        s, t = (bounds.simplify(substitute(r.min, at)) for at in (a, b))
        e, f = (substitute(r.extent, at) for at in (a, b))
        if not (bounds.proves_le(add(s, 1), add(t, f)) and bounds.proves_le(add(t, 1), add(s, e))):
            return False
    return True


def full_box(buffer: Buffer) -> Box:
    """All of a buffer."""
    return Box([IntImm(0) for _ in buffer.shape], list(buffer.shape), True)


def axis_of_index(block: Block, index: Expr) -> Var | None:
    """The iter var that an index is, or None."""
    if isinstance(index, Var) and any(it.var is index for it in block.iter_vars):
        return index
    return None

"""merge: one nest of loops for several that stand one after another.

    for m, l: C[m, l]                 for m_m, l_m:
    for m, l: D[m, l] = f(C)    ->      C[m_m, l_m]
                                        D[m_m, l_m] = f(C)

Before, every iteration of the first nest ran before any of the second; afterwards the second's
iteration m runs before the first's iterations m' > m. Legal where none of these pairs touches one
element that either writes, which covers what flows from nest to nest, what is overwritten after it
was read, and what both write. Two proofs are tried for each pair of blocks and buffer:

- by ranges: in some dimension the box that one touches at m ends before the box that the other
  touches at any later m' begins (m' is m + 1 + a number >= 0 in the loop where they differ first);
- by ownership: one block writes other elements in every iteration, and what the other touches at m
  lies in what the one writes at m.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ....support.errors import (
    DependenceError,
    NotAncestorError,
    ScheduleError,
    ScheduleValueError,
)
from ....support.node import replace
from ...analysis.affine import Bounds, loop_bounds, undetermined
from ...analysis.hidden_accesses import require_declared
from ...analysis.paths import (
    Nested,
    Path,
    all_loops_above,
    axis_bindings,
    binding_map,
    binds,
    blocks_below,
    fail,
    find_block,
    find_loop,
    map_outer_realizes,
    rebuild,
    with_body,
)
from ...analysis.region_cover import Box, apart, contains, covers_domain, touched
from ...buffer import Buffer, BufferRegion, Range
from ...expr import Expr, IntImm, Var, add, is_const, sub
from ...function import PrimFunc
from ...printer import print_region
from ...stmt import Block, For, SeqStmt, Stmt, seq
from ...visitor import substitute
from .loops import require_affine, require_plain_serial


def merge(func: PrimFunc, variables: Sequence[Var], *, checks: bool = True) -> tuple[PrimFunc, Var]:
    """Merge the nests down to the given loops, which stand in consecutive statements; gives the
    innermost merged variable."""
    if len(variables) < 2:
        raise ScheduleValueError("merge", "Expected at least two loops.")
    paths = [find_loop(func, v, "merge") for v in variables]
    depth = _shared_depth(paths)
    holder = paths[0][depth - 1]
    if not isinstance(holder, SeqStmt) or len({id(p[depth]) for p in paths}) != len(paths):
        raise fail(
            NotAncestorError,
            "merge",
            func,
            [p[-1] for p in paths],
            "The loops do not stand in different statements of one sequence.",
        )
    chains = [_chain(func, p, depth) for p in paths]
    places = [next(i for i, s in enumerate(holder.stmts) if s is p[depth]) for p in paths]
    if places != list(range(places[0], places[0] + len(places))):
        raise fail(
            NotAncestorError,
            "merge",
            func,
            [p[depth] for p in paths],
            "The nests do not follow one another directly, in the order given.",
        )
    _require_equal(func, chains)
    outer = all_loops_above(paths[0][: depth + 1])
    merged = [Var(f"{loop.var.name}_m") for loop in chains[0]]
    new_loops = [replace(loop, var=v) for v, loop in zip(merged, chains[0], strict=True)]
    bodies: list[Stmt] = []
    for chain in chains:
        change = {loop.var: v for loop, v in zip(chain, merged, strict=True)}
        inner = [loop for n in blocks_below(chain[-1].body) for loop in n.loops]
        bounds = loop_bounds([*outer, *new_loops, *inner])
        bodies.append(map_outer_realizes(chain[-1].body, change, bounds, None))
    if checks:
        require_declared(func, SeqStmt(tuple([p[depth] for p in paths])), "merge")
        require_local(func, outer, new_loops, bodies, "merge")
    nest = seq(*bodies)
    for loop in reversed(new_loops):
        nest = replace(loop, body=nest)
    stmts = [*holder.stmts[: places[0]], nest, *holder.stmts[places[-1] + 1 :]]
    return with_body(func, rebuild(paths[0][:depth], seq(*stmts))), merged[-1]


def _shared_depth(paths: Sequence[Path]) -> int:
    depth = 0
    while all(len(p) > depth and p[depth] is paths[0][depth] for p in paths):
        depth += 1
    return depth


def _chain(func: PrimFunc, path: Path, depth: int) -> list[For]:
    chain: list[For] = []
    for s in path[depth:]:
        if not isinstance(s, For):
            found = "Expected loops nested directly in one another down to the loop to merge."
            raise fail(NotAncestorError, "merge", func, [path[-1]], found)
        chain.append(s)
    return chain


def _require_equal(func: PrimFunc, chains: Sequence[Sequence[For]]) -> None:
    bounds = loop_bounds(chains[0])
    for chain in chains:
        if len(chain) != len(chains[0]):
            found = "The nests have different depths down to the loops to merge."
            raise fail(ScheduleValueError, "merge", func, list(chain), found)
        for loop, first in zip(chain, chains[0], strict=True):
            require_plain_serial(func, loop, "merge")
            if not bounds.proves_equal(loop.extent, first.extent):
                found = (
                    f"The loops {first.var.name!r} and {loop.var.name!r} do not provably have the "
                    "same extent."
                )
                raise fail(ScheduleValueError, "merge", func, [first, loop], found)


def require_local(
    func: PrimFunc,
    outer: Sequence[For],
    merged: Sequence[For],
    bodies: Sequence[Stmt],
    primitive: str,
) -> None:
    """Raises DependenceError unless each of the statements, which stand below the same loops one
    after another, may run all its iterations before the next one begins, and the other way
    round."""
    groups = [blocks_below(b) for b in bodies]
    for group in groups:
        for n in group:
            require_affine(func, n, [*outer, *merged, *n.loops], primitive)
    order = LoopOrder(outer, merged)
    for i, group in enumerate(groups):
        later = [n for g in groups[i + 1 :] for n in g]
        for first in group:
            for second in later:
                _require_order_kept(func, first, second, order, primitive)


@dataclass(frozen=True, slots=True)
class Touch:
    """A region of a block, and the box that one iteration of the merged loops touches."""

    block: Nested
    region: BufferRegion
    written: bool
    box: Box


@dataclass(frozen=True, slots=True)
class _Iteration:
    """Another iteration of the merged loops: their variables there, and all ranges."""

    values: dict[Var, Expr]
    bounds: Bounds

    def separates(self, there: Box, here: Box) -> bool:
        """Whether one box in that iteration and another in this one have nothing in common."""
        starts = [substitute(s, self.values) for s in there.starts]
        extents = [substitute(e, self.values) for e in there.extents]
        return apart(Box(starts, extents, there.exact), here, self.bounds)


class LoopOrder:
    """Loops whose iterations are to run in another order, and those around them."""

    def __init__(self, outer: Sequence[For], merged: Sequence[For]) -> None:
        self.merged = merged
        self.fixed = [*outer, *merged]
        self.later: list[tuple[_Iteration, _Iteration]] = []
        """For each loop in which a later iteration may be the first to differ: what is known of it
        where its distance counts, and where its range does."""
        for d, loop in enumerate(merged):
            steps = [Var(f"{other.var.name}_later") for other in merged[d:]]
            values: dict[Var, Expr] = {
                other.var: step for other, step in zip(merged[d:], steps, strict=True)
            }
            ranges = {
                step: Range(IntImm(0), other.extent)
                for other, step in zip(merged[d:], steps, strict=True)
            }
            bounds = loop_bounds(self.fixed)
            self.later.append(
                (
                    _Iteration(
                        values | {loop.var: add(add(loop.var, 1), steps[0])},
                        bounds | Bounds(ranges | {steps[0]: Range(IntImm(0), sub(loop.extent, 1))}),
                    ),
                    _Iteration(values, bounds | Bounds(ranges)),
                )
            )

    def touches(self, n: Nested) -> list[Touch]:
        bounds = loop_bounds([*self.fixed, *n.loops])
        sides = ((n.block.reads, False), (n.block.writes, True))
        return [
            Touch(n, r, written, touched(r, n, n.loops, bounds))
            for regions, written in sides
            for r in regions
        ]

    def are_apart(self, later: Touch, now: Touch) -> bool:
        """Whether what one touches in any later iteration, the other does not touch now."""
        if all(any(i.separates(later.box, now.box) for i in ways) for ways in self.later):
            return True
        return self.owns(later, now) or self.owns(now, later)

    def owns(self, owner: Touch, other: Touch) -> bool:
        """Whether ``owner`` touches all that ``other`` does in an iteration, and each element in
        one iteration alone."""
        n = owner.block
        bounds = loop_bounds([*self.fixed, *n.loops])
        if not owner.written or not owner.box.exact or not covers_domain(n, bounds):
            return False
        at = binding_map(n.realize)
        indices = [substitute(r.min, at) for r in owner.region.region]
        if not all(is_const(r.extent, 1) for r in owner.region.region):
            return False
        free = undetermined(indices, bounds)
        if free is None or any(loop.var in free for loop in self.merged):
            return False
        known = bounds | loop_bounds(other.block.loops)
        return contains(owner.box, other.box, known, owner.region.buffer.shape)


def overwrites(n: Nested, loops: Sequence[For], buffers: Collection[Buffer]) -> bool:
    """Whether a block may write the same elements of one of the buffers in several iterations of
    some of its loops, so that after these loops only the last values are left."""
    if all(w.buffer not in buffers for w in n.block.writes):
        return False
    order = LoopOrder([], loops)
    inner = Nested(n.realize, [x for x in n.loops if x not in loops], n.conditions)
    return any(
        w.written and w.region.buffer in buffers and not order.are_apart(w, w)
        for w in order.touches(inner)
    )


def _require_order_kept(
    func: PrimFunc, first: Nested, second: Nested, order: LoopOrder, primitive: str
) -> None:
    """Raises DependenceError unless ``second`` at an iteration may run before ``first`` at all
    later ones."""
    shared = {id(r.buffer) for r in (*first.block.reads, *first.block.writes)}
    if not any(id(r.buffer) in shared for r in (*second.block.reads, *second.block.writes)):
        return
    for a in order.touches(first):
        for b in order.touches(second):
            if a.region.buffer is not b.region.buffer or not (a.written or b.written):
                continue
            if not order.are_apart(a, b):
                raise _refused(func, a, b, order.merged, primitive)


def _refused(
    func: PrimFunc, first: Touch, second: Touch, merged: Sequence[For], primitive: str
) -> ScheduleError:
    one, other = first.block.block.name, second.block.block.name
    here = ", ".join(repr(loop.var.name) for loop in merged)
    did, does = ["writes" if t.written else "reads" for t in (first, second)]
    buffer = first.region.buffer.name
    order = "came first before" if primitive == "merge" else "would come first"
    found = (
        f"In one iteration of {here} the block {other!r} {does} {_text(second)}, while {one!r} "
        f"{did} {_text(first)} in a later one. {one!r} {order}, and that these are "
        f"different elements of {buffer!r} cannot be proved."
    )
    reduced = axis_bindings(first.block.realize, ("reduce",))
    for loop in merged:
        if first.written and binds(reduced, loop.var):
            found += (
                f" One iteration of the reduce loop {loop.var.name!r} does not complete the sums "
                f"of {one!r}."
            )
    guilty = [_original(func, first.block), _original(func, second.block)]
    return fail(DependenceError, primitive, func, guilty, found)


def _text(touch: Touch) -> str:
    ranges = [Range(s, e) for s, e in zip(touch.box.starts, touch.box.extents, strict=True)]
    return print_region(BufferRegion(touch.region.buffer, tuple(ranges)))


def _original(func: PrimFunc, n: Nested) -> Block:
    """The block as it stands in the function, for marking it in an error."""
    leaf = find_block(func, n.block.name, "merge")[-1]
    block = getattr(leaf, "block", None)
    assert isinstance(block, Block)
    return block

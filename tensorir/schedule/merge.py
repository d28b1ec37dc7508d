"""merge: one nest of loops for several that stand one after another.

    for m, l: C[m, l]                 for m_m, l_m:
    for m, l: D[m, l] = f(C)    ->      C[m_m, l_m]
                                        D[m_m, l_m] = f(C)

Legal where each iteration of the merged loops reads only what it wrote itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import DependenceError, NotAncestorError, ScheduleValueError
from ...support.node import replace
from ..expr import Var
from ..function import PrimFunc
from ..stmt import Block, For, SeqStmt, Stmt, seq
from .affine import loop_bounds
from .analysis import (
    Nested,
    Path,
    all_loops_above,
    axis_bindings,
    binds,
    blocks_below,
    fail,
    find_block,
    find_loop,
    map_outer_realizes,
    rebuild,
    with_body,
)
from .loops import require_affine, require_plain_serial
from .region_cover import covered_within, in_conflict, whole_boxes


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
        _require_local(func, outer, new_loops, bodies)
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


def _require_local(
    func: PrimFunc, outer: Sequence[For], merged: Sequence[For], bodies: Sequence[Stmt]
) -> None:
    groups = [blocks_below(b) for b in bodies]
    for group in groups:
        for n in group:
            require_affine(func, n, [*outer, *merged, *n.loops], "merge")
    for i, group in enumerate(groups):
        later = [n for g in groups[i + 1 :] for n in g]
        for n in group:
            _require_final(func, n, later, merged)
    trouble = covered_within([n for g in groups for n in g], [*outer, *merged])
    if trouble is not None:
        found = (
            f"{trouble.block.name!r} reads what the other nest writes in another "
            "iteration, or this "
            "cannot be excluded."
        )
        raise fail(DependenceError, "merge", func, [_original(func, trouble)], found)


def _require_final(
    func: PrimFunc, n: Nested, later: Sequence[Nested], merged: Sequence[For]
) -> None:
    """What later nests read must be complete in one iteration, and be written by one nest only."""
    writes = {id(w.buffer) for w in n.block.writes}
    own = whole_boxes(find_block(func, n.block.name, "merge"))
    reduced = axis_bindings(n.realize, ("reduce",))
    for other in later:
        if any(id(w.buffer) in writes for w in other.block.writes) and in_conflict(
            own, whole_boxes(find_block(func, other.block.name, "merge"))
        ):
            found = f"{n.block.name!r} and {other.block.name!r} write the same elements."
            raise fail(DependenceError, "merge", func, [_original(func, other)], found)
        if any(id(r.buffer) in writes for r in other.block.reads):
            for loop in merged:
                if binds(reduced, loop.var):
                    found = (
                        f"{other.block.name!r} reads the result of {n.block.name!r}, which one "
                        f"iteration of the reduce loop {loop.var.name!r} does not complete."
                    )
                    raise fail(DependenceError, "merge", func, [_original(func, other)], found)


def _original(func: PrimFunc, n: Nested) -> Block:
    """The block as it stands in the function, for marking it in an error."""
    leaf = find_block(func, n.block.name, "merge")[-1]
    block = getattr(leaf, "block", None)
    assert isinstance(block, Block)
    return block

"""Threads: the outermost loop of a nest is shared among them where there is enough to do.

A parallel loop runs over spatial axes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.target import Target
from ...tensorir.expr import IntImm
from ...tensorir.schedule import BlockRV, LoopRV, Schedule
from ...tensorir.stmt import Block

PARALLEL_GRAIN = 1 << 14
"""Elements below which a loop is not worth sharing among threads."""


def points_of(block: Block) -> int:
    """Iterations of a block; a symbolic axis counts as if there were many."""
    points = 1
    for v in block.iter_vars:
        extent = v.dom.extent
        points *= extent.value if isinstance(extent, IntImm) else PARALLEL_GRAIN
    return points


def share(sch: Schedule, target: Target, loops: Sequence[LoopRV], points: int) -> bool:
    """Make the first of ``loops`` (outermost first) that has iterations to share parallel."""
    if target.threads == 1 or points < PARALLEL_GRAIN:
        return False
    for loop in loops:
        extent = sch.get(loop).extent
        if not (isinstance(extent, IntImm) and extent.value == 1):
            sch.parallel(loop)
            return True
    return False


def share_longest(sch: Schedule, target: Target, loops: Sequence[LoopRV], points: int) -> bool:
    """Make the one of several loops that has the most iterations parallel."""
    return share(sch, target, [max(loops, key=lambda loop: count_of(sch, loop))], points)


def count_of(sch: Schedule, loop: LoopRV) -> int:
    """The iterations of a loop, 0 where they are not known."""
    extent = sch.get(loop).extent
    return extent.value if isinstance(extent, IntImm) else 0


GROUPS = 8
"""Groups of rows, or of panels, that threads can share evenly."""
GROUP_ROWS = 32
"""Rows of a sum that are a group, at least: its own sums are written once and read once."""
ENOUGH_TILES = 4
"""Iterations of a loop of tiles that divide well among threads."""


def share_tiles(sch: Schedule, target: Target, loops: Sequence[LoopRV], points: int) -> bool:
    """Make the first of ``loops`` that has enough iterations parallel, or else the longest, unless
    one is parallel already."""
    if any(sch.get(loop).kind == "parallel" for loop in loops):
        return False
    extents = [sch.get(loop).extent for loop in loops]
    counts = [e.value if isinstance(e, IntImm) else ENOUGH_TILES for e in extents]
    wanted = next((n for n in counts if n >= ENOUGH_TILES), max(counts))
    return share(sch, target, [loops[counts.index(wanted)]], points)


def share_parts(
    sch: Schedule, target: Target, blocks: Sequence[str | BlockRV], depth: int, points: int
) -> None:
    """Share parts of one block that may stand side by side inside the same loops: of each of
    ``blocks`` the ``depth`` outermost loops may be parallel. The loops around all are shared where
    they have enough iterations, or as many as the first part has inside; else each part's own are.
    A loop around a parallel one is left serial: threads do not nest, so that a short one around,
    made parallel for a part that has nothing to share, would take the others' from them."""
    _share_nests(sch, target, [sch.get_loops(block)[:depth] for block in blocks], points)


def _share_nests(
    sch: Schedule, target: Target, nests: Sequence[Sequence[LoopRV]], points: int
) -> None:
    """``share_parts`` of the loops of each part, outermost first."""
    first, *others = nests
    if not others:
        share_tiles(sch, target, first, points)
        return
    names = [[sch.get(loop).var for loop in nest] for nest in nests]
    around = 0
    while all(len(n) > around and n[around] is names[0][around] for n in names):
        around += 1
    enough = min(ENOUGH_TILES, _most(sch, first[around:]))
    if around and _most(sch, first[:around]) >= enough:
        share_tiles(sch, target, first[:around], points)
        return
    inside: dict[int, list[Sequence[LoopRV]]] = {}
    for nest, own in zip(nests, names, strict=True):
        if len(own) > around:
            inside.setdefault(id(own[around]), []).append(nest[around:])
    for parts in inside.values():
        _share_nests(sch, target, parts, points)


def _most(sch: Schedule, loops: Sequence[LoopRV]) -> int:
    """The iterations of the longest loop; one that is not known has enough."""
    extents = [sch.get(loop).extent for loop in loops]
    return max([e.value if isinstance(e, IntImm) else ENOUGH_TILES for e in extents], default=0)

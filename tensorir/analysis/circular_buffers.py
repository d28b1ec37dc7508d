"""Circular buffers, whose elements are there for a while only: who must not leave their loops."""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import DependenceError
from ..buffer import Buffer, BufferRegion
from ..function import PrimFunc
from ..rolling import ROLLING
from ..stmt import Block, BlockRealize, For, annotation
from ..visitor import substitute
from .affine import loop_bounds, undetermined
from .block_kinds import binding_map
from .paths import all_loops_above, walk_paths
from .preconditions import fail


def require_no_circle(func: PrimFunc, block: Block, primitive: str) -> None:
    """Raises DependenceError for a block that uses a circular buffer, or a copy of one, whose
    elements are there only for a while: such a block stays under the loops it stands under."""
    uses = {id(r.buffer) for r in (*block.reads, *block.writes)}
    for buffer, circular in _fleeting(func):
        if id(buffer) in uses:
            what = "the circular buffer" if buffer is circular else "a copy of the circular buffer"
            found = (
                f"{block.name!r} uses {what} {circular.name!r} and may not leave the iteration it "
                "stands in; move blocks before rolling_buffer."
            )
            raise fail(DependenceError, primitive, func, [block], found)


def _fleeting(func: PrimFunc) -> list[tuple[Buffer, Buffer]]:
    """The circular buffers, and those that a user of one writes anew in each iteration of the loops
    around the circle; each with the circle it depends on."""
    found: dict[int, tuple[Buffer, Buffer, list[For]]] = {}
    for path in walk_paths(func.body):
        leaf = path[-1]
        if not isinstance(leaf, Block):
            continue
        if annotation(leaf, ROLLING):
            circular = leaf.writes[0].buffer
            found[id(circular)] = (circular, circular, list(all_loops_above(path)))
            continue
        for region in leaf.reads:
            source = found.get(id(region.buffer))
            if source is None or not isinstance(path[-2], BlockRealize):
                continue
            _, circular, loops = source
            shared = [loop for loop in all_loops_above(path) if any(loop is o for o in loops)]
            for written in leaf.writes:
                if not _determines(written, path[-2], all_loops_above(path), shared):
                    found.setdefault(id(written.buffer), (written.buffer, circular, shared))
    return [(buffer, circular) for buffer, circular, _ in found.values()]


def _determines(
    written: BufferRegion, realize: BlockRealize, loops: Sequence[For], shared: Sequence[For]
) -> bool:
    """Whether an element that is written tells the iteration of the shared loops it is written
    in."""
    bindings = binding_map(realize)
    places = [substitute(r.min, bindings) for r in written.region]
    free = undetermined(places, loop_bounds(loops))
    return free is not None and all(loop.var not in free for loop in shared)

"""Which buffer an argument of a primitive means, and which names are taken."""

from __future__ import annotations

from ...support.errors import ScheduleValueError
from ..buffer import SCOPES, Buffer, is_scope
from ..function import PrimFunc
from ..stmt import Block
from .paths import walk_paths
from .preconditions import fail


def require_scope(scope: str, primitive: str) -> None:
    """Raises ScheduleValueError for a name that is no storage scope."""
    if not is_scope(scope):
        raise ScheduleValueError(
            primitive, f"Expected a storage scope, one of {', '.join(SCOPES)}; found {scope!r}."
        )


def buffer_at(
    func: PrimFunc,
    block: Block,
    side: str,
    index: int | str,
    primitive: str,
    *,
    either: bool = True,
) -> Buffer:
    """The buffer of a block's read or write region, by position or name (of the other side too,
    if ``either``); raises ScheduleValueError."""
    regions = block.reads if side == "read" else block.writes
    if isinstance(index, str):
        named = (*block.reads, *block.writes) if either else regions
        for r in named:
            if r.buffer.name == index:
                return r.buffer
        known = ", ".join(dict.fromkeys(repr(r.buffer.name) for r in named)) or "none"
        does = "touches" if either else f"{side}s"
        found = f"The block {block.name!r} {does} no buffer {index!r}; it {does} {known}."
        raise fail(ScheduleValueError, primitive, func, [block], found)
    if not isinstance(index, int) or not 0 <= index < len(regions):
        names = ", ".join(repr(r.buffer.name) for r in regions) or "none"
        found = (
            f"The block {block.name!r} has {len(regions)} {side} buffers ({names}); asked for "
            f"number {index}."
        )
        raise fail(ScheduleValueError, primitive, func, [block], found)
    return regions[index].buffer


def buffer_names(func: PrimFunc) -> set[str]:
    """The names of all buffers of a function."""
    names = {b.name for b in func.buffers}
    for path in walk_paths(func.body):
        leaf = path[-1]
        if isinstance(leaf, Block):
            names.update(b.name for b in leaf.alloc_buffers)
    return names

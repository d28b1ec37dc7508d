"""The ScheduleErrors of what most primitives require of a block, and how such an error is made."""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import (
    NotAncestorError,
    NotCompleteBlockError,
    NotReductionBlockError,
    ScheduleError,
)
from ...support.node import Node, walk
from ..expr import Var
from ..function import PrimFunc
from ..reduction_form import combines_in_place
from ..stmt import Block
from ..text.printer import print_marked
from .block_kinds import is_complete, is_reduction
from .paths import Path, find_block, loops_above, realize_of


def fail(
    kind: type[ScheduleError], primitive: str, func: PrimFunc, guilty: Sequence[Node], found: str
) -> ScheduleError:
    """The error of a precondition, with the program printed and the guilty nodes marked."""
    return kind(primitive, found, print_marked(func, guilty))


def require_own_axes(func: PrimFunc, block: Block, primitive: str) -> None:
    """Raises NotCompleteBlockError where a block names a loop around it other than in a binding: it
    could not do without that loop."""
    path = find_block(func, block.name, primitive)
    loops = {loop.var for loop in loops_above(path)}
    named = next((n for n in walk(block) if isinstance(n, Var) and n in loops), None)
    if named is not None:
        found = (
            f"The block {block.name!r} names the loop {named.name!r} itself, so that it cannot "
            f"stand outside of it. Bind an axis to it: T.axis.spatial(extent, {named.name})."
        )
        raise fail(NotCompleteBlockError, primitive, func, [block], found)


def require_complete(func: PrimFunc, block: Block, primitive: str) -> None:
    """Raises NotCompleteBlockError unless all axes are spatial, the output is not also read, and
    nothing but the axes says where the block stands."""
    if is_complete(block):
        require_own_axes(func, block, primitive)
        return
    why = "it reads the buffer it writes"
    for it in block.iter_vars:
        if it.kind != "spatial":
            why = f"its axis {it.var.name!r} is {it.kind}"
            break
    else:
        if block.init is not None:
            why = "it is a reduction with an init"
    raise fail(
        NotCompleteBlockError,
        primitive,
        func,
        [block],
        f"Expected a complete block (all axes spatial, output not read); {block.name!r} "
        f"is not: {why}.",
    )


def require_reduction(func: PrimFunc, block: Block, primitive: str) -> None:
    """Raises NotReductionBlockError unless the block has an init and spatial and reduce axes."""
    if is_reduction(block):
        require_own_axes(func, block, primitive)
        return
    why = (
        "it has no init"
        if block.init is None
        else "its update touches other elements than its init begins, or elements that depend on "
        "a reduce axis"
        if not combines_in_place(block)
        else "it has axes that are neither spatial nor reduce"
    )
    raise fail(
        NotReductionBlockError,
        primitive,
        func,
        [block],
        f"Expected a reduction block with an init; {block.name!r} is not: {why}.",
    )


def require_ancestor(func: PrimFunc, block_path: Path, var: Var, primitive: str) -> None:
    """Raises NotAncestorError unless the loop over ``var`` stands around the block."""
    if any(loop.var is var for loop in loops_above(block_path)):
        return
    block = realize_of(block_path).block
    names = ", ".join(repr(loop.var.name) for loop in loops_above(block_path)) or "none"
    raise fail(
        NotAncestorError,
        primitive,
        func,
        [block],
        f"The loop {var.name!r} does not stand around the block {block.name!r}; its loops "
        f"are {names}.",
    )

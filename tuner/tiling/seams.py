"""Seams: the places along an axis where what a block reads goes on somewhere else.

A concatenation reads one tensor and then another, a roll goes back to the front, a mirrored border
turns round. As one nest each element asks where it is; between seams nothing has to be asked

    for j in range(100):  C[j] = A[j] if j < 60 else B[j - 60]

    for j in range(60):   C[j] = A[j]           for j in range(40):   C[j + 60] = B[j]

and a piece is a plain copy. The seams are found by trying: a condition or an index that depends on
the axis alone has a value at each of its places, and a piece is a range in which conditions do not
change and indices go on by equal steps.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ...support.node import Node, children
from ...support.remembered import remembered
from ...tensorir.arith.evaluate import OF_ARRAYS, evaluate
from ...tensorir.expr import (
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Not,
    Select,
    Var,
)
from ...tensorir.schedule import Schedule
from ...tensorir.stmt import Block

MOST_PIECES = 16
"""Pieces of an axis: with more of them an index is periodic, and cutting makes no plain copies."""
LONGEST_AXIS = 1 << 22
"""Elements of an axis that are tried."""
FEWEST_ROWS = 4
"""Elements of a piece of an outer axis, on average."""

Values = npt.NDArray[np.int64]


def has_seams(block: Block, lanes: int) -> bool:
    """Whether a block is to be cut: it has seams, not too many, and a piece fills a vector."""
    return 1 < math.prod([len(p) for p in _pieces(block, lanes)]) <= MOST_PIECES


def cut_at_seams(sch: Schedule, block: Block, lanes: int) -> list[str]:
    """Cut a block's loops, one an axis, at the seams; the names of the blocks in the pieces."""
    names = [block.name]
    for axis, pieces in enumerate(_pieces(block, lanes)):
        if len(pieces) > 1:
            loops = [sch.get_loops(name)[axis] for name in names]
            cut = [sch.loop_partition(loop, [*pieces[:-1], None]) for loop in loops]
            names = [sch.get_child_blocks(part)[0].name for parts in cut for part in parts]
    return names


@remembered
def _pieces(block: Block, lanes: int) -> list[list[int]]:
    """The extents of the pieces of each axis. Of the last, which becomes vectors, every seam
    counts, where most of it is in pieces that fill one; of the others the conditions alone, where
    they do not change all the time, and where there are not too many pieces of all: a row may ask
    where it is, an element may not."""
    last = len(block.iter_vars) - 1
    found = [pieces_of(block, axis, turns=axis == last) for axis in range(last + 1)]
    filled = sum([n for n in found[last] if n >= lanes])
    keep = [len(p) * FEWEST_ROWS <= sum(p) for p in found[:last]] + [2 * filled >= sum(found[last])]
    pieces = [p if kept else [sum(p)] for p, kept in zip(found, keep, strict=True)]
    if math.prod([len(p) for p in pieces]) > MOST_PIECES:
        pieces[:-1] = [[sum(p)] for p in pieces[:-1]]
    return pieces


def pieces_of(block: Block, axis: int, *, turns: bool = True) -> list[int]:
    """The extents of the pieces between the seams of an axis; without ``turns``, conditions alone
    make seams. One piece where there are none, too many, or the extent is not known (then 1)."""
    extent, var = block.iter_vars[axis].dom.extent, block.iter_vars[axis].var
    if not isinstance(extent, IntImm):
        return [1]
    seams: set[int] = set()
    if extent.value <= LONGEST_AXIS:
        places = np.arange(extent.value, dtype=np.int64)
        parts: list[Expr] = []
        _collect(block.body, var, parts)
        for e in parts:
            if turns or e.dtype.is_bool:
                seams |= _seams(_values(e, places), is_condition=e.dtype.is_bool)
    if len(seams) >= MOST_PIECES:
        seams = set()
    return [b - a for a, b in pairwise([0, *sorted(seams), extent.value])]


def _collect(n: Node, var: Var, parts: list[Expr]) -> tuple[bool, bool]:
    """Put the largest expressions below a node that are made of the axis and constants alone, but
    for the axis itself, into ``parts``. Whether the node is one, and whether the axis occurs."""
    if n is var or isinstance(n, IntImm):
        return True, n is var
    below = [(child, *_collect(child, var, parts)) for child in children(n)]
    occurs = any(has_axis for _, _, has_axis in below)
    if _is_computed(n) and all(is_own for _, is_own, _ in below):
        return True, occurs
    parts += [c for c, is_own, has in below if is_own and has and c is not var]  # type: ignore[misc]
    return False, occurs


def _is_computed(n: Node) -> bool:
    """Whether ``_values`` knows an operation."""
    if isinstance(n, FloorDiv | FloorMod):
        return isinstance(n.b, IntImm) and n.b.value != 0
    return type(n) in OF_ARRAYS or isinstance(n, Select | Not) or _is_known(n)


def _is_known(n: object) -> bool:
    return isinstance(n, Call) and n.op in ("abs", "if_then_else")


def _values(e: Expr, places: Values) -> Values:
    """An expression at each place of its axis."""

    def at_places(n: Expr) -> Values:
        match n:
            case Not(a):
                return np.logical_not(value(a))
            case Select(condition, a, b) | Call("if_then_else", (condition, a, b)):
                return np.where(value(condition), value(a), value(b))
            case Call(_, (a,)):
                return np.abs(value(a))
        return places

    def value(n: Expr) -> Values:
        found: Values = evaluate(n, at_places, OF_ARRAYS)
        return found

    return value(e).astype(np.int64)


def _seams(values: Values, *, is_condition: bool) -> set[int]:
    """The first places of all pieces but the first. A place where an index turns would end one
    piece or begin the other: it goes to the longer."""
    steps = np.diff(values)
    if is_condition:
        return set((np.flatnonzero(steps) + 1).tolist())
    turns = np.flatnonzero(np.diff(steps)) + 1
    lengths = np.diff(turns, prepend=0, append=len(steps))
    return set((turns + (lengths[:-1] >= lengths[1:])).tolist()) if len(turns) else set()

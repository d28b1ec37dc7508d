"""Where a primitive puts a new nest: beside the statements that share a buffer.

The copies of the cache primitives, of reindex and of cache_index are placed directly beside the
statement that holds their block, at the innermost place that all users of the buffer share; from
there compute_at or reverse_compute_at move them. Nothing here decides whether that is legal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...support.node import replace
from ..arith import Analyzer
from ..arith.region import limits
from ..buffer import Buffer, Range
from ..expr import Expr, IntImm, Var
from ..function import PrimFunc
from ..stmt import Block, For, SeqStmt, Stmt, seq
from ..visitor import free_vars
from .analysis import Path, all_loops_above, find_block, realize_of, rebuild, with_body


@dataclass(slots=True)
class Cached:
    """The new function and the names of the copy blocks, reads before writes."""

    func: PrimFunc
    blocks: tuple[str, ...]


@dataclass(slots=True)
class Place:
    """A loop or block whose body gets one more statement, beside its child ``child``."""

    path: Path
    child: int

    @property
    def outer(self) -> list[For]:
        leaf = self.path[-1]
        return [*all_loops_above(self.path), *([leaf] if isinstance(leaf, For) else [])]


def children_of(s: Stmt) -> tuple[Stmt, ...]:
    """The statements of a loop's or block's body."""
    assert isinstance(s, (For, Block))
    return s.body.stmts if isinstance(s.body, SeqStmt) else (s.body,)


def shared_place(
    func: PrimFunc, scope: Path, names: Sequence[str], anchor: str, primitive: str
) -> Place:
    """The innermost loop below ``scope`` (or the scope itself) that holds all the named blocks in
    different statements, and which of its statements holds ``anchor``."""
    paths = [find_block(func, n, primitive) for n in names]
    shared = list(scope)
    if len(paths) > 1:
        for level in zip(*[p[len(scope) :] for p in paths], strict=False):
            if any(s is not level[0] for s in level):
                break
            shared.append(level[0])
    while not isinstance(shared[-1], (For, Block)):
        shared.pop()
    anchor_path = find_block(func, anchor, primitive)
    below = anchor_path[len(shared) :]
    child = below[1] if isinstance(below[0], SeqStmt) else below[0]
    place = tuple(shared)
    return Place(place, next(i for i, c in enumerate(children_of(place[-1])) if c is child))


def insert_stmt(func: PrimFunc, place: Place, at: int, stmt: Stmt) -> PrimFunc:
    """The function with a statement put in as number ``at`` of the place's."""
    holder = place.path[-1]
    children = list(children_of(holder))
    children.insert(at, stmt)
    return with_body(func, rebuild(place.path, replace(holder, body=seq(*children))))


def room_for(path: Path, extent: Expr) -> Expr | None:
    """The most that an extent can be, without the variables that are bound above the path's leaf:
    a buffer's size is known when its function begins. None where no bound is known."""
    if isinstance(extent, IntImm):
        return extent
    bound: list[tuple[Var, Range]] = []
    for s in path[:-1]:
        if isinstance(s, For):
            bound.append((s.var, Range(s.min, s.extent)))
        elif isinstance(s, Block):
            bound += [(it.var, it.dom) for it in s.iter_vars]
    analyzer = Analyzer()
    inside = {v for v, _ in bound}
    for v in free_vars([extent]):
        if v not in inside:
            analyzer.declare_dim(v)
    return limits(analyzer, extent, bound)[1]


def allocate_in(func: PrimFunc, scope_name: str, buffer: Buffer, primitive: str) -> PrimFunc:
    """The function with a buffer allocated in a block."""
    path = find_block(func, scope_name, primitive)
    realize = realize_of(path)
    block = replace(realize.block, alloc_buffers=(*realize.block.alloc_buffers, buffer))
    return with_body(func, rebuild(path, replace(realize, block=block)))


def change_block(
    func: PrimFunc, name: str, change: Callable[[Block], Block], primitive: str
) -> PrimFunc:
    """The function with one block changed."""
    path = find_block(func, name, primitive)
    realize = realize_of(path)
    return with_body(func, rebuild(path, replace(realize, block=change(realize.block))))

"""Where a primitive puts a new nest: beside the statements that share a buffer.

The copies of the cache primitives, of reindex and of cache_index are placed directly beside the
statement that holds their block, at the innermost place that all users of the buffer share; from
there compute_at or reverse_compute_at move them. Decided here is whether a nest can stand at its
place at all: the variables that it uses are in scope, and its buffer has a size that is known. All
else about legality is the primitives' business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....support.errors import DependenceError, LayoutError
from ....support.node import Node, replace, walk
from ...analysis.paths import Path, all_loops_above, find_block, realize_of, rebuild, with_body
from ...analysis.preconditions import fail
from ...arith import Analyzer
from ...arith.region import limits
from ...buffer import Buffer, Range
from ...expr import Expr, IntImm, Let, Var
from ...function import PrimFunc
from ...stmt import Block, For, IterVar, LetStmt, SeqStmt, Stmt, seq
from ...visitor import free_vars, has_load, substitute


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


def insert_stmt(func: PrimFunc, place: Place, at: int, stmt: Stmt, primitive: str) -> PrimFunc:
    """The function with a statement put in as number ``at`` of the place's.

    Raises DependenceError where the statement uses a variable whose scope begins inside of one of
    the place's statements: a let, or a loop on which a domain depends.
    """
    _require_in_scope(func, place, stmt, primitive)
    holder = place.path[-1]
    children = list(children_of(holder))
    children.insert(at, stmt)
    return with_body(func, rebuild(place.path, replace(holder, body=seq(*children))))


def _require_in_scope(func: PrimFunc, place: Place, stmt: Stmt, primitive: str) -> None:
    bound: dict[Var, Node] = {}
    for child in children_of(place.path[-1]):
        for n in walk(child):
            if isinstance(n, (For, LetStmt, Let, IterVar)):
                bound[n.var] = n
    for v in free_vars([stmt]):
        if v in bound:
            names = [n.name for n in walk(stmt) if isinstance(n, Block)]
            found = (
                "Expected a nest whose sizes and indices are known where it is put; that of "
                f"{', '.join(map(repr, names))} uses {v.name!r}, which is bound further in. Write "
                f"what {v.name!r} stands for (a let's value, a loop's greatest extent) in its "
                "place, or bind it further out."
            )
            raise fail(DependenceError, primitive, func, [bound[v]], found)


def room_for(func: PrimFunc, path: Path, extent: Expr) -> Expr | None:
    """The most that an extent can be, without the variables that are bound above the path's leaf:
    a buffer's size is known when its function begins. None where no bound is known."""
    if isinstance(extent, IntImm):
        return extent
    bound: list[tuple[Var, Range]] = []
    values: dict[Var, Expr] = {}
    for s in path[:-1]:
        if isinstance(s, For):
            domain = Range(substitute(s.min, values), substitute(s.extent, values))
            bound.append((s.var, domain))
        elif isinstance(s, Block):
            bound += [(it.var, substitute(it.dom, values)) for it in s.iter_vars]
        elif isinstance(s, LetStmt):
            values[s.var] = substitute(s.value, values)
    analyzer = Analyzer()
    for v in func.shape_vars:
        analyzer.declare_dim(v)
    most = limits(analyzer, substitute(extent, values), bound)[1]
    if most is None or has_load(most):
        return None
    return most if set(func.shape_vars).issuperset(free_vars([most])) else None


def require_room(
    func: PrimFunc, path: Path, block: Block, axes: Sequence[IterVar], primitive: str
) -> list[Expr]:
    """The dimensions of a buffer over a block's axes, with room for the greatest extent of each;
    LayoutError where one has none that is known when the function begins."""
    room: list[Expr] = []
    for it in axes:
        extent = room_for(func, path, it.dom.extent)
        if extent is None:
            found = (
                f"The axis {it.var.name!r} of {block.name!r} has no known greatest extent. "
                "Expected one of constants and dimensions of the function, as the size of the new "
                "buffer. Give the axis such a domain, and leave out what is beyond with T.where."
            )
            raise fail(LayoutError, primitive, func, [block], found)
        room.append(extent)
    return room


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

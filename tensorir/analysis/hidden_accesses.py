"""Accesses that no declared region shows: outside of every block, or to a buffer by another name.

Primitives reason about blocks by the regions that they declare. The range of a loop, a condition, a
binding and a statement that stands in no block are declared nowhere, and a view (match_buffer)
and its source are two buffers in the regions, but the same elements. Where such an access could be
affected it is an error here, never overlooked. Reading what nobody writes (the row pointers of a
sparse matrix) is not affected by anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...support.errors import DependenceError
from ...support.node import walk
from ..buffer import Buffer
from ..expr import BufferLoad, Expr
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, Evaluate, For, IfThenElse, LetStmt, SeqStmt, Stmt
from ..visitor import accessed_buffers
from .anywhere import Anywhere
from .nested_blocks import blocks_below
from .paths import walk_paths
from .preconditions import fail


def bare_accesses(s: Stmt) -> Iterator[tuple[Stmt, list[Buffer], list[Buffer]]]:
    """Statements of ``s`` that access memory outside of blocks: what each reads and writes."""
    match s:
        case BlockRealize():
            yield from _loads(s, [*s.iter_values, s.predicate])
        case For():
            yield from _loads(s, [s.min, s.extent])
            yield from bare_accesses(s.body)
        case SeqStmt():
            for child in s.stmts:
                yield from bare_accesses(child)
        case IfThenElse():
            yield from _loads(s, [s.condition])
            yield from bare_accesses(s.then_case)
            if s.else_case is not None:
                yield from bare_accesses(s.else_case)
        case LetStmt():
            yield from _loads(s, [s.value])
            yield from bare_accesses(s.body)
        case _:
            loads, stores = accessed_buffers(s)
            if loads or stores:
                yield s, loads, stores


def _loads(s: Stmt, parts: Sequence[Expr]) -> Iterator[tuple[Stmt, list[Buffer], list[Buffer]]]:
    found = [n.buffer for e in parts for n in walk(e) if isinstance(n, BufferLoad)]
    if found:
        yield s, found, []


def _is_bare(s: Stmt) -> bool:
    """Whether ``s`` itself accesses memory outside of blocks."""
    match s:
        case BlockRealize():
            parts: Sequence[Expr] = [*s.iter_values, s.predicate]
        case For():
            parts = [s.min, s.extent]
        case IfThenElse():
            parts = [s.condition]
        case LetStmt() | Evaluate():
            parts = [s.value]
        case SeqStmt():
            return False
        case _:
            return any(accessed_buffers(s))
    return any(_loads(s, parts))


_IS_BARE = Anywhere(_is_bare, lambda s: isinstance(s, BlockRealize))
_HAS_VIEWS = Anywhere(lambda s: isinstance(s, Block) and bool(s.match_buffers))


def require_declared(
    func: PrimFunc, s: Stmt, primitive: str, written: Sequence[Buffer] | None = None
) -> None:
    """Raises DependenceError where ``s`` stores outside of every block, or reads there one of
    ``written`` (what any of its blocks writes, if None is given), and where its blocks use the same
    elements through two buffers."""
    accesses = list(bare_accesses(s)) if _IS_BARE.within(s) else []
    if _HAS_VIEWS.within(func.body):
        _require_one_name(func, s, primitive)
    if not accesses:
        return
    if written is None:
        written = [w.buffer for n in blocks_below(s) for w in n.block.writes]
    for at, loads, stores in accesses:
        found = ""
        if stores:
            found = (
                f"{stores[0].name!r} is written by a statement that stands in no block, so that "
                "nothing says what depends on it. Put it into a T.block first."
            )
        elif any(b is w for b in loads for w in written):
            name = next(b.name for b in loads if any(b is w for w in written))
            found = (
                f"{name!r} is read outside of every block (in the range of a loop, a condition or "
                "a binding), where it must have been written before."
            )
        if found:
            raise fail(DependenceError, primitive, func, [at], found)


def _require_one_name(func: PrimFunc, s: Stmt, primitive: str) -> None:
    """No two buffers of the regions below ``s`` are views of one, or a view and its source, where
    one of them is written."""
    views = {
        m.buffer: m.source.buffer
        for path in walk_paths(func.body)
        if isinstance(path[-1], Block)
        for m in path[-1].match_buffers
    }
    nested = blocks_below(s)
    used = {r.buffer for n in nested for r in (*n.block.reads, *n.block.writes)}
    written = {w.buffer for n in nested for w in n.block.writes}
    for a in written:
        for b in used:
            if a is not b and _source(a, views) is _source(b, views):
                found = (
                    f"{a.name!r} and {b.name!r} are views of one buffer, or a view and its source, "
                    "so that a write to one may change the other. Use one of them only."
                )
                regions = [(n.block, (*n.block.reads, *n.block.writes)) for n in nested]
                guilty = [x for x, touched in regions if any(r.buffer in (a, b) for r in touched)]
                raise fail(DependenceError, primitive, func, guilty, found)


def _source(b: Buffer, views: Mapping[Buffer, Buffer]) -> Buffer:
    while b in views:
        b = views[b]
    return b


def require_scope_declared(func: PrimFunc, scope: Block, block: Block, primitive: str) -> None:
    """``require_declared`` for the body of a scope in which ``block`` moves or disappears."""
    require_declared(func, scope.body, primitive, [w.buffer for w in block.writes])

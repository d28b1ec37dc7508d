"""The blocks below a statement, with the loops and conditions between; producers and consumers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...support.node import replace, walk
from ...support.remembered import remembered
from ..buffer import Buffer
from ..expr import Expr, Var, is_const
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, For, IfThenElse, SeqStmt, Stmt
from ..visitor import substitute
from .affine import Bounds
from .block_kinds import reads_buffer, writes_buffer
from .conditions import conjunction, conjuncts, simplify_condition
from .paths import child_stmts


@dataclass(slots=True)
class Nested:
    """A block realize below some statement, and the loops and conditions between the two."""

    realize: BlockRealize
    loops: list[For]
    conditions: list[Expr]

    @property
    def block(self) -> Block:
        return self.realize.block


def blocks_below(s: Stmt) -> list[Nested]:
    """The outermost blocks in ``s``, in program order, with the loops of ``s`` around them."""
    found: list[Nested] = []
    _collect(s, [], [], found)
    return found


def _collect(s: Stmt, loops: list[For], conditions: list[Expr], found: list[Nested]) -> None:
    match s:
        case BlockRealize():
            found.append(Nested(s, list(loops), list(conditions)))
        case For():
            loops.append(s)
            _collect(s.body, loops, conditions, found)
            loops.pop()
        case IfThenElse():
            conditions.append(s.condition)
            for child in child_stmts(s):
                _collect(child, loops, conditions, found)
            conditions.pop()
        case _:
            for child in child_stmts(s):
                _collect(child, loops, conditions, found)


def map_outer_realizes(
    s: Stmt, change: Mapping[Var, Expr], bounds: Bounds, guard: Expr | None
) -> Stmt:
    """``s`` with loop variables replaced in the bindings of its outermost blocks, and ``guard``
    added to their predicates. Statements that stand in no block are substituted and guarded
    as they are."""
    match s:
        case BlockRealize():
            values = tuple([_rebind(v, change, bounds) for v in s.iter_values])
            predicate = _rebind_condition(s.predicate, change, bounds)
            if guard is not None:
                predicate = conjunction([predicate, guard])
            block = s.block
            if not block.iter_vars and any(isinstance(n, Var) and n in change for n in walk(block)):
                block = substitute(block, change)
            return replace(s, iter_values=values, predicate=predicate, block=block)
        case For():
            body = map_outer_realizes(s.body, change, bounds, guard)
            low = _rebind(s.min, change, bounds)
            extent = _rebind(s.extent, change, bounds)
            return replace(s, min=low, extent=extent, body=body)
        case SeqStmt():
            return SeqStmt(tuple([map_outer_realizes(c, change, bounds, guard) for c in s.stmts]))
        case IfThenElse():
            other = s.else_case
            return replace(
                s,
                condition=_rebind_condition(s.condition, change, bounds),
                then_case=map_outer_realizes(s.then_case, change, bounds, guard),
                else_case=None
                if other is None
                else map_outer_realizes(other, change, bounds, guard),
            )
        case _:
            changed = substitute(s, change)
            return changed if guard is None else IfThenElse(guard, changed)


def _rebind(e: Expr, change: Mapping[Var, Expr], bounds: Bounds) -> Expr:
    if isinstance(e, Var):
        return change.get(e, e)
    new = substitute(e, change)
    return e if new is e else bounds.simplify(new)


def _rebind_condition(e: Expr, change: Mapping[Var, Expr], bounds: Bounds) -> Expr:
    if is_const(e):
        return e
    new = substitute(e, change)
    if new is e:
        return e
    parts = [simplify_condition(c, bounds) for c in conjuncts(new)]
    return conjunction([p for p in parts if not bounds.proves(p)])


def scope_blocks(scope: Block) -> list[Nested]:
    """The blocks directly in a block."""
    return list(_scope_blocks(scope))


@remembered
def _scope_blocks(scope: Block) -> tuple[Nested, ...]:
    return tuple(blocks_below(scope.body))


def producers_of(scope: Block, block: Block) -> list[Nested]:
    """The other blocks of the scope that write something this block reads."""
    reads = {id(r.buffer) for r in block.reads}
    return [
        n
        for n in scope_blocks(scope)
        if n.block is not block and any(id(r.buffer) in reads for r in n.block.writes)
    ]


def consumers_of(scope: Block, block: Block) -> list[Nested]:
    """The other blocks of the scope that read something this block writes."""
    writes = {id(r.buffer) for r in block.writes}
    return [
        n
        for n in scope_blocks(scope)
        if n.block is not block and any(id(r.buffer) in writes for r in n.block.reads)
    ]


def writers_of(scope: Block, buffer: Buffer) -> list[Nested]:
    return [n for n in scope_blocks(scope) if writes_buffer(n.block, buffer)]


def readers_of(scope: Block, buffer: Buffer) -> list[Nested]:
    return [n for n in scope_blocks(scope) if reads_buffer(n.block, buffer)]


def is_output_block(func: PrimFunc, scope: Block, block: Block) -> bool:
    """Whether the block writes a buffer that lives longer than the scope."""
    allocated = {id(b) for b in scope.alloc_buffers}
    return any(id(r.buffer) not in allocated for r in block.writes)

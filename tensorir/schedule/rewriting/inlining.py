"""Putting a value where a buffer was read: what compute_inline and its reverse have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....support.errors import DependenceError, NotCompleteBlockError
from ....support.node import replace, walk
from ...analysis.block_kinds import single_store
from ...analysis.nested_blocks import scope_blocks
from ...analysis.paths import (
    Path,
    find_block,
    realize_of,
    rebuild,
    scope_of,
    with_body,
)
from ...analysis.preconditions import fail
from ...arith import infer_regions
from ...buffer import Buffer
from ...expr import BufferLoad, Expr, Let, Var
from ...function import PrimFunc
from ...stmt import Block, BufferStore
from ...visitor import Mutator, substitute


def plain_store(func: PrimFunc, block: Block, primitive: str) -> BufferStore:
    store = single_store(block)
    if store is None:
        found = f"The body of {block.name!r} is not a single store."
        raise fail(NotCompleteBlockError, primitive, func, [block], found)
    return store


def require_sole_writer(
    func: PrimFunc, path: Path, scope: Block, buffer: Buffer, primitive: str
) -> None:
    """Only this block writes the buffer, and nothing overwrites what it reads."""
    block = realize_of(path).block
    for n in scope_blocks(scope):
        if n.block is not block and any(w.buffer is buffer for w in n.block.writes):
            found = f"{n.block.name!r} writes {buffer.name!r} too."
            raise fail(DependenceError, primitive, func, [n.block], found)
    seen = False
    for n in scope_blocks(scope):
        seen = seen or n.block is block
        if (
            seen
            and n.block is not block
            and any(w.buffer is r.buffer for w in n.block.writes for r in block.reads)
        ):
            found = f"{n.block.name!r} overwrites what {block.name!r} reads."
            raise fail(DependenceError, primitive, func, [n.block], found)


class InlineLoads(Mutator):
    """Loads of a buffer become the value stored there; ``axes`` of the value are the indices."""

    def __init__(self, store: BufferStore, axes: Sequence[Var | None]) -> None:
        self.store, self.axes = store, axes

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        load: BufferLoad = self.generic_visit(n)
        if load.buffer is not self.store.buffer:
            return load
        change = {a: i for a, i in zip(self.axes, load.indices, strict=True) if a is not None}
        return substitute(rename_lets(self.store.value), change)

    def visit_Block(self, n: Block) -> Block:  # noqa: N802
        """A block inside the consumer also declares what it reads."""
        block: Block = self.generic_visit(n)
        if any(r.buffer is self.store.buffer for r in n.reads):
            return with_inferred_regions(block)
        return block


def rename_lets(value: Expr) -> Expr:
    """A copy whose Lets bind fresh variables: a value that is put in twice may not bind a Var
    twice."""
    lets = {n.var: Var(n.var.name, n.var.dtype) for n in walk(value) if isinstance(n, Let)}
    return _RenameLets(lets).visit(value) if lets else value


class _RenameLets(Mutator):
    def __init__(self, names: Mapping[Var, Var]) -> None:
        self.names = names

    def visit_Var(self, n: Var) -> Var:  # noqa: N802
        return self.names.get(n, n)


def with_inferred_regions(block: Block) -> Block:
    """The block with the regions its body touches."""
    reads, writes = infer_regions(
        block.body,
        block.init,
        block.iter_vars,
        alloc_buffers=block.alloc_buffers,
        match_buffers=block.match_buffers,
    )
    return replace(block, reads=reads, writes=writes)


def without_block(func: PrimFunc, block_name: str, buffer: Buffer) -> PrimFunc:
    """The function without a block and the buffer it alone wrote."""
    path = find_block(func, block_name, "compute_inline")
    removed = with_body(func, rebuild(path, None))
    holder_path = find_block(removed, scope_of(path).name, "compute_inline")
    realize = realize_of(holder_path)
    kept = tuple([b for b in realize.block.alloc_buffers if b is not buffer])
    block = replace(realize.block, alloc_buffers=kept)
    return with_body(removed, rebuild(holder_path, replace(realize, block=block)))

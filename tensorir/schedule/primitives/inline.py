"""compute_inline and reverse_compute_inline: putting one block's value into another.

A block is inlined only where that is a substitution: it stores once, at indices that are distinct
iter vars, so that each load of its buffer names one instance of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....support.errors import DependenceError, NotCompleteBlockError
from ....support.node import replace, walk
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.paths import (
    Nested,
    Path,
    all_loops_above,
    conditions_above,
    consumers_of,
    fail,
    find_block,
    find_inner_block,
    find_stmt,
    is_output_block,
    loops_above,
    producers_of,
    reads_buffer,
    realize_of,
    rebuild,
    require_complete,
    scope_blocks,
    scope_path,
    single_store,
    with_body,
    writes_buffer,
)
from ...analysis.region_cover import axis_of_index, covers_domain
from ...arith import infer_regions
from ...buffer import Buffer
from ...expr import BufferLoad, Expr, Let, Var
from ...function import PrimFunc
from ...stmt import Block, BlockRealize, BufferStore, MatchBuffer, Stmt
from ...visitor import Mutator, substitute
from ..by_hand.rolling_buffer import require_no_circle
from .merge import overwrites


def compute_inline(func: PrimFunc, block_name: str, *, checks: bool = True) -> PrimFunc:
    """Remove a complete block and put its value where its buffer is read.

    ``B[i] = A[i] + 1; C[i] = B[i] * 2`` becomes ``C[i] = (A[i] + 1) * 2``.
    """
    path = find_inner_block(func, block_name, "compute_inline")
    realize = realize_of(path)
    block = realize.block
    require_complete(func, block, "compute_inline")
    require_no_circle(func, block, "compute_inline")
    scope = _scope(path)
    if is_output_block(func, scope, block):
        found = f"{block_name!r} writes an output of the function, which must be stored."
        raise fail(DependenceError, "compute_inline", func, [block], found)
    require_scope_declared(func, scope, block, "compute_inline")
    store = _plain_store(func, block, "compute_inline")
    axes = _store_axes(func, block, store, "compute_inline")
    consumers = consumers_of(scope, block)
    if not consumers:
        found = f"Nothing reads what {block_name!r} writes."
        raise fail(DependenceError, "compute_inline", func, [block], found)
    _require_no_view(func, consumers, store.buffer, "compute_inline")
    if checks:
        _require_sole_whole_writer(func, path, scope, store.buffer, "compute_inline")
        _require_inputs_kept(func, path, scope, consumers)
    changed = func
    for n in consumers:
        new = _inlined(n.block, store, axes)
        at = find_block(changed, n.block.name, "compute_inline")
        leaf = realize_of(at)
        changed = with_body(changed, rebuild(at, replace(leaf, block=new)))
    return _without(changed, block_name, store.buffer)


def _require_inputs_kept(
    func: PrimFunc, path: Path, scope: Block, consumers: Sequence[Nested]
) -> None:
    """What was written for the block in an iteration of its loops is still there where consumers
    read it outside of these."""
    block = realize_of(path).block
    own = loops_above(path)
    left = [x for x in own if not all(any(x is y for y in n.loops) for n in consumers)]
    reads = {r.buffer for r in block.reads}
    for n in scope_blocks(scope):
        shared = [x for x in left if any(x is y for y in n.loops)]
        if n.block is not block and shared and overwrites(n, shared, reads):
            found = (
                f"{n.block.name!r} writes what {block.name!r} reads again in later iterations of "
                f"{shared[0].var.name!r}, outside of which the value would be computed."
            )
            raise fail(DependenceError, "compute_inline", func, [n.block], found)


def _scope(path: Path) -> Block:
    scope = scope_path(path)[-1]
    assert isinstance(scope, Block)
    return scope


def _plain_store(func: PrimFunc, block: Block, primitive: str) -> BufferStore:
    store = single_store(block)
    if store is None:
        found = f"The body of {block.name!r} is not a single store."
        raise fail(NotCompleteBlockError, primitive, func, [block], found)
    return store


def _require_no_view(
    func: PrimFunc, consumers: Sequence[Nested], buffer: Buffer, primitive: str
) -> None:
    """Nothing reads the buffer through a view: a view needs elements that are stored."""
    for n in consumers:
        for view in walk(n.block):
            if isinstance(view, MatchBuffer) and view.source.buffer is buffer:
                found = f"{n.block.name!r} reads {buffer.name!r} through a T.match_buffer."
                raise fail(NotCompleteBlockError, primitive, func, [n.block], found)


def _store_axes(
    func: PrimFunc, block: Block, store: BufferStore, primitive: str
) -> list[Var | None]:
    """The iter var of each index of a store; None for an index that is no iter var, which must
    be 0 in a dimension of extent 1."""
    axes = [axis_of_index(block, i) for i in store.indices]
    named = [a for a in axes if a is not None]
    fixed = [
        i
        for i, a, dim in zip(store.indices, axes, store.buffer.shape, strict=True)
        if a is None and not (getattr(i, "value", None) == 0 and getattr(dim, "value", None) == 1)
    ]
    missing = {it.var for it in block.iter_vars} - set(named)
    used = {n for n in walk(store.value) if isinstance(n, Var)}
    if fixed or len(set(named)) != len(named) or missing & used:
        found = (
            f"{block.name!r} does not store at distinct axes of its own, so a load of its "
            "buffer names no single instance."
        )
        raise fail(NotCompleteBlockError, primitive, func, [block], found)
    return axes


def _require_sole_whole_writer(
    func: PrimFunc, path: Path, scope: Block, buffer: Buffer, primitive: str
) -> None:
    """Only this block writes the buffer, and it writes all that its loops give it."""
    block = realize_of(path).block
    for n in scope_blocks(scope):
        if n.block is not block and any(w.buffer is buffer for w in n.block.writes):
            found = f"{n.block.name!r} writes {buffer.name!r} too."
            raise fail(DependenceError, primitive, func, [n.block], found)
    loops = all_loops_above(path)
    if not covers_domain(
        Nested(realize_of(path), loops, conditions_above(path)), loop_bounds(loops)
    ):
        found = f"{block.name!r} runs under a condition; its value is not defined everywhere."
        raise fail(NotCompleteBlockError, primitive, func, [block], found)
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


class _InlineLoads(Mutator):
    """Loads of a buffer become the value stored there."""

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


def _inlined(block: Block, store: BufferStore, axes: Sequence[Var | None]) -> Block:
    inliner = _InlineLoads(store, axes)
    body: Stmt = inliner.visit(block.body)
    init = None if block.init is None else inliner.visit(block.init)
    return with_inferred_regions(replace(block, body=body, init=init, reads=(), writes=()))


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


def _without(func: PrimFunc, block_name: str, buffer: Buffer) -> PrimFunc:
    """The function without a block and the buffer it alone wrote."""
    path = find_block(func, block_name, "compute_inline")
    scope = scope_path(path)
    removed = with_body(func, rebuild(path, None))
    holder_name = realize_of(scope[:-1]).block.name
    holder_path = find_block(removed, holder_name, "compute_inline")
    realize = realize_of(holder_path)
    kept = tuple([b for b in realize.block.alloc_buffers if b is not buffer])
    block = replace(realize.block, alloc_buffers=kept)
    return with_body(removed, rebuild(holder_path, replace(realize, block=block)))


# -- reverse_compute_inline ------------------------------------------------------------------------
def reverse_compute_inline(func: PrimFunc, block_name: str, *, checks: bool = True) -> PrimFunc:
    """Remove a complete block and compute its value where its only producer stores.

    ``B[i] = A[i] + 1; C[i] = B[i] * 2`` becomes, by inlining ``C`` into ``B``, ``C[i] = (A[i] + 1)
    * 2``.
    """
    primitive = "reverse_compute_inline"
    path = find_inner_block(func, block_name, primitive)
    block = realize_of(path).block
    require_complete(func, block, primitive)
    require_no_circle(func, block, primitive)
    scope = _scope(path)
    producers = producers_of(scope, block)
    if len(producers) != 1:
        names = ", ".join(repr(n.block.name) for n in producers) or "none"
        found = f"Expected one producer of {block_name!r}; found {names}."
        raise fail(DependenceError, primitive, func, [block], found)
    producer = producers[0].block
    require_complete(func, producer, primitive)
    require_scope_declared(func, scope, producer, primitive)
    require_scope_declared(func, scope, block, primitive)
    store, made = _plain_store(func, block, primitive), _plain_store(func, producer, primitive)
    buffer = made.buffer
    if buffer not in scope.alloc_buffers:
        found = f"{buffer.name!r} is not allocated in this scope; it must be stored."
        raise fail(DependenceError, primitive, func, [producer], found)
    others = [n for n in consumers_of(scope, producer) if n.block is not block]
    if others:
        found = f"{others[0].block.name!r} reads {buffer.name!r} too."
        raise fail(DependenceError, primitive, func, [others[0].block], found)
    loads = [n for n in walk(block.body) if isinstance(n, BufferLoad) and n.buffer is buffer]
    axes = [axis_of_index(block, i) for i in loads[0].indices]
    same = all(_same(load, loads[0]) for load in loads)
    every = {it.var for it in block.iter_vars} == {a for a in axes if a is not None}
    distinct = len({a for a in axes if a is not None}) == len(axes)
    if not (same and every and distinct):
        found = f"{block_name!r} does not read {buffer.name!r} at exactly its own axes."
        raise fail(NotCompleteBlockError, primitive, func, [block], found)
    if checks:
        _require_whole(func, block, buffer, axes, path, primitive)
        producer_path = find_block(func, producer.name, primitive)
        _require_sole_whole_writer(func, producer_path, scope, buffer, primitive)
        _require_output_unused(func, scope, producer, block, store.buffer)
    change = {a: i for a, i in zip(axes, made.indices, strict=True) if a is not None}
    value = substitute(_PutIn(buffer, made.value).visit(store.value), change)
    new_store = BufferStore(
        store.buffer, value, tuple([substitute(i, change) for i in store.indices])
    )
    merged = with_inferred_regions(replace(producer, body=new_store, reads=(), writes=()))
    at = find_block(func, producer.name, primitive)
    changed = with_body(func, rebuild(at, replace(realize_of(at), block=merged)))
    return _without(changed, block_name, buffer)


def _require_output_unused(
    func: PrimFunc, scope: Block, producer: Block, consumer: Block, output: Buffer
) -> None:
    """Nobody uses what the consumer writes between the producer's place and the consumer's."""
    nested = scope_blocks(scope)
    places = {id(n.block): i for i, n in enumerate(nested)}
    begins, ends = places[id(producer)], places[id(consumer)]
    of_producer, of_consumer = nested[begins].loops, nested[ends].loops
    users = [
        n
        for n in nested
        if n.block is not producer
        and n.block is not consumer
        and (writes_buffer(n.block, output) or reads_buffer(n.block, output))
    ]
    rewritten = any(writes_buffer(n.block, output) for n in users)
    guilty: Block | None = producer if ends < begins else None
    for n in users:
        # Between two iterations of a loop that the consumer leaves, its result is read.
        left = [x for x in of_consumer if x not in of_producer and x in n.loops]
        if left and overwrites(nested[ends], left, {output}):
            guilty = n.block
    for n in users:
        i = places[id(n.block)]
        # A loop around one of the two alone makes its other iterations stand in between.
        only = [x for x in of_producer if x not in of_consumer] if i < begins else []
        only = [x for x in of_consumer if x not in of_producer] if i > ends else only
        between = begins < i < ends or any(x in only for x in n.loops)
        if between and (i < ends or rewritten):
            guilty = n.block
    if guilty is not None:
        found = (
            f"{guilty.name!r} stands or runs between {producer.name!r} and {consumer.name!r} and "
            f"uses {output.name!r}, which would be written earlier."
            if guilty is not producer
            else f"{producer.name!r} stands after {consumer.name!r}."
        )
        raise fail(DependenceError, "reverse_compute_inline", func, [guilty], found)


def _same(a: BufferLoad, b: BufferLoad) -> bool:
    return all(x is y for x, y in zip(a.indices, b.indices, strict=True))


class _PutIn(Mutator):
    """Every load of a buffer becomes one value."""

    def __init__(self, buffer: Buffer, value: Expr) -> None:
        self.buffer, self.value = buffer, value

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        if n.buffer is self.buffer:
            return rename_lets(self.value)
        return self.generic_visit(n)  # type: ignore[no-any-return]


def _require_whole(
    func: PrimFunc,
    block: Block,
    buffer: Buffer,
    axes: Sequence[Var | None],
    path: Path,
    primitive: str,
) -> None:
    """The consumer runs for every element of the buffer, so the producer's instances are its
    own."""
    domains = {it.var: it.dom for it in block.iter_vars}
    for axis, dim in zip(axes, buffer.shape, strict=True):
        assert axis is not None
        dom = domains[axis]
        if not (getattr(dom.min, "value", None) == 0 and Bounds().proves_equal(dom.extent, dim)):
            found = f"{block.name!r} does not read all of {buffer.name!r}."
            raise fail(DependenceError, primitive, func, [block], found)
    loops = all_loops_above(path)
    if not covers_domain(
        Nested(realize_of(path), loops, conditions_above(path)), loop_bounds(loops)
    ):
        found = f"{block.name!r} runs under a condition."
        raise fail(NotCompleteBlockError, primitive, func, [block], found)


def replace_block(func: PrimFunc, realize: BlockRealize, new: BlockRealize) -> PrimFunc:
    """The function with one block realize replaced."""
    return with_body(func, rebuild(find_stmt(func, realize), new))

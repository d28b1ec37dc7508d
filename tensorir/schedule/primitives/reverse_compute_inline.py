"""reverse_compute_inline: a block's value where its only producer stores."""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import DependenceError, NotCompleteBlockError
from ....support.node import replace, walk
from ...analysis.affine import Bounds, loop_bounds
from ...analysis.block_kinds import (
    axis_bindings,
    binds,
    is_reduction,
    reads_buffer,
    writes_buffer,
)
from ...analysis.circular_buffers import require_no_circle
from ...analysis.conditions import TRUE, conjunction, simplify_condition
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.instance_at import Instance, instance_at
from ...analysis.loop_order import overwrites
from ...analysis.nested_blocks import consumers_of, producers_of, scope_blocks
from ...analysis.paths import (
    Path,
    all_loops_above,
    conditions_above,
    find_block,
    find_inner_block,
    loops_above,
    realize_of,
    rebuild,
    scope_of,
    with_body,
)
from ...analysis.preconditions import fail, require_complete
from ...analysis.structure import same_indices
from ...analysis.whole_runs import (
    is_unconditional,
    require_reads_all,
    require_unconditional,
    runs_over_axes,
)
from ...buffer import Buffer
from ...expr import BufferLoad, Expr, Var
from ...function import PrimFunc
from ...stmt import Block, BufferStore
from ...visitor import Mutator, substitute
from ..foreign_memory import require_no_pointer
from ..primitive import BLOCK, PLACES, primitive
from ..rewriting.inlining import (
    InlineLoads,
    plain_store,
    require_sole_writer,
    with_inferred_regions,
    without_block,
)
from ..state import BlockLike, ScheduleState


class ReverseComputeInline(ScheduleState):
    @primitive(PLACES, block=BLOCK)
    def reverse_compute_inline(self, block: BlockLike) -> None:
        """Remove a block and compute its value where its only producer stores.

        Requires:

        - a complete block without a condition, and a complete producer, each with one store; the
          block reads the producer's buffer at indices that are another place in each instance:
          its own axes, sums that have them for digits, such as ``X[vi * 8 + vj]``, quotients and
          remainders, ``X[vi // 8, vi % 8]``, or these plus constants (NotCompleteBlockError);
        - where the producer is a reduction, a block that does nothing but place its finished
          results elsewhere, in the same dtype (NotCompleteBlockError, DependenceError);
        - a producer that computes all that is read, its predicate included. Where it computes
          more, the rest is not computed: a predicate leaves it out (NotCompleteBlockError);
        - one producer, whose buffer is allocated in the scope and has no other reader or writer;
          nobody between the two who uses what the block writes (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, vj] * T.float32(2)

        Schedule::

            sch.reverse_compute_inline("C")

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = (A[vi, vj] + T.float32(1)) * T.float32(2)
        """
        owner, name = self._block(block)
        func = self._functions[owner]
        self._commit(owner, reverse_compute_inline(func, name, checks=self.enable_checks))


def reverse_compute_inline(func: PrimFunc, block_name: str, *, checks: bool = True) -> PrimFunc:
    """Remove a complete block and compute its value where its only producer stores."""
    primitive = "reverse_compute_inline"
    path = find_inner_block(func, block_name, primitive)
    block = realize_of(path).block
    require_complete(func, block, primitive)
    require_no_circle(func, block, primitive)
    scope = scope_of(path)
    producers = producers_of(scope, block)
    if len(producers) != 1:
        names = ", ".join(repr(n.block.name) for n in producers) or "none"
        found = f"Expected one producer of {block_name!r}; found {names}."
        raise fail(DependenceError, primitive, func, [block], found)
    producer = producers[0].block
    reduces = is_reduction(producer)
    if not reduces:
        require_complete(func, producer, primitive)
    require_scope_declared(func, scope, producer, primitive)
    require_scope_declared(func, scope, block, primitive)
    store, made = plain_store(func, block, primitive), plain_store(func, producer, primitive)
    buffer = made.buffer
    if buffer not in scope.alloc_buffers:
        found = f"{buffer.name!r} is not allocated in this scope; it must be stored."
        raise fail(DependenceError, primitive, func, [producer], found)
    others = [n for n in consumers_of(scope, producer) if n.block is not block]
    if others:
        found = f"{others[0].block.name!r} reads {buffer.name!r} too."
        raise fail(DependenceError, primitive, func, [others[0].block], found)
    require_no_pointer(func, buffer, primitive)
    at = find_block(func, producer.name, primitive)
    instance = _instance_of(func, block, producer, made)
    if checks:
        require_unconditional(func, path, primitive)
        require_reads_all(func, path, [], buffer, primitive)
        require_sole_writer(func, at, scope, buffer, primitive)
        _require_made(func, at, block, made)
        _require_output_unused(func, scope, producer, block, store.buffer)
    change = instance.axes
    where = tuple([substitute(i, change) for i in store.indices])
    if reduces:
        _require_placing(func, at, block, store, made)
        placing = _Placing(buffer, store.buffer, where)
        new_body, init = placing.visit(producer.body), placing.visit(producer.init)
    else:
        value = substitute(InlineLoads(made, [None] * buffer.ndim).visit(store.value), change)
        new_body, init = BufferStore(store.buffer, value, where), None
    merged = with_inferred_regions(replace(producer, body=new_body, init=init, reads=(), writes=()))
    realize = replace(realize_of(at), block=merged)
    if instance.conditions:
        realize = replace(realize, predicate=_narrowed(at, instance.conditions))
    changed = with_body(func, rebuild(at, realize))
    return without_block(changed, block_name, buffer)


class _Placing(Mutator):
    """The elements of one buffer become the elements of another at one place."""

    def __init__(self, old: Buffer, new: Buffer, where: tuple[Expr, ...]) -> None:
        self.old, self.new, self.where = old, new, where

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        if n.buffer is self.old:
            return BufferLoad(self.new, self.where)
        load: BufferLoad = self.generic_visit(n)
        return load

    def visit_BufferStore(self, n: BufferStore) -> BufferStore:  # noqa: N802
        store: BufferStore = self.generic_visit(n)
        return replace(store, buffer=self.new, indices=self.where)


def _require_placing(
    func: PrimFunc, path: Path, block: Block, store: BufferStore, made: BufferStore
) -> None:
    """The block places finished results of the reduction at ``path``, and computes nothing."""
    producer = realize_of(path).block
    value, init = store.value, producer.init
    plain = isinstance(value, BufferLoad) and value.buffer is made.buffer
    parts = [producer.body] if init is None else [producer.body, init]
    own = [n for part in parts for n in walk(part) if isinstance(n, BufferStore)]
    if not plain or store.buffer.dtype is not made.buffer.dtype or len(own) != 2:
        found = (
            f"{producer.name!r} is a reduction, and {block.name!r} computes something of its "
            "results, which are not finished where they are stored. Add a bias with "
            "fuse_reduction_epilogue, or move the block with reverse_compute_at."
        )
        raise fail(NotCompleteBlockError, "reverse_compute_inline", func, [block], found)
    reduced = axis_bindings(realize_of(path), ("reduce",))
    around = loops_above(find_block(func, block.name, "reverse_compute_inline"))
    for loop in loops_above(path):
        if binds(reduced, loop.var) and any(loop is other for other in around):
            found = (
                f"The loop {loop.var.name!r} runs over a reduce axis of {producer.name!r} and "
                f"holds {block.name!r}, which sees results that are not finished."
            )
            raise fail(DependenceError, "reverse_compute_inline", func, [loop], found)


def _read_at(block: Block, buffer: Buffer) -> list[tuple[Expr, ...]]:
    """The indices of each load of the buffer in the block."""
    return [n.indices for n in walk(block.body) if isinstance(n, BufferLoad) and n.buffer is buffer]


def _instance_of(func: PrimFunc, block: Block, producer: Block, made: BufferStore) -> Instance:
    """The instance of the block that reads what the producer stores."""
    reads = _read_at(block, made.buffer)
    if all(same_indices(indices, reads[0]) for indices in reads):
        domains = Bounds({it.var: it.dom for it in producer.iter_vars})
        found = instance_at(block, reads[0], made.indices, domains)
        loads = any(isinstance(n, BufferLoad) for i in made.indices for n in walk(i))
        if found is not None and not (found.conditions and loads):
            return found
    message = (
        f"{block.name!r} does not read {made.buffer.name!r} at exactly its own axes, or at indices "
        "that have these for digits: which instance reads an element is not known."
    )
    raise fail(NotCompleteBlockError, "reverse_compute_inline", func, [block], message)


def _narrowed(path: Path, conditions: Sequence[Expr]) -> Expr:
    """The producer's predicate and the conditions over its axes, as one over its loops."""
    realize = realize_of(path)
    values = dict(zip([it.var for it in realize.block.iter_vars], realize.iter_values, strict=True))
    bounds = loop_bounds(all_loops_above(path))
    parts = [simplify_condition(substitute(c, values), bounds) for c in conditions]
    return conjunction([realize.predicate, *parts])


def _require_made(func: PrimFunc, path: Path, block: Block, made: BufferStore) -> None:
    """The producer, predicate included, stores each element that the block reads."""
    realize = realize_of(path)
    producer, buffer = realize.block, made.buffer
    reads = _read_at(block, buffer)[0]
    domains = Bounds({it.var: it.dom for it in block.iter_vars})
    places = replace(
        producer, iter_vars=tuple([it for it in producer.iter_vars if it.kind != "reduce"])
    )
    maker = instance_at(places, made.indices, reads, domains)
    everywhere = runs_over_axes(path)
    everywhere = everywhere or runs_over_axes((*path[:-1], replace(realize, predicate=TRUE)))
    found = ""
    if maker is None or maker.conditions or not everywhere:
        found = f"{producer.name!r} is not known to write all that {block.name!r} reads."
    elif not is_unconditional(path):
        pairs = zip(realize.iter_values, producer.iter_vars, strict=True)
        change = {
            v: maker.axes[it.var] for v, it in pairs if isinstance(v, Var) and it.var in maker.axes
        }
        direct = len(change) == len(realize.iter_values) and not conditions_above(path)
        if not direct or not domains.proves(substitute(realize.predicate, change)):
            found = f"{producer.name!r} runs under a condition that may leave out what is read."
    if found:
        raise fail(NotCompleteBlockError, "reverse_compute_inline", func, [producer], found)


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

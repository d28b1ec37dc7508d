"""reverse_compute_inline: a block's value where its only producer stores."""

from __future__ import annotations

from collections.abc import Mapping

from ....support.errors import DependenceError, NotCompleteBlockError
from ....support.node import replace, walk
from ...analysis.block_kinds import reads_buffer, writes_buffer
from ...analysis.circular_buffers import require_no_circle
from ...analysis.digit_axes import digit_axes
from ...analysis.hidden_accesses import require_scope_declared
from ...analysis.loop_order import overwrites
from ...analysis.nested_blocks import consumers_of, producers_of, scope_blocks
from ...analysis.paths import (
    find_block,
    find_inner_block,
    realize_of,
    rebuild,
    scope_of,
    with_body,
)
from ...analysis.preconditions import fail, require_complete
from ...analysis.region_cover import axis_of_index
from ...analysis.structure import same_indices
from ...analysis.whole_runs import require_reads_all, require_unconditional
from ...buffer import Buffer
from ...expr import BufferLoad, Expr, Var
from ...function import PrimFunc
from ...stmt import Block, BufferStore
from ...visitor import substitute
from ..primitive import BLOCK, PLACES, primitive
from ..rewriting.inlining import (
    InlineLoads,
    plain_store,
    require_sole_whole_writer,
    with_inferred_regions,
    without_block,
)
from ..state import BlockLike, ScheduleState


class ReverseComputeInline(ScheduleState):
    @primitive(PLACES, block=BLOCK)
    def reverse_compute_inline(self, block: BlockLike) -> None:
        """Remove a block and compute its value where its only producer stores.

        Requires:

        - a complete block, and a complete producer, each with one store and without a condition;
          the block reads the producer's buffer at exactly its own axes, each once, or at sums that
          have them for digits, such as ``X[vi * 8 + vj]`` (NotCompleteBlockError);
        - one producer, whose buffer is allocated in the scope, has no other reader or writer and is
          read as a whole; nobody between the two who uses what the block writes (DependenceError).

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
    axes, change = _instance_of(func, block, made)
    if checks:
        require_unconditional(func, path, primitive)
        require_reads_all(func, path, axes, buffer, primitive)
        producer_path = find_block(func, producer.name, primitive)
        require_sole_whole_writer(func, producer_path, scope, buffer, primitive)
        _require_output_unused(func, scope, producer, block, store.buffer)
    value = substitute(InlineLoads(made, [None] * buffer.ndim).visit(store.value), change)
    new_store = BufferStore(
        store.buffer, value, tuple([substitute(i, change) for i in store.indices])
    )
    merged = with_inferred_regions(replace(producer, body=new_store, reads=(), writes=()))
    at = find_block(func, producer.name, primitive)
    changed = with_body(func, rebuild(at, replace(realize_of(at), block=merged)))
    return without_block(changed, block_name, buffer)


def _instance_of(
    func: PrimFunc, block: Block, made: BufferStore
) -> tuple[list[Var | None], Mapping[Var, Expr]]:
    """The axes that the block reads the producer's buffer at, one a dimension, or none where they
    are digits of its indices; and their values at the place of the producer's store."""
    buffer = made.buffer
    loads = [n for n in walk(block.body) if isinstance(n, BufferLoad) and n.buffer is buffer]
    indices = loads[0].indices
    axes = [axis_of_index(block, i) for i in indices]
    named = {a for a in axes if a is not None}
    if all(same_indices(load.indices, indices) for load in loads):
        if {it.var for it in block.iter_vars} == named and len(named) == len(axes):
            return axes, {a: i for a, i in zip(axes, made.indices, strict=True) if a is not None}
        digits = digit_axes(block, indices, buffer.shape, made.indices)
        if digits is not None:
            return [], digits
    found = (
        f"{block.name!r} does not read {buffer.name!r} at exactly its own axes, or at sums that "
        "have these for digits."
    )
    raise fail(NotCompleteBlockError, "reverse_compute_inline", func, [block], found)


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

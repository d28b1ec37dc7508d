"""``Schedule``: a module being scheduled. A thin facade: methods resolve handles, delegate to the
primitives of this folder, and record what was done.

A primitive that raises leaves the schedule as it was. Names and positions of parameters are TVM's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arith import IndexMap
from ..expr import Var
from . import (
    annotate,
    cache,
    compute_location,
    inline,
    layout,
    loops,
    partition,
    reduction,
    sampling,
)
from . import padding as padding_
from .analysis import find_block, realize_of
from .handles import BlockHandle, BlockRV, LoopHandle, LoopRV
from .layout import as_index_map, find_buffer
from .merge import merge as merge_loops
from .state import BlockLike, IntLike, ScheduleState
from .trace import Argument


class Schedule(ScheduleState):
    """A module (or a bare PrimFunc) and the trace of what was done to it.

    ``seed`` feeds the sampling primitives; None draws one, kept in ``.seed``. With
    ``enable_checks=False`` the proofs of legality are skipped, for traces that are known to be
    legal; what a rewrite needs in order to be well defined is still checked.
    """

    # -- sampling ----------------------------------------------------------------------------------
    def sample_perfect_tile(
        self,
        loop: LoopRV,
        n: int,
        max_innermost_factor: int = 16,
        decision: Sequence[int] | None = None,
    ) -> list[Var]:
        """``n`` factors of a loop's extent, as Vars for split; ``get`` tells their values."""
        self._place(loop, "sample_perfect_tile")
        func = self._functions[loop.func_name]
        factors = sampling.perfect_tile(
            self._rng, func, loop.var, n, max_innermost_factor, decision
        )
        result = [self._fresh_value(f, i) for i, f in enumerate(factors)]
        attrs = (("n", n), ("max_innermost_factor", max_innermost_factor))
        self._record("sample_perfect_tile", (("loop", loop),), attrs, result, list(factors))
        return result

    def sample_categorical(
        self, candidates: Sequence[int], probs: Sequence[float], decision: int | None = None
    ) -> Var:
        """One of the candidates, as a Var; the decision is its index."""
        index = sampling.categorical(self._rng, candidates, probs, decision)
        rv = self._fresh_value(int(candidates[index]))
        attrs = (("candidates", list(candidates)), ("probs", list(probs)))
        self._record("sample_categorical", (), attrs, (rv,), index)
        return rv

    def sample_compute_location(self, block: BlockLike, decision: int | None = None) -> LoopRV:
        """A place for a block: a loop of its first consumer, or to stay (-1), or inline (-2).

        Pass the result to compute_at.
        """
        handle = self._handle(block)
        func, name = self._block(handle)
        place, var = sampling.compute_location(self._rng, self._functions[func], name, decision)
        kinds = {sampling.ROOT: "root", sampling.INLINE: "inline"}
        rv = LoopHandle(var if var is not None else Var(kinds[place]), func, kinds.get(place, ""))
        self._record("sample_compute_location", (("block", handle),), (), (rv,), place)
        return rv

    def _fresh_value(self, value: int, offset: int = 0) -> Var:
        var = Var(f"v{self._rv_count + offset}")
        self._values = {**self._values, var: value}
        return var

    # -- loops -------------------------------------------------------------------------------------
    def split(
        self,
        loop: LoopRV,
        factors: Sequence[IntLike | None],
        preserve_unit_iters: bool = True,
        disable_predication: bool = False,
    ) -> list[LoopRV]:
        """See ``loops.split``. A factor may be None (inferred), an int, or a sampled value."""
        self._place(loop, "split")
        given = self._factors(factors, "split")
        resolved = [None if f == -1 else f for f in given]
        func, variables = loops.split(
            self._functions[loop.func_name],
            loop.var,
            resolved,
            preserve_unit_iters=preserve_unit_iters,
            disable_predication=disable_predication,
        )
        self._commit(loop.func_name, func)
        result = [LoopHandle(v, loop.func_name) for v in variables]
        self._record(
            "split",
            (("loop", loop), ("factors", list(factors))),
            (
                ("preserve_unit_iters", preserve_unit_iters),
                ("disable_predication", disable_predication),
            ),
            result,
        )
        return result

    def loop_partition(self, loop: LoopRV, factors: Sequence[IntLike | None]) -> list[LoopRV]:
        """See ``partition.loop_partition``."""
        self._place(loop, "loop_partition")
        resolved = self._factors(factors, "loop_partition")
        done = partition.loop_partition(self._functions[loop.func_name], loop.var, resolved)
        self._commit(loop.func_name, done.func)
        result = [LoopHandle(v, loop.func_name) for v in done.loops]
        self._record("loop_partition", (("loop", loop), ("factors", list(factors))), (), result)
        return result

    def fuse(self, *loops_: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """See ``loops.fuse``."""
        owner = self._owner(loops_, "fuse")
        func, var = loops.fuse(
            self._functions[owner],
            [loop.var for loop in loops_],
            preserve_unit_iters=preserve_unit_iters,
        )
        self._commit(owner, func)
        rv = LoopHandle(var, owner)
        inputs = [("", loop) for loop in loops_]
        self._record("fuse", inputs, (("preserve_unit_iters", preserve_unit_iters),), (rv,))
        return rv

    def merge(self, *loops_: LoopRV) -> LoopRV:
        """See ``merge.merge``; gives the innermost merged loop."""
        owner = self._owner(loops_, "merge")
        func, var = merge_loops(
            self._functions[owner], [loop.var for loop in loops_], checks=self.enable_checks
        )
        self._commit(owner, func)
        rv = LoopHandle(var, owner)
        self._record("merge", [("", loop) for loop in loops_], (), (rv,))
        return rv

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """See ``loops.reorder``."""
        owner = self._owner(ordered_loops, "reorder")
        variables = [loop.var for loop in ordered_loops]
        self._commit(
            owner, loops.reorder(self._functions[owner], variables, checks=self.enable_checks)
        )
        self._record("reorder", [("", loop) for loop in ordered_loops])

    def add_unit_loop(self, block_or_loop: BlockLike | LoopRV) -> LoopRV:
        """See ``loops.add_unit_loop``."""
        owner, target, rv = self._target(block_or_loop)
        func, var = loops.add_unit_loop(self._functions[owner], target)
        self._commit(owner, func)
        result = LoopHandle(var, owner)
        self._record("add_unit_loop", (("block_or_loop", rv),), (), (result,))
        return result

    # -- kinds and annotations ---------------------------------------------------------------------
    def parallel(self, loop: LoopRV) -> None:
        """Run the loop's iterations on several threads; they must be independent."""
        self._set_kind("parallel", loop, "parallel")

    def vectorize(self, loop: LoopRV) -> None:
        """Run the loop's iterations as the lanes of vectors; they must be independent."""
        self._set_kind("vectorize", loop, "vectorized")

    def unroll(self, loop: LoopRV) -> None:
        """Repeat the loop's body in the code."""
        self._set_kind("unroll", loop, "unrolled")

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind the loop to a thread axis such as ``threadIdx.x``."""
        self._set_kind("bind", loop, "thread_binding", thread_axis)

    def _set_kind(self, primitive: str, loop: LoopRV, kind: str, thread: str = "") -> None:
        self._place(loop, primitive)
        func = annotate.set_kind(
            self._functions[loop.func_name],
            loop.var,
            kind,
            thread=thread,
            checks=self.enable_checks,
        )
        self._commit(loop.func_name, func)
        self._record(primitive, (("loop", loop),), (("thread_axis", thread),) if thread else ())

    def annotate(self, block_or_loop: BlockLike | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Annotate a block or loop; a sampled value is put in as its integer."""
        owner, target, rv = self._target(block_or_loop)
        value = (
            [self._value(v) for v in ann_val]
            if isinstance(ann_val, (list, tuple))
            else self._value(ann_val)
        )
        self._commit(owner, annotate.annotate(self._functions[owner], target, ann_key, value))
        self._record(
            "annotate", (("block_or_loop", rv), ("ann_key", ann_key), ("ann_val", ann_val))
        )

    def unannotate(self, block_or_loop: BlockLike | LoopRV, ann_key: str) -> None:
        """Remove an annotation."""
        owner, target, rv = self._target(block_or_loop)
        self._commit(owner, annotate.unannotate(self._functions[owner], target, ann_key))
        self._record("unannotate", (("block_or_loop", rv),), (("ann_key", ann_key),))

    def set_scope(self, block: BlockLike, buffer_index: int | str, storage_scope: str) -> None:
        """Move the buffer that a block writes to a storage scope, e.g. ``register``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(
            owner, annotate.set_scope(self._functions[owner], name, buffer_index, storage_scope)
        )
        attrs = (("buffer_index", buffer_index), ("storage_scope", storage_scope))
        self._record("set_scope", (("block", handle),), attrs)

    # -- reductions --------------------------------------------------------------------------------
    def decompose_reduction(self, block: BlockLike, loop: LoopRV) -> BlockRV:
        """See ``reduction.decompose_reduction``: gives the init block; the handle given now
        means the update."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._place(loop, "decompose_reduction")
        done = reduction.decompose_reduction(
            self._functions[owner], name, loop.var, checks=self.enable_checks
        )
        self._commit(owner, done.func)
        self._rename(owner, name, done.update)
        rv = BlockHandle(done.init, owner)
        self._record("decompose_reduction", (("block", handle), ("loop", loop)), (), (rv,))
        return rv

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """See ``reduction.rfactor``: gives the block of partial results."""
        self._place(loop, "rfactor")
        done = reduction.rfactor(self._functions[loop.func_name], loop.var, factor_axis)
        self._commit(loop.func_name, done.func)
        rv = BlockHandle(done.partial, loop.func_name)
        self._record("rfactor", (("loop", loop),), (("factor_axis", factor_axis),), (rv,))
        return rv

    # -- caches and layouts ------------------------------------------------------------------------
    def cache_read(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        storage_scope: str,
        consumer_blocks: Sequence[BlockLike] = (),
    ) -> BlockRV:
        """See ``cache.cache_read``: gives the copy block."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        consumers = [self._handle(c) for c in consumer_blocks]
        names = [self._block(c)[1] for c in consumers]
        done = cache.cache_read(
            self._functions[owner], name, read_buffer_index, storage_scope, names
        )
        self._commit(owner, done.func)
        rv = BlockHandle(done.blocks[0], owner)
        inputs: list[Argument] = [
            ("block", handle),
            ("read_buffer_index", read_buffer_index),
            ("storage_scope", storage_scope),
        ]
        if consumers:
            inputs.append(("consumer_blocks", consumers))
        self._record("cache_read", inputs, (), (rv,))
        return rv

    def cache_write(
        self, block: BlockLike, write_buffer_index: int | str, storage_scope: str
    ) -> BlockRV:
        """See ``cache.cache_write``: gives the copy block."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        done = cache.cache_write(self._functions[owner], name, write_buffer_index, storage_scope)
        self._commit(owner, done.func)
        rv = BlockHandle(done.blocks[0], owner)
        attrs = (("write_buffer_index", write_buffer_index), ("storage_scope", storage_scope))
        self._record("cache_write", (("block", handle),), attrs, (rv,))
        return rv

    def cache_inplace(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        storage_scope: str,
        loop: LoopRV | None = None,
    ) -> list[BlockRV]:
        """See ``cache.cache_inplace``: gives the load and the store block. The index is that of the
        block's write."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        var = None if loop is None else self._place(loop, "cache_inplace").var
        done = cache.cache_inplace(
            self._functions[owner], name, read_buffer_index, storage_scope, var
        )
        self._commit(owner, done.func)
        result = [BlockHandle(b, owner) for b in done.blocks]
        inputs: list[Argument] = [
            ("block", handle),
            ("read_buffer_index", read_buffer_index),
            ("storage_scope", storage_scope),
        ]
        if loop is not None:
            inputs.append(("loop", loop))
        self._record("cache_inplace", inputs, (), result)
        return result

    def reindex_cache_read(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """See ``cache.reindex_cache_read``: gives the copy block."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        func = self._functions[owner]
        count = len(realize_of(find_block(func, name, "reindex_cache_read")).block.iter_vars)
        m = as_index_map(index_map, count)
        done = cache.reindex_cache_read(func, name, read_buffer_index, storage_scope, m)
        self._commit(owner, done.func)
        rv = BlockHandle(done.blocks[0], owner)
        attrs = (
            ("read_buffer_index", read_buffer_index),
            ("storage_scope", storage_scope),
            ("index_map", m),
        )
        self._record("reindex_cache_read", (("block", handle),), attrs, (rv,))
        return rv

    def transform_layout(
        self,
        block: BlockLike,
        buffer: tuple[str, int] | str,
        index_map: IndexMap | Callable[..., Any],
        pad_value: float | int | None = None,
    ) -> None:
        """See ``layout.transform_layout``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        func = self._functions[owner]
        target = find_buffer(
            func, realize_of(find_block(func, name, "transform_layout")).block, buffer
        )
        m = as_index_map(index_map, target.ndim)
        self._commit(owner, layout.transform_layout(func, name, buffer, m, pad_value))
        given = buffer if isinstance(buffer, str) else list(buffer)
        attrs = (("buffer", given), ("index_map", m), ("pad_value", pad_value))
        self._record("transform_layout", (("block", handle),), attrs)

    # -- places ------------------------------------------------------------------------------------
    def pad_einsum(self, block: BlockLike, padding: Sequence[int]) -> None:
        """See ``padding.pad_einsum``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(owner, padding_.pad_einsum(self._functions[owner], name, list(padding)))
        self._record("pad_einsum", (("block", handle),), (("padding", list(padding)),))

    def compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """See ``compute_location.compute_at``; a sampled place may also mean to stay or to
        inline."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        func = self._functions[owner]
        if not isinstance(loop, LoopHandle) or not loop.place:
            self._place(loop, "compute_at")
        if loop.place == "inline":
            func = inline.compute_inline(func, name, checks=self.enable_checks)
        elif not loop.place:
            func = compute_location.compute_at(
                func,
                name,
                loop.var,
                preserve_unit_loops=preserve_unit_loops,
                index=index,
                checks=self.enable_checks,
            )
        self._commit(owner, func)
        attrs = (("preserve_unit_loops", preserve_unit_loops), ("index", index))
        self._record("compute_at", (("block", handle), ("loop", loop)), attrs)

    def reverse_compute_at(
        self, block: BlockLike, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """See ``compute_location.reverse_compute_at``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._place(loop, "reverse_compute_at")
        func = compute_location.reverse_compute_at(
            self._functions[owner],
            name,
            loop.var,
            preserve_unit_loops=preserve_unit_loops,
            index=index,
            checks=self.enable_checks,
        )
        self._commit(owner, func)
        attrs = (("preserve_unit_loops", preserve_unit_loops), ("index", index))
        self._record("reverse_compute_at", (("block", handle), ("loop", loop)), attrs)

    def compute_inline(self, block: BlockLike) -> None:
        """See ``inline.compute_inline``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(
            owner, inline.compute_inline(self._functions[owner], name, checks=self.enable_checks)
        )
        self._record("compute_inline", (("block", handle),))

    def reverse_compute_inline(self, block: BlockLike) -> None:
        """See ``inline.reverse_compute_inline``."""
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(
            owner,
            inline.reverse_compute_inline(self._functions[owner], name, checks=self.enable_checks),
        )
        self._record("reverse_compute_inline", (("block", handle),))

    def enter_postproc(self) -> None:
        """Mark that what follows is post-processing, which a mutated trace makes anew."""
        self._record("enter_postproc")

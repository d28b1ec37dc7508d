"""``CachePrimitives``: the face of the primitives in this group.

A method resolves handles, delegates to the implementation, commits the new function and records an
instruction. Its docstring is its entry in docs/primitives.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...analysis.paths import find_block, realize_of
from ...arith import IndexMap
from ..arguments import require_list
from ..by_hand.pack import pack as pack_input
from ..by_hand.stage_memory import stage_memory as stage_producer
from ..primitives import cache, reindex
from ..primitives.annotate import buffer_at
from ..primitives.cache_index import cache_index as index_tables
from ..primitives.transform_layout import as_index_map
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV, LoopRV
from ..trace.trace import Argument


class CachePrimitives(ScheduleState):
    """Caches: copies of buffers nearer to where they are used."""

    def cache_read(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        storage_scope: str,
        consumer_blocks: Sequence[BlockLike] = (),
    ) -> BlockRV:
        """Copy a buffer that a block reads into a new one, which is read instead; gives the copy
        block.

        ``read_buffer_index`` is the position among the block's reads, or the buffer's name;
        ``storage_scope`` is one of global, local, register, shared and warp. All readers beside the
        block use the copy, or, where ``consumer_blocks`` names some, these alone. The copy has the
        buffer's shape and dtype and stands before the nest of its first reader, or after the last
        writer, at the innermost place that all share; compute_at moves it to where less of it is
        needed.

        Requires:

        - a buffer that the block reads, and a storage scope that there is (ScheduleValueError);
        - a block that does not write the buffer as well, consumers that read it, and no reader that
          stands before its last writer (DependenceError);
        - elements that are known where the copy is put: they depend on no let and no loop's
          variable bound further in (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            copy = sch.cache_read("B", 0, "register")
            sch.compute_at(copy, sch.get_loops("B")[0])

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                A_register = T.alloc_buffer((8, 6), scope="register")
                for i in range(8):
                    for ax0 in range(6):
                        with T.block("A_register"):
                            v0, v1 = T.axis.remap("SS", [i, ax0])
                            A_register[v0, v1] = A[v0, v1]
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A_register[vi, vj] + T.float32(1)
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        consumers = [
            self._handle(c) for c in require_list(consumer_blocks, "consumer_blocks", "cache_read")
        ]
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

    def stage_memory(self, block: BlockLike, loop: LoopRV, guard: LoopRV | None = None) -> None:
        """Compute a producer under a loop, in the first iteration of a guard loop only.

        The block is moved under ``loop`` by compute_at, where it does not stand there already. Its
        predicate then says that ``guard`` (a loop around it; ``loop`` itself, if None is given)
        stands at its first iteration, and its buffer is lifted around ``guard``: later iterations
        use what the first one computed. With loops inside the guard that the buffer depends on,
        it is filled step by step while the guard loop runs for the first time.

        Requires:

        - what compute_at requires, where the block moves;
        - a guard around the block (NotAncestorError), which is serial (LoopKindError);
        - a complete or reduction block (NotCompleteBlockError) that computes the same in every
          iteration of the guard: its bindings, loops and conditions do not depend on it, it alone
          writes its buffer, and nothing below the guard writes what it reads (DependenceError);
        - what lift_allocation requires of the buffer.

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 4), "float32"),
                     C: T.Buffer((8, 4), "float32")):
                for n, m, k in T.grid(4, 8, 6):
                    with T.block("C"):
                        vn, vm, vk = T.axis.remap("SSR", [n, m, k])
                        with T.init():
                            C[vm, vn] = T.float32(0)
                        C[vm, vn] = C[vm, vn] + A[vm, vk] * B[vk, vn]

        Schedule::

            panel = sch.cache_read("C", 1, "global")
            sch.stage_memory(panel, sch.get_loops("C")[1])

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 4), "float32"),
                     C: T.Buffer((8, 4), "float32")):
                B_global = T.alloc_buffer((6, 4))
                for n in range(4):
                    for m in T.serial(8, annotations={"lift_allocation": ["B_global"]}):
                        for ax0 in range(6):
                            with T.block("B_global"):
                                v0, v1 = T.axis.remap("SS", [ax0, n])
                                T.where(m == 0)
                                B_global[v0, v1] = B[v0, v1]
                        for k in range(6):
                            with T.block("C"):
                                vn, vm, vk = T.axis.remap("SSR", [n, m, k])
                                with T.init():
                                    C[vm, vn] = T.float32(0)
                                C[vm, vn] = C[vm, vn] + A[vm, vk] * B_global[vk, vn]
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        place = self._place(loop, "stage_memory").var
        var = None if guard is None else self._place(guard, "stage_memory").var
        staged = stage_producer(self._functions[owner], name, place, var, checks=self.enable_checks)
        self._commit(owner, staged)
        inputs: list[Argument] = [("block", handle), ("loop", loop)]
        if guard is not None:
            inputs.append(("guard", guard))
        self._record("stage_memory", inputs)

    def pack(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        loop: LoopRV | None,
        index_map: IndexMap | Callable[..., Any],
        storage_scope: str = "global",
        pad_value: float | int | None = None,
    ) -> BlockRV:
        """Copy what a block reads into the order in which it reads it, and give the copy block.

        The same as cache_read, transform_layout of the copy by ``index_map``, and compute_at under
        ``loop`` (the copy stays in front of the block's nest, if None is given), in one step.
        ``pad_value`` fills what the map leaves unused.

        Requires:

        - what cache_read, transform_layout and compute_at require; where one of them fails,
          nothing has happened.

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 16), "float32"),
                     C: T.Buffer((8, 16), "float32")):
                for n_0, m, k, n_1 in T.grid(4, 8, 6, 4):
                    with T.block("C"):
                        vm = T.axis.spatial(8, m)
                        vn = T.axis.spatial(16, n_0 * 4 + n_1)
                        vk = T.axis.reduce(6, k)
                        with T.init():
                            C[vm, vn] = T.float32(0)
                        C[vm, vn] = C[vm, vn] + A[vm, vk] * B[vk, vn]

        Schedule::

            panels = sch.get_loops("C")[0]
            sch.pack("C", 1, panels, lambda k, n: (n // 4, k, n % 4))

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((6, 16), "float32"),
                     C: T.Buffer((8, 16), "float32")):
                B_global = T.alloc_buffer((4, 6, 4))
                for n_0 in range(4):
                    for ax0, ax1 in T.grid(6, 4):
                        with T.block("B_global"):
                            v0 = T.axis.spatial(6, ax0)
                            v1 = T.axis.spatial(16, n_0 * 4 + ax1)
                            B_global[v1 // 4, v0, v1 % 4] = B[v0, v1]
                    for m, k, n_1 in T.grid(8, 6, 4):
                        with T.block("C"):
                            vm = T.axis.spatial(8, m)
                            vn = T.axis.spatial(16, n_0 * 4 + n_1)
                            vk = T.axis.reduce(6, k)
                            with T.init():
                                C[vm, vn] = T.float32(0)
                            C[vm, vn] = C[vm, vn] + A[vm, vk] * B_global[vn // 4, vk, vn % 4]
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        func = self._functions[owner]
        reader = realize_of(find_block(func, name, "pack")).block
        source = buffer_at(func, reader, "read", read_buffer_index, "pack")
        m = as_index_map(index_map, source.ndim)
        var = None if loop is None else self._place(loop, "pack").var
        done, copy = pack_input(
            func,
            name,
            read_buffer_index,
            var,
            m,
            storage_scope,
            pad_value,
            checks=self.enable_checks,
        )
        self._commit(owner, done)
        rv = BlockHandle(copy, owner)
        self._record(
            "pack",
            (("block", handle), ("read_buffer_index", read_buffer_index), ("loop", loop)),
            (("index_map", m), ("storage_scope", storage_scope), ("pad_value", pad_value)),
            (rv,),
        )
        return rv

    def cache_write(
        self, block: BlockLike, write_buffer_index: int | str, storage_scope: str
    ) -> BlockRV:
        """Let a block write a new buffer, and copy that to the old one after it; gives the copy
        block.

        ``write_buffer_index`` is the position among the block's writes, or the buffer's name;
        ``storage_scope`` is one of global, local, register, shared and warp. The copy stands after
        the nest of the block; reverse_compute_at moves it to where an element is final.

        Requires:

        - a buffer that the block writes, and a storage scope that there is (ScheduleValueError);
        - a block with the buffer's first value, not an update of what another wrote; provably a
          whole box written; no other user of the buffer inside the block's reduce loops
          (DependenceError);
        - elements that are known where the copy is put: they depend on no let and no loop's
          variable bound further in (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                for i, k in T.grid(4, 12):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            copy = sch.cache_write("B", 0, "register")
            sch.reverse_compute_at(copy, sch.get_loops("B")[0])

        After::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                B_register = T.alloc_buffer((4,), scope="register")
                for i in range(4):
                    for k in range(12):
                        with T.block("B"):
                            vi, vk = T.axis.remap("SR", [i, k])
                            with T.init():
                                B_register[vi] = T.float32(0)
                            B_register[vi] = B_register[vi] + A[vi, vk]
                    with T.block("B_register"):
                        v0 = T.axis.spatial(4, i)
                        B[v0] = B_register[v0]
        """
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
        """Let a block that updates a buffer work on a copy, loaded before it and stored after it;
        gives the load and the store block.

        ``read_buffer_index`` is the position of the buffer among the block's writes, or its name;
        ``storage_scope`` is one of global, local, register, shared and warp. The copies stand
        around the whole nest of the block, or, where ``loop`` is given, in the body of this loop,
        around what holds the block. They move what the block touches there, no more.

        Requires:

        - a buffer that the block writes, and a storage scope that there is (ScheduleValueError);
        - a block that reads what it writes and has no init, as decompose_reduction makes it; no
          other user of the buffer between the copies; around them no parallel loop in which a
          copy would hold what other iterations update (DependenceError);
        - elements that are known where the copies are put: they depend on no let and no loop's
          variable bound further in (DependenceError);
        - a loop that stands around the block (NotAncestorError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                for i, k in T.grid(4, 12):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            i, k = sch.get_loops("B")
            load, store = sch.cache_inplace("B", 0, "register", loop=i)

        After::

            @T.prim_func
            def main(A: T.Buffer((4, 12), "float32"), B: T.Buffer((4,), "float32")):
                B_register = T.alloc_buffer((4,), scope="register")
                for i in range(4):
                    for ax0 in range(1):
                        with T.block("B_register"):
                            v0 = T.axis.spatial(4, i + ax0)
                            B_register[v0] = B[v0]
                    for k in range(12):
                        with T.block("B"):
                            vi, vk = T.axis.remap("SR", [i, k])
                            B_register[vi] = B_register[vi] + A[vi, vk]
                    for ax0 in range(1):
                        with T.block("B_register_1"):
                            v0 = T.axis.spatial(4, i + ax0)
                            B[v0] = B_register[v0]
        """
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
        """Copy what a block reads into a new buffer, laid out by the block's axes; gives the copy
        block.

        ``read_buffer_index`` is the position among the block's reads, or the buffer's name;
        ``storage_scope`` is one of global, local, register, shared and warp; ``index_map`` takes
        the block's axes to the indices of the copy, whose extents follow from those of the axes.
        The copy runs over the axes that the map uses, before the nest of the block; where an
        element may lie outside of the buffer it is 0. Of a block that reads several elements of one
        buffer, that one is read from the copy which the axes of the map determine.

        Requires:

        - a buffer that the block reads, and a storage scope that there is (ScheduleValueError);
        - one element read in each instance, or one that the axes of the map determine, and a map
          that gives each such element a place of its own (LayoutError);
        - a buffer that the scope writes, if at all, in earlier nests only (DependenceError);
        - axes with a greatest extent that is known when the function begins (LayoutError), and
          whose domains depend on no let and no loop's variable bound below the copy's place
          (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((10,), "float32"), B: T.Buffer((8,), "float32")):
                for i, k in T.grid(8, 3):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi + vk]

        Schedule::

            sch.reindex_cache_read("B", "A", "global", lambda i, k: (k, i))

        After::

            @T.prim_func
            def main(A: T.Buffer((10,), "float32"), B: T.Buffer((8,), "float32")):
                A_global = T.alloc_buffer((3, 8))
                for ax0, ax1 in T.grid(8, 3):
                    with T.block("A_global"):
                        vi, vk = T.axis.remap("SS", [ax0, ax1])
                        A_global[vk, vi] = A[vi + vk]
                for i, k in T.grid(8, 3):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A_global[vk, vi]
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        func = self._functions[owner]
        count = len(realize_of(find_block(func, name, "reindex_cache_read")).block.iter_vars)
        m = as_index_map(index_map, count)
        used = self._index_map(m)
        done = reindex.reindex_cache_read(func, name, read_buffer_index, storage_scope, used)
        self._commit(owner, done.func)
        rv = BlockHandle(done.blocks[0], owner)
        attrs = (
            ("read_buffer_index", read_buffer_index),
            ("storage_scope", storage_scope),
            ("index_map", m),
        )
        self._record("reindex_cache_read", (("block", handle),), attrs, (rv,))
        return rv

    def reindex_cache_write(
        self,
        block: BlockLike,
        write_buffer_index: int | str,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Let a block write a new buffer in another layout, and copy that back afterwards.

        ``index_map`` takes all axes of the block (those of reductions too) and gives the indices of
        the new buffer; of the reduce axes it may use none. The copy, whose block is returned,
        stands directly behind the loops of the block.

        Requires:

        - a storage scope and a buffer that the block writes (ScheduleValueError);
        - one element written by an instance, a map that gives each its own place, and no axis in
          it that the element does not depend on (LayoutError);
        - no other block that writes the buffer, or reads it in the same loops; no update whose
          first value is written elsewhere (DependenceError);
        - loops that run the block for the whole domains of the axes used (DependenceError);
        - axes with a greatest extent that is known when the function begins (LayoutError), and
          whose domains depend on no let and no loop's variable bound below the copy's place
          (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
                for i, k in T.grid(8, 4):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            sch.reindex_cache_write("B", 0, "local", lambda i, k: (i // 4, i % 4))

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
                B_local = T.alloc_buffer((2, 4), scope="local")
                for i, k in T.grid(8, 4):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B_local[vi // 4, vi % 4] = T.float32(0)
                        B_local[vi // 4, vi % 4] = B_local[vi // 4, vi % 4] + A[vi, vk]
                for ax0 in range(8):
                    with T.block("B_local"):
                        v0 = T.axis.spatial(8, ax0)
                        B[v0] = B_local[v0 // 4, v0 % 4]
        """
        primitive = "reindex_cache_write"
        handle = self._handle(block)
        owner, name = self._block(handle)
        func = self._functions[owner]
        count = len(realize_of(find_block(func, name, primitive)).block.iter_vars)
        m = as_index_map(index_map, count)
        used = self._index_map(m)
        done = reindex.reindex_cache_write(func, name, write_buffer_index, storage_scope, used)
        self._commit(owner, done.func)
        rv = BlockHandle(done.blocks[0], owner)
        attrs = (
            ("write_buffer_index", write_buffer_index),
            ("storage_scope", storage_scope),
            ("index_map", m),
        )
        self._record(primitive, (("block", handle),), attrs, (rv,))
        return rv

    def reindex(self, block: BlockLike, buffer: tuple[str, int] | str) -> BlockRV:
        """Copy a buffer to one laid out by the axes of the block that accesses it.

        ``buffer`` is ``("read", i)``, ``("write", i)`` or a name. The new buffer
        ``<buffer>_reindex`` has a dimension for each axis that the access uses, in the order of the
        axes; a read is copied before the loops of the block, a write behind them. What reads
        ``A[i + r]`` so gets its windows written out; what writes a transposed element is itself
        plain. The copying block is returned; compute_at and its reverse move it.

        Requires:

        - a buffer that the block accesses, on one side if named (ScheduleValueError);
        - one element accessed by an instance (LayoutError);
        - for a read: what reindex_cache_read requires of the writers and of the axes;
        - for a write: what reindex_cache_write requires.

        Before::

            @T.prim_func
            def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32")):
                for i, j in T.grid(8, 4):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vj, vi] * T.float32(2)

        Schedule::

            sch.reindex("B", buffer=("read", 0))

        After::

            @T.prim_func
            def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8, 4), "float32")):
                A_reindex = T.alloc_buffer((8, 4))
                for ax0, ax1 in T.grid(8, 4):
                    with T.block("A_reindex"):
                        v0, v1 = T.axis.remap("SS", [ax0, ax1])
                        A_reindex[v0, v1] = A[v1, v0]
                for i, j in T.grid(8, 4):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A_reindex[vi, vj] * T.float32(2)
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        done = reindex.reindex(self._functions[owner], name, buffer)
        self._commit(owner, done.func)
        rv = BlockHandle(done.blocks[0], owner)
        given = buffer if isinstance(buffer, str) else list(buffer)
        self._record("reindex", (("block", handle),), (("buffer", given),), (rv,))
        return rv

    def cache_index(
        self, block: BlockLike, storage_scope: str, cse_thresh: int = 0
    ) -> list[BlockRV]:
        """Compute the indices of a block's loads beforehand, into tables.

        Each index expression becomes a buffer over the axes it uses, filled by a block of its own
        before the loops of the block; these blocks are returned. With ``cse_thresh`` 0 whole
        indices are looked up, with a greater one the largest parts of them that occur at least that
        often. A block without computed indices stays as it is, and the list is empty. The indices
        of stores stay computed: what a block writes must be known. What it reads through a table is
        not known any more, so schedule the producers before.

        Requires:

        - a storage scope, and a threshold from 0 on (ScheduleValueError);
        - axes that begin at 0, with a greatest extent that is known when the function begins
          (LayoutError), and whose domains depend on no let and no loop's variable bound below the
          tables' place (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((40, 40), "float32"), B: T.Buffer((80, 80), "float32")):
                for i, j in T.grid(80, 80):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi // 4 + vj // 4, vj // 2]

        Schedule::

            first, second = sch.cache_index("B", "global")

        After::

            @T.prim_func
            def main(A: T.Buffer((40, 40), "float32"), B: T.Buffer((80, 80), "float32")):
                index_var_0 = T.alloc_buffer((80, 80), "int64")
                index_var_1 = T.alloc_buffer((80,), "int64")
                for ax0, ax1 in T.grid(80, 80):
                    with T.block("index_0"):
                        v0, v1 = T.axis.remap("SS", [ax0, ax1])
                        index_var_0[v0, v1] = v0 // 4 + v1 // 4
                for ax0 in range(80):
                    with T.block("index_1"):
                        v0 = T.axis.spatial(80, ax0)
                        index_var_1[v0] = v0 // 2
                for i, j in T.grid(80, 80):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[index_var_0[vi, vj], index_var_1[vj]]
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        done = index_tables(self._functions[owner], name, storage_scope, cse_thresh)
        self._commit(owner, done.func)
        result = [BlockHandle(b, owner) for b in done.blocks]
        attrs = (("storage_scope", storage_scope), ("cse_thresh", cse_thresh))
        self._record("cache_index", (("block", handle),), attrs, result)
        return result

"""``StoragePrimitives``: the face of the primitives in this group.

A method resolves handles, delegates to the implementation, commits the new function and records an
instruction. Its docstring is its entry in docs/primitives.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...analysis.paths import find_block, realize_of
from ...arith import IndexMap
from ..by_hand.lift_allocation import lift_allocation as lift_buffer
from ..by_hand.rolling_buffer import rolling_buffer as roll_buffer
from ..primitives import annotate
from ..primitives import transform_layout as layout
from ..primitives.storage_align import storage_align as align_storage
from ..primitives.transform_layout import as_index_map, find_buffer
from ..state import BlockLike, ScheduleState
from ..trace.handles import LoopRV
from ..trace.trace import Argument


class StoragePrimitives(ScheduleState):
    """Storage: a buffer's layout and scope."""

    def transform_layout(
        self,
        block: BlockLike,
        buffer: tuple[str, int] | str,
        index_map: IndexMap | Callable[..., Any],
        pad_value: float | int | None = None,
    ) -> None:
        """Rewrite a buffer's shape and every access to it by an index map.

        ``buffer`` is ``("read", i)``, ``("write", i)`` or the buffer's name; ``index_map`` takes
        the buffer's indices to the new ones. Where the map leaves elements of the new shape unused
        they hold ``pad_value``, a number, and the block that writes the buffer runs over the new
        shape. The layout of a parameter may change only where the function's attribute
        ``layout_free`` lists its position; the map is then recorded in ``layout_maps``.

        Requires:

        - a buffer that the block reads or writes, by position or name (ScheduleValueError,
          LayoutError);
        - a map of as many indices as the buffer has, a bijection of its shape unless there is a pad
          value; a buffer without strides that no match_buffer matches; a parameter that is free and
          an input (LayoutError);
        - for padding one writer, a complete block that stores at its own axes, and writes the whole
          buffer or could, all that it would read being there (LayoutError).

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

            sch.transform_layout("B", ("write", 0), lambda i, j: (j // 2, i, j % 2))

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((3, 8, 2))
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vj // 2, vi, vj % 2] = A[vi, vj] + T.float32(1)
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vj // 2, vi, vj % 2] * T.float32(2)
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        func = self._functions[owner]
        target = find_buffer(
            func, realize_of(find_block(func, name, "transform_layout")).block, buffer
        )
        m = as_index_map(index_map, target.ndim)
        self._commit(
            owner, layout.transform_layout(func, name, buffer, self._index_map(m), pad_value)
        )
        given = buffer if isinstance(buffer, str) else list(buffer)
        attrs = (("buffer", given), ("index_map", m), ("pad_value", pad_value))
        self._record("transform_layout", (("block", handle),), attrs)

    def lift_allocation(
        self, block: BlockLike, buffer_index: int | str = 0, loop: LoopRV | None = None
    ) -> None:
        """Let the buffer that a block writes live for all iterations of a loop around the block.

        Lowering allocates a buffer below the innermost loop that holds all its users, for as much
        of it as one iteration needs. A lifted buffer is allocated around ``loop`` (around the
        outermost loop of the block, if None is given), so that what one iteration wrote is there
        in the next; the loop's annotation ``lift_allocation`` says so. ``buffer_index`` counts
        the block's writes, or is the buffer's name.

        Requires:

        - a buffer that the block writes, allocated in the block around it, and not in registers
          (ScheduleValueError);
        - a loop around the block (NotAncestorError);
        - no parallel loop from there down to the buffer's users, whose iterations would share it
          (LoopKindError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i in range(8):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] * T.float32(2)
                    for j in range(6):
                        with T.block("C"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            C[vi, vj] = B[vi, vj] + T.float32(1)

        Schedule::

            sch.lift_allocation("B", 0, sch.get_loops("B")[0])

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i in T.serial(8, annotations={"lift_allocation": ["B"]}):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            B[vi, vj] = A[vi, vj] * T.float32(2)
                    for j in range(6):
                        with T.block("C"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            C[vi, vj] = B[vi, vj] + T.float32(1)
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        var = None if loop is None else self._place(loop, "lift_allocation").var
        self._commit(owner, lift_buffer(self._functions[owner], name, buffer_index, var))
        inputs: list[Argument] = [("block", handle), ("buffer_index", buffer_index)]
        if loop is not None:
            inputs.append(("loop", loop))
        self._record("lift_allocation", inputs)

    def set_scope(self, block: BlockLike, buffer_index: int | str, storage_scope: str) -> None:
        """Move a buffer that a block writes to another storage scope.

        ``buffer_index`` is the position among the block's writes, or the buffer's name;
        ``storage_scope`` is one of global, local, register, shared and warp.

        Requires:

        - a buffer that the block writes and that is no parameter, and a storage scope that there is
          (ScheduleValueError).

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

            sch.set_scope("B", 0, "local")

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6), scope="local")
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, vj] * T.float32(2)
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(
            owner, annotate.set_scope(self._functions[owner], name, buffer_index, storage_scope)
        )
        attrs = (("buffer_index", buffer_index), ("storage_scope", storage_scope))
        self._record("set_scope", (("block", handle),), attrs)

    def storage_align(
        self, block: BlockLike, buffer_index: int | str, axis: int, factor: int, offset: int
    ) -> None:
        """Ask for gaps in an intermediate buffer: the stride of ``axis`` shall be ``offset`` modulo
        ``factor``.

        The buffer is the block's write of that index (or name); a negative axis counts from the
        end. Rows of a length that is a power of two all fall into the same sets of a cache; a
        stride of 16 modulo 64, say, spreads them. The wish is kept as the annotation
        ``buffer_dim_align`` and becomes strides in lowering, when compute_at has given the buffer
        its final shape: each stride is the smallest that fits. Buffers of scope ``register`` have
        no addresses and ignore it. A later wish for the same axis takes the place of the former.
        Transform the layout first: the annotation names an axis by its number.

        Requires:

        - an intermediate buffer without strides of its own (ScheduleValueError);
        - an axis of the buffer, a factor of at least 1 and an offset below it
          (ScheduleValueError);
        - no other block that asks for another stride of the axis (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 64), "float32"), C: T.Buffer((64, 8), "float32")):
                B = T.alloc_buffer((8, 64))
                for i, j in T.grid(8, 64):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] * T.float32(2)
                for i, j in T.grid(64, 8):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vj, vi]

        Schedule::

            sch.storage_align("B", 0, axis=-2, factor=32, offset=8)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 64), "float32"), C: T.Buffer((64, 8), "float32")):
                B = T.alloc_buffer((8, 64))
                for i, j in T.grid(8, 64):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        T.block_attr({"buffer_dim_align": [[0, 0, 32, 8]]})
                        B[vi, vj] = A[vi, vj] * T.float32(2)
                for i, j in T.grid(64, 8):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vj, vi]
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        changed = align_storage(self._functions[owner], name, buffer_index, axis, factor, offset)
        self._commit(owner, changed)
        attrs = (
            ("buffer_index", buffer_index),
            ("axis", axis),
            ("factor", factor),
            ("offset", offset),
        )
        self._record("storage_align", (("block", handle),), attrs)

    def rolling_buffer(self, block: BlockLike, write_buffer_index: int | str) -> None:
        """Make the buffer between a block and its consumers circular, so that what consecutive
        tiles share is computed once.

        The block stands under a loop of its consumers, by compute_at, and computes a window for
        each iteration. Where windows move with a loop by a constant step that is less than their
        length, they overlap: the block gets the predicate ``first iteration or new element``, and
        along the dimension that rolls on the outermost such loop the buffer shrinks to one window,
        indexed modulo its length. Overlaps along other dimensions are skipped as well, and these
        keep their size. Loops further out may be parallel (make them so before); each of their
        iterations has a buffer of its own, which begins empty. Decompose reductions afterwards.

        Requires:

        - a complete or reduction block (NotCompleteBlockError) that writes one buffer, which it
          alone writes, and which is allocated in the block around it (DependenceError);
        - a buffer without strides and views (LayoutError);
        - a loop that holds the block and, after it, all blocks that read the buffer, no
          conditions between, and windows that are written whole and hold all that is read in
          their iteration (DependenceError);
        - a dimension whose windows overlap, and move with a loop that moves no other dimension
          (DependenceError);
        - serial or unrolled loops from there inwards (LoopKindError);
        - inputs that keep their values while these loops run: what is written there is an
          intermediate of one writer before, a complete or reduction block (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((18,), "float32"), C: T.Buffer((16,), "float32")):
                B = T.alloc_buffer((18,))
                for i_0 in range(4):
                    for ax0 in range(6):
                        with T.block("B"):
                            v = T.axis.spatial(18, i_0 * 4 + ax0)
                            B[v] = A[v] * T.float32(2)
                    for i_1 in range(4):
                        with T.block("C"):
                            v = T.axis.spatial(16, i_0 * 4 + i_1)
                            C[v] = B[v] + B[v + 2]

        Schedule::

            sch.rolling_buffer("B", 0)

        After::

            @T.prim_func
            def main(A: T.Buffer((18,), "float32"), C: T.Buffer((16,), "float32")):
                B = T.alloc_buffer((6,))
                for i_0 in range(4):
                    for ax0 in range(6):
                        with T.block("B"):
                            v = T.axis.spatial(18, i_0 * 4 + ax0)
                            T.where(i_0 < 1 or ax0 >= 2)
                            T.block_attr({"rolling_buffer": True})
                            B[v % 6] = A[v] * T.float32(2)
                    for i_1 in range(4):
                        with T.block("C"):
                            v = T.axis.spatial(16, i_0 * 4 + i_1)
                            T.reads(B[0:6])
                            C[v] = B[v % 6] + B[(v + 2) % 6]
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._commit(owner, roll_buffer(self._functions[owner], name, write_buffer_index))
        attrs = (("write_buffer_index", write_buffer_index),)
        self._record("rolling_buffer", (("block", handle),), attrs)

"""``BlockPrimitives``: the face of the primitives in this group.

A method resolves handles, delegates to the implementation, commits the new function and records an
instruction. Its docstring is its entry in docs/primitives.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....support.errors import ScheduleValueError
from ...arith import IndexMap
from ...expr import Var
from ..arguments import require_list
from ..by_hand.decompose_padding import decompose_padding as decompose_padding_
from ..primitives import block_iters
from ..primitives import pad_einsum as padding_
from ..primitives.blockize import blockize as blockize_
from ..primitives.tensorize import tensorize as tensorize_
from ..state import BlockLike, ScheduleState
from ..tensor_intrin import required_intrin
from ..trace.handles import BlockHandle, BlockRV, LoopHandle, LoopRV


class BlockPrimitives(ScheduleState):
    """Blocks: their own iteration spaces."""

    def pad_einsum(self, block: BlockLike, padding: Sequence[int]) -> None:
        """Let a block compute more elements than are wanted, so that its tiles are full.

        ``padding`` has an int for each axis of the block: the axis' extent grows to a multiple of
        it (1 for no change), and with it the axis' loop and the dimension of the intermediate
        buffer that it indexes. Readers of the buffer still read what they read before. Operands
        must reach that far already: transform_layout with a pad value sees to it.

        Requires:

        - as many paddings of at least 1 as axes, other than 1 only for spatial axes, and a single
          output (ScheduleValueError);
        - padded axes bound each to a whole loop of its own, below which no other block runs; no
          predicate; each indexes one dimension of the output by itself, the same in each store
          (NonAffineError);
        - an output that is no parameter, and operands that are in bounds over the padded axes
          (LayoutError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((16, 4), "float32"), C: T.Buffer((10,), "float32")):
                B = T.alloc_buffer((10,))
                for i, k in T.grid(10, 4):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]
                for i in range(10):
                    with T.block("C"):
                        vi = T.axis.spatial(10, i)
                        C[vi] = B[vi] * T.float32(2)

        Schedule::

            sch.pad_einsum("B", [16, 1])

        After::

            @T.prim_func
            def main(A: T.Buffer((16, 4), "float32"), C: T.Buffer((10,), "float32")):
                B = T.alloc_buffer((16,))
                for i, k in T.grid(16, 4):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]
                for i in range(10):
                    with T.block("C"):
                        vi = T.axis.spatial(10, i)
                        C[vi] = B[vi] * T.float32(2)
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        padding = list(require_list(padding, "the padding", "pad_einsum"))
        self._commit(owner, padding_.pad_einsum(self._functions[owner], name, padding))
        self._record("pad_einsum", (("block", handle),), (("padding", padding),))

    def reorder_block_iter_var(self, block: BlockLike, new_order: Sequence[int]) -> None:
        """Permute the axes of a block, with their bindings.

        ``new_order`` lists the present positions of the axes in the new order. Loops and the body
        stay as they are: only the order in which the axes are declared changes, which is what
        index maps of the block's axes see.

        Requires:

        - a permutation of the positions of the block's axes (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8,), "float32")):
                for i, k in T.grid(8, 6):
                    with T.block("B"):
                        vi, vk = T.axis.remap("SR", [i, k])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            sch.reorder_block_iter_var("B", [1, 0])

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8,), "float32")):
                for i, k in T.grid(8, 6):
                    with T.block("B"):
                        vk, vi = T.axis.remap("RS", [k, i])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        order = list(require_list(new_order, "new_order", "reorder_block_iter_var"))
        func = block_iters.reorder_block_iter_var(self._functions[owner], name, order)
        self._commit(owner, func)
        self._record("reorder_block_iter_var", (("block", handle),), (("new_order", order),))

    def transform_block_layout(
        self, block: BlockLike, index_map: IndexMap | Callable[..., Any]
    ) -> None:
        """Replace the axes of a block by an affine bijection of them, and its loops by one loop for
        each new axis.

        ``index_map`` is an index map, or a Python function of as many indices as the block has
        axes: ``lambda i, j: (i // 4, j, i % 4)``. The new axes are called v0, v1 and so on, the new
        loops ax0, ax1 and so on; they are serial, in the order of the axes. The block computes the
        same instances in another order.

        Requires:

        - a map of as many indices as the block has axes, at least one (ScheduleValueError);
        - an affine bijection of the iteration space (LayoutError);
        - spatial and reduce axes, not mixed in one new axis, and a block that neither reads nor
          writes what its other instances write (DependenceError);
        - loops of the block's own that run through the whole iteration space, each instance once
          (NonAffineError), all of them plain serial loops (LoopKindError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            sch.transform_block_layout("B", lambda i, j: (i // 4, j, i % 4))

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for ax0, ax1, ax2 in T.grid(2, 6, 4):
                    with T.block("B"):
                        v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
                        B[v0 * 4 + v2, v1] = A[v0 * 4 + v2, v1] + T.float32(1)
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        m = block_iters.block_index_map(self._functions[owner], name, index_map)
        changed = block_iters.transform_block_layout(
            self._functions[owner], name, self._index_map(m)
        )
        self._commit(owner, changed)
        self._record("transform_block_layout", (("block", handle),), (("index_map", m),))

    def blockize(
        self, target: LoopRV | BlockLike | list[BlockRV], preserve_unit_iters: bool = True
    ) -> BlockRV:
        """Make what stands below a loop, or a run of neighbouring blocks, the body of one new
        block, whose handle is returned.

        The new block is called after what it holds, with ``_o`` at the end. Each axis is divided:
        what the loops above contribute becomes an axis of the outer block, what the loops below
        contribute one of the inner block. The outer block declares the regions of the whole tile.
        The init of a reduction goes to the outer block, as a block of its own; the inner block is
        then the update. Where several blocks are held, outer axes that run alike are shared. With
        ``preserve_unit_iters=False`` axes with a single value are left out.

        Requires:

        - nothing but blocks, loops and conditions below (ScheduleValueError), and blocks that
          stand side by side with no other between them (NotAncestorError);
        - inner loops that run through whole tiles of each axis, and outer loops that step over
          them tile by tile (NonAffineError);
        - for a reduction: loops that are spatial or reduce but not both, terms that are added once,
          a predicate that its init can have (DependenceError);
        - for several blocks: values pass between them within one instance only, no reduction
          whose init runs only for some instances (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8,), "float32")):
                for i, k_0, k_1 in T.grid(8, 2, 16):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        vk = T.axis.reduce(32, k_0 * 16 + k_1)
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

        Schedule::

            i, k_0, k_1 = sch.get_loops("B")
            outer = sch.blockize(k_1, preserve_unit_iters=False)

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8,), "float32")):
                for i, k_0 in T.grid(8, 2):
                    with T.block("B_o"):
                        vi_o, vk_o = T.axis.remap("SR", [i, k_0])
                        T.reads(A[vi_o, vk_o * 16:vk_o * 16 + 16])
                        T.writes(B[vi_o])
                        with T.init():
                            with T.block("B_init"):
                                T.reads()
                                T.writes(B[vi_o])
                                B[vi_o] = T.float32(0)
                        for k_1 in range(16):
                            with T.block("B"):
                                vk_i = T.axis.reduce(16, k_1)
                                T.reads(B[vi_o], A[vi_o, vk_o * 16 + vk_i])
                                T.writes(B[vi_o])
                                B[vi_o] = B[vi_o] + A[vi_o, vk_o * 16 + vk_i]
        """
        given: Any = target
        place: Var | list[str]
        if isinstance(target, LoopHandle):
            owner, place = self._place(target, "blockize").func_name, target.var
        else:
            blocks = target if isinstance(target, (list, tuple)) else [target]
            handles = [self._handle(b) for b in blocks]
            named = [self._block(h) for h in handles]
            owners = {o for o, _ in named}
            if len(owners) > 1:
                raise ScheduleValueError(
                    "blockize", f"The blocks are of different functions: {sorted(owners)}."
                )
            owner = named[0][0] if named else self._function_name(None, "blockize")
            place = [name for _, name in named]
            given = handles if isinstance(target, (list, tuple)) else handles[0]
        done = blockize_(self._functions[owner], place, preserve_unit_iters=preserve_unit_iters)
        self._commit(owner, done.func)
        rv = BlockHandle(done.outer, owner)
        attrs = (("preserve_unit_iters", preserve_unit_iters),)
        self._record("blockize", (("target", given),), attrs, (rv,))
        return rv

    def tensorize(
        self,
        block_or_loop: BlockLike | LoopRV,
        tensor_intrin: str,
        preserve_unit_iters: bool = True,
    ) -> None:
        """Replace a tile of a computation by a tensor intrinsic that computes the same.

        A loop is blockized first (see blockize); a block must be one that blockize made. The body
        is compared with the description registered under ``tensor_intrin``, up to names, loops of
        one iteration, the order of axes, and the order of operands of ``+ * min max``; the
        operands are found by their accesses and become views (match_buffer) that the
        implementation works on. TensorIntrin.register registers intrinsics; ``fma_f32_16x`` (a row
        of 16 floats += a scalar * another row), ``fill_f32_16x`` and ``dot_u8i8i32_16x4`` (16 sums
        of four products of uint8 and int8 each), also with 4 and 8 lanes, are there from the
        start.

        Requires:

        - a registered name (ScheduleValueError), and for a loop all that blockize requires;
        - a body that is what the intrinsic describes, without predicate (TensorizeError, with the
          first difference);
        - operands that lie in what the block declares to read and write, with the strides that the
          implementation asks for (LayoutError);
        - a written operand that shares no element with another one (DependenceError).

        Before::

            @T.prim_func
            def main(
                A: T.Buffer((4, 8), "float32"),
                B: T.Buffer((8, 32), "float32"),
                C: T.Buffer((4, 32), "float32"),
            ):
                for i, j_0, k, j_1 in T.grid(4, 2, 8, 16):
                    with T.block("C"):
                        vi = T.axis.spatial(4, i)
                        vj = T.axis.spatial(32, j_0 * 16 + j_1)
                        vk = T.axis.reduce(8, k)
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

        Schedule::

            i, j_0, k, j_1 = sch.get_loops("C")
            sch.tensorize(j_1, "fma_f32_16x")

        After::

            @T.prim_func
            def main(
                A: T.Buffer((4, 8), "float32"),
                B: T.Buffer((8, 32), "float32"),
                C: T.Buffer((4, 32), "float32"),
            ):
                for i, j_0, k in T.grid(4, 2, 8):
                    with T.block("C_o"):
                        vi_o, vj_o, vk_o = T.axis.remap("SSR", [i, j_0, k])
                        T.reads(
                            C[vi_o, vj_o * 16:vj_o * 16 + 16],
                            A[vi_o, vk_o],
                            B[vk_o, vj_o * 16:vj_o * 16 + 16],
                        )
                        T.writes(C[vi_o, vj_o * 16:vj_o * 16 + 16])
                        A_1 = T.match_buffer(A[vi_o, vk_o], (1,))
                        B_1 = T.match_buffer(B[vk_o, vj_o * 16:vj_o * 16 + 16], (16,))
                        C_1 = T.match_buffer(C[vi_o, vj_o * 16:vj_o * 16 + 16], (16,))
                        for j in T.vectorized(16):
                            with T.block("fma"):
                                vj = T.axis.spatial(16, j)
                                C_1[vj] = T.fma(A_1[0], B_1[vj], C_1[vj])
        """
        intrin = required_intrin(tensor_intrin)
        given: BlockRV | LoopRV
        place: Var | str
        if isinstance(block_or_loop, LoopHandle):
            given = self._place(block_or_loop, "tensorize")
            owner, place = given.func_name, given.var
        else:
            given = self._handle(block_or_loop)
            owner, place = self._block(given)
        func = tensorize_(
            self._functions[owner], place, intrin, preserve_unit_iters=preserve_unit_iters
        )
        self._commit(owner, func)
        attrs = (("tensor_intrin", tensor_intrin), ("preserve_unit_iters", preserve_unit_iters))
        self._record("tensorize", (("block_or_loop", given),), attrs)

    def decompose_padding(self, block: BlockLike, loop: LoopRV) -> BlockRV:
        """Split a block that pads into a fill with the constant, whose handle is returned, and a
        copy of what is inside.

        The block stores ``if_then_else(inside, value, constant)``. The fill, called after the
        block with ``_pad_const`` at the end, comes directly before ``loop`` and has copies of the
        loops from there on. The block itself keeps its name and runs over the inside only: axes
        that are bound to whole loops of their own, from ``loop`` on, are cut to it; other
        conditions become the block's predicate.

        Requires:

        - a complete block that stores such a value, inside being a conjunction that does not read
          memory (NotCompleteBlockError) and does not hold always or never (ScheduleValueError);
        - a loop around the block (NotAncestorError);
        - no other block below the loop that uses the buffer, but readers after the block; no
          parallel loop whose iterations pad the same elements (DependenceError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((10,), "float32")):
                for i in range(10):
                    with T.block("B"):
                        vi = T.axis.spatial(10, i)
                        B[vi] = T.if_then_else(1 <= vi and vi < 9, A[vi - 1], T.float32(0))

        Schedule::

            (i,) = sch.get_loops("B")
            fill = sch.decompose_padding("B", i)

        After::

            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((10,), "float32")):
                for i in range(10):
                    with T.block("B_pad_const"):
                        vi = T.axis.spatial(10, i)
                        B[vi] = T.float32(0)
                for i in range(8):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        B[vi + 1] = A[vi]
        """
        handle = self._handle(block)
        owner, name = self._block(handle)
        self._place(loop, "decompose_padding")
        done = decompose_padding_(self._functions[owner], name, loop.var)
        self._commit(owner, done.func)
        rv = BlockHandle(done.fill, owner)
        self._record("decompose_padding", (("block", handle), ("loop", loop)), (), (rv,))
        return rv

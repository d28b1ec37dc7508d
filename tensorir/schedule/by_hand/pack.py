"""pack: a copy of a block's input in the order in which the block reads it.

    cache_read(block, buffer), compute_at(copy, loop), transform_layout(copy, index_map)

in one step. The copy holds what one iteration of the loop needs, contiguous where it is read one
element after the other; with a pad value it may have room that the input does not fill.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...analysis.buffers import buffer_at
from ...analysis.paths import find_block, realize_of
from ...analysis.region_cover import axis_of_index
from ...arith import IndexMap
from ...expr import Var
from ...function import PrimFunc
from ..primitive import ATTR, BLOCK, CACHES, INPUT, LOOP_OR_NONE, primitive
from ..primitives.cache_read import cache_read
from ..primitives.compute_at import compute_at
from ..primitives.transform_layout import PadValue, as_pad_value, transform_layout
from ..rewriting.index_maps import as_index_map
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, BlockRV, LoopRV


class Pack(ScheduleState):
    @primitive(
        CACHES,
        block=BLOCK,
        read_buffer_index=INPUT,
        loop=LOOP_OR_NONE,
        index_map=ATTR,
        storage_scope=ATTR,
        pad_value=ATTR,
    )
    def pack(
        self,
        block: BlockLike,
        read_buffer_index: int | str,
        loop: LoopRV | None,
        index_map: IndexMap | Callable[..., Any],
        storage_scope: str = "global",
        pad_value: PadValue | Callable[..., Any] = None,
    ) -> BlockRV:
        """Copy what a block reads into the order in which it reads it, and give the copy block.

        The same as cache_read, transform_layout of the copy by ``index_map``, and compute_at under
        ``loop`` (the copy stays in front of the block's nest, if None is given), in one step.
        ``pad_value``, a number or a function of the new indices, fills what the map leaves unused.

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
        owner, name = self._block(block)
        func = self._functions[owner]
        reader = realize_of(find_block(func, name, "pack")).block
        m = as_index_map(index_map, buffer_at(func, reader, "read", read_buffer_index, "pack").ndim)
        pad = as_pad_value(pad_value, len(m.outputs))
        self._note(index_map=m, pad_value=pad)
        done, copy = pack(
            func,
            name,
            read_buffer_index,
            None if loop is None else loop.var,
            m,
            storage_scope,
            pad,
            checks=self.enable_checks,
        )
        self._commit(owner, done)
        return BlockHandle(copy, owner)


def pack(
    func: PrimFunc,
    block_name: str,
    buffer_index: int | str,
    loop_var: Var | None,
    index_map: IndexMap | Callable[..., object],
    storage_scope: str = "global",
    pad_value: PadValue = None,
    *,
    checks: bool = True,
) -> tuple[PrimFunc, str]:
    """The function with the packed copy, under the loop (at its consumer's nest, if None is given),
    and the copy's name."""
    cached = cache_read(func, block_name, buffer_index, storage_scope)
    (name,) = cached.blocks
    source = realize_of(find_block(cached.func, name, "pack")).block.reads[0].buffer
    m = as_index_map(index_map, source.ndim)
    # A copy with padding runs over the packed layout, of which it can compute a part; any other
    # runs over the input, and finds its part there before its layout changes.
    if loop_var is None or pad_value is not None or _only_permutes(m):
        packed = transform_layout(cached.func, name, ("write", 0), m, pad_value)
        if loop_var is None:
            return packed, name
        if _runs_over_output(packed, name):
            return compute_at(packed, name, loop_var, checks=checks), name
    placed = compute_at(cached.func, name, loop_var, checks=checks)
    return transform_layout(placed, name, ("write", 0), m, pad_value), name


def _only_permutes(m: IndexMap) -> bool:
    return all(isinstance(o, Var) for o in m.outputs)


def _runs_over_output(func: PrimFunc, name: str) -> bool:
    block = realize_of(find_block(func, name, "pack")).block
    return all(axis_of_index(block, r.min) is not None for r in block.writes[0].region)

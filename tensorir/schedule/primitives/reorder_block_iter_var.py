"""reorder_block_iter_var: the axes of a block in another order."""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import ScheduleValueError
from ....support.node import replace
from ...analysis.paths import find_block, realize_of, rebuild, with_body
from ...analysis.preconditions import fail
from ...function import PrimFunc
from ..arguments import require_list
from ..primitive import ATTR, BLOCK, BLOCKS, primitive
from ..state import BlockLike, ScheduleState


class ReorderBlockIterVar(ScheduleState):
    @primitive(BLOCKS, block=BLOCK, new_order=ATTR)
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
        owner, name = self._block(block)
        order = list(require_list(new_order, "new_order", "reorder_block_iter_var"))
        self._commit(owner, reorder_block_iter_var(self._functions[owner], name, order))


def reorder_block_iter_var(func: PrimFunc, block_name: str, new_order: Sequence[int]) -> PrimFunc:
    """Permute the iter vars of a block, with their bindings."""
    path = find_block(func, block_name, "reorder_block_iter_var")
    realize = realize_of(path)
    block = realize.block
    count = len(block.iter_vars)
    order = list(new_order)
    if any(isinstance(i, bool) or not isinstance(i, int) for i in order) or sorted(order) != list(
        range(count)
    ):
        found = (
            f"Expected a permutation of the positions 0 to {count - 1} of the {count} axes of "
            f"{block.name!r}; found {order!r}."
        )
        raise fail(ScheduleValueError, "reorder_block_iter_var", func, [block], found)
    if order == list(range(count)):
        return func
    changed = replace(
        realize,
        iter_values=tuple([realize.iter_values[i] for i in order]),
        block=replace(block, iter_vars=tuple([block.iter_vars[i] for i in order])),
    )
    return with_body(func, rebuild(path, changed))

"""set_scope: a buffer in another storage scope."""

from __future__ import annotations

from ....support.errors import ScheduleValueError
from ....support.node import replace
from ...analysis.buffers import buffer_at, require_scope
from ...analysis.paths import all_buffers, find_block, realize_of
from ...analysis.preconditions import fail
from ...buffer import Buffer
from ...function import PrimFunc
from ...visitor import replace_buffers
from ..primitive import ATTR, BLOCK, STORAGE, primitive
from ..state import BlockLike, ScheduleState


class SetScope(ScheduleState):
    @primitive(STORAGE, block=BLOCK, buffer_index=ATTR, storage_scope=ATTR)
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
        owner, name = self._block(block)
        self._commit(owner, set_scope(self._functions[owner], name, buffer_index, storage_scope))


def set_scope(func: PrimFunc, block_name: str, buffer_index: int | str, scope: str) -> PrimFunc:
    """Move an allocated buffer, the block's write of that index (or name), to another storage
    scope."""
    path = find_block(func, block_name, "set_scope")
    block = realize_of(path).block
    buffer = buffer_at(func, block, "write", buffer_index, "set_scope")
    require_scope(scope, "set_scope")
    if buffer in func.params:
        found = f"The buffer {buffer.name!r} is a parameter; its storage is the caller's."
        raise fail(ScheduleValueError, "set_scope", func, [block], found)
    if all(buffer is not b for b in all_buffers(func)):
        found = f"{buffer.name!r} is a view of another buffer; set the scope of that one."
        raise fail(ScheduleValueError, "set_scope", func, [block], found)
    if buffer.scope == scope:
        return func
    return swap_buffer(func, buffer, replace(buffer, scope=scope))


def swap_buffer(func: PrimFunc, old: Buffer, new: Buffer) -> PrimFunc:
    """The function with one buffer replaced wherever it stands, its allocation included."""
    return replace(func, body=replace_buffers(func.body, {old: new}))

"""set_dtype: an intermediate buffer keeps its elements in a wider dtype, converted when they are
written instead of at every read. unsafe_set_dtype: in any, and results are rounded.

The wider dtype holds every value of the buffer's own, so that what is read is what was written: a
read is converted back, and where that is converted to the wider dtype next, it is the element.
"""

from __future__ import annotations

from ....support.dtype import DType
from ....support.errors import ScheduleValueError
from ....support.node import replace, walk
from ...analysis.buffers import buffer_at
from ...analysis.paths import all_buffers, find_block, realize_of
from ...analysis.preconditions import fail
from ...buffer import Buffer
from ...expr import BufferLoad, Cast, Expr, cast
from ...function import PrimFunc
from ...stmt import Block, BufferStore, Evaluate
from ...visitor import Mutator, loads_from
from ..arguments import require_text
from ..primitive import ATTR, BLOCK, STORAGE, primitive
from ..state import BlockLike, ScheduleState


class SetDtype(ScheduleState):
    @primitive(STORAGE, block=BLOCK, buffer_index=ATTR, dtype=ATTR)
    def set_dtype(self, block: BlockLike, buffer_index: int | str, dtype: str) -> None:
        """Keep the elements of a buffer that a block writes in a wider dtype.

        ``buffer_index`` is the position among the block's writes, or the buffer's name. The new
        ``dtype`` holds every value of the old one, and no result changes: elements are converted
        when they are written, and converted back when they are read, but where they would be
        converted to the wider dtype next. What is read many times is converted once.
        ``unsafe_set_dtype`` takes any dtype.

        Requires:

        - a buffer that the block writes, that is no parameter, no view, and used by no intrinsic
          (ScheduleValueError);
        - a dtype of the same kind with more bits, or a signed one for an unsigned one
          (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float16"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6), "float16")
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj]
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = T.Cast("float32", B[vi, vj]) * T.float32(2)

        Schedule::

            sch.set_dtype("B", 0, "float32")

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float16"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = T.Cast("float32", A[vi, vj])
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, vj] * T.float32(2)
        """
        owner, name = self._block(block)
        self._commit(owner, set_dtype(self._functions[owner], name, buffer_index, dtype))

    @primitive(STORAGE, block=BLOCK, buffer_index=ATTR, dtype=ATTR)
    def unsafe_set_dtype(self, block: BlockLike, buffer_index: int | str, dtype: str) -> None:
        """Keep the elements of a buffer that a block writes in another dtype, whatever is lost.

        As ``set_dtype``, but for any scalar dtype: the one primitive that changes results. Elements
        are converted when they are written and converted back when they are read, so that a sum
        kept in ``float16`` is rounded at each of its terms. The trace has the line, and the tuner
        compares a candidate with the unscheduled function as always.

        Requires:

        - a buffer that the block writes, that is no parameter, no view, and used by no intrinsic; a
          scalar dtype that is a number's (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6))
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] * T.float32(2)
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = B[vi, vj] + T.float32(1)

        Schedule::

            sch.unsafe_set_dtype("B", 0, "float16")

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
                B = T.alloc_buffer((8, 6), "float16")
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = T.Cast("float16", A[vi, vj] * T.float32(2))
                for i, j in T.grid(8, 6):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vi, vj] = T.Cast("float32", B[vi, vj]) + T.float32(1)
        """
        owner, name = self._block(block)
        func = self._functions[owner]
        self._commit(owner, set_dtype(func, name, buffer_index, dtype, "unsafe_set_dtype"))


def set_dtype(
    func: PrimFunc,
    block_name: str,
    buffer_index: int | str,
    dtype: str,
    primitive: str = "set_dtype",
) -> PrimFunc:
    """Give an allocated buffer, the block's write of that index (or name), a dtype that holds every
    value of its own; or any, for ``unsafe_set_dtype``."""
    unsafe = primitive == "unsafe_set_dtype"
    block = realize_of(find_block(func, block_name, primitive)).block
    buffer = buffer_at(func, block, "write", buffer_index, primitive, either=False)
    wide, found = DType(require_text(dtype, "a dtype", primitive)), ""
    if any(buffer is b for b in func.buffers):
        found = f"The buffer {buffer.name!r} is a parameter; its dtype is the caller's."
    elif all(buffer is not b for b in all_buffers(func)) or _has_views(func, buffer):
        found = f"The buffer {buffer.name!r} is a view or has one; both have one dtype."
    elif unsafe and (wide.lanes != 1 or wide.is_bool or buffer.dtype.is_bool):
        found = f"Expected a scalar dtype of numbers for {buffer.dtype}; found {wide}."
    elif not unsafe and not holds(wide, buffer.dtype):
        found = (
            f"Expected a dtype that holds every {buffer.dtype}; found {wide}. unsafe_set_dtype "
            "takes it, and rounds."
        )
    elif any(isinstance(n, Evaluate) and loads_from(n, buffer) for n in walk(func.body)):
        found = f"An intrinsic uses {buffer.name!r}, for elements of its dtype."
    if found:
        raise fail(ScheduleValueError, primitive, func, [block], found)
    if wide is buffer.dtype:
        return func
    return replace(func, body=_Widened(buffer, replace(buffer, dtype=wide)).visit(func.body))


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of a scalar dtype is one of another."""
    if wide is narrow:
        return True
    if wide.lanes != 1 or wide.bits <= narrow.bits or narrow.is_bool:
        return False
    return wide.kind == narrow.kind or (wide.kind, narrow.kind) == ("int", "uint")


def _has_views(func: PrimFunc, buffer: Buffer) -> bool:
    blocks = (n for n in walk(func.body) if isinstance(n, Block))
    return any(m.source.buffer is buffer for b in blocks for m in b.match_buffers)


class _Widened(Mutator):
    """Puts one buffer for another, and conversions around its accesses."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        self.old, self.new = old, new

    def visit_Buffer(self, n: Buffer) -> Buffer:  # noqa: N802
        return self.new if n is self.old else n

    def visit_Cast(self, n: Cast) -> Expr:  # noqa: N802
        value = n.value
        if isinstance(value, BufferLoad) and value.buffer is self.old and n.dtype is self.new.dtype:
            return self._element(value)
        return self.generic_visit(n)  # type: ignore[no-any-return]

    def visit_BufferLoad(self, n: BufferLoad) -> Expr:  # noqa: N802
        return cast(self._element(n), n.dtype)

    def visit_BufferStore(self, n: BufferStore) -> BufferStore:  # noqa: N802
        stored: BufferStore = self.generic_visit(n)
        if n.buffer is not self.old:
            return stored
        return replace(stored, value=cast(stored.value, self.new.dtype))

    def _element(self, n: BufferLoad) -> BufferLoad:
        element: BufferLoad = self.generic_visit(n)
        return element

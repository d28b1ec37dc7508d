"""storage_align: gaps between the rows of an intermediate buffer, so that rows begin at addresses
of a wanted form.

The wish is the annotation ``buffer_dim_align`` of the block that writes the buffer; lowering turns
it into strides when the buffer has its final shape, after compute_at has made a tile of it. Nothing
else of the program changes, so there is nothing to prove but that the buffer is the program's own.
"""

from __future__ import annotations

from ....support.errors import ScheduleValueError
from ....support.node import replace, walk
from ...analysis.buffers import buffer_at
from ...analysis.paths import find_block, realize_of, rebuild, with_body
from ...analysis.preconditions import fail
from ...buffer import Buffer
from ...dim_align import DIM_ALIGN, block_alignments
from ...function import PrimFunc
from ...stmt import Block, annotation
from ..primitive import ATTR, BLOCK, STORAGE, primitive
from ..state import BlockLike, ScheduleState


class StorageAlign(ScheduleState):
    @primitive(STORAGE, block=BLOCK, buffer_index=ATTR, axis=ATTR, factor=ATTR, offset=ATTR)
    def storage_align(
        self, block: BlockLike, buffer_index: int | str, axis: int, factor: int, offset: int
    ) -> None:
        """Ask for gaps in an intermediate buffer: the stride of ``axis`` shall be ``offset`` modulo
        ``factor``.

        The buffer is the block's write of that index (or name); a negative axis counts from the
        end. Rows of a length that is a power of two all fall into the same sets of a cache; a
        stride of 16 modulo 64, say, spreads them. The wish is kept as the annotation
        ``buffer_dim_align`` and becomes strides in lowering, when compute_at has given the buffer
        its final shape: each stride is the smallest that fits. In a buffer of scope ``register``
        it keeps what vectors reach beyond a row out of the next one. A later wish for the same
        axis takes the place of the former. Transform the layout first: the annotation names an
        axis by its number.

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
        owner, name = self._block(block)
        func = self._functions[owner]
        self._commit(owner, storage_align(func, name, buffer_index, axis, factor, offset))


def storage_align(
    func: PrimFunc, block_name: str, buffer_index: int | str, axis: int, factor: int, offset: int
) -> PrimFunc:
    """Ask for the stride of an axis of a buffer that the block writes to be ``offset`` modulo
    ``factor``."""
    primitive = "storage_align"
    path = find_block(func, block_name, primitive)
    realize = realize_of(path)
    block = realize.block
    buffer = buffer_at(func, block, "write", buffer_index, primitive, either=False)
    if any(buffer is b for b in func.buffers):
        found = f"The buffer {buffer.name!r} is a parameter; its layout is the caller's."
        raise fail(ScheduleValueError, primitive, func, [block], found)
    if buffer.strides:
        found = f"The buffer {buffer.name!r} has strides of its own."
        raise fail(ScheduleValueError, primitive, func, [block], found)
    for name, value in (("axis", axis), ("factor", factor), ("offset", offset)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise ScheduleValueError(
                primitive, f"Expected an integer as {name}; found {type(value).__name__}."
            )
    if not -buffer.ndim <= axis < buffer.ndim:
        found = (
            f"Expected an axis from {-buffer.ndim} to {buffer.ndim - 1} of {buffer.name!r}; "
            f"found {axis}."
        )
        raise fail(ScheduleValueError, primitive, func, [block], found)
    if factor < 1 or not 0 <= offset < factor:
        raise ScheduleValueError(
            primitive,
            "Expected a factor of at least 1 and an offset from 0 to below it; found "
            f"{factor} and {offset}.",
        )
    position = next(i for i, w in enumerate(block.writes) if w.buffer is buffer)
    entry = [position, axis % buffer.ndim, factor, offset]
    new = _with_entry(block, entry)
    if new is block:
        return func
    _require_agreement(func, block, buffer, entry)
    return with_body(func, rebuild(path, replace(realize, block=new)))


def _with_entry(block: Block, entry: list[int]) -> Block:
    """The block with an entry, instead of its old one for this axis."""
    old = [list(e) for e in annotation(block, DIM_ALIGN, [])]
    if entry in old:
        return block
    entries = sorted([*[e for e in old if e[:2] != entry[:2]], entry])
    kept = [(k, v) for k, v in block.annotations if k != DIM_ALIGN]
    return replace(block, annotations=(*kept, (DIM_ALIGN, entries)))


def _require_agreement(func: PrimFunc, block: Block, buffer: Buffer, entry: list[int]) -> None:
    """No other block that writes the buffer asks for another stride of the axis."""
    for other in walk(func.body):
        if not isinstance(other, Block) or other is block or not other.annotations:
            continue
        for b, axis, factor, offset in block_alignments(other):
            if b is buffer and axis == entry[1] and [factor, offset] != entry[2:]:
                found = (
                    f"{other.name!r}, which writes {buffer.name!r} too, asks for {offset} modulo "
                    f"{factor} on axis {axis}; a buffer has one layout."
                )
                raise fail(ScheduleValueError, "storage_align", func, [other], found)

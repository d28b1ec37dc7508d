"""Aligned strides: what the block annotation ``buffer_dim_align`` says, and the strides it means.

The annotation stands on a block and lists ``[write index, axis, factor, offset]``: the stride of
that axis of that written buffer is ``offset`` modulo ``factor``. ``storage_align`` writes it,
lowering reads it once a buffer has its final shape: the strides then are row-major, each enlarged
to the next number that fits, so that padding adds memory and never moves an element onto another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..support.errors import CodegenError
from ..support.node import walk
from .buffer import Buffer
from .expr import Expr, IntImm, add, floormod, is_const, mul, sub
from .stmt import LEAVES, Block, annotation

DIM_ALIGN = "buffer_dim_align"
PADDED = "padded"
"""Annotation of an Allocate whose strides are those of ``aligned_strides``."""

Alignment: TypeAlias = "dict[int, tuple[int, int]]"
"""Axis to factor and offset."""


def block_alignments(block: Block) -> list[tuple[Buffer, int, int, int]]:
    """The entries of a block's annotation as buffer, axis, factor, offset; raises CodegenError for
    one that means nothing."""
    entries: Any = annotation(block, DIM_ALIGN, [])
    found: list[tuple[Buffer, int, int, int]] = []
    for entry in entries:
        if not isinstance(entry, (list, tuple)) or len(entry) != 4:
            raise _malformed(block, entry, "a list of four integers")
        index, axis, factor, offset = entry
        if not 0 <= index < len(block.writes):
            raise _malformed(block, entry, f"an index below {len(block.writes)}, one of its writes")
        buffer = block.writes[index].buffer
        if not 0 <= axis < buffer.ndim:
            expected = f"an axis of {buffer.name!r} below {buffer.ndim}; align its last layout"
            raise _malformed(block, entry, expected)
        if factor < 1 or not 0 <= offset < factor:
            raise _malformed(block, entry, "a factor of at least 1 and an offset below it")
        found.append((buffer, axis, factor, offset))
    return found


def _malformed(block: Block, entry: object, expected: str) -> CodegenError:
    return CodegenError(
        f"The annotation {DIM_ALIGN!r} of the block {block.name!r} has the entry {entry!r}; "
        f"expected [write index, axis, factor, offset] with {expected}."
    )


def alignments_in(root: Any) -> dict[int, Alignment]:
    """The alignments that the blocks of a function ask for, by the buffer's id; raises CodegenError
    where two blocks disagree."""
    found: dict[int, Alignment] = {}
    for block in walk(root, LEAVES):
        if not isinstance(block, Block) or not block.annotations:
            continue
        for buffer, axis, factor, offset in block_alignments(block):
            known = found.setdefault(id(buffer), {})
            if known.setdefault(axis, (factor, offset)) != (factor, offset):
                raise CodegenError(
                    f"The block {block.name!r} aligns axis {axis} of {buffer.name!r} to "
                    f"{offset} modulo {factor}, another block to {known[axis][1]} modulo "
                    f"{known[axis][0]}; a buffer has one layout."
                )
    return found


def aligned_strides(shape: Sequence[Expr], alignment: Mapping[int, tuple[int, int]]) -> list[Expr]:
    """Row-major strides in which each aligned axis has the smallest stride that fits."""
    strides: list[Expr] = []
    step: Expr = IntImm(1)
    for axis in reversed(range(len(shape))):
        if axis in alignment:
            factor, offset = alignment[axis]
            gap = floormod(sub(IntImm(offset), step), IntImm(factor))
            step = add(step, gap)
        strides.insert(0, step)
        step = mul(step, shape[axis])
    return strides


def is_compact(shape: Sequence[Expr], strides: Sequence[Expr]) -> bool:
    """Whether constant strides leave no gap."""
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if not is_const(stride, step) or not isinstance(extent, IntImm):
            return False
        step *= extent.value
    return True

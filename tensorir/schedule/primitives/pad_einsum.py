"""pad_einsum: a computation over more elements than are wanted, so that its tiles are full.

    for i, j in T.grid(8, 10):  Y[i, j] += ...      with padding [1, 16]
 -> for i, j in T.grid(8, 16):  Y[i, j] += ...

The block's spatial axes grow to multiples of their paddings, and so does the intermediate buffer
that it writes. Whoever reads the buffer still reads what it read before; the elements beyond are
computed and never used. Operands must already reach that far (``transform_layout`` with a pad value
sees to it): nothing is read out of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....support.errors import LayoutError, NonAffineError, ScheduleValueError
from ....support.node import replace, walk
from ...analysis.affine import Bounds
from ...analysis.conditions import TRUE
from ...analysis.nested_blocks import blocks_below
from ...analysis.paths import Path, find_block, loops_above, realize_of, rebuild, with_body
from ...analysis.preconditions import fail
from ...arith.linear import same_extent
from ...buffer import Buffer, Range
from ...expr import BufferLoad, Expr, IntImm, Var, add, floordiv, is_const, mul
from ...function import PrimFunc
from ...stmt import Block, BufferStore, For, IterVar, Stmt
from ..arguments import require_list
from ..primitive import ATTR, BLOCK, BLOCKS, primitive
from ..state import BlockLike, ScheduleState
from .set_scope import swap_buffer


class PadEinsum(ScheduleState):
    @primitive(BLOCKS, block=BLOCK, padding=ATTR)
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
        owner, name = self._block(block)
        padding = list(require_list(padding, "the padding", "pad_einsum"))
        self._commit(owner, pad_einsum(self._functions[owner], name, padding))


def pad_einsum(func: PrimFunc, block_name: str, padding: Sequence[int]) -> PrimFunc:
    """Grow the axes of a block to multiples of ``padding`` (one entry an axis, 1 for no change)."""
    path = find_block(func, block_name, "pad_einsum")
    realize = realize_of(path)
    block = realize.block
    _require_plain(func, path, padding)
    extents = [_rounded(v.dom.extent, p) for v, p in zip(block.iter_vars, padding, strict=True)]
    grown = [
        i
        for i, (v, e) in enumerate(zip(block.iter_vars, extents, strict=True))
        if not same_extent(v.dom.extent, e)
    ]
    if not grown:
        return func
    output = _output_of(func, block)
    stores = [n for part in _parts(block) for n in walk(part) if isinstance(n, BufferStore)]
    shape = list(output.shape)
    for axis in grown:
        dim = _dim_of(func, block, stores, axis)
        _require_whole_dim(func, block, axis, output, dim)
        shape[dim] = extents[axis]
    bounds = Bounds(
        {v.var: Range(v.dom.min, e) for v, e in zip(block.iter_vars, extents, strict=True)}
    )
    _require_in_bounds(func, block, output, shape, bounds)
    iter_vars = tuple(
        [
            IterVar(v.var, Range(IntImm(0), e), v.kind) if i in grown else v
            for i, (v, e) in enumerate(zip(block.iter_vars, extents, strict=True))
        ]
    )
    new_realize = replace(realize, block=replace(block, iter_vars=iter_vars))
    loops = {id(realize.iter_values[axis]): extents[axis] for axis in grown}
    changed = with_body(func, rebuild(path, new_realize))
    changed = _resize_loops(changed, block_name, loops)
    return swap_buffer(changed, output, replace(output, shape=tuple(shape)))


def _rounded(extent: Expr, multiple: int) -> Expr:
    if multiple == 1:
        return extent
    return Bounds().simplify(mul(floordiv(add(extent, multiple - 1), multiple), multiple))


def _require_plain(func: PrimFunc, path: Path, padding: Sequence[int]) -> None:
    realize = realize_of(path)
    block = realize.block
    if len(padding) != len(block.iter_vars) or any(
        not isinstance(p, int) or p < 1 for p in padding
    ):
        found = (
            f"Expected {len(block.iter_vars)} paddings of at least 1, one an axis; found "
            f"{list(padding)!r}."
        )
        raise fail(ScheduleValueError, "pad_einsum", func, [block], found)
    for v, p in zip(block.iter_vars, padding, strict=True):
        if p != 1 and v.kind != "spatial":
            found = f"The axis {v.var.name!r} is {v.kind}; only spatial axes are padded here."
            raise fail(ScheduleValueError, "pad_einsum", func, [block], found)
    loops = {id(loop.var): loop for loop in loops_above(path)}
    for v, value, p in zip(block.iter_vars, realize.iter_values, padding, strict=True):
        if p == 1:
            continue
        loop = loops.get(id(value)) if isinstance(value, Var) else None
        if loop is None or not same_extent(loop.extent, v.dom.extent):
            found = (
                f"The axis {v.var.name!r} is not bound to a whole loop of its own; pad before "
                "splitting."
            )
            raise fail(NonAffineError, "pad_einsum", func, [block], found)
        for other in blocks_below(loop):
            if other.block is not block:
                found = (
                    f"The loop {loop.var.name!r} of the axis {v.var.name!r} also runs "
                    f"{other.block.name!r}; pad before other blocks are put under it."
                )
                raise fail(NonAffineError, "pad_einsum", func, [loop], found)
    if realize.predicate is not TRUE and not (
        isinstance(realize.predicate, IntImm) and realize.predicate.value
    ):
        found = f"The block {block.name!r} has a predicate."
        raise fail(NonAffineError, "pad_einsum", func, [block], found)


def _output_of(func: PrimFunc, block: Block) -> Buffer:
    if len(block.writes) != 1:
        found = f"The block {block.name!r} writes {len(block.writes)} buffers; expected one."
        raise fail(ScheduleValueError, "pad_einsum", func, [block], found)
    output = block.writes[0].buffer
    if output in func.params:
        found = (
            f"The output {output.name!r} is a parameter, whose shape is the caller's; "
            "cache_write it first."
        )
        raise fail(LayoutError, "pad_einsum", func, [block], found)
    return output


def _parts(block: Block) -> list[Stmt]:
    """The body, and the init where there is one."""
    return [block.body] if block.init is None else [block.init, block.body]


def _dim_of(func: PrimFunc, block: Block, stores: Sequence[BufferStore], axis: int) -> int:
    """The dimension of the output that the axis indexes, the same in every store."""
    var = block.iter_vars[axis].var
    dims = [d for d, index in enumerate(stores[0].indices) if index is var]
    if len(dims) != 1 or any(store.indices[dims[0]] is not var for store in stores):
        found = (
            f"The axis {var.name!r} does not index one dimension of {stores[0].buffer.name!r} by "
            "itself."
        )
        raise fail(NonAffineError, "pad_einsum", func, [block], found)
    return dims[0]


def _require_whole_dim(func: PrimFunc, block: Block, axis: int, output: Buffer, dim: int) -> None:
    """The axis runs over all of the dimension, which can then grow with it; what it leaves out is
    the business of other blocks."""
    v = block.iter_vars[axis]
    if not is_const(v.dom.min, 0) or not same_extent(v.dom.extent, output.shape[dim]):
        found = (
            f"The axis {v.var.name!r} runs over a part of dimension {dim} of {output.name!r}, "
            "which cannot grow with it."
        )
        raise fail(LayoutError, "pad_einsum", func, [block], found)


def _require_in_bounds(
    func: PrimFunc, block: Block, output: Buffer, shape: Sequence[Expr], bounds: Bounds
) -> None:
    """Everything that the init and the body touch is there for the grown axes; ``shape`` is that of
    the grown output."""
    for load in [n for part in _parts(block) for n in walk(part)]:
        if not isinstance(load, (BufferLoad, BufferStore)):
            continue
        sizes = shape if load.buffer is output else load.buffer.shape
        for index, size in zip(load.indices, sizes, strict=True):
            if not (bounds.proves_le(IntImm(0), index) and bounds.proves_le(add(index, 1), size)):
                verb = "read" if isinstance(load, BufferLoad) else "written"
                found = (
                    f"With the padding, {load.buffer.name!r} would be {verb} out of bounds. Give "
                    "it a padded layout first (transform_layout with pad_value)."
                )
                raise fail(LayoutError, "pad_einsum", func, [block], found)


def _resize_loops(func: PrimFunc, block_name: str, extents: dict[int, Expr]) -> PrimFunc:
    for loop in list(loops_above(find_block(func, block_name, "pad_einsum"))):
        wanted = extents.get(id(loop.var))
        if wanted is None or same_extent(loop.extent, wanted):
            continue
        path = find_block(func, block_name, "pad_einsum")
        at = next(i for i, s in enumerate(path) if isinstance(s, For) and s.var is loop.var)
        found = path[at]
        assert isinstance(found, For)
        func = with_body(func, rebuild(path[: at + 1], replace(found, extent=wanted)))
    return func

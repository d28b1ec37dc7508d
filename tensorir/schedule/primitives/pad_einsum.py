"""pad_einsum: a computation over more elements than are wanted, so that its tiles are full.

    for i, j in T.grid(8, 10):  Y[i, j] += ...      with padding [1, 16]
 -> for i, j in T.grid(8, 16):  Y[i, j] += ...

The block's axes grow to multiples of their paddings, and so does the intermediate buffer that it
writes. Whoever reads the buffer still reads what it read before; the elements beyond are computed
and never used. Operands that do not reach that far grow too, and the blocks that write them fill
the rest with zeros. A sum of products may thus run over more terms than are wanted: each factor of
the terms beyond is one of these zeros, so that no infinity of another operand makes a NaN of them.
Of integers one factor is enough, and the others may be anything that they may read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....support.errors import (
    LayoutError,
    NonAffineError,
    NotReductionBlockError,
    ScheduleValueError,
)
from ....support.node import replace, walk
from ...analysis.affine import Bounds
from ...analysis.block_kinds import single_store
from ...analysis.conditions import TRUE, conjuncts
from ...analysis.nested_blocks import blocks_below, writers_of
from ...analysis.paths import (
    Path,
    find_block,
    loops_above,
    realize_of,
    rebuild,
    scope_of,
    with_body,
)
from ...analysis.preconditions import fail
from ...analysis.region_cover import axis_of_index
from ...analysis.structure import match_update
from ...analysis.whole_runs import is_unconditional, runs_over
from ...arith.linear import same_extent
from ...buffer import Buffer, Range
from ...expr import (
    LT,
    BufferLoad,
    Call,
    Cast,
    Expr,
    IntImm,
    Mul,
    Var,
    add,
    floordiv,
    is_const,
    maximum,
    mul,
)
from ...function import PrimFunc
from ...stmt import Block, BufferStore, For, IterVar, Stmt
from ...text.printer import print_expr
from ..arguments import require_list
from ..foreign_memory import require_no_pointer
from ..primitive import ATTR, BLOCK, BLOCKS, primitive
from ..state import BlockLike, ScheduleState
from .set_scope import swap_buffer
from .transform_layout import pad_buffer


class PadEinsum(ScheduleState):
    @primitive(BLOCKS, block=BLOCK, padding=ATTR)
    def pad_einsum(self, block: BlockLike, padding: Sequence[int]) -> None:
        """Let a block compute more elements than are wanted, so that its tiles are full.

        ``padding`` has an int for each axis of the block: the axis' extent grows to a multiple of
        it (1 for no change), and with it the axis' loop and the dimension of the intermediate
        buffer that it indexes. Readers of the buffer still read what they read before. Operands
        that do not reach that far grow, and their writers fill them with zeros; copy a parameter
        with cache_read before.

        Requires:

        - as many paddings of at least 1 as axes, other than 1 only for spatial and reduce axes, and
          a single output (ScheduleValueError);
        - for a reduce axis, a sum of products whose factors all (of integers, one of which) have
          the axis for an index, of a dimension that ends where the axis did
          (NotReductionBlockError, LayoutError);
        - padded axes bound each to a whole loop of its own, below which no other block runs; no
          predicate; each indexes one dimension of the output by itself, the same in each store
          (NonAffineError);
        - an output that is no parameter, and operands that are in bounds over the padded axes, or
          that a complete block of the scope writes whole at its own axes (LayoutError).

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
    require_no_pointer(func, output, "pad_einsum")
    _require_zero_terms(func, path, [i for i in grown if block.iter_vars[i].kind == "reduce"])
    sizes = {v.var: e for v, e in zip(block.iter_vars, extents, strict=True)}
    padded = _with_operands_padded(func, block, output, sizes)
    if padded is not func:
        func, path = padded, find_block(padded, block_name, "pad_einsum")
        realize = realize_of(path)
        block = realize.block
    stores = [n for part in _parts(block) for n in walk(part) if isinstance(n, BufferStore)]
    shape = list(output.shape)
    for axis in grown:
        if block.iter_vars[axis].kind == "reduce":
            continue
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
        if p != 1 and v.kind not in ("spatial", "reduce"):
            found = f"The axis {v.var.name!r} is {v.kind}; spatial and reduce axes are padded."
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


def _require_zero_terms(func: PrimFunc, path: Path, reduced: Sequence[int]) -> None:
    """The terms that the grown reduce axes add are zero: each factor is an element beyond the end
    of its operand, where padding holds zeros."""
    block = realize_of(path).block
    if not reduced:
        return
    update = match_update(block)
    if update is None or update.combine is not add:
        found = f"{block.name!r} is no sum; more terms would change another reduction's result."
        raise fail(NotReductionBlockError, "pad_einsum", func, [block], found)
    for axis in reduced:
        v = block.iter_vars[axis]
        if not is_const(v.dom.min, 0):
            found = f"The axis {v.var.name!r} does not begin at 0."
            raise fail(LayoutError, "pad_einsum", func, [block], found)
        factors = _factors(update.term)
        zero = [_ends_with(f, v) or _is_zero_beyond(func, path, f, v) for f in factors]
        if any(zero) and not block.writes[0].buffer.dtype.is_float:
            continue  # Of integers one zero is enough.
        for factor, is_zero in zip(factors, zero, strict=True):
            if not is_zero:
                found = (
                    f"A factor of the terms of {block.name!r} is not known to be 0 where "
                    f"{v.var.name!r} is beyond its end: {print_expr(factor)}. Expected an operand "
                    f"with a dimension that {v.var.name!r} indexes and that ends with it."
                )
                raise fail(LayoutError, "pad_einsum", func, [block], found)


def _factors(term: Expr) -> list[Expr]:
    match term:
        case Mul(a, b):
            return [*_factors(a), *_factors(b)]
        case Cast(value=value):
            return _factors(value)
        case _:
            return [term]


def _ends_with(factor: Expr, v: IterVar) -> bool:
    """Whether the axis indexes a dimension of the factor that has its extent: the operand grows
    with it."""
    return isinstance(factor, BufferLoad) and any(
        index is v.var and same_extent(size, v.dom.extent)
        for index, size in zip(factor.indices, factor.buffer.shape, strict=True)
    )


def _is_zero_beyond(func: PrimFunc, path: Path, factor: Expr, v: IterVar) -> bool:
    """Whether the factor's only writer runs over the whole operand and stores zeros where the index
    that the axis is has reached the axis' extent, as padding does."""
    if not isinstance(factor, BufferLoad):
        return False
    scope = scope_of(path)
    writers = writers_of(scope, factor.buffer)
    if len(writers) != 1 or factor.buffer not in scope.alloc_buffers:
        return False
    at = find_block(func, writers[0].block.name, "pad_einsum")
    store = single_store(realize_of(at).block)
    value = None if store is None else store.value
    if store is None or not (isinstance(value, Call) and value.op == "if_then_else"):
        return False
    axes = [axis_of_index(realize_of(at).block, i) for i in store.indices]
    if not is_const(value.args[2], 0) or not is_unconditional(at):
        return False
    ends = {
        c.a: c.b for c in conjuncts(value.args[0]) if isinstance(c, LT) and isinstance(c.a, Var)
    }
    return runs_over(at, axes, factor.buffer) and any(
        index is v.var and axis in ends and Bounds().proves_le(ends[axis], v.dom.extent)
        for index, axis in zip(factor.indices, axes, strict=True)
        if axis is not None
    )


def _with_operands_padded(
    func: PrimFunc, block: Block, output: Buffer, sizes: Mapping[Var, Expr]
) -> PrimFunc:
    """The function with the intermediates grown that the grown axes index beyond their end."""
    wanted: dict[Buffer, list[Expr]] = {}
    before = {it.var: it.dom.extent for it in block.iter_vars}
    known = Bounds()
    for load in [n for part in _parts(block) for n in walk(part)]:
        if not isinstance(load, BufferLoad) or load.buffer in (output, *func.params):
            continue
        for d, (index, size) in enumerate(zip(load.indices, load.buffer.shape, strict=True)):
            if not isinstance(index, Var) or index not in sizes:
                continue
            # It may reach further than the axis did, where another block was padded before.
            reaches = same_extent(size, before[index]) or known.proves_le(before[index], size)
            if reaches and not known.proves_le(sizes[index], size):
                shape = wanted.setdefault(load.buffer, list(load.buffer.shape))
                if shape[d] is not size and not same_extent(shape[d], sizes[index]):
                    shape[d] = maximum(shape[d], sizes[index])
                else:
                    shape[d] = sizes[index]
    for buffer, shape in wanted.items():
        try:
            func = pad_buffer(func, block, buffer, shape)
        except LayoutError as error:
            found = (
                f"With the padding, {buffer.name!r} would be read out of bounds. Pad the block "
                f"that writes it before; it cannot fill it with zeros: {error.found}"
            )
            raise fail(LayoutError, "pad_einsum", func, [block], found) from error
    return func


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
                    f"With the padding, {load.buffer.name!r} would be {verb} out of bounds. Copy "
                    "it with cache_read first, which is padded then, or give it a padded layout "
                    "(transform_layout with pad_value)."
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

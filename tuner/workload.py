"""What a PrimFunc computes, as far as schedules want to know: its blocks in order, and how the axes
of a matrix product run through its operands."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..support.node import walk
from ..tensorir.arith import expr_key
from ..tensorir.buffer import Buffer
from ..tensorir.expr import Add, BufferLoad, Call, Cast, Expr, IntImm, Mul, Var
from ..tensorir.function import PrimFunc
from ..tensorir.intrinsics import is_costly
from ..tensorir.stmt import Block, BlockRealize, BufferStore, For, IfThenElse, SeqStmt, Stmt


def blocks_in_order(func: PrimFunc) -> list[Block]:
    """The blocks directly under the root, in program order."""
    return list(_blocks(func.root.body))


def _blocks(s: Stmt) -> Iterator[Block]:
    match s:
        case BlockRealize():
            yield s.block
        case For():
            yield from _blocks(s.body)
        case SeqStmt():
            for item in s.stmts:
                yield from _blocks(item)
        case IfThenElse():
            yield from _blocks(s.then_case)
        case _:
            return


def block_named(func: PrimFunc, name: str) -> Block:
    """The block of a name; the caller knows that it is there."""
    return next(b for b in blocks_in_order(func) if b.name == name)


def is_reduction(block: Block) -> bool:
    """Whether the block has a reduce axis."""
    return any(v.kind == "reduce" for v in block.iter_vars)


def is_spatial(block: Block) -> bool:
    """Whether every axis is spatial."""
    return all(v.kind == "spatial" for v in block.iter_vars)


def axis_kinds(block: Block) -> str:
    """The kinds of the axes in their order: SSR for rows and columns of a product."""
    return "".join([v.kind[0].upper() for v in block.iter_vars])


def is_empty(func: PrimFunc) -> bool:
    """Whether some block has an axis without iterations: there is nothing to schedule."""
    return any(
        isinstance(v.dom.extent, IntImm) and v.dom.extent.value == 0
        for block in blocks_in_order(func)
        for v in block.iter_vars
    )


def non_unit_axes(block: Block) -> list[int]:
    """The positions of the axes that have more than one iteration, as far as is known."""
    extents = [v.dom.extent for v in block.iter_vars]
    return [i for i, e in enumerate(extents) if not (isinstance(e, IntImm) and e.value == 1)]


def extent_of(block: Block, axis: int) -> Expr:
    return block.iter_vars[axis].dom.extent


def static_extent(block: Block, axis: int) -> int | None:
    """The extent of an axis, None where it is symbolic."""
    extent = extent_of(block, axis)
    return extent.value if isinstance(extent, IntImm) else None


@dataclass(frozen=True)
class Matmul:
    """A block ``Y[.., i, .., j] += X[.., i, k] * W[.., j, k]`` (any order of W's and X's axes).

    ``rows`` are the spatial axes that only X is indexed with, ``columns`` those of W alone,
    ``batch`` those of both, ``reduce`` the reduce axes; positions in the block's iter vars.
    ``x_read`` and ``w_read`` are the positions of the operands' buffers in the block's reads; both
    operands may be elements of one buffer.
    """

    block: str
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    batch: tuple[int, ...]
    reduce: tuple[int, ...]
    x_read: int
    w_read: int
    x: BufferLoad
    w: BufferLoad


def match_matmul(block: Block, last: int | None = None) -> Matmul | None:
    """The block as a matrix product, or None; ``last`` is the axis whose operand is W, where that
    is not the innermost spatial one."""
    product = product_of(block)
    if product is None:
        return None
    first, second = product
    axes = {id(v.var): i for i, v in enumerate(block.iter_vars)}
    spatial = [i for i, v in enumerate(block.iter_vars) if v.kind == "spatial"]
    reduce = tuple([i for i, v in enumerate(block.iter_vars) if v.kind == "reduce"])
    if len(spatial) + len(reduce) != len(block.iter_vars) or not reduce:
        return None
    used = [_axes_used(load, axes) for load in (first, second)]
    if any(u is None for u in used):
        return None
    a, b = (set(u or ()) for u in used)
    if not all(r in a and r in b for r in reduce):
        return None
    # W is the operand that has the innermost spatial axis: its columns become vectors.
    last = last if last is not None else max(spatial, default=-1)
    x, w, in_x, in_w = (first, second, a, b) if last in b else (second, first, b, a)
    rows = tuple([i for i in spatial if i in in_x and i not in in_w])
    columns = tuple([i for i in spatial if i in in_w and i not in in_x])
    batch = tuple([i for i in spatial if i in in_w and i in in_x])
    if not columns or len(rows) + len(columns) + len(batch) != len(spatial):
        return None
    reads = [r.buffer for r in block.reads]
    return Matmul(
        block.name, rows, columns, batch, reduce,
        _position(reads, x.buffer), _position(reads, w.buffer), x, w,
    )  # fmt: skip


def last_axis(block: Block) -> int:
    """The innermost spatial axis of more than one iteration: the rows of a matrix times a single
    column are the columns of that times the matrix. The last of all where there is none; -1 where
    the block has no spatial axis."""
    spatial = [i for i, v in enumerate(block.iter_vars) if v.kind == "spatial"]
    many = set(non_unit_axes(block))
    return max([i for i in spatial if i in many] or spatial, default=-1)


def _position(buffers: list[Buffer], wanted: Buffer) -> int:
    return next(i for i, b in enumerate(buffers) if b is wanted)


def product_of(block: Block) -> tuple[BufferLoad, BufferLoad] | None:
    """The two loads that a reduction block multiplies and sums, or None; a square is no product."""
    store = block.body
    if not isinstance(store, BufferStore) or block.init is None:
        return None
    value = store.value
    if isinstance(value, Call) and value.op == "fma":
        operands: tuple[Expr, ...] = value.args[:2]
    elif isinstance(value, Add):
        update = value.b if _loads(value.a, store.buffer) else value.a
        if not isinstance(update, Mul):
            return None
        operands = (update.a, update.b)
    else:
        return None
    loads = [_stripped(o) for o in operands]
    if isinstance(loads[0], BufferLoad) and isinstance(loads[1], BufferLoad):
        return None if is_same_element(loads[0], loads[1]) else (loads[0], loads[1])
    return None


def is_same_element(a: BufferLoad, b: BufferLoad) -> bool:
    """Whether two loads are of one buffer at equal indices."""
    return a.buffer is b.buffer and expr_key(a.indices) == expr_key(b.indices)


def _stripped(e: Expr) -> Expr:
    return e.value if isinstance(e, Cast) else e


def _loads(e: Expr, buffer: Buffer) -> bool:
    return isinstance(e, BufferLoad) and e.buffer is buffer


def _axes_used(load: BufferLoad, axes: dict[int, int]) -> list[int] | None:
    """The block's axes that index a load, each alone in a dimension; None for anything else."""
    found = []
    for index in load.indices:
        if isinstance(index, Var) and id(index) in axes:
            found.append(axes[id(index)])
        elif not isinstance(index, IntImm):
            return None
    return found if len(set(found)) == len(found) else None


def load_is_contiguous(load: BufferLoad, var: Var) -> bool:
    """Whether ``var`` runs through the load's last dimension with stride one; dimensions of one
    element are none."""
    if load.indices and load.indices[-1] is var:
        return True
    sizes = zip(load.indices, load.buffer.shape, strict=True)
    many = [i for i, n in sizes if not (isinstance(n, IntImm) and n.value == 1)]
    return bool(many) and many[-1] is var


def buffer_bytes(buffer: Buffer) -> int | None:
    """The size of a buffer; None where it is symbolic."""
    sizes = [d.value for d in buffer.shape if isinstance(d, IntImm)]
    if len(sizes) != len(buffer.shape):
        return None
    return math.prod(sizes) * buffer.dtype.bits // 8


def uses_intrinsic(block: Block) -> bool:
    """Whether the block computes a costly intrinsic, such as an elementary function."""
    return any(isinstance(n, Call) and is_costly(n) for n in walk(block.body, (Buffer,)))

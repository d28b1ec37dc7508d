"""Functions that work through one axis in order: a nest that cannot be a compute, built of nodes.

A scan, a sort and a scatter carry a state along an axis, so their element is no expression of the
inputs. The function is one block a *row*: all elements whose indices agree but along that axis (and
perhaps along those behind it). Rows are independent and run in parallel; what happens in a row is
plain loops over buffers of the block. Such a function is its own schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...support.node import walk
from ..arith.region import full_region
from ..buffer import Buffer, BufferRegion, Range
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var, const, floordiv, floormod
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, BufferStore, For, IterVar, Stmt
from ..te.compute import Tensor

Row = Callable[[Sequence[Expr]], tuple[Stmt, Sequence[Buffer]]]
"""Of the indices of a row: its statements, and the buffers that they need."""


def plain_buffer(x: Tensor, name: str = "") -> Buffer:
    """The buffer that a function has for a tensor."""
    return Buffer(name or x.name, x.shape, x.dtype)


def loop(name: str, extent: Expr, body: Callable[[Var], Stmt]) -> For:
    """A serial loop from 0 to ``extent``."""
    v = Var(name)
    return For(v, IntImm(0, INDEX), extent, "serial", body(v))


def nest(extents: Sequence[Expr], body: Callable[[tuple[Expr, ...]], Stmt]) -> Stmt:
    """Serial loops over all of ``extents``, the last one inside."""
    variables = [Var(f"j{d}") for d in range(len(extents))]
    result = body(tuple(variables))
    for v, extent in zip(reversed(variables), reversed(extents), strict=True):
        result = For(v, IntImm(0, INDEX), extent, "serial", result)
    return result


def regions_of(
    params: Sequence[Buffer], body: Stmt
) -> tuple[tuple[BufferRegion, ...], tuple[BufferRegion, ...]]:
    """What a block reads and writes of ``params``: all of those that its body does."""
    loaded = {id(n.buffer) for n in walk(body) if isinstance(n, BufferLoad)}
    stored = {id(n.buffer) for n in walk(body) if isinstance(n, BufferStore)}
    reads = [full_region(p) for p in params if id(p) in loaded]
    return tuple(reads), tuple([full_region(p) for p in params if id(p) in stored])


def function_of_rows(
    name: str, params: Sequence[Buffer], rows: Sequence[Expr], row: Row
) -> PrimFunc:
    """The function of ``params`` that runs ``row`` for all indices
    of ``rows``, in parallel.

    The block says that it reads and writes whole buffers: places may depend on data.
    """
    count: Expr = IntImm(1, INDEX)
    for d in rows:
        count = count * d
    at = Var("v_row")
    indices: list[Expr] = []
    inner: Expr = IntImm(1, INDEX)
    for d in reversed(rows):
        index = floordiv(at, inner) if indices else at
        inner = inner * d
        indices.append(index if len(indices) == len(rows) - 1 else floormod(index, d))
    indices.reverse()
    body, buffers = row(indices)
    iter_vars = (IterVar(at, Range(IntImm(0, INDEX), count), "spatial"),)
    reads, writes = regions_of(params, body)
    block = Block(name, iter_vars, reads, writes, body, None, tuple(buffers))
    var = Var("row")
    realize = BlockRealize((var,), const(True, "bool"), block)
    nested = For(var, IntImm(0, INDEX), count, "parallel", realize)
    root = Block("root", (), (), (), nested)
    attrs = (("tir.noalias", True), ("is_scheduled", True), ("global_symbol", name))
    return PrimFunc(tuple(params), BlockRealize((), const(True, "bool"), root), attrs, name)

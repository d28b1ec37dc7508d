"""Scatters: a tensor with some elements replaced, or combined with others, at places that data say.

Updates of one place happen in order, so that the last one counts where nothing is combined. Indices
count from the end where they are negative; one that is out of range is taken to the nearest
element, so that no kernel ever writes outside of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...support.errors import ComputeError
from ..buffer import Buffer, Range
from ..compute import Tensor
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var, add, all_of, const, maximum, minimum, mul
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, BufferStore, IfThenElse, IterVar, Stmt, seq
from .advanced_index import indexed_axes
from .elementwise import broadcast_load, broadcast_shape
from .index import inside
from .reduce import normal_axes
from .rows import function_of_rows, loop, nest, plain_buffer, regions_of

REDUCTIONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "none": lambda old, new: new,
    "add": add,
    "mul": mul,
    "max": maximum,
    "min": minimum,
}
"""How an update combines with what its place holds."""


def _check(name: str, x: Tensor, updates: Tensor, indices: Sequence[Tensor], how: str) -> None:
    if how not in REDUCTIONS:
        raise ComputeError(f"{name}: expected one of {', '.join(REDUCTIONS)}, found {how!r}.")
    if updates.dtype is not x.dtype:
        raise ComputeError(f"{name}: expected updates of {x.dtype}, found {updates.dtype}.")
    if x.dtype.is_bool and how != "none":
        raise ComputeError(f"{name}: bools do not combine by {how!r}.")
    if any(not i.dtype.is_integer or i.dtype.is_bool for i in indices):
        raise ComputeError(f"{name}: expected indices of an integer dtype.")


def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> PrimFunc:
    """The function of ``x``, ``indices``, ``updates`` and the result: ``x``, but ``result[...,
    indices[i...], ...] = updates[i...]`` along ``axis``.

    ``updates`` has the shape of ``indices``, which is at most that of ``x`` off the axis.
    ``reduction`` is none, add, mul, max or min. Raises ComputeError for ranks and dtypes that do
    not fit.
    """
    _check("scatter_elements", x, updates, [indices], reduction)
    if not x.ndim == indices.ndim == updates.ndim:
        raise ComputeError(
            f"scatter_elements: expected operands of one rank, found {x.ndim}, {indices.ndim} and "
            f"{updates.ndim}."
        )
    (d,) = normal_axes(axis, x.ndim)
    source, places, values = (plain_buffer(t) for t in (x, indices, updates))
    out = Buffer("scatter_elements", x.shape, x.dtype)
    combine = REDUCTIONS[reduction]

    def row(at: Sequence[Expr]) -> tuple[Stmt, list[Buffer]]:
        def place(k: Expr) -> tuple[Expr, ...]:
            return (*at[:d], k, *at[d:])

        def update(k: Expr) -> Stmt:
            own = place(inside(BufferLoad(places, place(k)), x.shape[d]))
            return BufferStore(
                out, combine(BufferLoad(out, own), BufferLoad(values, place(k))), own
            )

        copy = loop(
            "k", x.shape[d], lambda k: BufferStore(out, BufferLoad(source, place(k)), place(k))
        )
        changes: Stmt = loop("k", indices.shape[d], update)
        others = [e for e in range(x.ndim) if e != d]
        within = [
            i < indices.shape[e]
            for i, e in zip(at, others, strict=True)
            if not _same(indices.shape[e], x.shape[e])
        ]
        return seq(copy, IfThenElse(all_of(within), changes) if within else changes), []

    rows = (*x.shape[:d], *x.shape[d + 1 :])
    return function_of_rows("scatter_elements", [source, places, values, out], rows, row)


def _same(a: Expr, b: Expr) -> bool:
    return a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value)


def scatter_index(
    x: Tensor,
    updates: Tensor,
    *indices: Tensor,
    axes: Sequence[int],
    reduction: str = "none",
) -> PrimFunc:
    """The function of ``x``, ``updates``, ``indices...`` and the result: ``x`` with ``updates`` at
    ``x[..., indices, ...]``, which stand for the axes ``axes``, one each.

    The indices are broadcast together; ``updates`` broadcasts to what ``advanced_index`` of the
    same operands gives. Raises ComputeError for ranks and dtypes that do not fit.
    """
    _check("scatter_index", x, updates, indices, reduction)
    normal, first = indexed_axes(axes, x.ndim, len(indices))
    shape = broadcast_shape([i.shape for i in indices])
    kept = [e for e in range(x.ndim) if e not in normal]
    source, values = plain_buffer(x), plain_buffer(updates)
    places = [plain_buffer(i) for i in indices]
    out = Buffer("scatter_index", x.shape, x.dtype)
    dims = [x.shape[e] for e in kept]
    region = (*dims[:first], *shape, *dims[first:])
    combine = REDUCTIONS[reduction]

    def update(at: tuple[Expr, ...]) -> Stmt:
        where, rest = at[: len(shape)], at[len(shape) :]
        own: list[Expr] = [IntImm(0, INDEX)] * x.ndim
        for e, i in zip(kept, rest, strict=True):
            own[e] = i
        for e, held, t in zip(normal, places, indices, strict=True):
            read = broadcast_load(t, where, shape)
            own[e] = inside(BufferLoad(held, read.indices), x.shape[e])
        value = broadcast_load(updates, (*rest[:first], *where, *rest[first:]), region)
        new = combine(BufferLoad(out, tuple(own)), BufferLoad(values, value.indices))
        return BufferStore(out, new, tuple(own))

    def copy(at: tuple[Expr, ...]) -> Stmt:
        return BufferStore(out, BufferLoad(source, at), at)

    # One block: the updates must not run before the copy, nor beside each other.
    body = seq(nest(x.shape, copy), nest((*shape, *dims), update))
    once = Var("v_once")
    iter_vars = (IterVar(once, Range(IntImm(0, INDEX), IntImm(1, INDEX)), "spatial"),)
    params = (source, values, *places, out)
    reads, writes = regions_of(params, body)
    block = Block("scatter_index", iter_vars, reads, writes, body)
    realize = BlockRealize((IntImm(0, INDEX),), const(True, "bool"), block)
    root = Block("root", (), (), (), realize)
    attrs = (("tir.noalias", True), ("is_scheduled", True), ("global_symbol", "scatter_index"))
    return PrimFunc(params, BlockRealize((), const(True, "bool"), root), attrs, "scatter_index")

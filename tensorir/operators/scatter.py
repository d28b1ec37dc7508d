"""Scatters: a tensor with some elements replaced, or combined with others, at places that data say.

Updates of one place happen in order, so that the last one counts where nothing is combined. Indices
count from the end where they are negative; one that is out of range is taken to the nearest
element, so that no kernel ever writes outside of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...support.errors import ComputeError
from ..arith.linear import same_extent
from ..buffer import Buffer, Range
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var, add, all_of, const, maximum, minimum, mul
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, BufferStore, IfThenElse, IterVar, Stmt, seq
from ..te.compute import Tensor
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

_RUN = 64
"""Elements whose indices are made places at once, by vectors, before any of them is updated."""


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

    ``updates`` has the shape of ``indices``, which is at most that of ``x`` off the axis; or none,
    where each update is the same.
    ``reduction`` is none, add, mul, max or min. Raises ComputeError for ranks and dtypes that do
    not fit.
    """
    _check("scatter_elements", x, updates, [indices], reduction)
    if x.ndim != indices.ndim or updates.ndim not in (0, x.ndim):
        raise ComputeError(
            f"scatter_elements: expected operands of one rank, found {x.ndim}, {indices.ndim} and "
            f"{updates.ndim}."
        )
    (d,) = normal_axes(axis, x.ndim)
    source, places, values = (plain_buffer(t) for t in (x, indices, updates))
    out = Buffer("scatter_elements", x.shape, x.dtype)
    combine = REDUCTIONS[reduction]

    held = Buffer("held", (IntImm(_RUN, INDEX),), INDEX)
    last = x.ndim - 1

    def run(place: Callable[[Expr], tuple[Expr, ...]], count: Expr) -> Stmt:
        """Updates of neighbours, their indices first."""

        def find(k: Expr) -> Stmt:
            return BufferStore(held, inside(BufferLoad(places, place(k)), x.shape[d]), (k,))

        def update(k: Expr) -> Stmt:
            at = place(k)
            own = (*at[:d], BufferLoad(held, (k,)), *at[d + 1 :])
            given = BufferLoad(values, at if updates.ndim else ())
            return BufferStore(out, combine(BufferLoad(out, own), given), own)

        return seq(loop("k", count, find), loop("k", count, update))

    def row(at: Sequence[Expr]) -> tuple[Stmt, list[Buffer]]:
        """All of the axis, of one place of the others; of the last of them, a run of places."""

        def place(k: Expr, j: Expr | None = None) -> tuple[Expr, ...]:
            return (*at[:d], k) if j is None else (*at[:d], k, *at[d:-1], at[-1] * _RUN + j)

        def copy(*k: Expr) -> Stmt:
            return BufferStore(out, BufferLoad(source, place(*k)), place(*k))

        size, given = x.shape[last], indices.shape[last]
        if d == last:
            copies = loop("k", size, copy)
            changes = loop(
                "c",
                _runs(given),
                lambda c: run(lambda k: place(c * _RUN + k), _in_run(given, c)),
            )
        else:
            here = _in_run(size, at[-1])
            copies = loop("k", x.shape[d], lambda k: loop("j", here, lambda j: copy(k, j)))
            inner = here if same_extent(size, given) else _in_run(given, at[-1], of=size)
            changes = loop("k", indices.shape[d], lambda k: run(lambda j: place(k, j), inner))
        others = [e for e in range(last) if e != d]
        within = [
            i < indices.shape[e]
            for i, e in zip(at, others, strict=False)
            if not same_extent(indices.shape[e], x.shape[e])
        ]
        return seq(copies, IfThenElse(all_of(within), changes) if within else changes), [held]

    rows = [s for e, s in enumerate(x.shape[:last]) if e != d]
    if d != last:
        rows.append(_runs(x.shape[last]))
    return function_of_rows("scatter_elements", [source, places, values, out], rows, row)


def _runs(size: Expr) -> Expr:
    return IntImm(-(-size.value // _RUN)) if isinstance(size, IntImm) else (size + _RUN - 1) // _RUN


def _in_run(size: Expr, c: Expr, *, of: Expr | None = None) -> Expr:
    """How many of ``size`` elements run ``c`` has, where there are as many runs as these need, or
    as ``of`` elements do."""
    whole = size if of is None else of
    if isinstance(size, IntImm) and isinstance(whole, IntImm) and whole.value <= _RUN:
        return size
    if of is None and isinstance(size, IntImm) and size.value % _RUN == 0:
        return IntImm(_RUN)
    return maximum(minimum(size - c * _RUN, IntImm(_RUN)), IntImm(0))


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

    held = [Buffer(f"held{e}", (IntImm(_RUN, INDEX),), INDEX) for e in normal]

    def found(at: tuple[Expr, ...], i: int) -> Expr:
        """Where index tensor ``i`` puts an element of the region."""
        read = broadcast_load(indices[i], at[first : first + len(shape)], shape)
        return inside(BufferLoad(places[i], read.indices), x.shape[normal[i]])

    def update(at: tuple[Expr, ...], chosen: Sequence[Expr]) -> Stmt:
        own: list[Expr] = [IntImm(0, INDEX)] * x.ndim
        rest = (*at[:first], *at[first + len(shape) :])
        for e, i in (*zip(kept, rest, strict=True), *zip(normal, chosen, strict=True)):
            own[e] = i
        value = broadcast_load(updates, at, region)
        new = combine(BufferLoad(out, tuple(own)), BufferLoad(values, value.indices))
        return BufferStore(out, new, tuple(own))

    def one(at: tuple[Expr, ...]) -> Stmt:
        return update(at, [found(at, i) for i in range(len(indices))])

    def run(outer: tuple[Expr, ...], c: Expr) -> Stmt:
        """Updates of neighbours, their indices first."""
        count = _in_run(shape[-1], c)

        def find(k: Expr) -> Stmt:
            at = (*outer, c * _RUN + k)
            return seq(*[BufferStore(h, found(at, i), (k,)) for i, h in enumerate(held)])

        def change(k: Expr) -> Stmt:
            return update((*outer, c * _RUN + k), [BufferLoad(h, (k,)) for h in held])

        return seq(loop("k", count, find), loop("k", count, change))

    def copy(at: tuple[Expr, ...]) -> Stmt:
        return BufferStore(out, BufferLoad(source, at), at)

    # One block: the updates must not run before the copy, nor beside each other. Those of one place
    # have equal indices before and behind the indexed axes, and so stand in order.
    if shape and first == len(kept):
        runs = _runs(shape[-1])
        changes = nest(region[:-1], lambda at: loop("c", runs, lambda c: run(at, c)))
    else:
        changes, held = nest(region, one), []
    body = seq(nest(x.shape, copy), changes)
    once = Var("v_once")
    iter_vars = (IterVar(once, Range(IntImm(0, INDEX), IntImm(1, INDEX)), "spatial"),)
    params = (source, values, *places, out)
    reads, writes = regions_of(params, body)
    block = Block("scatter_index", iter_vars, reads, writes, body, None, tuple(held))
    realize = BlockRealize((IntImm(0, INDEX),), const(True, "bool"), block)
    root = Block("root", (), (), (), realize)
    attrs = (("tir.noalias", True), ("is_scheduled", True), ("global_symbol", "scatter_index"))
    return PrimFunc(params, BlockRealize((), const(True, "bool"), root), attrs, "scatter_index")

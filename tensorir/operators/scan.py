"""Scans: cumulative sums and products along an axis.

The axis is run through in order, and the sums of all elements behind it at once, so that an inner
axis becomes vectors. Half precision accumulates in float32 and rounds each result.
"""

from __future__ import annotations

from collections.abc import Callable

from ...support.errors import ComputeError
from ..buffer import Buffer
from ..compute import Tensor
from ..expr import INDEX, BufferLoad, Expr, IntImm, add, const, mul
from ..expr import cast as cast_expr
from ..function import PrimFunc
from ..stmt import BufferStore, Stmt, seq
from .reduce import accumulator, normal_axes
from .rows import Row, function_of_rows, loop, nest, plain_buffer


def _scan(
    name: str,
    combine: Callable[[Expr, Expr], Expr],
    identity: int,
    x: Tensor,
    axis: int,
    exclusive: bool,
    reverse: bool,
) -> PrimFunc:
    if x.dtype.is_bool:
        raise ComputeError(f"{name}: expected numbers, found {x.dtype}.")
    (d,) = normal_axes(axis, x.ndim)
    source, out = plain_buffer(x), Buffer(name, x.shape, x.dtype)
    inner, length = x.shape[d + 1 :], x.shape[d]
    wide = accumulator(x.dtype)
    held = Buffer("held", inner or (IntImm(1, INDEX),), wide)

    def row(lead: object) -> tuple[Stmt, list[Buffer]]:
        def state(j: tuple[Expr, ...]) -> tuple[Expr, ...]:
            return j or (IntImm(0, INDEX),)

        def step(k: Expr, j: tuple[Expr, ...]) -> Stmt:
            place = (*lead, length - 1 - k if reverse else k, *j)  # type: ignore[misc]
            now = BufferLoad(held, state(j))
            moved = BufferStore(
                held, combine(now, cast_expr(BufferLoad(source, place), wide)), state(j)
            )
            written = BufferStore(out, cast_expr(BufferLoad(held, state(j)), x.dtype), place)
            return seq(written, moved) if exclusive else seq(moved, written)

        start = nest(inner, lambda j: BufferStore(held, const(identity, wide), state(j)))
        return seq(start, loop("k", length, lambda k: nest(inner, lambda j: step(k, j)))), [held]

    made: Row = row
    return function_of_rows(name, [source, out], x.shape[:d], made)


def cumsum(x: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False) -> PrimFunc:
    """The function of ``x`` and the result: sums of the elements up to each place along ``axis``.

    ``exclusive`` leaves the element itself out, ``reverse`` starts at the end. Raises ComputeError
    for bools.
    """
    return _scan("cumsum", add, 0, x, axis, exclusive, reverse)


def cumprod(x: Tensor, axis: int, *, exclusive: bool = False, reverse: bool = False) -> PrimFunc:
    """As cumsum, with products."""
    return _scan("cumprod", mul, 1, x, axis, exclusive, reverse)

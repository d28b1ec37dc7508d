"""The stable order of the elements along an axis, by merging runs of 1, 2, 4 ... elements.

    places  0 1 2 3 4 5 6 7
    runs    |   |   |   |     pass 0: runs of 1 become runs of 2
            |       |         pass 1: runs of 2 become runs of 4 ...

Each pass writes the places of the merged runs from one half of a buffer into the other. How many
passes there are depends on the size alone, which may be symbolic, and each is one loop without a
data-dependent exit: of the k elements that a merge has written, those that were not taken from the
left run were taken from the right one, so that one number is all its state. NaN is above everything
else, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from ..buffer import Buffer
from ..compute import Tensor
from ..expr import (
    EQ,
    INDEX,
    BufferLoad,
    Expr,
    IntImm,
    Select,
    Var,
    const,
    floormod,
    logical_and,
    logical_not,
    logical_or,
    minimum,
    sub,
)
from ..expr import cast as cast_expr
from ..function import PrimFunc
from ..intrinsics import call_intrin
from ..stmt import BufferStore, IfThenElse, LetStmt, Stmt, seq
from .reduce import normal_axes
from .rows import function_of_rows, loop, plain_buffer

_ZERO, _ONE = IntImm(0, INDEX), IntImm(1, INDEX)


def _passes(length: Expr) -> Expr:
    """How often 1 must be doubled to reach ``length``."""
    if isinstance(length, IntImm):
        return IntImm(max(0, length.value - 1).bit_length(), INDEX)
    return IntImm(64, INDEX) - call_intrin("clz", length - 1)


def _precedes(a: Expr, b: Expr, *, descending: bool) -> Expr:
    """Whether ``a`` stands strictly before ``b``."""
    if a.dtype.is_bool:
        a, b = cast_expr(a, "uint8"), cast_expr(b, "uint8")
    before = a > b if descending else a < b
    if not a.dtype.is_float:
        return before
    high, low = (a, b) if descending else (b, a)
    isnan = logical_and(call_intrin("isnan", high), logical_not(call_intrin("isnan", low)))
    return logical_or(before, isnan)


def argsort(
    x: Tensor, axis: int = -1, *, descending: bool = False, count: int | None = None
) -> PrimFunc:
    """The function of ``x`` and the result: the indices (int64) that sort ``x`` along ``axis``.

    Equal elements keep their order. ``count`` gives the first so many indices alone; it is at most
    the size of the axis. Raises ComputeError for a larger one.
    """
    (d,) = normal_axes(axis, x.ndim)
    length = x.shape[d]
    if count is not None and (count < 0 or (isinstance(length, IntImm) and count > length.value)):
        raise ComputeError(f"argsort: the first {count} of an axis of another size.")
    found = length if count is None else IntImm(count, INDEX)
    source = plain_buffer(x)
    out = Buffer("argsort", (*x.shape[:d], found, *x.shape[d + 1 :]), const(0).dtype)
    order = Buffer("order", (IntImm(2, INDEX), length), const(0).dtype)
    left = Buffer("left", (_ONE,), const(0).dtype)
    passes = _passes(length)

    def row(at: Sequence[Expr]) -> tuple[Stmt, list[Buffer]]:
        def place(k: Expr) -> tuple[Expr, ...]:
            return (*at[:d], k, *at[d:])

        def merge(p: Var, k: Var) -> Stmt:
            width = call_intrin("shift_left", _ONE, p)
            first = call_intrin("shift_left", call_intrin("shift_right", k, p + 1), p + 1)
            now, middle, end = Var("now"), Var("middle"), Var("end")
            one, other = Var("one"), Var("other")
            source_half = floormod(p, IntImm(2, INDEX))
            behind = middle + (k - now)
            last = sub(length, _ONE)
            empty = now >= middle
            later = _precedes(
                BufferLoad(source, place(other)), BufferLoad(source, place(one)),
                descending=descending,
            )  # fmt: skip
            takes_other = Var("takes_other", const(True, "bool").dtype)
            step: Stmt = seq(
                BufferStore(order, Select(takes_other, other, one), (sub(_ONE, source_half), k)),
                BufferStore(left, Select(takes_other, now, now + 1), (_ZERO,)),
            )
            chosen = logical_or(empty, logical_and(behind < end, later))
            step = LetStmt(takes_other, chosen, step)
            loads = [
                (one, BufferLoad(order, (source_half, minimum(now, last)))),
                (other, BufferLoad(order, (source_half, minimum(behind, last)))),
            ]
            bound: list[tuple[Var, Expr]] = [
                (now, BufferLoad(left, (_ZERO,))),
                (middle, minimum(first + width, length)),
                (end, minimum(first + width + width, length)),
                *loads,
            ]
            for v, value in reversed(bound):
                step = LetStmt(v, value, step)
            return seq(IfThenElse(EQ(k, first), BufferStore(left, k, (_ZERO,))), step)

        start = loop("k", length, lambda k: BufferStore(order, k, (_ZERO, k)))
        sort = loop("p", passes, lambda p: loop("k", length, lambda k: merge(p, k)))
        half = floormod(passes, IntImm(2, INDEX))
        write = loop("k", found, lambda k: BufferStore(out, BufferLoad(order, (half, k)), place(k)))
        return seq(start, sort, write), [order, left]

    return function_of_rows("argsort", [source, out], (*x.shape[:d], *x.shape[d + 1 :]), row)

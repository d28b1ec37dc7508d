"""The stable order of the elements along an axis: ``argsort``, and the first few of it.

Elements become integers that compare in their order (``order_entries``). Few elements are ranked,
many distributed, and of many the first few selected: whichever is the least work, which a symbolic
size decides when the function runs. NaN is above everything else, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...support.errors import ComputeError
from ..buffer import Buffer
from ..compute import Tensor
from ..expr import INDEX, BufferLoad, Expr, IntImm, all_of, minimum
from ..function import PrimFunc
from ..stmt import BufferStore, IfThenElse, Stmt
from .order_entries import Entries, OrderedRow
from .radix_sort import radix_sort, radix_steps
from .rank_sort import most_ranked, rank_sort, rank_steps
from .reduce import normal_axes
from .rows import function_of_rows, plain_buffer
from .select_first import FEWEST, select_first, selection_steps

_Ordered = tuple[Stmt, list[Buffer]]
"""The statements that put a row in order, and the buffers they need."""


def _where(
    limits: Sequence[tuple[Expr, Expr]], then: Callable[[], _Ordered], other: Callable[[], _Ordered]
) -> _Ordered:
    """``then`` where the first of each pair is at most the second; decided now if all are known."""
    known = [(a.value, b.value) for a, b in limits if type(a) is IntImm and type(b) is IntImm]
    if len(known) == len(limits):
        return then() if all([a <= b for a, b in known]) else other()
    (chosen, first), (others, second) = then(), other()
    return IfThenElse(all_of([a <= b for a, b in limits]), chosen, others), [*first, *second]


def _ordered(row: OrderedRow, count: int | None) -> _Ordered:
    entries, length = row.entries, row.length

    def whole() -> _Ordered:
        most = IntImm(most_ranked(entries), INDEX)
        return _where([(length, most)], lambda: rank_sort(row), lambda: radix_sort(row))

    if count is None:
        return whole()
    steps = minimum(rank_steps(entries, length), radix_steps(entries, length))
    limits = [(IntImm(FEWEST, INDEX), length), (selection_steps(entries, length, count), steps)]
    return _where(limits, lambda: select_first(row), whole)


def argsort(
    x: Tensor, axis: int = -1, *, descending: bool = False, count: int | None = None
) -> PrimFunc:
    """The function of ``x`` and the result: the indices (int64) that sort ``x`` along ``axis``.

    Equal elements keep their order. ``count`` gives the first so many indices alone; it is at most
    the size of the axis. Raises ComputeError for a larger one. An axis of elements of at most 32
    bits has less than 2**32 of them.
    """
    (d,) = normal_axes(axis, x.ndim)
    length = x.shape[d]
    if count is not None and (count < 0 or (isinstance(length, IntImm) and count > length.value)):
        raise ComputeError(f"argsort: the first {count} of an axis of another size.")
    entries = Entries(x.dtype, descending)
    entries.check_length(length)
    found = length if count is None else IntImm(count, INDEX)
    source = plain_buffer(x)
    out = Buffer("argsort", (*x.shape[:d], found, *x.shape[d + 1 :]), INDEX)

    def row(at: Sequence[Expr]) -> tuple[Stmt, list[Buffer]]:
        def place(k: Expr) -> tuple[Expr, ...]:
            return (*at[:d], k, *at[d:])

        ordered = OrderedRow(
            entries,
            length,
            found,
            lambda k: BufferLoad(source, place(k)),
            lambda k, index: BufferStore(out, index, place(k)),
        )
        return _ordered(ordered, count)

    return function_of_rows("argsort", [source, out], (*x.shape[:d], *x.shape[d + 1 :]), row)

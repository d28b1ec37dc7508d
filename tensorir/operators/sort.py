"""The stable order of the elements along an axis: ``argsort``, and a part of it.

Elements become integers that compare in their order (``order_entries``). Of one row, few elements
are ranked, many distributed, of many the first few selected, and one alone found by halving; many
short rows are put in order side by side: whichever is the least work, which a symbolic size
decides when the function runs. NaN is above everything else, as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...support.errors import ComputeError
from ..buffer import Buffer, unravel
from ..expr import INDEX, BufferLoad, Expr, IntImm, all_of, floordiv, minimum, sub
from ..function import PrimFunc
from ..stmt import BufferStore, IfThenElse, Stmt
from ..te.compute import Tensor
from .bisect_select import bisect_select, bisection_steps
from .lane_sort import Lanes, lane_count, lane_sort, lane_steps
from .order_entries import Entries, OrderedRow, entries_of
from .radix_sort import radix_sort, radix_steps
from .rank_sort import most_ranked, rank_sort, rank_steps
from .reduce import normal_axes
from .rows import function_of_rows, plain_buffer
from .select_first import FEWEST, select_first, selection_steps

_Ordered = tuple[Stmt, list[Buffer]]
"""The statements that put a row in order, and the buffers they need."""
_APART = 2
"""How many times as long a row takes whose elements are no neighbours in memory."""


def _where(
    limits: Sequence[tuple[Expr, Expr]], then: Callable[[], _Ordered], other: Callable[[], _Ordered]
) -> _Ordered:
    """``then`` where the first of each pair is at most the second; decided now if all are known."""
    known = [(a.value, b.value) for a, b in limits if type(a) is IntImm and type(b) is IntImm]
    if len(known) == len(limits):
        return then() if all([a <= b for a, b in known]) else other()
    (chosen, first), (others, second) = then(), other()
    return IfThenElse(all_of([a <= b for a, b in limits]), chosen, others), [*first, *second]


@dataclass(frozen=True)
class _Order:
    """What is wanted along axis ``d`` of ``source``: the places from ``start`` on and below
    ``count``, or to the end, in ``out``."""

    entries: Entries
    source: Buffer
    out: Buffer
    d: int
    start: int
    count: int | None

    @property
    def length(self) -> Expr:
        return self.source.shape[self.d]

    @property
    def is_one(self) -> bool:
        """Whether a single index is wanted, and not the first."""
        return self.count == self.start + 1 and self.start > 0

    def place(self, at: Sequence[Expr], k: Expr) -> tuple[Expr, ...]:
        """The indices of element ``k`` of the row ``at``."""
        return (*at[: self.d], k, *at[self.d :])


# -- one row after another -------------------------------------------------------------------------
def _whole_steps(entries: Entries, length: Expr) -> Expr:
    return minimum(rank_steps(entries, length), radix_steps(entries, length))


def _steps(order: _Order) -> Expr:
    """Some measure of the work of a row, that of ``radix_steps``, the least of all ways."""
    entries, length = order.entries, order.length
    steps = _whole_steps(entries, length)
    if order.is_one:
        steps = minimum(steps, bisection_steps(entries, length))
    if order.count is not None and isinstance(length, IntImm) and length.value >= FEWEST:
        steps = minimum(steps, selection_steps(entries, length, order.count))
    return steps


def _ordered(row: OrderedRow, order: _Order) -> _Ordered:
    entries, length = row.entries, row.length
    steps = _whole_steps(entries, length)

    def whole() -> _Ordered:
        most = IntImm(most_ranked(entries), INDEX)
        return _where([(length, most)], lambda: rank_sort(row), lambda: radix_sort(row))

    def one() -> _Ordered:
        return _where([(bisected, steps)], lambda: bisect_select(row), whole)

    if order.count is None:
        return whole()
    other, least = whole, steps
    if order.is_one:
        bisected = bisection_steps(entries, length)
        other, least = one, minimum(steps, bisected)
    selected = selection_steps(entries, length, order.count)
    limits = [(IntImm(FEWEST, INDEX), length), (selected, least)]
    return _where(limits, lambda: select_first(row), other)


def _row_by_row(order: _Order) -> PrimFunc:
    def row(at: Sequence[Expr]) -> _Ordered:
        ordered = OrderedRow(
            order.entries,
            order.length,
            order.out.shape[order.d],
            lambda k: BufferLoad(order.source, order.place(at, k)),
            lambda k, index: BufferStore(order.out, index, order.place(at, k)),
            order.start,
        )
        return _ordered(ordered, order)

    shape, d = order.source.shape, order.d
    return function_of_rows(
        "argsort", [order.source, order.out], (*shape[:d], *shape[d + 1 :]), row
    )


# -- rows side by side -----------------------------------------------------------------------------
def _side_by_side(order: _Order, *, neighbours: bool) -> PrimFunc:
    """A row in each lane: those behind each other along the last axes where these are
    ``neighbours``, else any."""
    d, shape, length = order.d, order.source.shape, order.length
    assert isinstance(length, IntImm)
    lead = shape[:d] if neighbours else ()
    together = shape[d + 1 :] if neighbours else (*shape[:d], *shape[d + 1 :])
    lanes = lane_count(order.entries)
    many = IntImm(lanes, INDEX)
    width: Expr = IntImm(1, INDEX)
    for extent in together:
        width = width * extent
    is_whole = isinstance(width, IntImm) and width.value % lanes == 0

    def rows(at: Sequence[Expr]) -> _Ordered:
        *outer, piece = at
        first = piece * lanes

        def place(k: Expr, lane: Expr) -> tuple[Expr, ...]:
            return order.place((*outer, *unravel(first + lane, together)), k)

        made = Lanes(
            order.entries,
            length.value,
            (length.value if order.count is None else order.count) - order.start,
            lambda k, lane: BufferLoad(order.source, place(k, lane)),
            lambda k, lane, index: BufferStore(order.out, index, place(k, lane)),
            None if is_whole else minimum(many, sub(width, first)),
            neighbours,
            order.start,
        )
        return lane_sort(made)

    pieces = floordiv(width + (lanes - 1), many)
    return function_of_rows("argsort", [order.source, order.out], (*lead, pieces), rows)


def _lanes_steps(order: _Order, *, neighbours: bool) -> tuple[float, float] | None:
    """The work of a row of each way, the other one first; None where sizes do not say."""
    d, shape, length = order.d, order.source.shape, order.length
    last = length.value if isinstance(length, IntImm) and order.count is None else order.count
    if not isinstance(length, IntImm) or not length.value or not last or last <= order.start:
        return None
    steps = _steps(order)
    together = shape[d + 1 :] if neighbours else (*shape[:d], *shape[d + 1 :])
    assert isinstance(steps, IntImm)
    lanes = lane_count(order.entries)
    sizes = [e.value for e in together if isinstance(e, IntImm)]
    rows = math.prod(sizes) if len(sizes) == len(together) else lanes
    if not rows:
        return None
    used = rows / (-(-rows // lanes))
    apart = _APART if d < len(shape) - 1 else 1
    side = lane_steps(order.entries, length.value, last, side_by_side=neighbours) / used
    return steps.value * apart, side


def argsort(
    x: Tensor,
    axis: int = -1,
    *,
    descending: bool = False,
    count: int | None = None,
    start: int = 0,
) -> PrimFunc:
    """The function of ``x`` and the result: the indices (int64) that sort ``x`` along ``axis``.

    Equal elements keep their order. ``count`` gives the first so many indices alone, ``start``
    leaves as many out in front of them; the one is at most the size of the axis, the other at most
    the one. Raises ComputeError for larger ones. An axis of elements of at most 32 bits has less
    than 2**32 of them.
    """
    (d,) = normal_axes(axis, x.ndim)
    length = x.shape[d]
    most = count if count is not None or not isinstance(length, IntImm) else length.value
    if count is not None and (count < 0 or (isinstance(length, IntImm) and count > length.value)):
        raise ComputeError(f"argsort: the first {count} of an axis of another size.")
    if start < 0 or (start > 0 if most is None else start > most):
        raise ComputeError(f"argsort: {start} of the first {most} are to be left out.")
    found = length if count is None else IntImm(count, INDEX)
    found = sub(found, IntImm(start, INDEX)) if start else found
    out = Buffer("argsort", (*x.shape[:d], found, *x.shape[d + 1 :]), INDEX)
    entries = entries_of(x.dtype, length, descending=descending)
    order = _Order(entries, plain_buffer(x), out, d, start, count)
    ways = [(False, _lanes_steps(order, neighbours=False))]
    if d < x.ndim - 1:
        ways.append((True, _lanes_steps(order, neighbours=True)))
    known = [
        (side, apart, neighbours) for neighbours, w in ways if w is not None for apart, side in [w]
    ]
    if known and min(known)[0] < min(known)[1]:
        return _side_by_side(order, neighbours=min(known)[2])
    return _row_by_row(order)

"""Boxes that overlap better ones, given up: non-maximum suppression, one row of boxes at a time.

Boxes come in the order of their scores. One that is still there is kept, and all that overlap it by
more than a threshold go:

    for i in order:
        if there[i] and kept < limit:
            keep i
            for j: there[j] &= common(i, j) / (area[i] + area[j] - common(i, j)) <= threshold

The inner loop runs for boxes that are kept alone, which are few, and is one of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from ..buffer import Buffer
from ..expr import GT, INDEX, LT, NE, BufferLoad, Expr, IntImm, Select, const, maximum, minimum
from ..expr import cast as cast_expr
from ..function import PrimFunc
from ..stmt import BufferStore, IfThenElse, Stmt, seq
from ..te.compute import Tensor
from .rows import function_of_rows, loop, plain_buffer

ONE, ZERO = IntImm(1, INDEX), IntImm(0, INDEX)


def non_max_suppression(
    corners: Tensor, order: Tensor, there: Tensor, limit: Tensor, threshold: Tensor
) -> PrimFunc:
    """Which boxes stay, in the order in which they come.

    ``corners`` (B, 4, N) has the top, left, bottom and right of each box, ``order`` (B, C, N) the
    numbers of a class's boxes, best first, and ``there`` (B, C, N), by these numbers, which of
    them count at all. At most ``limit`` () are kept; one goes that has more than ``threshold`` ()
    of its union with a better one in common. Numbers out of range are taken to the nearest one.
    """
    if corners.ndim != 3 or order.ndim != 3 or there.ndim != 3:
        raise ComputeError(
            "non_max_suppression: expected operands (B, 4, N), (B, C, N) and (B, C, N); found "
            f"ranks {corners.ndim}, {order.ndim} and {there.ndim}."
        )
    operands = (corners, order, there, limit, threshold)
    names = ("corners", "order", "there", "limit", "threshold")
    boxes, numbers, counted, most, share = [
        plain_buffer(x, n) for x, n in zip(operands, names, strict=True)
    ]
    count, dtype = corners.shape[2], corners.dtype
    out = Buffer("kept", order.shape, there.dtype)
    mask = const(0, "int32").dtype

    def row(at: Sequence[Expr]) -> tuple[Stmt, list[Buffer]]:
        b, c = at
        alive, areas = Buffer("alive", (count,), mask), Buffer("areas", (count,), dtype)
        best = Buffer("best", (IntImm(5, INDEX),), dtype)
        kept, place = (Buffer(name, (ONE,), INDEX) for name in ("number_kept", "place"))

        def side(i: int, j: Expr) -> Expr:
            return BufferLoad(boxes, (b, IntImm(i, INDEX), j))

        def held(i: int) -> Expr:
            return BufferLoad(best, (IntImm(i, INDEX),))

        def of(buffer: Buffer) -> Expr:
            return BufferLoad(buffer, (ZERO,))

        def begin(j: Expr) -> Stmt:
            area = (side(2, j) - side(0, j)) * (side(3, j) - side(1, j))
            is_there = cast_expr(BufferLoad(counted, (b, c, j)), mask)
            return seq(BufferStore(alive, is_there, (j,)), BufferStore(areas, area, (j,)))

        def suppress(j: Expr) -> Stmt:
            zero = const(0.0, str(dtype))
            height = maximum(minimum(held(2), side(2, j)) - maximum(held(0), side(0, j)), zero)
            width = maximum(minimum(held(3), side(3, j)) - maximum(held(1), side(1, j)), zero)
            common = height * width
            union = held(4) + BufferLoad(areas, (j,)) - common
            goes = GT(common / union, BufferLoad(share, ()))
            return BufferStore(alive, Select(goes, const(0, mask), BufferLoad(alive, (j,))), (j,))

        def visit(i: Expr) -> Stmt:
            number = minimum(maximum(BufferLoad(numbers, (b, c, i)), ZERO), count - 1)
            chosen = of(place)
            taken = [BufferStore(best, side(k, chosen), (IntImm(k, INDEX),)) for k in range(4)]
            area = BufferStore(best, BufferLoad(areas, (chosen,)), (IntImm(4, INDEX),))
            keep = seq(
                BufferStore(out, const(1, out.dtype), (b, c, i)),
                BufferStore(kept, of(kept) + 1, (ZERO,)),
                *taken,
                area,
                loop("j", count, suppress),
            )
            is_best = NE(BufferLoad(alive, (chosen,)), const(0, mask))
            return seq(
                BufferStore(place, number, (ZERO,)),
                BufferStore(out, const(0, out.dtype), (b, c, i)),
                IfThenElse(is_best, IfThenElse(LT(of(kept), BufferLoad(most, ())), keep)),
            )

        body = seq(
            BufferStore(kept, ZERO, (ZERO,)), loop("j", count, begin), loop("i", count, visit)
        )
        return body, [alive, areas, best, kept, place]

    return function_of_rows(
        "non_max_suppression", [boxes, numbers, counted, most, share, out], order.shape[:2], row
    )

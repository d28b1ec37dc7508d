"""Reductions of compute definitions: ``sum``, ``prod``, ``max``, ``min``, and reducers of the
user's.

A reducer promises what the schedule relies on: that combining is associative and commutative, and
that the identity is neutral. Reduce loops may therefore be reordered, split and factored; where two
results are equally good (the argmax of equal values), which of them is found may depend on the
order, unless ``fcombine`` itself decides ties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...support.dtype import DType
from ...support.errors import ComputeError
from ..expr import (
    Call,
    Equality,
    Expr,
    ExprLike,
    Reduce,
    add,
    as_expr,
    const,
    max_value,
    maximum,
    min_value,
    minimum,
    mul,
)
from .share_values import share_values
from .tensor import ReduceAxis, TupleReduce

AxisLike: TypeAlias = "ReduceAxis | Sequence[ReduceAxis]"

COMBINERS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "sum": add,
    "prod": mul,
    "max": maximum,
    "min": minimum,
}
"""How a built-in reduction combines what it has with the next term."""


def _axes(reducer: str, axis: AxisLike) -> tuple[ReduceAxis, ...]:
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    for a in axes:
        if not isinstance(a, ReduceAxis):
            raise ComputeError(
                f"{reducer}: expected axes made by reduce_axis, found {type(a).__name__}."
            )
    return axes


def _reduce(
    combiner: str,
    expr: Expr,
    axis: AxisLike,
    identity: Callable[[DType], Expr],
    where: Expr | Equality | None,
    init: ExprLike | None,
) -> Expr:
    axes = _axes(combiner, axis)
    neutral = identity(expr.dtype)
    source = expr
    if where is not None:
        source = Call("if_then_else", (as_expr(where), expr, neutral), expr.dtype)
    if not axes:
        return source if init is None else COMBINERS[combiner](as_expr(init, expr.dtype), source)
    start = neutral if init is None else as_expr(init, expr.dtype)
    if start.dtype is not expr.dtype:
        raise ComputeError(
            f"{combiner}: the reduction is over {expr.dtype}; init is {start.dtype}."
        )
    return Reduce(combiner, share_values(source), axes, start)


def sum(
    expr: Expr,
    axis: AxisLike,
    where: Expr | Equality | None = None,
    init: ExprLike | None = None,
) -> Expr:
    """The sum of ``expr`` over reduce axes, from 0 (or ``init``), of the terms where ``where``."""
    return _reduce("sum", expr, axis, lambda dtype: const(0, dtype), where, init)


def prod(
    expr: Expr,
    axis: AxisLike,
    where: Expr | Equality | None = None,
    init: ExprLike | None = None,
) -> Expr:
    """The product of ``expr`` over reduce axes, from 1 (or ``init``), where ``where`` holds."""
    return _reduce("prod", expr, axis, lambda dtype: const(1, dtype), where, init)


def max(
    expr: ExprLike,
    axis: AxisLike | ExprLike,
    where: Expr | Equality | None = None,
    init: ExprLike | None = None,
) -> Expr:
    """The maximum of ``expr`` over reduce axes, from minus infinity (or the smallest integer); with
    a second value instead of axes, the larger of the two.
    """
    if not _is_axes(axis):
        return maximum(expr, axis)  # type: ignore[arg-type]
    return _reduce("max", as_expr(expr), axis, min_value, where, init)  # type: ignore[arg-type]


def min(
    expr: ExprLike,
    axis: AxisLike | ExprLike,
    where: Expr | Equality | None = None,
    init: ExprLike | None = None,
) -> Expr:
    """The minimum of ``expr`` over reduce axes, from infinity (or the largest integer); with a
    second value instead of axes, the smaller of the two.
    """
    if not _is_axes(axis):
        return minimum(expr, axis)  # type: ignore[arg-type]
    return _reduce("min", as_expr(expr), axis, max_value, where, init)  # type: ignore[arg-type]


def _is_axes(axis: object) -> bool:
    return isinstance(axis, (ReduceAxis, list, tuple))


class CommReducer:
    """A reduction made of two functions; call it with the values to reduce and the axes.

    ``fcombine(x, y)`` gives what two results combine to, ``fidentity(*dtypes)`` the neutral one.
    Over several values both take and give tuples. See ``comm_reducer``.
    """

    __slots__ = ("fcombine", "fidentity", "name")

    def __init__(
        self, fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str
    ) -> None:
        self.fcombine, self.fidentity, self.name = fcombine, fidentity, name

    def __repr__(self) -> str:
        return f"CommReducer({self.name!r})"

    def __call__(
        self,
        expr: ExprLike | Sequence[ExprLike],
        axis: AxisLike | ExprLike,
        where: Any = None,
        init: Any = None,
        *more: ExprLike,
    ) -> Any:
        """The reduction of ``expr`` over ``axis``: one expression, or a tuple of them for a tuple;
        terms where ``where`` does not hold are left out; it begins with ``init`` (as many values)
        in place of the neutral ones.

        With a value in place of the axes, what ``fcombine`` makes of the two, and of that and each
        further one: ``largest(a, b, c)``.
        """
        if not _is_axes(axis):
            return self._combined([expr, axis, where, init, *more])
        several = isinstance(expr, (tuple, list))
        given: Any = expr if several else [expr]
        values = [as_expr(e) for e in given]
        axes = _axes(self.name, axis)  # type: ignore[arg-type]
        if not axes:
            raise ComputeError(f"{self.name}: expected at least one axis made by reduce_axis.")
        neutral = self.identities([v.dtype for v in values], several=several)
        if where is not None:
            holds = as_expr(where)
            values = [
                Call("if_then_else", (holds, v, e), v.dtype)
                for v, e in zip(values, neutral, strict=True)
            ]
        if init is not None:
            neutral = self._checked("init", init, [v.dtype for v in values], several=several)
        # Checks what fcombine gives now, where the user is; the block is made later.
        self.combine(values, values, several=several)
        sources = tuple([share_values(v) for v in values])
        made = tuple(
            [TupleReduce(self, sources, axes, neutral, i, v.dtype) for i, v in enumerate(sources)]
        )
        return made if several else made[0]

    def _combined(self, values: Sequence[Any]) -> Expr:
        """``fcombine`` from the left over values, of which some may be missing at the end."""
        given = [v for v in values if v is not None]
        result = as_expr(given[0])
        for value in given[1:]:
            (result,) = self.combine([result], [as_expr(value, result.dtype)], several=False)
        return result

    def identities(self, dtypes: Sequence[DType], *, several: bool) -> tuple[Expr, ...]:
        """The neutral values for these dtypes."""
        found = self.fidentity(*dtypes)
        return self._checked("fidentity", found, dtypes, several=several)

    def combine(
        self, left: Sequence[Expr], right: Sequence[Expr], *, several: bool
    ) -> tuple[Expr, ...]:
        """What two results combine to."""
        dtypes = [x.dtype for x in left]
        if several:
            found = self.fcombine(tuple(left), tuple(right))
        else:
            found = self.fcombine(left[0], right[0])
        return self._checked("fcombine", found, dtypes, several=several)

    def _checked(
        self, function: str, found: Any, dtypes: Sequence[DType], *, several: bool
    ) -> tuple[Expr, ...]:
        if several and not (isinstance(found, (tuple, list)) and len(found) == len(dtypes)):
            given = f"{len(found)} values" if isinstance(found, (tuple, list)) else "one value"
            raise ComputeError(
                f"{self.name}: the reduction is over {len(dtypes)} values, so {function} must give "
                f"a tuple of {len(dtypes)}; it gave {given}."
            )
        if not several and isinstance(found, (tuple, list)):
            raise ComputeError(
                f"{self.name}: the reduction is over one value, but {function} gave "
                f"{len(found)}; reduce a tuple of values for that."
            )
        parts = [as_expr(f, d) for f, d in zip(found if several else [found], dtypes, strict=True)]
        for i, (part, dtype) in enumerate(zip(parts, dtypes, strict=True)):
            if part.dtype is not dtype:
                raise ComputeError(
                    f"{self.name}: value {i} of the reduction is {dtype}, but {function} gave "
                    f"{part.dtype} for it; convert it with .astype."
                )
        return tuple(parts)


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> CommReducer:
    """A reducer of one's own, over one value or several::

        argmax = te.comm_reducer(
            lambda x, y: (te.select(x[1] >= y[1], x[0], y[0]), te.maximum(x[1], y[1])),
            lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
            name="argmax",
        )
        index, value = te.compute((m,), lambda i: argmax((k.var, A[i, k]), axis=k))

    ``fcombine`` must be associative and commutative, and ``fidentity`` neutral: schedules rely on
    it.
    """
    if not callable(fcombine) or not callable(fidentity):
        raise ComputeError("comm_reducer takes two functions: fcombine(x, y), fidentity(*dtypes).")
    return CommReducer(fcombine, fidentity, name)

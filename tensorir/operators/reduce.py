"""Reductions: sum, prod, max, min in one block; mean and variance in several.

``axis`` is an int, a sequence of them, or None for all; ``keepdims`` keeps reduced dims as 1. Half
precision accumulates in float32, which CPUs compute in, and is rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...support.dtype import DType
from ...support.errors import ComputeError
from ..expr import GT, INDEX, BufferLoad, Expr, IntImm, Select, Var, const, maximum, min_value
from ..expr import cast as cast_expr
from ..te import compute as te
from ..te.compute import Tensor
from .elementwise import elementwise

Axes = int | Sequence[int] | None


largest_number = te.comm_reducer(
    lambda found, x: Select(GT(x, found), x, found), min_value, name="largest_number"
)
"""The maximum of what is a number, for those who meet every NaN again: a third of the work."""


def accumulator(dtype: DType) -> DType:
    """The dtype a sum over elements of ``dtype`` accumulates in."""
    return DType("float32") if dtype in ("float16", "bfloat16") else dtype


def normal_axes(axis: Axes, ndim: int) -> tuple[int, ...]:
    """Sorted axes counted from the front; raises ComputeError for one out of range or named
    twice.
    """
    if axis is None:
        return tuple(range(ndim))
    given = [axis] if isinstance(axis, int) else list(axis)
    for a in given:
        if not -ndim <= a < ndim:
            raise ComputeError(f"Expected an axis from {-ndim} to {ndim - 1}, found {a}.")
    axes = sorted({a % ndim for a in given})
    if len(axes) != len(given):
        raise ComputeError(f"The axes {given} name one twice.")
    return tuple(axes)


def reduced_shape(
    shape: Sequence[Expr], axes: Sequence[int], *, keepdims: bool
) -> tuple[Expr, ...]:
    """``shape`` without the reduced dims, or with 1 in their places."""
    if keepdims:
        return tuple([IntImm(1, INDEX) if d in axes else s for d, s in enumerate(shape)])
    return tuple([s for d, s in enumerate(shape) if d not in axes])


def kept_indices(indices: Sequence[Expr], axes: Sequence[int]) -> tuple[Expr, ...]:
    """The indices of the dims that a reduction over ``axes`` leaves."""
    return tuple([i for d, i in enumerate(indices) if d not in axes])


def reduce_block(
    name: str,
    x: Tensor,
    axes: Sequence[int],
    reducer: Callable[..., Expr],
    *,
    keepdims: bool = False,
    fn: Callable[[Expr, tuple[Expr, ...]], Expr] | None = None,
) -> Tensor:
    """``reducer`` over ``axes`` of ``fn(x[i...], indices of the dims left)``, by default of
    ``x[i...]``.
    """
    rv = {
        d: te.reduce_axis((0, x.shape[d]), f"k{n}" if len(axes) > 1 else "k")
        for n, d in enumerate(axes)
    }

    def element(*indices: Var) -> Expr:
        kept = kept_indices(indices, axes) if keepdims else tuple(indices)
        rest = iter(kept)
        load = BufferLoad(x, tuple([rv[d] if d in rv else next(rest) for d in range(x.ndim)]))
        return reducer(fn(load, kept) if fn is not None else load, list(rv.values()))

    return te.compute(reduced_shape(x.shape, axes, keepdims=keepdims), element, name)


def _simple(name: str, reducer: Callable[..., Expr], doc: str) -> Callable[..., Tensor]:
    def operator(x: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
        axes = normal_axes(axis, x.ndim)
        wide = accumulator(x.dtype)
        if wide is x.dtype:
            return reduce_block(name, x, axes, reducer, keepdims=keepdims)
        widened = reduce_block(
            f"{name}_{wide}",
            x,
            axes,
            reducer,
            keepdims=keepdims,
            fn=lambda v, _: cast_expr(v, wide),
        )
        return elementwise(name, lambda v: cast_expr(v, x.dtype), widened)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = doc
    return operator


sum = _simple("sum", te.sum, "The sum over axes.")
prod = _simple("prod", te.prod, "The product over axes.")
max = _simple("max", te.max, "The maximum over axes; NaN if any element is.")
min = _simple("min", te.min, "The minimum over axes; NaN if any element is.")


def count_of(x: Tensor, axes: Sequence[int], dtype: DType) -> Expr:
    """The number of elements reduced, as a value of ``dtype``."""
    count: Expr = IntImm(1, INDEX)
    for d in axes:
        count = count * x.shape[d]
    return const(count.value, dtype) if isinstance(count, IntImm) else cast_expr(count, dtype)


def mean(x: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over axes: a sum, then a division by the count. Floats only."""
    if not x.dtype.is_float:
        raise ComputeError(f"mean: expected a tensor of floats, found {x.dtype}.")
    axes = normal_axes(axis, x.ndim)
    wide = accumulator(x.dtype)
    total = reduce_block(
        "mean_sum", x, axes, te.sum, keepdims=keepdims, fn=lambda v, _: cast_expr(v, wide)
    )
    count = count_of(x, axes, wide)
    return elementwise("mean", lambda v: cast_expr(v / count, x.dtype), total)


def moments(x: Tensor, axes: Sequence[int], wide: DType | None = None) -> tuple[Tensor, Tensor]:
    """The mean over ``axes`` and the sum of squared differences from it, in ``wide`` (by default
    the accumulator's dtype) and without the reduced dims.

    Two passes, so that nothing cancels: the squares are of differences, not of the elements.
    """
    wide = wide or accumulator(x.dtype)
    count = count_of(x, axes, wide)
    total = reduce_block("mean_sum", x, axes, te.sum, fn=lambda v, _: cast_expr(v, wide))
    center = elementwise("mean", lambda v: v / count, total)

    def squared(v: Expr, kept: tuple[Expr, ...]) -> Expr:
        difference = cast_expr(v, wide) - BufferLoad(center, kept)
        return difference * difference

    return center, reduce_block("square_sum", x, axes, te.sum, fn=squared)


def variance(
    x: Tensor, axis: Axes = None, *, keepdims: bool = False, correction: int = 0
) -> Tensor:
    """The variance over axes: squared differences divided by the count less ``correction``, or by 0
    where that is less. Floats only.

    Of float32 in float64: a mean rounded to float32 is off by more than the deviation where that
    is a millionth of it.
    """
    if not x.dtype.is_float:
        raise ComputeError(f"variance: expected a tensor of floats, found {x.dtype}.")
    axes = normal_axes(axis, x.ndim)
    double = DType("float64")
    _, squares = moments(x, axes, double if x.dtype == "float32" else None)
    count = count_of(x, axes, squares.dtype)
    divisor = maximum(count - const(correction, squares.dtype), 0.0) if correction else count

    def element(*indices: Var) -> Expr:
        kept = kept_indices(indices, axes) if keepdims else tuple(indices)
        return cast_expr(BufferLoad(squares, kept) / divisor, x.dtype)

    return te.compute(reduced_shape(x.shape, axes, keepdims=keepdims), element, "variance")

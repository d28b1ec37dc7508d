"""Normalisations: layer_norm.

The mean of numbers that are many deviations away from zero is off by a part of the deviation, as it
is rounded. So the mean has two parts. What is added up are the differences from a number of the
row, of which nothing is lost where the deviation is small; the ``rest`` is what the sum of the two
loses when it is rounded::

    shift = x[0]      offset = mean(x - shift)
    center = shift + offset         rest = offset - (center - shift)
    (x - center - rest) / sqrt(mean((x - center)^2) - rest^2 + epsilon)

(shifted data: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American
Statistician 37, 1983; the rest of a sum: Dekker, Numerische Mathematik 18, 1971.)
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from ..expr import INDEX, LT, BufferLoad, Expr, IntImm, Select, Var, const, maximum
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from ..te import compute as te
from ..te.compute import Tensor, compute
from .elementwise import elementwise
from .reduce import (
    count_of,
    moments,
    normal_axes,
    reduce_block,
    reduced_shape,
)

SHORT = 128
"""Elements of a row that are a few vectors."""
LONG = 2048
"""Elements of a row that waits for memory. Of rows between the two the differences would be a tenth
of the time: the mean has one part, as eager PyTorch's has."""
LARGE = 1e30
"""From here on a number is no shift: differences from it may overflow, and mean and variance of
such rows are not what matters."""


def layer_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    axes: Sequence[int] = (-1,),
    epsilon: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` over the last ``axes`` of ``x``.

    ``gamma`` and ``beta`` have the shape of those axes. Ba, Kiros and Hinton, "Layer
    Normalization", arXiv 1607.06450. Raises ComputeError for axes that are not the last, or
    parameters of another rank.
    """
    normal = normal_axes(axes, x.ndim)
    first = x.ndim - len(normal)
    if normal != tuple(range(first, x.ndim)):
        raise ComputeError(f"layer_norm: expected the last axes of {x.ndim}, found {list(axes)}.")
    for p in (gamma, beta):
        if p is not None and p.ndim != len(normal):
            raise ComputeError(
                f"layer_norm: expected {p.name!r} of {len(normal)} dimensions, found {p.ndim}."
            )
    rest: Tensor | None = None
    if _is_shifted(x, normal):
        center, rest = _mean_in_parts(x, normal)
        squares = _squares_about(x, normal, center)
    else:
        center, squares = moments(x, normal)
    wide = center.dtype
    count = count_of(x, normal, wide)

    def element(*indices: Var) -> Expr:
        kept = indices[:first]
        square = BufferLoad(squares, kept) / count
        value, middle = cast_expr(BufferLoad(x, indices), wide), BufferLoad(center, kept)
        left = None if rest is None else BufferLoad(rest, kept)
        value = value - middle if left is None else value + middle
        if left is not None:
            square = maximum(square - left * left, 0.0)
        scale = call_intrin("rsqrt", square + const(epsilon, wide))
        # The rest and beta cost no operation, where products and sums are one.
        value = value * scale if left is None else call_intrin("fma", value, scale, -left * scale)
        weight, bias = (
            None if p is None else cast_expr(BufferLoad(p, indices[first:]), wide)
            for p in (gamma, beta)
        )
        if weight is not None and bias is not None:
            value = call_intrin("fma", value, weight, bias)
        elif weight is not None:
            value = value * weight
        elif bias is not None:
            value = value + bias
        return cast_expr(value, x.dtype)

    return compute(x.shape, element, "layer_norm")


def _is_shifted(x: Tensor, axes: Sequence[int]) -> bool:
    """Whether rows are added up as differences: those of half precision have no means of many
    deviations, and those of unknown length no first element, if they are empty."""
    length = 1
    for axis in axes:
        extent = x.shape[axis]
        if not isinstance(extent, IntImm):
            return False
        length *= extent.value
    return x.dtype.bits >= 32 and (0 < length <= SHORT or length >= LONG)


def _mean_in_parts(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The negated mean over ``axes``, rounded, and what that leaves out of the mean. A number that
    is added may be read by the addition; one that something is subtracted from may not."""
    kept = reduced_shape(x.shape, axes, keepdims=False)
    count = count_of(x, axes, x.dtype)

    def first(*indices: Var) -> Expr:
        rest = iter(indices)
        place = [IntImm(0, INDEX) if d in axes else next(rest) for d in range(x.ndim)]
        value = BufferLoad(x, tuple(place))
        is_small = LT(call_intrin("abs", value), const(LARGE, x.dtype))
        return Select(is_small, -value, const(0.0, x.dtype))

    shift = compute(kept, first, "shift")
    total = reduce_block(
        "mean_sum", x, axes, te.sum, fn=lambda v, place: v + BufferLoad(shift, place)
    )
    offset = elementwise("offset", lambda v: v / count, total)
    center = elementwise("mean", lambda s, o: s - o, shift, offset)
    return center, elementwise("rest", lambda s, o, c: o + (c - s), shift, offset, center)


def _squares_about(x: Tensor, axes: Sequence[int], center: Tensor) -> Tensor:
    """The sum over ``axes`` of the squared sums with ``center``."""

    def squared(v: Expr, place: tuple[Expr, ...]) -> Expr:
        difference = v + BufferLoad(center, place)
        return difference * difference

    return reduce_block("square_sum", x, axes, te.sum, fn=squared)

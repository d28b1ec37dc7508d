"""Normalisations: layer_norm.

The mean of numbers that are many deviations away from zero is off by a part of the deviation, as it
is rounded. The mean of what is left, ``rest = mean(x - mean)``, makes up for that

    (x - mean - rest) / sqrt(mean((x - mean)^2) - rest^2 + epsilon)

(Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician
37, 1983) at the cost of reading a row once more. It is computed of short rows, where that costs
little and the rounded sum is off by most, and of long ones, where errors add up.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from .. import compute as te
from ..compute import Tensor, compute
from ..expr import BufferLoad, Expr, IntImm, Var, const, maximum
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from .elementwise import elementwise
from .reduce import count_of, moments, normal_axes, reduce_block

SHORT = 64
"""Elements of a row that are a few vectors."""
LONG = 1 << 13
"""Elements of a row whose mean is as good as its rounding to float32."""


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
    center, squares = moments(x, normal)
    wide = center.dtype
    count = count_of(x, normal, wide)
    rest = _rest_of_mean(x, normal, center) if _wants_rest(x, normal) else None

    def element(*indices: Var) -> Expr:
        kept = indices[:first]
        square = BufferLoad(squares, kept) / count
        value = cast_expr(BufferLoad(x, indices), wide) - BufferLoad(center, kept)
        if rest is not None:
            value = value - BufferLoad(rest, kept)
            square = maximum(square - BufferLoad(rest, kept) * BufferLoad(rest, kept), 0.0)
        value = value * call_intrin("rsqrt", square + const(epsilon, wide))
        if gamma is not None:
            value = value * cast_expr(BufferLoad(gamma, indices[first:]), wide)
        if beta is not None:
            value = value + cast_expr(BufferLoad(beta, indices[first:]), wide)
        return cast_expr(value, x.dtype)

    return compute(x.shape, element, "layer_norm")


def _wants_rest(x: Tensor, axes: Sequence[int]) -> bool:
    """Whether rows are so short or so long that their mean has a rest. Those of unknown length have
    not: they take no vectors."""
    if x.dtype != "float32":
        return False
    length = 1
    for axis in axes:
        extent = x.shape[axis]
        if not isinstance(extent, IntImm):
            return False
        length *= extent.value
    return not SHORT < length <= LONG


def _rest_of_mean(x: Tensor, axes: Sequence[int], center: Tensor) -> Tensor:
    """The mean over ``axes`` of the differences from ``center``."""
    wide = center.dtype
    total = reduce_block(
        "rest_sum",
        x,
        axes,
        te.sum,
        fn=lambda v, kept: cast_expr(v, wide) - BufferLoad(center, kept),
    )
    count = count_of(x, axes, wide)
    return elementwise("rest", lambda v: v / count, total)

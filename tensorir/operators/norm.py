"""Normalisations: layer_norm."""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from ..compute import Tensor, compute
from ..expr import BufferLoad, Expr, Var, const
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from .reduce import count_of, moments, normal_axes


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

    def element(*indices: Var) -> Expr:
        kept = indices[:first]
        scale = call_intrin("rsqrt", BufferLoad(squares, kept) / count + const(epsilon, wide))
        value = (cast_expr(BufferLoad(x, indices), wide) - BufferLoad(center, kept)) * scale
        if gamma is not None:
            value = value * cast_expr(BufferLoad(gamma, indices[first:]), wide)
        if beta is not None:
            value = value + cast_expr(BufferLoad(beta, indices[first:]), wide)
        return cast_expr(value, x.dtype)

    return compute(x.shape, element, "layer_norm")

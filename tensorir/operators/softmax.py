"""Softmax and its logarithm along one axis, stable: the maximum is subtracted before the
exponential. It need not be NaN where an element is: that element's power is, and so is the sum.

Half precision is computed in float32 and rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import BufferLoad, Expr, Var, const
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from ..te import compute as te
from ..te.compute import Tensor
from .reduce import accumulator, kept_indices, largest_number, normal_axes, reduce_block


def _largest(name: str, x: Tensor, axes: Sequence[int]) -> Tensor:
    wide = accumulator(x.dtype)
    return reduce_block(name, x, axes, largest_number, fn=lambda v, _: cast_expr(v, wide))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``; the shape and dtype of ``x``."""
    axes = normal_axes(axis, x.ndim)
    wide = accumulator(x.dtype)
    largest = _largest("softmax_max", x, axes)

    def power(*indices: Var) -> Expr:
        shift = BufferLoad(largest, kept_indices(indices, axes))
        return call_intrin("exp_negative", cast_expr(BufferLoad(x, indices), wide) - shift)

    powers = te.compute(x.shape, power, "softmax_exp")
    total = reduce_block("softmax_sum", powers, axes, te.sum)

    # A product with the reciprocal is one rounding more than a quotient, and ten times as fast.
    scale = te.compute(
        total.shape, lambda *kept: const(1.0, wide) / BufferLoad(total, kept), "softmax_scale"
    )

    def element(*indices: Var) -> Expr:
        product = BufferLoad(powers, indices) * BufferLoad(scale, kept_indices(indices, axes))
        return cast_expr(product, x.dtype)

    return te.compute(x.shape, element, "softmax")


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``x - max - log(sum(exp(x - max)))`` along ``axis``; the shape and dtype of ``x``."""
    axes = normal_axes(axis, x.ndim)
    wide = accumulator(x.dtype)
    largest = _largest("log_softmax_max", x, axes)

    def shifted(v: Expr, kept: tuple[Expr, ...]) -> Expr:
        return cast_expr(v, wide) - BufferLoad(largest, kept)

    def power(v: Expr, kept: tuple[Expr, ...]) -> Expr:
        return call_intrin("exp_negative", shifted(v, kept))

    total = reduce_block("log_softmax_sum", x, axes, te.sum, fn=power)

    def element(*indices: Var) -> Expr:
        kept = kept_indices(indices, axes)
        value = shifted(BufferLoad(x, indices), kept) - call_intrin("log", BufferLoad(total, kept))
        return cast_expr(value, x.dtype)

    return te.compute(x.shape, element, "log_softmax")

"""Normalisations that both front ends write with others: group norm, RMS norm."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graphir.dim import divide, product
from ..graphir.expr import Atom, Constant, constant
from ..graphir.op import folded_shape
from ..support.dtype import DType
from ..tensorir.expr import Expr, IntImm
from .integer_division import Emitter


def scalar(value: float, dtype: DType) -> Constant:
    """A number as a scalar of a float dtype."""
    return constant(np.array(value), dtype)


def group_norm(
    context: Emitter,
    x: Atom,
    groups: int | None,
    weight: Atom | None,
    bias: Atom | None,
    epsilon: float,
) -> Atom:
    """``x[n, c, ...]`` less its mean, by its deviation, over each group of channels and all behind
    them; then times ``weight[c]`` plus ``bias[c]``. ``groups`` None: each channel is one.

    It is the layer norm of ``x`` with a group's elements in one dim.
    """
    kind = context.type(x)
    count: Expr = kind.shape[1] if groups is None else IntImm(groups)
    rest = product(kind.shape[2:])
    if groups is not None:
        each = divide(kind.shape[1], count)
        assert each is not None
        rest = product([each, rest])
    rows = context.op("reshape", x, folded_shape([kind.shape[0], count, rest]))
    normal = context.op("layer_norm", rows, axes=(-1,), epsilon=epsilon)
    result: Atom = context.op("reshape", normal, folded_shape(kind.shape))
    channels = folded_shape([kind.shape[1], *[IntImm(1)] * (kind.ndim - 2)])
    for name, parameter in (("multiply", weight), ("add", bias)):
        if parameter is not None:
            result = context.op(name, result, context.op("reshape", parameter, channels))
    return result


def rms_norm(
    context: Emitter, x: Atom, axes: Sequence[int], weight: Atom | None, epsilon: float
) -> Atom:
    """``x / sqrt(mean(x * x) + epsilon)`` over the last ``axes``, times ``weight``.

    Half precision is computed in float32. Zhang and Sennrich, "Root Mean Square Layer
    Normalization", arXiv 1910.07467.
    """
    dtype = context.type(x).dtype
    half = dtype in ("float16", "bfloat16")
    wide = DType("float32") if half else dtype
    value: Atom = context.op("astype", x, dtype=str(wide)) if half else x
    squares = context.op("square", value)
    mean = context.op("mean", squares, axis=tuple(axes), keepdims=True)
    scale = context.op("rsqrt", context.op("add", mean, scalar(epsilon, wide)))
    result: Atom = context.op("multiply", value, scale)
    if half:
        result = context.op("astype", result, dtype=str(dtype))
    return result if weight is None else context.op("multiply", result, weight)

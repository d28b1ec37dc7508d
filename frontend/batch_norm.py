"""Batch norm with constant statistics as a scale and a shift, computed at import in float64.

``(x - mean) / sqrt(variance + epsilon) * weight + bias`` is ``x * scale + shift``. Were the four
constants left to the compiler, it would compile kernels only to fold them.
"""

from __future__ import annotations

import numpy as np

from ..graphir.expr import Atom, Constant, constant
from ..support.dtype import DType


def float64_values(value: Constant) -> np.ndarray:
    """The numbers of a constant in float64; those of bfloat16 are stored as bits."""
    if value.type.dtype == "bfloat16":
        wide = (value.data.astype(np.uint32) << 16).view(np.float32)
        return np.asarray(wide, np.float64)
    return np.asarray(value.data, np.float64)


def fold_batch_norm(
    mean: Atom,
    variance: Atom,
    weight: Atom | None,
    bias: Atom | None,
    *,
    epsilon: float,
    dtype: DType,
    ndim: int,
) -> tuple[Constant, Constant] | None:
    """The scale and the shift in ``dtype``, shaped to broadcast over dim 1 of ``ndim`` dims; None
    unless every parameter is constant."""
    if not isinstance(mean, Constant) or not isinstance(variance, Constant):
        return None
    if not all(p is None or isinstance(p, Constant) for p in (weight, bias)):
        return None
    with np.errstate(all="ignore"):
        scale = 1 / np.sqrt(float64_values(variance) + epsilon)
        if isinstance(weight, Constant):
            scale = scale * float64_values(weight)
        shift = -float64_values(mean) * scale
        if isinstance(bias, Constant):
            shift = shift + float64_values(bias)
        shape = (-1, *[1] * (ndim - 2))
        pair = scale.reshape(shape), shift.reshape(shape)
        return constant(pair[0], dtype), constant(pair[1], dtype)

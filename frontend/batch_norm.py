"""Batch norm with constant statistics as a scale and a shift, computed at import in float64.

``(x - mean) / sqrt(variance + epsilon) * weight + bias`` is ``x * scale + shift``. Were the four
constants left to the compiler, it would compile kernels only to fold them.
"""

from __future__ import annotations

import numpy as np

from ..graphir.expr import Atom, Constant, constant
from ..graphir.text.literal import readable
from ..graphir.weights import Weights, derived_name
from ..support.dtype import DType


def fold_batch_norm(
    weights: Weights,
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

    def values(of: Constant) -> np.ndarray:
        return readable(weights.array(of), of.type.dtype).astype(np.float64)

    def named(of: Atom, word: str, numbers: np.ndarray) -> Constant:
        made = constant(numbers.reshape(-1, *[1] * (ndim - 2)), dtype)
        name = of.name if isinstance(of, Constant) else ""
        return weights.add(derived_name([name], word), made.values(), dtype)

    with np.errstate(all="ignore"):
        scale = 1 / np.sqrt(values(variance) + epsilon)
        if isinstance(weight, Constant):
            scale = scale * values(weight)
        shift = -values(mean) * scale
        if isinstance(bias, Constant):
            shift = shift + values(bias)
        return named(weight or variance, "scale", scale), named(bias or mean, "shift", shift)

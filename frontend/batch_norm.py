"""Batch norm with constant statistics as a scale and a shift, computed at import in float64.

``(x - mean) / sqrt(variance + epsilon) * weight + bias`` is ``x * scale + shift``. Were the four
constants left to the compiler, it would compile kernels only to fold them. Of half precision it is
computed in float32, with scales and shifts that are, and rounded once, as PyTorch does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..graphir.expr import Atom, Constant, Var, constant
from ..graphir.text.literal import readable
from ..graphir.type import TensorType
from ..graphir.weights import Weights, derived_name
from ..support.dtype import DType


def normalized(
    op: Callable[..., Var],
    weights: Weights,
    x: Atom,
    mean: Atom,
    variance: Atom,
    weight: Atom | None,
    bias: Atom | None,
    *,
    epsilon: float,
    kind: TensorType,
) -> Var | None:
    """The norm over dim 1 of ``x``, of type ``kind``, made of operators that ``op`` emits by name;
    None unless every parameter is constant."""
    is_half = kind.dtype in ("float16", "bfloat16")
    wide = DType("float32") if is_half else kind.dtype
    folded = fold_batch_norm(
        weights, mean, variance, weight, bias, epsilon=epsilon, dtype=wide, ndim=kind.ndim
    )
    if folded is None:
        return None
    scale, shift = folded
    operand = op("astype", x, dtype=str(wide)) if is_half else x
    result = op("add", op("multiply", operand, scale), shift)
    return op("astype", result, dtype=str(kind.dtype)) if is_half else result


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

"""What each elementwise operator without attributes means, in NumPy: the numerics table.

Every row of ``ELEMENTWISE`` (``tensorir/operators/elementwise.py``) is tested by it: the function
of tensors at special values and in half precision, the graph's row, and what torch and ONNX call
so.
An operator that is not here means the NumPy function of its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special


def _sigmoid(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _divide(a: Any, b: Any) -> Any:
    return a / b if a.dtype.kind == "f" else np.trunc(a / b)


NUMPY: dict[str, Callable[..., Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "divide": _divide,
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "floor_mod": np.mod,
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: np.maximum(x, 0),
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "sigmoid": _sigmoid,
    "sign": lambda x: np.where(np.isnan(x), 0, np.sign(x)),
    "silu": lambda x: x * _sigmoid(x),
    "softplus": lambda x: np.logaddexp(x, 0),
}


def meaning(name: str) -> Callable[..., Any]:
    """What an operator computes."""
    function: Callable[..., Any] = NUMPY.get(name) or getattr(np, name)
    return function

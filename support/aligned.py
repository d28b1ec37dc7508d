"""Arrays on the boundary that kernels rely on.

Constants are made here from the beginning on: what is not aligned would have to be copied once more
when a program is loaded, and weights are large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .abi import ALIGNMENT


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """An uninitialised C-contiguous array whose first element lies on an ``ALIGNMENT`` boundary."""
    raw = np.empty(math.prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return np.ndarray(tuple(shape), dtype, raw, start)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """A C-contiguous copy on an ``ALIGNMENT`` boundary."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy

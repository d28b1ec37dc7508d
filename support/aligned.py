"""Arrays on the boundary that kernels rely on.

Constants are made here from the beginning on: what is not aligned would have to be copied once more
when a program is loaded, and weights are large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .abi import ALIGNMENT, PAGE_BYTES

LARGE = 16 * PAGE_BYTES
"""Bytes from which an array's place in its page is chosen."""
MIDDLE = PAGE_BYTES // 2
"""The place of large arrays in their page. CPUs compare addresses of loads and of earlier stores by
their place in a page first: a kernel that writes a little ahead of what it reads, pages aside,
waits. Allocators hand out the beginning of a page and a few bytes of their own; results stand far
from there."""


def slack(nbytes: int) -> int:
    """Bytes that ``aligned_empty`` takes beside those of the array."""
    return PAGE_BYTES if nbytes >= LARGE else ALIGNMENT


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """An uninitialised C-contiguous array whose first element lies on an ``ALIGNMENT`` boundary,
    and in the middle of a page where the array is large."""
    nbytes = math.prod(shape) * dtype.itemsize
    unit, place = slack(nbytes), MIDDLE if nbytes >= LARGE else 0
    raw = np.empty(nbytes + unit, np.uint8)
    return np.ndarray(tuple(shape), dtype, raw, (place - raw.ctypes.data) % unit)


def aligned_copy(array: np.ndarray) -> np.ndarray:
    """A C-contiguous copy on an ``ALIGNMENT`` boundary."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy

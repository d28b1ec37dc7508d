"""Literals: the constants that are small enough to stand in a module's text with their values.

Their text is what the printer writes and the parser reads, bit for bit: the shortest decimal that
the dtype reads back as the same value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...support.dtype import DType

SMALL = 16
"""Elements of the largest literal."""


def is_literal(array: np.ndarray, dtype: DType) -> bool:
    """Whether an array (of bfloat16: its bits) is small, and no NaN of it has a payload, which a
    text would lose."""
    if array.size > SMALL:
        return False
    values = readable(array, dtype)
    if not dtype.is_float or not (strange := np.isnan(values)).any():
        return True
    plain = np.full(values.shape, np.nan, values.dtype)
    return bool(values[strange].tobytes() == plain[strange].tobytes())


def readable(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The values of an array: those of bfloat16, which come as bits, as float32."""
    if dtype != "bfloat16":
        return array
    return np.asarray(array.astype(np.uint32) << 16).view(np.float32)


def print_literal(array: np.ndarray, dtype: DType) -> str:
    """The values as a Python literal: a number, or nested lists."""
    return _nested(readable(array, dtype))


def _nested(data: np.ndarray) -> str:
    if data.ndim == 0:
        return _scalar(data[()])
    return "[" + ", ".join(_nested(np.asarray(row)) for row in data) + "]"


def _scalar(value: Any) -> str:
    if isinstance(value, np.floating):
        short = str(value)  # the shortest text for this width, if a double reads the same value
        return short if type(value)(float(short)) == value or value != value else repr(float(value))
    return str(value.item())

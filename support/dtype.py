"""Data types: interned strings that know their kind, bits and lanes.

``DType`` is a ``str``, so ``x.dtype == "float32"`` reads and prints as users expect; two equal
dtypes are the same object. A vector type carries its lanes in its name: ``float32x16``.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np

from .errors import DTypeError

_SCALARS: dict[str, tuple[str, int]] = {
    "float64": ("float", 64),
    "float32": ("float", 32),
    "float16": ("float", 16),
    "bfloat16": ("float", 16),
    "int64": ("int", 64),
    "int32": ("int", 32),
    "int16": ("int", 16),
    "int8": ("int", 8),
    "uint64": ("uint", 64),
    "uint32": ("uint", 32),
    "uint16": ("uint", 16),
    "uint8": ("uint", 8),
    "bool": ("bool", 8),
    "handle": ("handle", 64),
}
_NOT_IN_NUMPY = ("bfloat16", "handle")
_PATTERN = re.compile(rf"({'|'.join(_SCALARS)})(?:x([1-9][0-9]*))?\Z")


class DType(str):
    """An interned dtype name.

    ``kind`` is float, int, uint, bool or handle; ``bits`` those of one lane; ``lanes`` 1 for
    scalars.
    """

    kind: str
    bits: int
    lanes: int
    itemsize: int
    """Bytes of one lane."""
    scalar: DType
    """The dtype of one lane."""
    is_float: bool
    is_integer: bool
    """Signed or unsigned, bool excluded."""
    is_bool: bool
    _widths: dict[int, DType]
    _interned: ClassVar[dict[str, DType]] = {}

    def __new__(cls, name: str) -> DType:
        """Return the dtype called ``name``; raises DTypeError for a name that is no dtype."""
        known = cls._interned.get(name)
        if known is not None:
            return known
        match = _PATTERN.match(name)
        if match is None:
            raise DTypeError(name, tuple(_SCALARS))
        if match.group(2) == "1":
            return cls(match.group(1))
        self = super().__new__(cls, name)
        self.kind, self.bits = _SCALARS[match.group(1)]
        self.lanes = int(match.group(2) or 1)
        self.itemsize = self.bits // 8
        self.scalar = self if self.lanes == 1 else cls(match.group(1))
        self.is_float, self.is_bool = self.kind == "float", self.kind == "bool"
        self.is_integer = self.kind in ("int", "uint")
        self._widths = {}
        return cls._interned.setdefault(name, self)

    def __reduce__(self) -> tuple[type[DType], tuple[str]]:
        """By name: what is interned stays so in another process."""
        return DType, (str(self),)

    def with_lanes(self, lanes: int) -> DType:
        """The vector dtype with this lane type."""
        found = self._widths.get(lanes)
        if found is None:
            found = self.scalar if lanes == 1 else DType(f"{self.scalar}x{lanes}")
            self._widths[lanes] = found
        return found

    def to_numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of a lane; raises DTypeError for bfloat16 and handle, which it lacks."""
        if self.scalar in _NOT_IN_NUMPY:
            raise DTypeError(str(self), tuple([n for n in _SCALARS if n not in _NOT_IN_NUMPY]))
        return np.dtype(str(self.scalar))

    @classmethod
    def from_numpy(cls, dtype: object) -> DType:
        """The dtype of anything ``np.dtype`` takes; raises DTypeError where there is none.

        That is: strings, objects, complex numbers, and numbers in the other byte order.
        """
        try:
            found = np.dtype(dtype)  # type: ignore[call-overload]
        except TypeError:
            raise DTypeError(str(dtype), tuple(_SCALARS)) from None
        if not found.isnative:
            raise DTypeError(f"{found.name} in the other byte order", tuple(_SCALARS))
        return cls(found.name)


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """Floats rounded to bfloat16 (nearest, ties to even) as uint16 bits."""
    bits = values.astype(np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    # Rounding could carry a NaN's payload into infinity: keep it quiet instead. (np.where, not an
    # assignment: arithmetic on an array without dimensions gives a scalar.)
    quiet = ((bits >> 16) | 0x40).astype(np.uint16)
    return np.where(np.isnan(values), quiet, rounded)

"""Half precision as integers of 16 bits that stand in the same order.

Of a bfloat16 or float16 that is not negative the bits count upwards, of a negative one downwards
below the sign, which ``bits ^ (bits >> 15 & 0x7FFF)`` puts right. Infinities are the ends of the
numbers, and beyond either stand the NaN of that sign: with the lowest number moved to the lowest
integer those below wrap around to the top, so that a maximum finds every NaN. A vector has twice as
many of these integers as it has float32, and a maximum of them is one instruction, where one of
floats that keeps NaN is three. Of two zeros the negative one is the lesser here, where PyTorch's
maximum is the one that comes first.
"""

from __future__ import annotations

from ...support.dtype import DType
from ..expr import Expr, Let, Var, const
from ..intrinsics import call_intrin

KEY = DType("int16")
_ABOVE = {"bfloat16": 0x7F, "float16": 0x3FF}
"""The NaN of one sign."""


def is_keyed(dtype: DType) -> bool:
    """Whether elements of a dtype are compared by their keys."""
    return str(dtype) in _ABOVE


def key_of(x: Expr) -> Expr:
    """The key of a number: minus infinity has the lowest, NaN have the highest."""
    bits = Var("bits", KEY)
    key = _turned(bits) - const(_ABOVE[str(x.dtype)], KEY)
    return Let(bits, call_intrin("reinterpret", x, dtype=KEY), key)


def number_of(key: Expr, dtype: DType) -> Expr:
    """The number that a key is of."""
    moved = Var("moved", KEY)
    number = call_intrin("reinterpret", _turned(moved), dtype=dtype)
    return Let(moved, key + const(_ABOVE[str(dtype)], KEY), number)


def _turned(bits: Expr) -> Expr:
    sign = call_intrin("shift_right", bits, const(KEY.bits - 1, KEY))
    magnitude = call_intrin("bitwise_and", sign, const((1 << KEY.bits - 1) - 1, KEY))
    return call_intrin("bitwise_xor", bits, magnitude)

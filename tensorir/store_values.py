"""Which conversions a store makes by itself, and what the others are refused with.

In the text a store converts between integers (the low bits are kept), between floats and from an
integer to a float (both round); the module has the Cast, and prints it. What drops fractions, and
what makes a number of a condition or a condition of a number, is written out. In the IR itself a
stored value has its buffer's dtype: ``verify`` refuses all else.
"""

from __future__ import annotations

from ..support.dtype import DType


def converts(value: DType, buffer: DType) -> bool:
    """Whether a store may make the one of the other, both of them scalar."""
    return (value.is_integer and (buffer.is_integer or buffer.is_float)) or (
        value.is_float and buffer.is_float
    )


def refused_store(name: str, wanted: DType, found: DType, *, is_literal: bool = False) -> str:
    """What is said of a stored value of another dtype, or of other lanes; a number that is written
    out is no quotient."""
    text = f"Expected a value of dtype {wanted}, as the buffer {name!r} has; found {found}."
    cast = f'write T.Cast("{wanted}", x)'
    if found.lanes != wanted.lanes:
        if found.lanes == 1:
            return f"{text} Store one value for each index: T.Broadcast(x, {wanted.lanes})."
        return f"{text} Store a vector at as many indices: T.Ramp(i, 1, {found.lanes})."
    if found.scalar.is_float and wanted.scalar.is_integer:
        more = (
            ""
            if is_literal
            else (", or T.floordiv(a, b) for a quotient of integers that rounds down")
        )
        return (
            f"{text} A store drops no fractions by itself: {cast}, which rounds towards zero{more}."
        )
    return f"{text} A store does not convert these by itself: {cast}."

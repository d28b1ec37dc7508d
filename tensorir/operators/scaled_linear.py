"""Linear layers whose weights are integers of a few bits, with a scale for each group of them.

Numbers stand in words of 32 bits, low bits first: the word ``w[n, g, q]`` has those of the terms
``per * q ... per * q + per - 1`` of group g, where ``per = 32 // bits``. A number becomes a float32
without a conversion: its bits are put into a float whose unit they then count,

    bits   0 | exponent of 2^(23 - p) | ... number << p ...     =     2^(23 - p) + number

for all places p at which it ends below the exponent, so that a shift serves several numbers. What
is subtracted, 2^(23 - p) plus the zero point, leaves it exact.
"""

from __future__ import annotations

import math

from ...support.dtype import DType
from ...support.errors import ComputeError
from ..expr import BufferLoad, Expr, IntImm, Var, const
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from ..te import compute as te
from ..te.compute import Tensor

WORD = DType("uint32")
BITS = (2, 4, 8)
"""Widths of a number."""
FLOAT = DType("float32")
MANY_ROWS = 6
"""Rows from which on weights are made floats before they are multiplied: that is done once for all
rows then, and the product is one of floats."""
_FRACTION = 23
"""Bits of a float32 below its exponent."""
_BIAS = 127


def scaled_linear(
    x: Tensor, w: Tensor, scale: Tensor, zero: Tensor | None = None, *, bits: int = 8
) -> Tensor:
    """``x[..., k]`` times weights ``(number - zero[n, g]) * scale[n, g]``, where the numbers are
    unsigned ones of ``bits`` in ``w[n, g, q]``: ``[..., n]``, in float32.

    x is float32 and has as many terms as the groups together; w is uint32; scale is of any float
    dtype, zero of that or uint8, and where there is none it is the middle, ``1 << bits - 1``. Two
    reduction blocks: ``terms``, a product for each group, and ``scaled_linear``, the sum of them
    times their scales. Of MANY_ROWS and more it is a product with ``weights`` that were scaled
    before. Raises ComputeError for ranks, dtypes or dims that do not fit.
    """
    if bits not in BITS:
        raise ComputeError(f"scaled_linear: expected 2, 4 or 8 bits, found {bits}.")
    if x.ndim < 1 or w.ndim != 3 or any(s is not None and s.ndim != 2 for s in (scale, zero)):
        raise ComputeError(
            "scaled_linear: expected x[..., k], w[n, g, q], scale[n, g] and zero[n, g]."
        )
    narrow = zero is None or zero.dtype.is_float or zero.dtype == "uint8"
    if (x.dtype, w.dtype) != (FLOAT, WORD) or not scale.dtype.is_float or not narrow:
        found = ", ".join([str(t.dtype) for t in (x, w, scale, zero) if t is not None])
        raise ComputeError(
            "scaled_linear: expected x of float32, w of uint32, scale of floats and zero of floats "
            f"or uint8; found {found}."
        )
    per = WORD.bits // bits
    columns, groups, words = w.shape
    given = [(x.shape[-1], groups * words * per)]
    given += [(t.shape[d], w.shape[d]) for t in (scale, zero) if t is not None for d in (0, 1)]
    for a, b in given:
        if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value:
            raise ComputeError(f"scaled_linear: the dims {a} and {b} differ.")
    rows = math.prod([d.value if isinstance(d, IntImm) else 0 for d in x.shape[:-1]])
    if rows >= MANY_ROWS:
        return _of_many_rows(x, w, scale, zero, bits)
    q, s = te.reduce_axis((0, words), "q"), te.reduce_axis((0, per), "s")
    g = te.reduce_axis((0, groups), "g")

    def term(*indices: Var) -> Expr:
        *row, group, column = indices
        k = (group * words + q) * per + s
        value = number(BufferLoad(w, (column, group, q)), s, bits, zero is None)
        if zero is not None:
            value = value - cast_expr(BufferLoad(zero, (column, group)), FLOAT)
        return te.sum(BufferLoad(x, (*row, k)) * value, axis=[q, s])

    terms = te.compute((*x.shape[:-1], groups, columns), term, "terms")

    def element(*indices: Var) -> Expr:
        *row, column = indices
        factor = cast_expr(BufferLoad(scale, (column, g)), FLOAT)
        return te.sum(BufferLoad(terms, (*row, g, column)) * factor, axis=[g])

    return te.compute((*x.shape[:-1], columns), element, "scaled_linear")


def _of_many_rows(x: Tensor, w: Tensor, scale: Tensor, zero: Tensor | None, bits: int) -> Tensor:
    """The product with ``weights``, which are floats: each is taken out of its word once a call."""
    columns, groups, words = w.shape
    per = WORD.bits // bits

    def weight(column: Var, place: Var) -> Expr:
        group, inside = place // (words * per), place % (words * per)
        value = number(
            BufferLoad(w, (column, group, inside // per)), inside % per, bits, zero is None
        )
        if zero is not None:
            value = value - cast_expr(BufferLoad(zero, (column, group)), FLOAT)
        return value * cast_expr(BufferLoad(scale, (column, group)), FLOAT)

    weights = te.compute((columns, groups * words * per), weight, "weights")
    k = te.reduce_axis((0, groups * words * per), "k")

    def element(*indices: Var) -> Expr:
        *row, column = indices
        return te.sum(BufferLoad(x, (*row, k)) * BufferLoad(weights, (column, k)), axis=[k])

    return te.compute((*x.shape[:-1], columns), element, "scaled_linear")


def number(word: Expr, place: Expr, bits: int, centred: bool) -> Expr:
    """The number at a place of a word as a float32, less the middle of its range where it is to be
    ``centred``. Exact."""
    together = _FRACTION // bits
    position = cast_expr(place % together * bits, WORD)
    shift = cast_expr(place // together * (together * bits), WORD)
    word = call_intrin("shift_right", word, shift)
    mask = call_intrin("shift_left", const((1 << bits) - 1, WORD), position)
    exponent = call_intrin(
        "shift_left", const(_BIAS + _FRACTION, WORD) - position, const(_FRACTION, WORD)
    )
    put = call_intrin("bitwise_or", call_intrin("bitwise_and", word, mask), exponent)
    least = call_intrin("reinterpret", exponent, dtype=FLOAT)
    if centred:
        least = least + const(float(1 << (bits - 1)), FLOAT)
    return call_intrin("reinterpret", put, dtype=FLOAT) - least

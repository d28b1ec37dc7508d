"""Products of bytes as graph operators: matrix products and convolutions less zero points.

A number q of 8 bits stands for (q - zero point) * scale. Products are taken of the bytes as they
are, ``integer_matmul``; what zero points add is subtracted afterwards, from sums of the operands
alone, of which those of a constant weight are known at compile time:

    sum over k of (A - a) * (B - b)  =  A @ B - a * (column sums of B) - b * (row sums of A - a)

A convolution is that product with rows of the bytes that its windows read (``window_rows``). All of
it is int32 arithmetic and exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .dim import static_shape, static_value
from .expr import Atom, Var, constant
from .op import tensor_type_of
from .window_rows import Emit, is_worth_rows, weight_rows, window_rows

MOST_TERMS = 1 << 15
"""Terms of a sum of products of bytes that int32 holds, whatever they are."""


def integer_product(
    emit: Emit, a: Atom, b: Atom, a_zero: Atom | None = None, b_zero: Atom | None = None
) -> Atom:
    """The product of int8 or uint8 operands under NumPy's rules, in int32, less their zero points:
    int32, scalars, or one number a row of ``a`` as a column, a column of ``b``."""
    result: Atom = emit("integer_matmul", a, b)
    both = tensor_type_of(a).ndim > 1 and tensor_type_of(b).ndim > 1
    if a_zero is not None:
        axis = -2 if tensor_type_of(b).ndim > 1 else -1
        columns = emit("sum", emit("astype", b, dtype="int32"), axis=axis, keepdims=both)
        result = emit("subtract", result, emit("multiply", a_zero, columns))
    if b_zero is not None:
        wide: Atom = emit("astype", a, dtype="int32")
        if a_zero is not None:
            wide = emit("subtract", wide, a_zero)
        rows = emit("sum", wide, axis=-1, keepdims=both)
        result = emit("subtract", result, emit("multiply", rows, b_zero))
    return result


def is_integer_conv(x: Atom, w: Atom, groups: int) -> bool:
    """Whether a convolution of these shapes is one that ``integer_conv`` takes: one group, and
    channels or terms enough, and no more of these than int32 holds."""
    sizes = static_shape(tensor_type_of(w).shape)
    return sizes is not None and math.prod(sizes[1:]) <= MOST_TERMS and is_worth_rows(x, w, groups)


def integer_conv(
    emit: Emit,
    x: Atom,
    w: Atom,
    x_zero: int | Atom,
    w_zero: Atom | None,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Var:
    """The convolution of bytes (batch, channels, pixels...) with ``w`` (out, channels, kernel...)
    less their zero points, in int32, channels last: (batch, pixels..., out).

    Padding is the zero point of ``x``, so that it stands for zero: a number, or a scalar of its
    dtype, where pixels are static. ``w_zero`` is int32, a scalar or one number an output.
    """
    kernel = [static_value(d) or 0 for d in tensor_type_of(w).shape[2:]]
    padding = tuple(padding)
    if any(padding) and not isinstance(x_zero, int):
        x, padding = _padded(emit, x, padding, x_zero), (0,) * len(padding)
    rows = window_rows(
        emit, x, kernel, strides=strides, padding=padding, dilation=dilation,
        pad_value=float(x_zero if isinstance(x_zero, int) else 0),
    )  # fmt: skip
    weight = emit("permute_dims", weight_rows(emit, w), axes=(1, 0))
    zero: Atom | None
    if isinstance(x_zero, int):
        zero = constant(x_zero, "int32") if x_zero else None
    else:
        zero = emit("astype", x_zero, dtype="int32")
    result = integer_product(emit, rows, weight, zero, w_zero)
    assert isinstance(result, Var)
    return result


def _padded(emit: Emit, x: Atom, padding: Sequence[int], value: Atom) -> Var:
    """Pixels with a border of a number that is known when the program runs."""
    sizes = static_shape(tensor_type_of(x).shape)
    assert sizes is not None
    inside = np.ones((1, 1, *sizes[2:]), bool)
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    inside = np.pad(inside, [(0, 0), (0, 0), *pairs])
    wide = emit("pad", x, pad_width=(0, 0, 0, 0, *padding), pad_value=0.0)
    return emit("where", constant(inside, "bool"), wide, value)

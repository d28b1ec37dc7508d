"""Products of bytes as graph operators: matrix products and convolutions less zero points.

A number q of 8 bits stands for (q - zero point) * scale. Products are taken of the bytes as they
are, ``integer_matmul``; what zero points add is subtracted afterwards, from sums of the operands
alone, of which those of a constant weight are known at compile time:

    sum over k of (A - a) * (B - b)  =  A @ B - a * (column sums of B) - b * (row sums of A - a)

A convolution is that product with rows of the bytes that its windows read, channels last: these are
copied, a byte each, where a window is more than its pixel. All of it is int32 arithmetic and exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .dim import static_shape, static_value
from .expr import Atom, Var, constant
from .op import folded_shape, tensor_type_of

FEWEST = 16
"""Outputs at the least, and channels of a window of one pixel, for which products of bytes are
worth the copies of what they read."""
FEWEST_TERMS = 96
"""Terms of a sum that are worth them with fewer channels, as of a network's first layer, whose
windows are large."""
MOST_TERMS = 1 << 15
"""Terms of a sum of products of bytes that int32 holds, whatever they are."""


Emit = Callable[..., Var]
"""Emits an operator: its name, its operands, and attributes by keyword; gives its result."""


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
    channels or terms enough."""
    kinds = tensor_type_of(x), static_shape(tensor_type_of(w).shape)
    channels = static_value(kinds[0].shape[1])
    if groups != 1 or channels is None or kinds[1] is None:
        return False
    terms = math.prod(kinds[1][1:])
    many = channels >= FEWEST or terms >= FEWEST_TERMS
    return many and kinds[1][0] >= FEWEST and terms <= MOST_TERMS


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
    count = tensor_type_of(x).ndim - 2
    kernel = [static_value(d) or 0 for d in tensor_type_of(w).shape[2:]]
    padding, channels = tuple(padding), static_value(tensor_type_of(x).shape[1])
    if any(padding) and isinstance(x_zero, int) and (channels or FEWEST) < FEWEST:
        # A row of a window of few channels is one run, but for a border. Channels first, as here,
        # the border itself is whole rows and ends of rows.
        x = emit("pad", x, pad_width=(0, 0, 0, 0, *padding), pad_value=float(x_zero))
        padding = (0,) * (2 * count)
    rows: Atom = emit("permute_dims", x, axes=(0, *range(2, count + 2), 1))
    if any(padding) and not isinstance(x_zero, int):
        rows, padding = _padded(emit, rows, padding, x_zero), (0,) * (2 * count)
    if max(kernel) > 1 or max(strides) > 1 or any(padding):
        found = emit(
            "im2col", rows, kernel=tuple(kernel), strides=tuple(strides), padding=padding,
            dilation=tuple(dilation), pad_value=float(x_zero if isinstance(x_zero, int) else 0),
        )  # fmt: skip
        dims = tensor_type_of(found).shape
        terms = math.prod([*kernel, static_value(dims[-1]) or 0])
        rows = emit("reshape", found, folded_shape((*dims[: count + 1], terms)))
    turned = emit("permute_dims", w, axes=(*range(2, count + 2), 1, 0))
    outputs = tensor_type_of(turned).shape[-1]
    weight = emit("reshape", turned, folded_shape((math.prod(_sizes(turned)[:-1]), outputs)))
    zero: Atom | None
    if isinstance(x_zero, int):
        zero = constant(x_zero, "int32") if x_zero else None
    else:
        zero = emit("astype", x_zero, dtype="int32")
    result = integer_product(emit, rows, weight, zero, w_zero)
    assert isinstance(result, Var)
    return result


def _padded(emit: Emit, rows: Atom, padding: Sequence[int], value: Atom) -> Var:
    """Pixels with a border of a number that is known when the program runs."""
    inside = np.ones((1, *_sizes(rows)[1:-1], 1), bool)
    pairs = list(zip(padding[::2], padding[1::2], strict=True))
    inside = np.pad(inside, [(0, 0), *pairs, (0, 0)])
    wide = emit("pad", rows, pad_width=(0, 0, *padding, 0, 0), pad_value=0.0)
    return emit("where", constant(inside, "bool"), wide, value)


def _sizes(atom: Atom) -> tuple[int, ...]:
    sizes = static_shape(tensor_type_of(atom).shape)
    assert sizes is not None
    return sizes

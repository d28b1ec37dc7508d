"""Convolutions as products: the rows that their windows read, channels last, times a matrix.

    x (batch, channels, pixels...)  ── window_rows ──>  (batch, windows..., kernel * channels)
    w (out, channels, kernel...)    ── weight_rows ──>  (out, kernel * channels)

What a window reads is copied, once for each window that reads it, which is worth it where products
of the type are much faster than its bytes are moved: where channels are many, or few and windows
large, as in a network's first layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .dim import static_shape, static_value
from .expr import Atom, Var
from .op import folded_shape, tensor_type_of

Emit = Callable[..., Var]
"""Emits an operator: its name, its operands, and attributes by keyword; gives its result."""

FEWEST = 16
"""Outputs at the least, and channels, for which products are worth the copies of what windows
read."""
FEWEST_TERMS = 96
"""Terms of a sum that are worth them with fewer channels."""


def is_worth_rows(x: Atom, w: Atom, groups: int, *, channels_last: bool = False) -> bool:
    """Whether a convolution has one group, and outputs and channels, or terms, enough."""
    sizes = static_shape(tensor_type_of(w).shape)
    channels = static_value(tensor_type_of(x).shape[-1 if channels_last else 1])
    if groups != 1 or channels is None or sizes is None:
        return False
    return sizes[0] >= FEWEST and (channels >= FEWEST or math.prod(sizes[1:]) >= FEWEST_TERMS)


def window_rows(
    emit: Emit,
    x: Atom,
    kernel: Sequence[int],
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    pad_value: float = 0.0,
) -> Atom:
    """What the windows of ``x`` (batch, channels, pixels...) read, a row each: (batch, windows...,
    terms), the channels of a pixel side by side. ``padding`` has two ints a spatial dim, of
    ``pad_value``."""
    count, padding = len(kernel), tuple(padding)
    channels = static_value(tensor_type_of(x).shape[1])
    if any(padding) and (channels or FEWEST) < FEWEST:
        # A row of a window of few channels is one run, but for a border. Channels first, as here,
        # the border itself is whole rows and ends of rows.
        x = emit("pad", x, pad_width=(0, 0, 0, 0, *padding), pad_value=pad_value)
        padding = (0,) * (2 * count)
    rows: Atom = emit("permute_dims", x, axes=(0, *range(2, count + 2), 1))
    if max(kernel) == 1 and max(strides) == 1 and not any(padding):
        return rows
    found = emit(
        "im2col", rows, kernel=tuple(kernel), strides=tuple(strides), padding=padding,
        dilation=tuple(dilation), pad_value=pad_value,
    )  # fmt: skip
    dims = tensor_type_of(found).shape
    terms = math.prod([*kernel, static_value(dims[-1]) or 0])
    return emit("reshape", found, folded_shape((*dims[: count + 1], terms)))


def weight_rows(emit: Emit, w: Atom) -> Var:
    """A weight (out, channels, kernel...) as rows in the order of ``window_rows``."""
    sizes = static_shape(tensor_type_of(w).shape)
    assert sizes is not None
    turned = emit("permute_dims", w, axes=(0, *range(2, len(sizes)), 1))
    return emit("reshape", turned, folded_shape((sizes[0], math.prod(sizes[1:]))))

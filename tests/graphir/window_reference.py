"""The meaning of convolutions and pooling, in NumPy: a sum or maximum over all windows, written
out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from burnish.tensorir.operators.winograd import transforms


def _first(x: np.ndarray, last: bool) -> np.ndarray:
    return np.moveaxis(x, -1, 1) if last else x


def _placed(x: np.ndarray, last: bool) -> np.ndarray:
    return np.moveaxis(x, 1, -1) if last else x


def _padded(x: np.ndarray, padding: Sequence[int], value: float) -> np.ndarray:
    pairs = [(0, 0), (0, 0), *zip(padding[::2], padding[1::2], strict=True)]
    return np.pad(x, pairs, constant_values=value)


def windows(
    x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> np.ndarray:
    """[batch, channels, kernel..., windows...]"""
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, s, d in zip(x.shape[2:], kernel, strides, dilation, strict=True)
    ]
    out = np.empty((*x.shape[:2], *kernel, *counts), x.dtype)
    for at in itertools.product(*map(range, kernel)):
        place = tuple(
            slice(a * d, a * d + (c - 1) * s + 1, s)
            for a, d, c, s in zip(at, dilation, counts, strides, strict=True)
        )
        out[(slice(None), slice(None), *at)] = x[(slice(None), slice(None), *place)]
    return out


def conv(
    x: Any, w: Any, bias: Any = None, *, strides: Any, padding: Any, dilation: Any, groups: int,
    channels_last: bool, out_channels_last: bool | None, out_dtype: str = "",
) -> np.ndarray:  # fmt: skip
    x = _padded(_first(x, channels_last), padding, 0)
    kernel = w.shape[2:]
    found = windows(x, kernel, strides, dilation)
    n, counts = len(kernel), found.shape[2 + len(kernel) :]
    own = w.shape[1]
    parts = []
    for g in range(groups):
        part = found[:, g * own : (g + 1) * own]
        part = part.reshape(x.shape[0], own * math.prod(kernel), *counts)
        weight = w[g * w.shape[0] // groups : (g + 1) * w.shape[0] // groups]
        parts.append(np.moveaxis(np.tensordot(weight.reshape(len(weight), -1), part, (1, 1)), 1, 0))
    result = np.concatenate(parts, 1)
    if bias is not None:
        result = result + bias.reshape(-1, *[1] * n)
    return _placed(result, channels_last if out_channels_last is None else out_channels_last)


def im2col(
    x: Any, *, kernel: Any, strides: Any, padding: Any, dilation: Any, pad_value: float
) -> np.ndarray:
    found = windows(_padded(_first(x, True), padding, pad_value), kernel, strides, dilation)
    count = len(kernel)
    return np.transpose(found, (0, *range(count + 2, 2 * count + 2), *range(2, count + 2), 1))


def conv_transpose(
    x: Any, w: Any, bias: Any = None, *, strides: Any, padding: Any, dilation: Any, groups: int,
    output_padding: Any, channels_last: bool,
) -> np.ndarray:  # fmt: skip
    x = _first(x, channels_last)
    kernel, each, own = w.shape[2:], w.shape[1], x.shape[1] // groups
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(
            x.shape[2:], strides, kernel, dilation, output_padding, strict=True
        )
    ]
    out = np.zeros((x.shape[0], each * groups, *full), x.dtype)
    for g in range(groups):
        channels, outputs = slice(g * own, (g + 1) * own), slice(g * each, (g + 1) * each)
        for at in itertools.product(*map(range, kernel)):
            place = tuple(
                slice(a * d, a * d + (n - 1) * s + 1, s)
                for a, d, n, s in zip(at, dilation, x.shape[2:], strides, strict=True)
            )
            term = np.tensordot(x[:, channels], w[(channels, slice(None), *at)], (1, 0))
            out[(slice(None), outputs, *place)] += np.moveaxis(term, -1, 1)
    cut = tuple(slice(b, n - a) for b, a, n in zip(padding[::2], padding[1::2], full, strict=True))
    out = out[(slice(None), slice(None), *cut)]
    if bias is not None:
        out = out + bias.reshape(-1, *[1] * len(kernel))
    return _placed(out, channels_last)


def _reach(x: np.ndarray, kernel: Any, strides: Any, padding: Any, dilation: Any) -> list[int]:
    """Elements behind the padded axes that windows of ceil_mode reach."""
    beyond = []
    for d, n in enumerate(x.shape[2:]):
        span = n + padding[2 * d] + padding[2 * d + 1] - (kernel[d] - 1) * dilation[d] - 1
        count = -(-span // strides[d]) + 1
        count -= (count - 1) * strides[d] >= n + padding[2 * d]
        beyond.append(max(0, (count - 1) * strides[d] - span))
    return beyond


def max_pool(
    x: Any, *, kernel: Any, strides: Any, padding: Any, dilation: Any, ceil_mode: bool,
    channels_last: bool,
) -> np.ndarray:  # fmt: skip
    x = _first(x, channels_last)
    padding = list(padding)
    if ceil_mode:
        for d, more in enumerate(_reach(x, kernel, strides, padding, dilation)):
            padding[2 * d + 1] += more
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    found = windows(_padded(x, padding, lowest), kernel, strides, dilation)
    return _placed(found.max(tuple(range(2, 2 + len(kernel)))), channels_last)


def avg_pool(
    x: Any, *, kernel: Any, strides: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor: int | None, channels_last: bool,
) -> np.ndarray:  # fmt: skip
    x = _first(x, channels_last)
    ones, axes = [1] * len(kernel), tuple(range(2, 2 + len(kernel)))
    more = _reach(x, kernel, strides, padding, ones) if ceil_mode else [0] * len(kernel)
    beyond = [b for m in more for b in (0, m)]
    counted = np.ones_like(x)
    if count_include_pad:
        counted = _padded(counted, padding, 1)
        number = windows(_padded(counted, beyond, 0), kernel, strides, ones).sum(axes)
    else:
        both = [p + b for p, b in zip(padding, beyond, strict=True)]
        number = windows(_padded(counted, both, 0), kernel, strides, ones).sum(axes)
    both = [p + b for p, b in zip(padding, beyond, strict=True)]
    total = windows(_padded(x, both, 0), kernel, strides, ones).sum(axes)
    return _placed(total / (divisor or number), channels_last)


def adaptive_pool(x: Any, *, output_size: Any, mode: str, channels_last: bool) -> np.ndarray:
    x = _first(x, channels_last)
    out = np.empty((*x.shape[:2], *output_size), x.dtype)
    for at in itertools.product(*map(range, output_size)):
        place = tuple(
            slice(i * n // o, -(-(i + 1) * n // o))
            for i, n, o in zip(at, x.shape[2:], output_size, strict=True)
        )
        part = x[(slice(None), slice(None), *place)]
        axes = tuple(range(2, x.ndim))
        out[(slice(None), slice(None), *at)] = (part.mean if mode == "avg" else part.max)(axes)
    return _placed(out, channels_last)


def winograd_conv(
    x: np.ndarray,
    u: np.ndarray,
    bias: Any = 0.0,
    *,
    padding: Sequence[int],
    tile: int,
    pad_value: float = 0.0,
) -> np.ndarray:
    """Tile after tile, in float64: a weight ``u`` may be any, also one of no 3 x 3 kernel. Of int16
    a quarter, rounded down, in int32."""
    t, a = transforms(tile), tile + 2
    (n, h, w, c), (top, bottom, left, right) = x.shape, padding
    height, width = h + top + bottom - 2, w + left + right - 2
    down, across = -(-height // tile), -(-width // tile)
    wide = np.full((n, down * tile + 2, across * tile + 2, c), float(pad_value))
    wide[:, top : top + h, left : left + w] = x[:, : wide.shape[1] - top, : wide.shape[2] - left]
    y = np.zeros((n, down * tile, across * tile, u.shape[2]))
    for i in range(0, down * tile, tile):
        for j in range(0, across * tile, tile):
            d = wide[:, i : i + a, j : j + a]
            v = np.einsum("iy,nyxc,jx->ijnc", t.inputs, d, t.inputs)
            products = np.einsum("ijnc,ijoc->ijno", v, u)
            result = np.einsum("pi,ijno,qj->npqo", t.outputs, products, t.outputs)
            y[:, i : i + tile, j : j + tile] = result
    y = y[:, :height, :width]
    if x.dtype == np.int16:
        return np.floor(y / 4).astype(np.int32)
    return np.asarray(y + bias).astype(x.dtype)

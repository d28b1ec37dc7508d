"""Fourier transforms of ONNX, as products with the matrix of a transform, and mel weights."""

from __future__ import annotations

import math

import numpy as np
from onnx import NodeProto

from ...graphir.expr import constant
from ...support.errors import FrontendError
from ..term import stack
from .registry import Context, Value, attribute, converts, import_dtype, node_name
from .term import Term

MOST_POINTS = 4096
"""Of a transform; its matrix has the square of that many elements."""


def _transformed(
    real: Term, imaginary: Term | None, points: int, *, inverse: bool, onesided: bool, where: str
) -> Term:
    """The transform along the last axis, real and imaginary parts in a new one; the axis is cut or
    filled with zeros to ``points``."""
    if points > MOST_POINTS:
        raise FrontendError(f"{where}: {points} points; at most {MOST_POINTS} can be imported.")
    size = min(real.sizes(where)[-1], points)
    count = points // 2 + 1 if onesided else points
    phase = 2 * math.pi / points * (np.outer(np.arange(size), np.arange(count)) % points)
    sign, scale = (1, 1 / points) if inverse else (-1, 1)
    cosine, sine = real.data(np.cos(phase) * scale), real.data(sign * np.sin(phase) * scale)
    real = real.cut(-1, 0, size)
    a, b = real @ cosine, real @ sine
    if imaginary is not None:
        imaginary = imaginary.cut(-1, 0, size)
        a, b = a - imaginary @ sine, b + imaginary @ cosine
    return stack([a, b], real.ndim)


@converts("DFT")
def dft(context: Context, node: NodeProto) -> Value:
    """The last axis has the real part, and perhaps the imaginary one."""
    x = Term(context, context.operand(node, 0))
    where = node_name(node)
    if context.opset >= 20:
        given = context.number(node, 2)
        axis = -2 if given is None else int(given)
    else:
        axis = int(attribute(node, "axis", 1))
    axis = axis % x.ndim if axis >= 0 else axis + x.ndim
    inverse, onesided = bool(attribute(node, "inverse", 0)), bool(attribute(node, "onesided", 0))
    is_complex = x.sizes(where)[-1] == 2
    parts = [x.at(-1, i).swap(axis, -1) for i in range(2 if is_complex else 1)]
    length = context.number(node, 1)
    imaginary = parts[1] if is_complex else None
    if inverse and onesided:
        return _real_signal(parts[0], imaginary, length, where).swap(axis, -1).unsqueeze(-1).atom
    points = parts[0].sizes(where)[-1] if length is None else int(length)
    found = _transformed(
        parts[0], imaginary, points, inverse=inverse, onesided=onesided, where=where
    )
    return found.swap(axis, -2).atom


def _real_signal(real: Term, imaginary: Term | None, length: float | None, where: str) -> Term:
    """The real signal whose transform begins so: the other half is its mirror image."""
    half = real.sizes(where)[-1]
    points = 2 * (half - 1) if length is None else int(length)
    bins = min(half, points // 2 + 1)
    phase = 2 * math.pi / points * (np.outer(np.arange(bins), np.arange(points)) % points)
    twice = np.full((bins, 1), 2.0)
    twice[0] = 1
    if points % 2 == 0 and bins == points // 2 + 1:
        twice[-1] = 1
    found = real.cut(-1, 0, bins) @ real.data(np.cos(phase) * twice / points)
    if imaginary is None:
        return found
    return found - imaginary.cut(-1, 0, bins) @ real.data(np.sin(phase) * twice / points)


@converts("STFT")
def stft(context: Context, node: NodeProto) -> Value:
    """Transforms of frames of a signal, each ``step`` behind the one before."""
    x = Term(context, context.operand(node, 0))
    where = node_name(node)
    step, given = context.number(node, 1), context.number(node, 3)
    window = Term(context, context.operand(node, 2)) if context.raw(node, 2) is not None else None
    length = int(given) if given is not None else None
    if length is None:
        length = x.sizes(where)[1] if window is None else window.sizes(where)[0]
    signal = x.at(-1, 0) if x.ndim == 3 else x
    frames = (x.sizes(where)[1] - length) // int(step or 1) + 1
    at = np.arange(frames)[:, None] * int(step or 1) + np.arange(length)
    is_complex = x.ndim == 3 and x.sizes(where)[-1] == 2
    parts = [signal, *([x.at(-1, 1)] if is_complex else [])]
    cut = [p.op("take", x.data(at, "int64"), axis=1) for p in parts]
    if window is not None:
        cut = [p * window for p in cut]
    onesided = bool(attribute(node, "onesided", 1)) and not is_complex
    imaginary = cut[1] if is_complex else None
    return _transformed(
        cut[0], imaginary, length, inverse=False, onesided=onesided, where=where
    ).atom


@converts("MelWeightMatrix")
def mel_weights(context: Context, node: NodeProto) -> Value:
    """Triangles over the bins of a spectrum, equally wide on the mel scale."""
    bins, points, rate, low, high = (context.number(node, i) or 0 for i in range(5))
    count = int(bins) + 2

    def mel(hertz: float) -> float:
        return 2595 * math.log10(1 + hertz / 700)

    steps = mel(low) + np.arange(count) * ((mel(high) - mel(low)) / count)
    hertz = 700 * (10 ** (steps / 2595) - 1)
    edges = ((int(points) + 1) * hertz // rate).astype(int)
    weights = np.zeros((int(points) // 2 + 1, int(bins)))
    for i in range(int(bins)):
        first, middle, last = edges[i : i + 3]
        up, down = np.arange(first, middle + 1), np.arange(middle, last)
        if first == middle:
            weights[middle, i] = 1
        else:
            weights[up, i] = (up - first) / (middle - first)
        if last != middle:
            weights[down, i] = (last - down) / (last - middle)
    dtype = import_dtype(int(attribute(node, "output_datatype", 1)), node_name(node))
    return constant(weights, dtype)

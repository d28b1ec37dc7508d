"""Interpolation along an axis, as operators: what resizing is made of, wherever it comes from.

Along one axis each element of the result is a weighted sum of a few elements of the operand: one
(nearest), two (linear) or four (cubic). Which, and by what weights, depends on sizes alone, so it
is computed here, with NumPy, and becomes constants:

    y[.., i, ..] = x[.., at0[i], ..] * w0[i] + x[.., at1[i], ..] * w1[i]

An axis after the other; fusion makes one kernel of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from .expr import Atom, constant
from .type import TensorType

COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}
"""How nearest turns a coordinate into an index."""


@dataclass(frozen=True)
class Interpolation:
    """How elements of the result are made. ``coordinate`` is one of COORDINATES."""

    mode: str
    """nearest, linear or cubic."""
    coordinate: str = "half_pixel"
    rounding: str = "floor"
    """Of nearest: one of ROUNDINGS."""
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False
    """Cubic: elements outside have no weight, rather than that of the nearest one."""
    single_precision: bool = False
    """Coordinates are computed in float32, where that decides which element is nearest."""
    antialias: bool = False
    """Linear and cubic: what is made smaller is a mean of all the elements it covers."""
    extrapolation: float = 0.0
    """tf_crop_and_resize: the value outside of the operand."""


class Emitter(Protocol):
    """What emits operators."""

    def op(self, name: str, *args: Atom, **attrs: object) -> Atom: ...
    def type(self, atom: Atom) -> TensorType: ...


def coordinates(
    how: Interpolation, size: int, out: int, scale: float, crop: tuple[float, float] = (0.0, 1.0)
) -> np.ndarray:
    """Where in the operand each element of the result lies."""
    i: np.ndarray = np.arange(out).astype("float32" if how.single_precision else "float64")
    inverse = np.array(1 / scale).astype(i.dtype)
    match how.coordinate:
        case "align_corners":
            step = np.array((size - 1) / (out - 1) if out > 1 else 0).astype(i.dtype)
            return np.asarray(i * step)
        case "tf_crop_and_resize":
            first, last = crop[0] * (size - 1), crop[1] * (size - 1)
            return np.linspace(first, last, out) if out > 1 else np.array([(first + last) / 2])
        case "asymmetric":
            return np.asarray(i * inverse)
        case "pytorch_half_pixel" if out <= 1:
            return np.zeros(out)
        case "half_pixel_symmetric":
            offset = size / 2 * (1 - out / (scale * size))
            return np.asarray(offset + (i + 0.5) * inverse - 0.5)
    return np.asarray((i + 0.5) * inverse - 0.5)


def _triangle(d: np.ndarray) -> np.ndarray:
    """The weight of an element at a distance, linear."""
    return np.asarray(np.maximum(1 - d, 0))


def _cubic(d: np.ndarray, a: float) -> np.ndarray:
    """The same, cubic. Keys, "Cubic convolution interpolation", 1981."""
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def taps(
    how: Interpolation, x: np.ndarray, size: int, scale: float = 1.0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Indices and weights of the elements that each result at coordinates ``x`` is made of."""
    if how.mode == "nearest":
        at = ROUNDINGS[how.rounding](x).astype(np.int64)
        return [(np.clip(at, 0, size - 1), np.ones(len(x)))]
    if how.mode == "linear" and not how.antialias:
        # Before the first element lies nothing but the first: all of its weight, none of the
        # second's, which so makes a NaN of the result if it is one, as in torch.
        x = np.maximum(x, 0)
    first = np.floor(x)
    t = (x - first).astype(np.float64)
    base = first.astype(np.int64)
    if how.mode == "linear":
        reach, kernel = 1, _triangle
    else:
        reach, kernel = 2, partial(_cubic, a=how.cubic_coefficient)
    wide = min(scale, 1.0) if how.antialias else 1.0
    low = math.floor(-reach / wide) + 1
    offsets = range(low, 2 - low)
    places = [base + k for k in offsets]
    weights = [kernel(np.abs(k - t) * wide) for k in offsets]
    if how.exclude_outside:
        weights = [
            np.where((p >= 0) & (p < size), w, 0) for p, w in zip(places, weights, strict=True)
        ]
    if how.exclude_outside or wide != 1.0:
        total = np.sum(weights, axis=0)
        weights = [w / total for w in weights]
    return [(np.clip(p, 0, size - 1), w) for p, w in zip(places, weights, strict=True)]


def interpolate_axis(
    context: Emitter,
    x: Atom,
    axis: int,
    sizes: tuple[int, int],
    scale: float,
    how: Interpolation,
    crop: tuple[float, float] = (0.0, 1.0),
) -> Atom:
    """``x`` resized along an axis, from the first of ``sizes`` to the second; ``scale`` (new by
    old) is what coordinates are computed with."""
    size, out = sizes
    kind = context.type(x)
    x_at = coordinates(how, size, out, scale, crop)
    found = taps(how, x_at, size, scale)
    if out == size and all(np.array_equal(at, np.arange(size)) or not w.any() for at, w in found):
        return x
    result: Atom | None = None
    for at, weights in found:
        if not weights.any() and (how.antialias or how.exclude_outside):
            continue  # not an element of the sum; others make it NaN if they are none
        term: Atom = context.op("take", x, constant(at, "int64"), axis=axis)
        if how.mode != "nearest":
            shape = (-1, *[1] * (kind.ndim - 1 - axis))
            factor = constant(weights.reshape(shape), context.type(x).dtype)
            term = context.op("multiply", term, factor)
        result = term if result is None else context.op("add", result, term)
    assert result is not None
    outside = (x_at < 0) | (x_at > size - 1)
    if how.coordinate == "tf_crop_and_resize" and outside.any():
        mask = constant(outside.reshape(-1, *[1] * (kind.ndim - 1 - axis)))
        value = constant(np.array(how.extrapolation), str(context.type(result).dtype))
        result = context.op("where", mask, value, result)
    return result


def in_float32(
    context: Emitter, x: Atom, how: Interpolation, resized: Callable[[Atom], Atom]
) -> Atom:
    """``resized(x)``; half precision is interpolated in float32."""
    dtype = context.type(x).dtype
    if how.mode == "nearest" or dtype not in ("float16", "bfloat16"):
        return resized(x)
    wide = resized(context.op("astype", x, dtype="float32"))
    return context.op("astype", wide, dtype=str(dtype))

"""Resizing of spatial axes by interpolation, as both front ends import it: no operator of its own.

Along one axis each element of the result is a weighted sum of a few elements of the operand: one
(nearest), two (linear) or four (cubic). Which, and by what weights, depends on sizes alone, so it
is computed here, with NumPy, and becomes constants:

    y[.., i, ..] = x[.., at0[i], ..] * w0[i] + x[.., at1[i], ..] * w1[i]

An axis after the other; fusion makes one kernel of all. Nearest by a whole factor is a broadcast.
Where a size has a name, indices and weights of nearest and linear are computed when the model runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..graphir.dim import fold_dim, static_value
from ..graphir.expr import Atom, ShapeExpr, Var, constant
from ..graphir.type import ShapeType
from ..support.errors import FrontendError
from ..tensorir.expr import Expr, IntImm
from .integer_division import Emitter
from .sizes_as_data import counted, positions

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


LARGEST_DIVISOR = 1 << 10
"""Of the fraction that a named size is scaled by."""


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


@dataclass(frozen=True)
class AxisSize:
    """The new size of an axis, and the scale (new by old) that coordinates are computed with."""

    axis: int
    size: int | None
    """None: the size times the whole scale."""
    scale: float
    crop: tuple[float, float] = (0.0, 1.0)
    """tf_crop_and_resize: the part of the axis that is resized, from 0 to 1."""
    named: Expr | None = None
    """The new size where it or the old one has a name."""
    by_sizes: bool = False
    """The scale is that of the named sizes, whatever ``scale`` says."""


def scaled_size(size: Expr, scale: float) -> Expr | None:
    """The whole part of a named size times a scale; None where the scale is no fraction of a small
    power of two: a front end's product is not exact then."""
    above, below = float(scale).as_integer_ratio() if math.isfinite(scale) else (-1, 1)
    if above < 0 or below > LARGEST_DIVISOR:
        return None
    return fold_dim(size * above // below)


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
    return np.clip(1 - d, 0, None)


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


def resize(
    context: Emitter,
    x: Atom,
    axes: Sequence[AxisSize],
    how: Interpolation,
    refuse: Callable[[str], FrontendError],
) -> Atom:
    """``x`` resized along ``axes``. Half precision is interpolated in float32.

    Raises what ``refuse`` makes for symbolic sizes, but with nearest by a whole factor, and for
    integers that are to be interpolated.
    """
    kind = context.type(x)
    for a in axes:
        size = static_value(kind.shape[a.axis])
        if size is not None and (size < 1 or (a.size is not None and a.size < 1)):
            raise refuse(f"axis {a.axis} is resized from {size} to {a.size} elements.")
    if all(_is_repeat(how, kind.shape[a.axis], a) for a in axes):
        return _repeat(context, x, {a.axis: round(a.scale) for a in axes})
    if how.mode != "nearest" and not kind.dtype.is_float:
        raise refuse(f"{how.mode} interpolation of {kind.dtype} cannot be imported; cast to float.")
    wide = "float32" if kind.dtype in ("float16", "bfloat16") and how.mode != "nearest" else None
    if wide is not None:
        x = context.op("astype", x, dtype=wide)
    for a in axes:
        x = _resize_axis(context, x, a, how, refuse)
    return x if wide is None else context.op("astype", x, dtype=str(kind.dtype))


def _resize_axis(
    context: Emitter,
    x: Atom,
    a: AxisSize,
    how: Interpolation,
    refuse: Callable[[str], FrontendError],
) -> Atom:
    kind = context.type(x)
    size = static_value(kind.shape[a.axis])
    if size is None or a.size is None:
        named = ("half_pixel", "align_corners", "asymmetric")
        if a.named is None or how.mode == "cubic" or how.antialias or how.coordinate not in named:
            raise refuse(
                "a symbolic size can be resized by nearest and linear interpolation only; make "
                "the dim static."
            )
        return _resize_named(context, x, a, a.named, how)
    x_at = coordinates(how, size, a.size, a.scale, a.crop)
    found = taps(how, x_at, size, a.scale)
    if a.size == size and all(
        np.array_equal(at, np.arange(size)) or not w.any() for at, w in found
    ):
        return x
    result: Atom | None = None
    for at, weights in found:
        if not weights.any() and (how.antialias or how.exclude_outside):
            continue  # not an element of the sum; others make it NaN if they are none
        term: Atom = context.op("take", x, constant(at, "int64"), axis=a.axis)
        if how.mode != "nearest":
            shape = (-1, *[1] * (kind.ndim - 1 - a.axis))
            factor = constant(weights.reshape(shape), context.type(x).dtype)
            term = context.op("multiply", term, factor)
        result = term if result is None else context.op("add", result, term)
    assert result is not None
    outside = (x_at < 0) | (x_at > size - 1)
    if how.coordinate == "tf_crop_and_resize" and outside.any():
        mask = constant(outside.reshape(-1, *[1] * (kind.ndim - 1 - a.axis)))
        value = constant(np.array(how.extrapolation), str(context.type(result).dtype))
        result = context.op("where", mask, value, result)
    return result


def _resize_named(context: Emitter, x: Atom, a: AxisSize, out: Expr, how: Interpolation) -> Atom:
    """One axis, of which a size is known when the model runs."""
    kind, op = context.type(x), context.op
    number = "float32" if how.single_precision else "float64"
    size = counted(context, kind.shape[a.axis])
    at: Atom = op("astype", positions(context, out), dtype=number)
    sizes = [op("astype", n, dtype=number) for n in (size, counted(context, out))]
    if how.coordinate == "align_corners":
        less = [op("subtract", n, constant(1.0, number)) for n in sizes]
        at = op(
            "multiply", at, op("divide", less[0], op("maximum", less[1], constant(1.0, number)))
        )
    else:
        ratio = op("divide", *sizes) if a.by_sizes else constant(1 / a.scale, number)
        half = constant(0.5, number)
        if how.coordinate == "half_pixel":
            at = op("subtract", op("multiply", op("add", at, half), ratio), half)
        else:
            at = op("multiply", at, ratio)
    last = op("subtract", size, constant(1, "int64"))
    if how.mode == "nearest":
        return op(
            "take", x, _place(context, _rounded(context, at, how.rounding), last), axis=a.axis
        )
    at = op("maximum", at, constant(0.0, number))
    first = op("floor", at)
    second = op("add", first, constant(1.0, number))
    weights = op("subtract", at, first), op("subtract", second, at)
    column = _shape((out, *[IntImm(1)] * (kind.ndim - 1 - a.axis)))
    terms = [
        op("multiply", op("take", x, _place(context, place, last), axis=a.axis),
           op("reshape", op("astype", weight, dtype=str(kind.dtype)), column))
        for place, weight in ((first, weights[1]), (second, weights[0]))
    ]  # fmt: skip
    return op("add", *terms)


def _rounded(context: Emitter, at: Atom, rounding: str) -> Atom:
    """A coordinate of nearest as a whole number; see ROUNDINGS."""
    half = constant(0.5, str(context.type(at).dtype))
    match rounding:
        case "round_prefer_floor":
            return context.op("ceil", context.op("subtract", at, half))
        case "round_prefer_ceil":
            return context.op("floor", context.op("add", at, half))
    return context.op(rounding, at)


def _place(context: Emitter, at: Atom, last: Atom) -> Atom:
    """An index in the operand."""
    place = context.op("maximum", context.op("astype", at, dtype="int64"), constant(0, "int64"))
    return context.op("minimum", place, last)


def _is_repeat(how: Interpolation, size: Expr, a: AxisSize) -> bool:
    """Whether each element is repeated a whole number of times."""
    factor = round(a.scale)
    known = static_value(size)
    fits = a.size is None or (known is not None and a.size == known * factor)
    centred = (how.coordinate, how.rounding) in (
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_ceil"),
        ("half_pixel", "round_prefer_floor"),
    )
    return how.mode == "nearest" and centred and factor == a.scale and factor >= 1 and fits


def _repeat(context: Emitter, x: Atom, factors: dict[int, int]) -> Var:
    shape = context.type(x).shape
    apart: list[Expr] = []
    wide: list[Expr] = []
    for d, size in enumerate(shape):
        apart += [size, IntImm(1)] if d in factors else [size]
        wide += [size, IntImm(factors[d])] if d in factors else [size]
    joined = [fold_dim(size * factors.get(d, 1)) for d, size in enumerate(shape)]
    stretched = context.op("broadcast_to", context.op("reshape", x, _shape(apart)), _shape(wide))
    return context.op("reshape", stretched, _shape(joined))


def _shape(dims: Sequence[Expr]) -> ShapeExpr:
    values = tuple(dims)
    return ShapeExpr(values, ShapeType(values))

"""Resizing of spatial axes by interpolation, as both front ends import it: no operator of its own.

An axis of known sizes is interpolated as ``graphir/interpolation.py`` says. Nearest by a whole
factor is a broadcast. Where a size has a name, indices and weights of nearest and linear are
computed when the model runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..graphir.dim import fold_dim, static_value
from ..graphir.expr import Atom, ShapeExpr, Var, constant
from ..graphir.interpolation import Interpolation, in_float32, interpolate_axis
from ..graphir.type import ShapeType
from ..support.errors import FrontendError
from ..tensorir.expr import Expr, IntImm
from .integer_division import Emitter
from .sizes_as_data import counted, positions

LARGEST_DIVISOR = 1 << 10
"""Of the fraction that a named size is scaled by."""


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

    def resized(value: Atom) -> Atom:
        for a in axes:
            value = _resize_axis(context, value, a, how, refuse)
        return value

    return in_float32(context, x, how, resized)


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
    return interpolate_axis(context, x, a.axis, (size, a.size), a.scale, how, a.crop)


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

"""Resizing of spatial axes by interpolation, as both front ends import it: no operator of its own.

An axis of known sizes is interpolated as ``graphir/interpolation.py`` says. Nearest by a whole
factor is a broadcast. Where a size has a name, indices and weights are computed when the model
runs, by the same formulas.

    places = (positions(n) + 0.5) / scale - 0.5         of the n results, in the operand
    y = x[floor(places)] * (1 - t) + x[floor(places) + 1] * t
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..graphir.dim import dim_equal, fold_dim, static_value
from ..graphir.expr import Atom
from ..graphir.interpolation import Interpolation, in_float32, interpolate_axis
from ..graphir.op import folded_shape
from ..support.errors import FrontendError
from ..tensorir.expr import Expr, IntImm
from .integer_division import Emitter
from .sizes_as_data import counted, positions
from .term import Term, TermContext

LARGEST_DIVISOR = 1 << 10
"""Of the fraction that a named size is scaled by."""


@dataclass(frozen=True)
class AxisSize:
    """The new size of an axis, and the scale (new by old) that coordinates are computed with."""

    axis: int
    size: int
    scale: float
    crop: tuple[float, float] = (0.0, 1.0)
    """tf_crop_and_resize: the part of the axis that is resized, from 0 to 1."""


@dataclass(frozen=True)
class NamedAxis:
    """An axis of which a size has a name: the size that it gets, and the inverse of the scale, as a
    number or a scalar (None: that of the sizes)."""

    axis: int
    size: Expr
    inverse: float | Term | None
    crop: tuple[float, float] = (0.0, 1.0)


def scaled_size(size: Expr, scale: float) -> Expr | None:
    """The whole part of a named size times a scale; None where the scale is no fraction of a small
    power of two: a front end's product is not exact then."""
    above, below = float(scale).as_integer_ratio() if math.isfinite(scale) else (-1, 1)
    if above < 0 or below > LARGEST_DIVISOR:
        return None
    return fold_dim(size * above // below)


def resize(
    context: TermContext,
    x: Atom,
    axes: Sequence[AxisSize | NamedAxis],
    how: Interpolation,
    refuse: Callable[[str], FrontendError],
) -> Atom:
    """``x`` resized along ``axes``. Half precision is interpolated in float32.

    Raises what ``refuse`` makes for integers that are to be interpolated, and for symbolic sizes
    that are to be filtered.
    """
    kind = context.type(x)
    for a in axes:
        size = static_value(kind.shape[a.axis])
        if isinstance(a, AxisSize) and (size is None or size < 1 or a.size < 1):
            raise refuse(f"axis {a.axis} is resized from {size} to {a.size} elements.")
    factors = {a.axis: _factor(how, kind.shape[a.axis], a) for a in axes}
    x = _repeat(context, x, {axis: n for axis, n in factors.items() if n})
    axes = [a for a in axes if not factors[a.axis]]
    if axes and how.mode != "nearest" and not kind.dtype.is_float:
        raise refuse(f"{how.mode} interpolation of {kind.dtype} cannot be imported; cast to float.")
    if how.antialias and how.mode != "nearest" and any(isinstance(a, NamedAxis) for a in axes):
        raise refuse("antialias needs static sizes; make the dims static.")

    def resized(value: Atom) -> Atom:
        for a in axes:
            value = _resize_axis(context, value, a, how)
        return value

    return in_float32(context, x, how, resized) if axes else x


def _resize_axis(
    context: TermContext, x: Atom, a: AxisSize | NamedAxis, how: Interpolation
) -> Atom:
    if isinstance(a, NamedAxis):
        return _resize_named(Term(context, x), a, how).atom
    size = static_value(context.type(x).shape[a.axis])
    assert size is not None
    return interpolate_axis(context, x, a.axis, (size, a.size), a.scale, how, a.crop)


# -- sizes with names ------------------------------------------------------------------------------
def _resize_named(x: Term, a: NamedAxis, how: Interpolation) -> Term:
    """Along an axis of which a size is known when the model runs."""
    number = "float32" if how.single_precision else "float64"
    size = Term(x.context, counted(x.context, x.shape[a.axis]))
    at = _coordinates(x, a, how, size.cast(number))
    result: Term | None = None
    for places, weight in _taps(at, size, how):
        part = x.op("take", places, axis=a.axis)
        if weight is not None:
            part = part * _along(x, a, weight.cast(str(x.dtype)))
        result = part if result is None else result + part
    assert result is not None
    if how.coordinate != "tf_crop_and_resize":
        return result
    outside = (at < 0.0) | (at > size.cast(number) - 1.0)
    return _along(x, a, outside).where(how.extrapolation, result)


def _along(x: Term, a: NamedAxis, values: Term) -> Term:
    """A value for each element along the axis, as a tensor that broadcasts."""
    return values.reshape(a.size, *[1] * (x.ndim - 1 - a.axis))


def _coordinates(x: Term, a: NamedAxis, how: Interpolation, size: Term) -> Term:
    """Where in the operand each element of the result lies."""
    number = str(size.dtype)
    i, out = (Term(x.context, f(x.context, a.size)).cast(number) for f in (positions, counted))
    several, steps = out > 1.0, (out - 1.0).op("maximum", 1.0)
    inverse = size / out if a.inverse is None else size.like(a.inverse)
    match how.coordinate:
        case "align_corners":
            return i * ((size - 1.0) / steps)
        case "asymmetric":
            return i * inverse
        case "tf_crop_and_resize":
            first, last = ((size - 1.0) * c for c in a.crop)
            return several.where(first + i * ((last - first) / steps), (first + last) * 0.5)
    centred = (i + 0.5) * inverse - 0.5
    match how.coordinate:
        case "pytorch_half_pixel":
            return several.where(centred, 0.0)
        case "half_pixel_symmetric":
            return centred + (size - out * inverse) * 0.5
    return centred


def _taps(at: Term, size: Term, how: Interpolation) -> list[tuple[Term, Term | None]]:
    """Places and weights of the elements that each result is made of; nearest has no weights."""
    last = size - 1

    def inside(places: Term) -> Term:
        return places.op("maximum", 0).op("minimum", last)

    if how.mode == "nearest":
        return [(inside(_rounded(at, how.rounding).cast("int64")), None)]
    if how.mode == "linear" and not how.exclude_outside:
        at = at.op("maximum", 0.0)
    floor = at.op("floor")
    t, base = at - floor, floor.cast("int64")
    if how.mode == "linear":
        offsets, weights = [0, 1], [1.0 - t, t]
    else:
        offsets, weights = [-1, 0, 1, 2], _cubic(t, how.cubic_coefficient)
    places = [base + k for k in offsets]
    if how.exclude_outside:
        kept = [(p >= 0) & (p <= last) for p in places]
        weights = [k.where(w, 0.0) for k, w in zip(kept, weights, strict=True)]
        total = weights[0]
        for w in weights[1:]:
            total = total + w
        weights = [w / total for w in weights]
    return [(inside(p), w) for p, w in zip(places, weights, strict=True)]


def _rounded(at: Term, rounding: str) -> Term:
    """A coordinate of nearest as a whole number; see ROUNDINGS."""
    match rounding:
        case "round_prefer_floor":
            return (at - 0.5).op("ceil")
        case "round_prefer_ceil":
            return (at + 0.5).op("floor")
    return at.op(rounding)


def _cubic(t: Term, a: float) -> list[Term]:
    """Weights of four elements. Keys, "Cubic convolution interpolation", 1981."""

    def near(d: Term) -> Term:
        return (d * (a + 2) - (a + 3)) * d * d + 1.0

    def far(d: Term) -> Term:
        return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]


# -- whole factors ---------------------------------------------------------------------------------
def _factor(how: Interpolation, size: Expr, a: AxisSize | NamedAxis) -> int | None:
    """How often each element is repeated, where that is all there is to do."""
    inverse = a.inverse if isinstance(a, NamedAxis) else 1 / a.scale
    if how.mode != "nearest" or not isinstance(inverse, float) or not 0 < inverse <= 1:
        return None
    factor = round(1 / inverse)
    made = a.size if isinstance(a.size, Expr) else IntImm(a.size)
    centred = (how.coordinate, how.rounding) in (
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_ceil"),
        ("half_pixel", "round_prefer_floor"),
    )
    fits = centred and inverse == 1 / factor and dim_equal(made, fold_dim(size * factor))
    return factor if fits else None


def _repeat(context: Emitter, x: Atom, factors: dict[int, int]) -> Atom:
    if not factors:
        return x
    shape = context.type(x).shape
    apart: list[Expr] = []
    wide: list[Expr] = []
    for d, size in enumerate(shape):
        apart += [size, IntImm(1)] if d in factors else [size]
        wide += [size, IntImm(factors[d])] if d in factors else [size]
    joined = [fold_dim(size * factors.get(d, 1)) for d, size in enumerate(shape)]
    split = context.op("reshape", x, folded_shape(apart))
    stretched = context.op("broadcast_to", split, folded_shape(wide))
    return context.op("reshape", stretched, folded_shape(joined))

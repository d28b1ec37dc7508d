"""Resizing of axes whose sizes have names: which elements a result is made of, and by what weights,
is computed when the model runs.

    places = (positions(n) + 0.5) / scale - 0.5         of the n results, in the operand
    y = x[floor(places)] * (1 - t) + x[floor(places) + 1] * t

Otherwise it is what ``frontend/resize.py`` does at import, by the same formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...graphir.interpolation import Interpolation
from ...support.errors import FrontendError
from ...tensorir.expr import Expr
from .data_shapes import along
from .data_sizes import counted, positions
from .term import Term

Refuse = Callable[[str], FrontendError]
_WIDE = "float64"
"""Coordinates decide which element is nearest."""


@dataclass(frozen=True)
class NamedAxis:
    """An axis, the size that it gets, and the scale (new by old) as a scalar float64."""

    axis: int
    size: Expr
    scale: Term
    crop: tuple[float, float] = (0.0, 1.0)


def resize_named(x: Term, axes: Sequence[NamedAxis], how: Interpolation, refuse: Refuse) -> Term:
    """``x`` resized along ``axes``. Half precision is interpolated in float32. Raises what
    ``refuse`` makes."""
    if how.antialias and how.mode != "nearest":
        raise refuse("antialias needs static sizes; make the dims static.")
    if how.mode != "nearest" and not x.dtype.is_float:
        raise refuse(f"{how.mode} interpolation of {x.dtype} cannot be imported; cast to float.")
    dtype = str(x.dtype)
    is_half = dtype in ("float16", "bfloat16") and how.mode != "nearest"
    made = x.cast("float32") if is_half else x
    for a in axes:
        made = _resize_axis(made, a, how)
    return made.cast(dtype) if is_half else made


def _resize_axis(x: Term, a: NamedAxis, how: Interpolation) -> Term:
    size = counted(x.context, x.shape[a.axis])
    at = _coordinates(x, a, how, size.cast(_WIDE))
    result: Term | None = None
    for places, weight in _taps(at, size, how):
        part = x.op("take", places, axis=a.axis)
        if weight is not None:
            part = part * along(x, a.axis, a.size, weight.cast(str(x.dtype)))
        result = part if result is None else result + part
    assert result is not None
    if how.coordinate != "tf_crop_and_resize":
        return result
    outside = (at < 0.0) | (at > size.cast(_WIDE) - 1.0)
    return along(x, a.axis, a.size, outside).where(how.extrapolation, result)


def _coordinates(x: Term, a: NamedAxis, how: Interpolation, size: Term) -> Term:
    """Where in the operand each element of the result lies."""
    i = positions(x.context, a.size).cast(_WIDE)
    out = counted(x.context, a.size).cast(_WIDE)
    several, steps = out > 1.0, (out - 1.0).op("maximum", 1.0)
    inverse = a.scale.op("reciprocal")
    centred = (i + 0.5) * inverse - 0.5
    match how.coordinate:
        case "align_corners":
            return several.where(i * ((size - 1.0) / steps), 0.0)
        case "asymmetric":
            return i * inverse
        case "pytorch_half_pixel":
            return several.where(centred, 0.0)
        case "half_pixel_symmetric":
            return centred + size * 0.5 * (1.0 - out / (a.scale * size))
        case "tf_crop_and_resize":
            first, last = ((size - 1.0) * c for c in a.crop)
            return several.where(first + i * ((last - first) / steps), (first + last) * 0.5)
    return centred


def _taps(at: Term, size: Term, how: Interpolation) -> list[tuple[Term, Term | None]]:
    """Places and weights of the elements that each result is made of; nearest has no weights."""
    last = size - 1

    def inside(places: Term) -> Term:
        return places.op("maximum", 0).op("minimum", last)

    if how.mode == "nearest":
        rounded = {
            "floor": lambda: at.op("floor"),
            "ceil": lambda: at.op("ceil"),
            "round_prefer_floor": lambda: (at - 0.5).op("ceil"),
            "round_prefer_ceil": lambda: (at + 0.5).op("floor"),
        }[how.rounding]()
        return [(inside(rounded.cast("int64")), None)]
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


def _cubic(t: Term, a: float) -> list[Term]:
    """Weights of four elements. Keys, "Cubic convolution interpolation", 1981."""

    def near(d: Term) -> Term:
        return (d * (a + 2) - (a + 3)) * d * d + 1.0

    def far(d: Term) -> Term:
        return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]

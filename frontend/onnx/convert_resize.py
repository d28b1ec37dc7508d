"""Interpolation of ONNX, and moves of elements between channels and space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from onnx import NodeProto

from ...graphir.dim import dim_equal, fold_dim, static_value
from ...graphir.expr import Atom, Constant, Var
from ...graphir.interpolation import COORDINATES, ROUNDINGS, Interpolation
from ...support.errors import FrontendError
from ...tensorir.expr import Expr, IntImm, floordiv
from ..resize import AxisSize, NamedAxis, resize
from .data_sizes import Entry, counted, dim_of, entries, size_of, term_of
from .registry import MOST_SIZES, Context, Value, attribute, converts, node_name
from .term import Term


@converts("Resize", "Upsample")
def interpolate(context: Context, node: NodeProto) -> Value:
    """By scales or to sizes. Resize of opset 10, and Upsample, take coordinates without centring
    them."""
    x = context.operand(node, 0)

    def refuse(reason: str) -> FrontendError:
        return FrontendError(f"{node_name(node)}: {reason}")

    return resize(context, x, _axes(context, node, x), _how(context, node), refuse)


def _how(context: Context, node: NodeProto) -> Interpolation:
    mode = str(attribute(node, "mode", "nearest"))
    if mode not in ("nearest", "linear", "cubic"):
        raise FrontendError(f"{node_name(node)}: mode {mode!r} is unknown.")
    if node.op_type == "Upsample" or context.opset < 11:
        return Interpolation(mode, "asymmetric")
    coordinate = str(attribute(node, "coordinate_transformation_mode", "half_pixel"))
    rounding = str(attribute(node, "nearest_mode", "round_prefer_floor"))
    if coordinate not in COORDINATES or rounding not in ROUNDINGS:
        raise FrontendError(
            f"{node_name(node)}: coordinates {coordinate!r} with {rounding!r} cannot be imported; "
            f"known are {', '.join(COORDINATES)} with {', '.join(ROUNDINGS)}."
        )
    return Interpolation(
        mode,
        coordinate,
        rounding,
        float(attribute(node, "cubic_coeff_a", -0.75)),
        exclude_outside=bool(attribute(node, "exclude_outside", 0)),
        antialias=bool(attribute(node, "antialias", 0)),
        extrapolation=float(attribute(node, "extrapolation_value", 0.0)),
    )


def _axes(context: Context, node: NodeProto, x: Atom) -> list[AxisSize | NamedAxis]:
    """The axes that are resized: those of static sizes and scales, and the others."""
    shape = context.type(x).shape
    given = attribute(node, "axes")
    axes = [int(a) % len(shape) for a in given] if given is not None else list(range(len(shape)))
    crops = _crops(context, node, axes)
    scales = _scales(context, node)
    if scales is not None:
        if len(scales) != len(axes):
            raise FrontendError(f"{node_name(node)}: {len(scales)} scales for {len(axes)} axes.")
        return [
            _scaled(context, node, axis, shape[axis], scale, crops.get(axis))
            for axis, scale in zip(axes, scales, strict=True)
            if scale != 1 or axis in crops
        ]
    wanted = entries(context, node, 3)
    if wanted is None or len(wanted) != len(axes):
        raise FrontendError(f"{node_name(node)}: expected scales or sizes of {len(axes)} axes.")
    own = [shape[axis] for axis in axes]
    policy = str(attribute(node, "keep_aspect_ratio_policy", "stretch"))
    known = [static_value(d) for d in (*own, *[w for w in wanted if isinstance(w, Expr)])]
    numbers = [n for n in known if n is not None]
    if len(numbers) < 2 * len(axes):
        return _named(context, node, own, wanted, axes, crops, policy)
    sizes, targets = numbers[: len(axes)], numbers[len(axes) :]
    ratios = [size / max(n, 1) for n, size in zip(sizes, targets, strict=True)]
    if policy != "stretch":
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        ratios = [ratio] * len(axes)
        targets = [math.floor(ratio * n + 0.5) for n in sizes]
    return [
        AxisSize(axis, size, ratio, crops.get(axis, (0.0, 1.0)))
        for axis, n, size, ratio in zip(axes, sizes, targets, ratios, strict=True)
        if n != size or axis in crops
    ]


def _scaled(
    context: Context,
    node: NodeProto,
    axis: int,
    own: Expr,
    scale: float | Term,
    crop: tuple[float, float] | None,
) -> AxisSize | NamedAxis:
    """An axis by its scale; the size is rounded down."""
    crop, known = crop or (0.0, 1.0), static_value(own)
    if isinstance(scale, Term):
        size = (counted(context, own).cast("float64") * scale).op("floor").cast("int64")
        return NamedAxis(axis, size_of(context, size, node, 2), scale.op("reciprocal"), crop)
    if known is not None:
        return AxisSize(axis, math.floor(known * scale), scale, crop)
    exact = Fraction(scale)
    target = fold_dim(floordiv(own * exact.numerator, IntImm(exact.denominator)))
    return NamedAxis(axis, target, 1 / scale, crop)


def _named(
    context: Context,
    node: NodeProto,
    own: Sequence[Expr],
    wanted: Sequence[Entry],
    axes: Sequence[int],
    crops: dict[int, tuple[float, float]],
    policy: str,
) -> list[AxisSize | NamedAxis]:
    """Axes to sizes that are not all known."""
    counts = [counted(context, n).cast("float64") for n in own]
    ratios = [
        term_of(context, w).cast("float64") / n.op("maximum", 1.0)
        for w, n in zip(wanted, counts, strict=True)
    ]
    if policy != "stretch":
        how, ratio = "minimum" if policy == "not_larger" else "maximum", ratios[0]
        for r in ratios[1:]:
            ratio = ratio.op(how, r)
        ratios = [ratio] * len(axes)
        wanted = [(ratio * n + 0.5).op("floor").cast("int64") for n in counts]
    return [
        NamedAxis(
            axis, dim_of(context, w, node, 3), ratio.op("reciprocal"), crops.get(axis, (0.0, 1.0))
        )
        for axis, n, w, ratio in zip(axes, own, wanted, ratios, strict=True)
        if axis in crops or not (isinstance(w, Expr) and dim_equal(w, n))
    ]


def _crops(
    context: Context, node: NodeProto, axes: Sequence[int]
) -> dict[int, tuple[float, float]]:
    """The parts of the axes that are resized, from 0 to 1."""
    if str(attribute(node, "coordinate_transformation_mode", "")) != "tf_crop_and_resize":
        return {}
    value = context.raw(node, 1)
    if value is None:
        raise FrontendError(f"{node_name(node)}: tf_crop_and_resize needs a roi.")
    roi = [float(v) for v in context.array(context.known(value, node, 1)).reshape(-1)]
    if len(roi) != 2 * len(axes):
        raise FrontendError(f"{node_name(node)}: a roi of {len(roi)} for {len(axes)} axes.")
    return {axis: (roi[i], roi[len(axes) + i]) for i, axis in enumerate(axes)}


def _scales(context: Context, node: NodeProto) -> list[float | Term] | None:
    """The scales, one by one; None where sizes are given instead (then they are absent, or
    empty). Those that are data are scalars."""
    index = 1 if node.op_type == "Upsample" or context.opset < 11 else 2
    if node.op_type == "Upsample" and attribute(node, "scales") is not None:
        return [float(s) for s in attribute(node, "scales")]
    value = context.raw(node, index)
    if value is None:
        return None
    value = context.answered(value)
    if not isinstance(value, Constant):
        row = Term(context, context.tensor(value, node_name(node)))
        count = static_value(row.shape[0]) if row.ndim == 1 else None
        if count == 0:
            return None
        if count is not None and count <= MOST_SIZES and context.binds_sizes:
            return _parts_of(context, row, count)
    scales = [float(s) for s in context.array(context.known(value, node, index)).reshape(-1)]
    return list(scales) or None


def _parts_of(context: Context, row: Term, count: int) -> list[float | Term]:
    """A vector of scales: a number for each that is constant."""
    parts = context.parts.get(row.atom) if isinstance(row.atom, Var) else None
    if parts is None or len(parts) != count:
        return [row.at(0, i).cast("float64") for i in range(count)]
    found: list[float | Term] = []
    for part in parts:
        assert not isinstance(part, Expr)
        if isinstance(part, Constant):
            found.append(float(context.array(part).reshape(-1)[0]))
        else:
            found.append(Term(context, part).reshape().cast("float64"))
    return found


# -- between channels and space ------------------------------------------------------------------
def _moved(
    context: Context, x: Atom, apart: Sequence[Expr], axes: Sequence[int], joined: Sequence[Expr]
) -> Atom:
    split = context.reshape(x, list(apart))
    turned = context.op("permute_dims", split, axes=tuple(axes))
    return context.reshape(turned, [fold_dim(d) for d in joined])


def _blocks(context: Context, node: NodeProto) -> tuple[Atom, tuple[Expr, ...], int]:
    x = context.operand(node, 0)
    shape = context.type(x).shape
    if len(shape) != 4:
        raise FrontendError(f"{node_name(node)}: expected 4 dims, found {len(shape)}.")
    return x, shape, int(attribute(node, "blocksize"))


@converts("DepthToSpace")
def depth_to_space(context: Context, node: NodeProto) -> Value:
    """DCR takes blocks in front of the channels, CRD behind them."""
    x, (n, c, h, w), b = _blocks(context, node)
    channels = static_value(c)
    if channels is None or channels % (b * b):
        raise FrontendError(f"{node_name(node)}: {b} * {b} must divide the channels.")
    block, out = IntImm(b), IntImm(channels // (b * b))
    joined = (n, out, h * b, w * b)
    if attribute(node, "mode", "DCR") == "DCR":
        return _moved(context, x, (n, block, block, out, h, w), (0, 3, 4, 1, 5, 2), joined)
    return _moved(context, x, (n, out, block, block, h, w), (0, 1, 4, 2, 5, 3), joined)


@converts("SpaceToDepth")
def space_to_depth(context: Context, node: NodeProto) -> Value:
    x, (n, c, h, w), b = _blocks(context, node)
    sizes = [static_value(d) for d in (h, w)]
    if any(s is None or s % b for s in sizes):
        raise FrontendError(f"{node_name(node)}: {b} must divide the static spatial dims.")
    block = IntImm(b)
    rows, columns = (IntImm((s or 0) // b) for s in sizes)
    apart = (n, c, rows, block, columns, block)
    in_front = attribute(node, "mode", "DCR") == "DCR"
    axes = (0, 3, 5, 1, 2, 4) if in_front else (0, 1, 3, 5, 2, 4)
    return _moved(context, x, apart, axes, (n, c * (b * b), rows, columns))

"""Interpolation of ONNX, and moves of elements between channels and space."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import NodeProto

from ...graphir.dim import fold_dim, static_value
from ...graphir.expr import Atom, Constant
from ...support.errors import FrontendError
from ...tensorir.expr import Expr, IntImm
from ..resize import COORDINATES, ROUNDINGS, AxisSize, Interpolation, resize
from .registry import Context, Value, attribute, converts, node_name


@converts("Resize", "Upsample")
def interpolate(context: Context, node: NodeProto) -> Value:
    """By scales or to sizes. Resize of opset 10, and Upsample, take coordinates without centring
    them."""
    x = context.operand(node, 0)

    def refuse(reason: str) -> FrontendError:
        return FrontendError(f"{node_name(node)}: {reason}")

    sizes = _sizes(context, node, x)
    return resize(context, x, sizes, _how(context, node), refuse)


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


def _sizes(context: Context, node: NodeProto, x: Atom) -> list[AxisSize]:
    shape = context.type(x).shape
    given = attribute(node, "axes")
    axes = [int(a) % len(shape) for a in given] if given is not None else list(range(len(shape)))
    crops = _crops(context, node, axes)
    scales = _scales(context, node)
    found: list[AxisSize] = []
    if scales is not None:
        if len(scales) != len(axes):
            raise FrontendError(f"{node_name(node)}: {len(scales)} scales for {len(axes)} axes.")
        for axis, scale in zip(axes, scales, strict=True):
            own = static_value(shape[axis])
            size = None if own is None else math.floor(own * scale)
            if scale != 1 or axis in crops:
                found.append(AxisSize(axis, size, scale, crops.get(axis, (0.0, 1.0))))
        return found
    wanted = context.ints(node, 3)
    if wanted is None or len(wanted) != len(axes):
        raise FrontendError(f"{node_name(node)}: expected scales or sizes of {len(axes)} axes.")
    policy = str(attribute(node, "keep_aspect_ratio_policy", "stretch"))
    sizes = [static_value(shape[axis]) for axis in axes]
    for own, size in zip(sizes, wanted, strict=True):
        if own is None:
            raise FrontendError(
                f"{node_name(node)}: a symbolic dim is resized to {size}; make the dim static."
            )
    ratios = [size / max(own or 0, 1) for own, size in zip(sizes, wanted, strict=True)]
    if policy != "stretch":
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        ratios = [ratio] * len(axes)
        wanted = [math.floor(ratio * (own or 0) + 0.5) for own in sizes]
    return [
        AxisSize(axis, size, ratio, crops.get(axis, (0.0, 1.0)))
        for axis, own, size, ratio in zip(axes, sizes, wanted, ratios, strict=True)
        if own != size or axis in crops
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


def _scales(context: Context, node: NodeProto) -> list[float] | None:
    """The scales; None where sizes are given instead (then they are absent, or empty)."""
    index = 1 if node.op_type == "Upsample" or context.opset < 11 else 2
    if node.op_type == "Upsample" and attribute(node, "scales") is not None:
        return [float(s) for s in attribute(node, "scales")]
    value = context.raw(node, index)
    if value is None:
        return None
    if (
        not isinstance(value, Constant)
        and static_value(context.type(context.tensor(value, node_name(node))).shape[0]) == 0
    ):
        return None
    scales = [float(s) for s in context.array(context.known(value, node, index)).reshape(-1)]
    return scales or None


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

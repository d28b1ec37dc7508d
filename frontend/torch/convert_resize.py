"""Interpolation of torch, padding by a tensor's own elements, and pixel shuffles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.fx import Node

from ...graphir.dim import fold_dim, static_value
from ...graphir.expr import Atom
from ...graphir.interpolation import Interpolation
from ...graphir.type import TensorType
from ...tensorir.expr import Expr, IntImm
from ..resize import AxisSize, NamedAxis, resize
from .convert_shape import padded_by_names, without_ends
from .registry import Context, arguments, base_name, converts, operator_name

_MODES = {
    "upsample_nearest": Interpolation("nearest", "asymmetric", single_precision=True),
    "_upsample_nearest_exact": Interpolation(
        "nearest", "half_pixel", "round_prefer_ceil", single_precision=True
    ),
    "upsample_linear": Interpolation("linear"),
    "upsample_bilinear": Interpolation("linear"),
    "upsample_trilinear": Interpolation("linear"),
    "upsample_bicubic": Interpolation("cubic"),
}
_NAMES = [f"aten.{base}{n}d" for base, dims in (
    ("upsample_nearest", "123"), ("_upsample_nearest_exact", "123"), ("upsample_linear", "1"),
    ("upsample_bilinear", "2"), ("upsample_trilinear", "3"), ("upsample_bicubic", "2"),
) for n in dims]  # fmt: skip


@converts(*[f"{name}.{overload}" for name in _NAMES for overload in ("default", "vec")])
def upsample(context: Context, node: Node) -> Atom:
    """torch computes coordinates with the scale it was given, or that of the sizes; but where the
    number of elements stays what it is, linear modes and ``nearest`` of two dims copy, whatever the
    scale."""
    given = arguments(node)
    name = base_name(node)
    how = _MODES[name[:-2]]
    if given.get("align_corners"):
        how = Interpolation(how.mode, "align_corners")
    x = context.operand(given["input"] if "input" in given else given["self"])
    shape, wanted = context.type(x).shape, context.result_type(node).shape
    axes = list(range(2, len(shape)))
    scales = _scales(given, len(axes))
    sizes: list[AxisSize | NamedAxis] = []
    for axis, scale in zip(axes, scales, strict=True):
        out, own = static_value(wanted[axis]), static_value(shape[axis])
        if out is None or own is None:
            sizes.append(NamedAxis(axis, wanted[axis], 1 / scale if scale else None))
            continue
        ratio = (out or 0) / max(own or 0, 1) if scale is None else scale
        copied = how.mode == "linear" or name == "upsample_nearest2d" or ratio == 1
        if out is None or out != own or not copied:
            sizes.append(AxisSize(axis, out, ratio))
    return resize(context, x, sizes, how, context.refuse)


def _scales(given: Mapping[str, Any], count: int) -> Sequence[float | None]:
    if given.get("scale_factors") is not None:
        return [float(s) for s in given["scale_factors"]]
    named = [given.get(k) for k in ("scales_d", "scales_h", "scales_w", "scales") if k in given]
    return [None if s is None else float(s) for s in named] or [None] * count


# -- padding -------------------------------------------------------------------------------------
_PADS = ("reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
         "replication_pad2d", "replication_pad3d")  # fmt: skip


@converts("aten.pad.default", *[f"aten.{name}.default" for name in _PADS])
def pad(context: Context, node: Node) -> Atom:
    """torch gives the widths last axis first; negative ones cut what the others
    have made; circular padding repeats what is left."""
    given = arguments(node)
    named = operator_name(node).split(".")[1].split("_")[0]
    short = {"reflection": "reflect", "replication": "replicate"}.get(named)
    mode = short or given["mode"]
    key = "padding" if "padding" in given else "pad"
    x = context.operand(given["self"])
    if mode == "constant" and any(isinstance(context.value(w), Expr) for w in given[key]):
        return padded_by_names(context, given, x)
    widths = [int(context.static(w, "a pad width")) for w in given[key]]
    ndim = context.type(x).ndim
    pairs = [(0, 0)] * ndim
    for i in range(len(widths) // 2):
        pairs[ndim - 1 - i] = (widths[2 * i], widths[2 * i + 1])
    flat = tuple([max(0, w) for pair in pairs for w in pair])
    if mode == "circular":
        x = without_ends(context, x, pairs)
    if any(flat) and mode != "constant":
        x = context.op("pad_edges", x, pad_width=flat, mode=mode)
    elif any(flat):
        value = given.get("value")
        x = context.op("pad", x, pad_width=flat, pad_value=float(value or 0))
    return x if mode == "circular" else without_ends(context, x, pairs)


# -- between channels and space ------------------------------------------------------------------
def _rearranged(
    context: Context, x: Atom, apart: Sequence[Expr], axes: Sequence[int], joined: Sequence[Expr]
) -> Atom:
    dtype = context.type(x).dtype
    split = context.reshaped(x, TensorType(tuple(apart), dtype))
    moved = context.op("permute_dims", split, axes=tuple(axes))
    return context.reshaped(moved, TensorType(tuple([fold_dim(d) for d in joined]), dtype))


@converts("aten.pixel_shuffle.default")
def pixel_shuffle(context: Context, node: Node) -> Atom:
    x = context.operand(node.args[0])
    r = int(arguments(node)["upscale_factor"])
    *lead, _, h, w = context.type(x).shape
    n, f = len(lead), IntImm(r)
    out = context.result_type(node).shape[n]
    axes = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return _rearranged(context, x, (*lead, out, f, f, h, w), axes, (*lead, out, h * r, w * r))


@converts("aten.pixel_unshuffle.default")
def pixel_unshuffle(context: Context, node: Node) -> Atom:
    x = context.operand(node.args[0])
    r = int(arguments(node)["downscale_factor"])
    kind = context.result_type(node)
    *lead, c, _, _ = context.type(x).shape
    n, f = len(lead), IntImm(r)
    h, w = kind.shape[-2:]
    axes = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return _rearranged(context, x, (*lead, c, h, f, w, f), axes, kind.shape)

"""Reductions of torch along axes. Integers sum in int64, as torch's result says."""

from __future__ import annotations

import math
from typing import Any

from torch.fx import Node

from ...graphir.dim import product, static_value
from ...graphir.expr import Atom, Var
from ...support.dtype import DType
from .registry import Context, arguments, base_name, converts, integers

_REDUCE = {
    "sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "max": "max", "min": "min",
    "prod": "prod",
}  # fmt: skip


def _emit(context: Context, name: str, x: Atom, axes: tuple[int, ...], keepdims: bool) -> Atom:
    """A reduction along ``axes`` (none: all of them); of bools in uint8, which has max and min."""
    kind = context.type(x)
    axis = axes if axes and kind.ndim else None
    if not kind.dtype.is_bool:
        return context.op(name, x, axis=axis, keepdims=keepdims)
    bytes_ = context.cast(x, DType("uint8"))
    return context.cast(context.op(name, bytes_, axis=axis, keepdims=keepdims), kind.dtype)


def _axes(node: Node) -> tuple[tuple[int, ...], bool]:
    given = arguments(node)
    return integers(given.get("dim")), bool(given.get("keepdim", False))


@converts(
    "aten.sum.default", "aten.sum.dim_IntList", "aten.mean.default", "aten.mean.dim",
    "aten.amax.default", "aten.amin.default", "aten.max.default", "aten.min.default",
    "aten.prod.default", "aten.prod.dim_int",
)  # fmt: skip
def reduce(context: Context, node: Node) -> Atom:
    """Computed in the dtype of torch's result."""
    x = context.operand(node.args[0], context.result_type(node).dtype)
    return _emit(context, _REDUCE[base_name(node)], x, *_axes(node))


@converts(
    "aten.any.default", "aten.any.dim", "aten.any.dims", "aten.all.default", "aten.all.dim",
    "aten.all.dims", "aten._is_all_true.default", "aten._is_any_true.default",
)  # fmt: skip
def truth(context: Context, node: Node) -> Atom:
    """The largest (smallest) of the truth values."""
    x = context.operand(node.args[0])
    dtype = context.type(x).dtype
    if not dtype.is_bool:
        x = context.op("not_equal", x, context.scalar(0, dtype))
    result = _emit(context, "max" if "any" in base_name(node) else "min", x, *_axes(node))
    return context.cast(result, context.result_type(node).dtype)


@converts("aten.var.correction", "aten.std.correction", "aten.var_mean.correction")
def variance(context: Context, node: Node) -> Any:
    """With Bessel's correction of 1 unless another is given."""
    given = arguments(node)
    axes, keepdims = _axes(node)
    correction = given.get("correction")
    correction = 1 if correction is None else correction
    x = context.operand(node.args[0])
    kind = context.type(x)
    axis = axes if axes and kind.ndim else None
    attrs: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if correction == int(correction) and correction >= 0:
        result = context.op("variance", x, **attrs, correction=int(correction))
    else:
        count = static_value(product([kind.shape[d] for d in axis or range(kind.ndim)]))
        if count is None:
            raise context.refuse(f"correction={correction} of a symbolic size; make it static.")
        factor = count / (count - correction) if count > correction else math.inf
        result = context.op("variance", x, **attrs)
        result = context.op("multiply", result, context.scalar(factor, kind.dtype))
    if base_name(node) == "var_mean":
        return [result, context.op("mean", x, **attrs)]
    return context.op("sqrt", result) if base_name(node) == "std" else result


@converts("aten.linalg_vector_norm.default")
def vector_norm(context: Context, node: Node) -> Atom:
    """Orders 1, 2 and the infinities are no powers; 0 counts. Powers of halves are computed in
    float32, whose range they need."""
    result = context.result_type(node).dtype
    x = context.operand(node.args[0], result)
    order, (axes, keepdims) = float(arguments(node)["ord"]), _axes(node)
    wide = DType("float32") if result.bits < 32 and order not in (0, 1) else result
    x = context.cast(x, wide)
    return context.cast(_norm(context, x, order, axes, keepdims), result)


def _norm(context: Context, x: Atom, order: float, axes: tuple[int, ...], keepdims: bool) -> Atom:
    if order == 2:
        return context.op("sqrt", _emit(context, "sum", context.op("square", x), axes, keepdims))
    dtype = context.type(x).dtype
    if order == 0:
        counted = context.cast(context.op("not_equal", x, context.scalar(0, dtype)), dtype)
        return _emit(context, "sum", counted, axes, keepdims)
    magnitude: Var = context.op("abs", x)
    name = {1: "sum", math.inf: "max", -math.inf: "min"}.get(order)
    if name is not None:
        return _emit(context, name, magnitude, axes, keepdims)
    powers = context.op("power", magnitude, context.scalar(order, dtype))
    total = _emit(context, "sum", powers, axes, keepdims)
    return context.op("power", total, context.scalar(1 / order, dtype))

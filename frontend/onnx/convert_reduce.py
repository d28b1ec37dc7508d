"""Reductions of ONNX; the axes are an attribute in old opsets and an input in new ones."""

from __future__ import annotations

from onnx import NodeProto

from ...graphir.dim import product
from ...graphir.expr import Atom
from ...support.dtype import DType
from .registry import Context, ShapeValue, Value, attribute, converts

_REDUCE = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min",
    "ReduceProd": "prod", "ReduceL1": "sum", "ReduceL2": "sum", "ReduceSumSquare": "sum",
    "ReduceLogSum": "sum", "ReduceLogSumExp": "sum",
}  # fmt: skip
_BEFORE = {"ReduceL1": "abs", "ReduceL2": "square", "ReduceSumSquare": "square"}
_AFTER = {"ReduceL2": "sqrt", "ReduceLogSum": "log"}


@converts(*_REDUCE)
def reduce(context: Context, node: NodeProto) -> Value:
    axes = attribute(node, "axes")
    axes = context.ints(node, 1) if axes is None else list(axes)
    value = context.required(node, 0)
    keep = bool(attribute(node, "keepdims", 1))
    if isinstance(value, ShapeValue) and node.op_type == "ReduceProd":
        return ShapeValue((product(value.dims),), scalar=not keep)
    x = context.operand(node, 0)
    nothing = not axes and attribute(node, "noop_with_empty_axes", 0)
    axis = tuple(axes) if axes and context.type(x).ndim else None
    if node.op_type == "ReduceLogSumExp" and not nothing:
        return _log_sum_exp(context, x, axis, keep)
    if node.op_type in _BEFORE:
        x = context.op(_BEFORE[node.op_type], x)
    if not nothing:
        kind = context.type(x).dtype
        if kind.is_bool:
            x = context.cast(x, DType("uint8"))
        x = context.cast(context.op(_REDUCE[node.op_type], x, axis=axis, keepdims=keep), kind)
    return context.op(_AFTER[node.op_type], x) if node.op_type in _AFTER else x


def _log_sum_exp(context: Context, x: Atom, axis: tuple[int, ...] | None, keep: bool) -> Atom:
    """log(sum(e ** x)) about the largest element, so that nothing overflows; an infinite one is
    kept out, because inf - inf is NaN."""
    largest = context.op("max", x, axis=axis, keepdims=True)
    zero = context.scalar(0.0, context.type(x).dtype)
    centre = context.op("where", context.op("isinf", largest), zero, largest)
    powers = context.op("exp", context.op("subtract", x, centre))
    logs = context.op("log", context.op("sum", powers, axis=axis, keepdims=keep))
    if not keep:
        kept = context.type(logs).shape
        centre = context.reshape(centre, kept)
    return context.op("add", logs, centre)

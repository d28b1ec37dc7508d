"""Reductions; the axes are an attribute in old opsets and an input in new ones."""

from __future__ import annotations

from onnx import NodeProto

from .registry import Context, Value, attribute, converts

_REDUCE = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod"}


@converts(*_REDUCE)
def reduce(context: Context, node: NodeProto) -> Value:
    axes = attribute(node, "axes")
    if axes is None:
        axes = context.ints(node, 1)
    x = context.operand(node, 0)
    if not axes and attribute(node, "noop_with_empty_axes", 0):
        return x
    keep = bool(attribute(node, "keepdims", 1))
    return context.op(_REDUCE[node.op_type], x, axis=tuple(axes) if axes else None, keepdims=keep)

"""Operators of ONNX that order, find or accumulate elements along one axis."""

from __future__ import annotations

from typing import Any

from onnx import NodeProto

from ...support.errors import FrontendError
from .registry import Context, Value, attribute, converts, node_name


@converts("ArgMax", "ArgMin")
def arg_extreme(context: Context, node: NodeProto) -> Value:
    return context.op(
        node.op_type.lower(), context.operand(node, 0),
        axis=int(attribute(node, "axis", 0)), keepdims=bool(attribute(node, "keepdims", 1)),
        last=bool(attribute(node, "select_last_index", 0)),
    )  # fmt: skip


@converts("TopK")
def top_k(context: Context, node: NodeProto) -> list[Value]:
    """Always in order; of equal elements those with the lower index."""
    x = context.operand(node, 0)
    if context.opset < 10:
        k: Any = attribute(node, "k")
    else:
        given = context.ints(node, 1)
        k = given[0] if given is not None and len(given) == 1 else None
    if k is None:
        raise FrontendError(f"{node_name(node)}: k must be one constant number.")
    axis = int(attribute(node, "axis", -1))
    descending = bool(attribute(node, "largest", 1))
    order = context.op("argsort", x, axis=axis, descending=descending, count=int(k))
    return [context.op("gather_elements", x, order, axis=axis), order]


@converts("CumSum")
def cumulative_sum(context: Context, node: NodeProto) -> Value:
    axis = context.number(node, 1)
    return context.op(
        "cumsum", context.operand(node, 0), axis=int(axis or 0),
        exclusive=bool(attribute(node, "exclusive", 0)),
        reverse=bool(attribute(node, "reverse", 0)),
    )  # fmt: skip

"""Activations of ONNX that are made of several operators, and shifts."""

from __future__ import annotations

from onnx import NodeProto

from ...support.errors import FrontendError
from .registry import Context, Value, attribute, converts, node_name


@converts("Swish")
def swish(context: Context, node: NodeProto) -> Value:
    x = context.operand(node, 0)
    alpha = float(attribute(node, "alpha", 1.0))
    if alpha == 1.0:
        return context.op("silu", x)
    scaled = context.op("multiply", x, context.scalar(alpha, context.type(x).dtype))
    return context.op("multiply", x, context.op("sigmoid", scaled))


@converts("Softsign")
def softsign(context: Context, node: NodeProto) -> Value:
    x = context.operand(node, 0)
    one = context.scalar(1.0, context.type(x).dtype)
    return context.op("divide", x, context.op("add", context.op("abs", x), one))


@converts("Celu")
def celu(context: Context, node: NodeProto) -> Value:
    """``x`` where positive, else ``alpha * (e ** (x / alpha) - 1)``."""
    x, alpha = context.operand(node, 0), float(attribute(node, "alpha", 1.0))
    dtype = context.type(x).dtype
    tail = context.op("expm1", context.op("divide", x, context.scalar(alpha, dtype)))
    tail = context.op("multiply", tail, context.scalar(alpha, dtype))
    positive = context.op("greater", x, context.scalar(0.0, dtype))
    return context.op("where", positive, x, tail)


@converts("ThresholdedRelu")
def thresholded_relu(context: Context, node: NodeProto) -> Value:
    x = context.operand(node, 0)
    dtype = context.type(x).dtype
    above = context.op("greater", x, context.scalar(float(attribute(node, "alpha", 1.0)), dtype))
    return context.op("where", above, x, context.scalar(0.0, dtype))


@converts("Shrink")
def shrink(context: Context, node: NodeProto) -> Value:
    """Towards 0 by ``bias`` where beyond ``lambd``, else 0."""
    x = context.operand(node, 0)
    dtype = context.type(x).dtype
    bound, bias = float(attribute(node, "lambd", 0.5)), float(attribute(node, "bias", 0.0))
    low = context.op("less", x, context.scalar(-bound, dtype))
    high = context.op("greater", x, context.scalar(bound, dtype))
    down = context.op("subtract", x, context.scalar(bias, dtype))
    up = context.op("add", x, context.scalar(bias, dtype))
    inner = context.op("where", high, down, context.scalar(0.0, dtype))
    return context.op("where", low, up, inner)


@converts("BitShift")
def shift(context: Context, node: NodeProto) -> Value:
    direction = attribute(node, "direction")
    if direction not in ("LEFT", "RIGHT"):
        raise FrontendError(f"{node_name(node)}: direction {direction!r} is unknown.")
    name = f"shift_{direction.lower()}"
    return context.op(name, context.operand(node, 0), context.operand(node, 1))

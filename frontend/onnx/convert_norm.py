"""Normalisations of ONNX beside layer norm and batch norm."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from ...graphir.dim import dim_equal, divide
from ...graphir.expr import Atom
from ...support.errors import FrontendError
from ...tensorir.expr import IntImm
from ..normalization import group_norm, rms_norm
from .registry import Context, Value, attribute, converts, node_name
from .term import Term


@converts("InstanceNormalization")
def instances(context: Context, node: NodeProto) -> Value:
    x, scale, bias = (context.operand(node, i) for i in range(3))
    return group_norm(context, x, None, scale, bias, float(attribute(node, "epsilon", 1e-5)))


@converts("GroupNormalization")
def groups(context: Context, node: NodeProto) -> Value:
    """Scale and bias are of a group in opset 18, and of a channel from 21 on."""
    x, scale, bias = (context.operand(node, i) for i in range(3))
    count = int(attribute(node, "num_groups"))
    channels = context.type(x).shape[1]
    each = divide(channels, IntImm(count))
    if each is None:
        raise FrontendError(f"{node_name(node)}: {count} groups do not divide the channels.")

    def of_channels(p: Atom) -> Atom:
        if dim_equal(context.type(p).shape[0], channels):
            return p
        column = context.reshape(p, [count, 1])
        wide = context.op("broadcast_to", column, context.shape([count, each]))
        return context.reshape(wide, [channels])

    epsilon = float(attribute(node, "epsilon", 1e-5))
    return group_norm(context, x, count, of_channels(scale), of_channels(bias), epsilon)


@converts("SimplifiedLayerNormalization", "RMSNormalization")
def rms(context: Context, node: NodeProto) -> Value:
    """By the root of the mean square, over the axes from ``axis`` on."""
    context.only_first(node)
    x, scale = context.operand(node, 0), context.operand(node, 1)
    ndim = context.type(x).ndim
    axis = int(attribute(node, "axis", -1)) % ndim
    epsilon = float(attribute(node, "epsilon", 1e-5))
    return rms_norm(context, x, tuple(range(axis - ndim, 0)), scale, epsilon)


@converts("MeanVarianceNormalization")
def mean_variance(context: Context, node: NodeProto) -> Value:
    x = context.operand(node, 0)
    axes = tuple([int(a) for a in attribute(node, "axes", (0, 2, 3))])
    dtype = context.type(x).dtype
    centred = context.op("subtract", x, context.op("mean", x, axis=axes, keepdims=True))
    variance = context.op("mean", context.op("square", centred), axis=axes, keepdims=True)
    deviation = context.op("sqrt", variance)
    return context.op("divide", centred, context.op("add", deviation, context.scalar(1e-9, dtype)))


@converts("LpNormalization")
def by_norm(context: Context, node: NodeProto) -> Value:
    """Divided by the norm of order 1 or 2 along an axis; where that is 0, the result is 0."""
    x = context.operand(node, 0)
    order = int(attribute(node, "p", 2))
    if order not in (1, 2):
        raise FrontendError(f"{node_name(node)}: the norm of order {order} is none of ONNX.")
    axis, dtype = int(attribute(node, "axis", -1)), context.type(x).dtype
    terms = context.op("abs" if order == 1 else "square", x)
    norm: Atom = context.op("sum", terms, axis=axis, keepdims=True)
    if order == 2:
        norm = context.op("sqrt", norm)
    zero = context.op("equal", norm, context.scalar(0.0, dtype))
    divisor = context.op("where", zero, context.scalar(1.0, dtype), norm)
    return context.op("divide", x, divisor)


@converts("LRN")
def local_response(context: Context, node: NodeProto) -> Value:
    """Divided by a power of the squares' sum over neighbouring channels."""
    x = Term(context, context.operand(node, 0))
    size = int(attribute(node, "size"))
    alpha, beta = float(attribute(node, "alpha", 1e-4)), float(attribute(node, "beta", 0.75))
    channels = x.sizes(node_name(node))[1]
    widths = [0, 0, (size - 1) // 2, size // 2, *[0] * (2 * x.ndim - 4)]
    squares = (x * x).op("pad", pad_width=tuple(widths))
    total = squares.cut(1, 0, channels)
    for i in range(1, size):
        total = total + squares.cut(1, i, i + channels)
    base = total * (alpha / size) + float(attribute(node, "bias", 1.0))
    return (x / base.op("power", beta)).atom


@converts("Det")
def determinant(context: Context, node: NodeProto) -> Value:
    """The product of the pivots: elimination with the largest element of each column on top."""
    a = Term(context, context.operand(node, 0))
    n = a.sizes(node_name(node))[-1]
    result: Term | None = None
    for k in range(n):
        rows = a.data(np.arange(n - k)[:, None], "int64")
        pivot = a.cut(-1, 0, 1).op("abs").op("argmax", axis=-2, keepdims=True)
        order = rows.equals(pivot).where(rows * 0, rows)
        order = rows.equals(0).where(pivot, order)
        a = a.op("gather_elements", order.expand(*a.shape), axis=a.ndim - 2)
        head = a.cut(-1, 0, 1).cut(-2, 0, 1)
        signed = pivot.equals(0).where(head, -head)
        result = signed if result is None else result * signed
        if k + 1 < n:
            safe = head.equals(0.0).where(1.0, head)
            below, beside = a.cut(-2, 1, None), a.cut(-2, 0, 1)
            a = (below - (below.cut(-1, 0, 1) / safe) * beside).cut(-1, 1, None)
    assert result is not None
    return result.reshape(*result.shape[:-2]).atom

"""Matrix products, softmax, normalisation."""

from __future__ import annotations

from onnx import NodeProto

from ...graphir.expr import Atom
from ...support.errors import FrontendError
from .registry import Context, Value, attribute, converts, node_name


@converts("Gemm")
def gemm(context: Context, node: NodeProto) -> Value:
    """alpha * A' @ B' + beta * C; with B transposed and neither scaled, a linear."""
    a, b = context.operand(node, 0), context.operand(node, 1)
    alpha, beta = float(attribute(node, "alpha", 1.0)), float(attribute(node, "beta", 1.0))
    dtype = context.type(a).dtype
    if attribute(node, "transA", 0):
        a = context.op("permute_dims", a, axes=(1, 0))
    c = context.operand(node, 2) if context.raw(node, 2) is not None else None
    columns = context.type(b).shape[0 if attribute(node, "transB", 0) else 1]
    plain_bias = c is None or (context.type(c).ndim == 1 and _same(context.type(c).shape[0], columns))
    if attribute(node, "transB", 0) and alpha == 1.0 and beta == 1.0 and plain_bias:
        return context.op("linear", a, b, *([c] if c is not None else []))
    if attribute(node, "transB", 0):
        b = context.op("permute_dims", b, axes=(1, 0))
    product: Atom = context.op("matmul", a, b)
    if alpha != 1.0:
        product = context.op("multiply", product, context.scalar(alpha, dtype))
    if c is None or beta == 0.0:
        return product
    if beta != 1.0:
        c = context.op("multiply", c, context.scalar(beta, dtype))
    return context.op("add", product, c)


def _same(a: object, b: object) -> bool:
    return a is b or getattr(a, "value", None) == getattr(b, "value", object())


@converts("MatMul")
def matmul(context: Context, node: NodeProto) -> Value:
    return context.op("matmul", context.operand(node, 0), context.operand(node, 1))


@converts("Softmax", "LogSoftmax")
def softmax(context: Context, node: NodeProto) -> Value:
    """Before opset 13 the axes from ``axis`` on are one."""
    name = "softmax" if node.op_type == "Softmax" else "log_softmax"
    x = context.operand(node, 0)
    shape = context.type(x).shape
    if context.opset >= 13:
        return context.op(name, x, axis=int(attribute(node, "axis", -1)))
    axis = int(attribute(node, "axis", 1)) % len(shape)
    if axis == len(shape) - 1:
        return context.op(name, x, axis=-1)
    flat = context.op("flatten", x, start_dim=axis, end_dim=-1)
    return context.reshape(context.op(name, flat, axis=-1), list(shape))


@converts("LayerNormalization")
def layer_norm(context: Context, node: NodeProto) -> Value:
    if any(node.output[1:]):
        raise FrontendError(f"{node_name(node)}: its mean and deviation outputs cannot be imported.")
    x = context.operand(node, 0)
    ndim = context.type(x).ndim
    axis = int(attribute(node, "axis", -1)) % ndim
    extra = [context.operand(node, i) for i in (1, 2) if context.raw(node, i) is not None]
    return context.op(
        "layer_norm", x, *extra, axes=tuple(range(axis - ndim, 0)), epsilon=float(attribute(node, "epsilon", 1e-5))
    )

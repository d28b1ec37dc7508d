"""Matrix products, softmax and normalisations of ONNX."""

from __future__ import annotations

from onnx import NodeProto

from ...graphir.dim import dim_equal, divide
from ...graphir.expr import Atom
from ...support.errors import FrontendError
from ...tensorir.expr import Expr, IntImm
from ..batch_norm import normalized
from .registry import Context, Value, attribute, converts, node_name


@converts("Gemm")
def gemm(context: Context, node: NodeProto) -> Value:
    """alpha * A' @ B' + beta * C; with B transposed and neither scaled, a linear."""
    a, b = context.operand(node, 0), context.operand(node, 1)
    alpha, beta = float(attribute(node, "alpha", 1.0)), float(attribute(node, "beta", 1.0))
    dtype = context.type(a).dtype
    if attribute(node, "transA", 0):
        a = context.op("permute_dims", a, axes=(1, 0))
    transposed = bool(attribute(node, "transB", 0))
    c = context.operand(node, 2) if context.raw(node, 2) is not None and beta != 0.0 else None
    if transposed and alpha == 1.0 and beta == 1.0 and _is_bias(context, c, b):
        return context.op("linear", a, b, *([c] if c is not None else []))
    product: Atom = context.op("matmul", a, b, **({"transpose_b": True} if transposed else {}))
    if alpha != 1.0:
        product = context.op("multiply", product, context.scalar(alpha, dtype))
    if c is None:
        return product
    if beta != 1.0:
        c = context.op("multiply", c, context.scalar(beta, dtype))
    return context.op("add", product, c)


def _is_bias(context: Context, c: Atom | None, weight: Atom) -> bool:
    """Whether C is absent or one number a column."""
    if c is None:
        return True
    shape = context.type(c).shape
    return len(shape) == 1 and dim_equal(shape[0], context.type(weight).shape[0])


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
    axis = int(attribute(node, "axis", 1))
    axis += len(shape) if axis < 0 else 0
    if not 0 <= axis <= len(shape):
        raise FrontendError(f"{node_name(node)}: axis {axis} of a tensor of {len(shape)} dims.")
    if axis == len(shape) - 1:
        return context.op(name, x, axis=-1)
    if axis == len(shape):
        return context.reshape(context.op(name, context.reshape(x, [*shape, 1]), axis=-1), shape)
    flat = context.op("flatten", x, start_dim=axis, end_dim=-1)
    return context.reshape(context.op(name, flat, axis=-1), shape)


SIDES = ("left", "right")
"""Where the window of an Attention may end."""


@converts("Attention")
def attention(context: Context, node: NodeProto) -> Value:
    """softmax(Q @ K^T * scale + mask) @ V; operands of three dims have their heads side by side."""
    windows = any(attribute(node, f"{side}_window_size", -1) not in (-1, None) for side in SIDES)
    cached = any(context.raw(node, n) is not None for n in range(4, 7))
    capped = attribute(node, "softcap", 0.0) != 0.0
    if windows or cached or capped or context.reads_others(node):
        return NotImplemented
    q, k, v = (context.operand(node, n) for n in range(3))
    shape = context.type(q).shape
    operands = [
        _with_heads(context, node, x, heads)
        for x, heads in ((q, "q_num_heads"), (k, "kv_num_heads"), (v, "kv_num_heads"))
    ]
    if context.raw(node, 3) is not None:
        operands.append(context.operand(node, 3))
    scale = attribute(node, "scale")
    y = context.op(
        "attention",
        *operands,
        scale=None if scale is None else float(scale),
        causal=bool(attribute(node, "is_causal", 0)),
    )
    if len(shape) == 4:
        return y
    batch, heads, tokens, size = context.type(y).shape
    tokens_first = context.op("permute_dims", y, axes=(0, 2, 1, 3))
    return context.reshape(tokens_first, [batch, tokens, heads * size])


def _with_heads(context: Context, node: NodeProto, x: Atom, heads: str) -> Atom:
    """An operand as (batch, heads, tokens, size)."""
    shape = context.type(x).shape
    if len(shape) == 4:
        return x
    count = int(attribute(node, heads, 0))
    size = divide(shape[-1], IntImm(count)) if count and len(shape) == 3 else None
    if size is None:
        raise FrontendError(
            f"{node_name(node)}: expected operands of four dims, or of three and {heads} that "
            f"divides the last; found {len(shape)} dims and {heads} {count}."
        )
    split = context.reshape(x, [shape[0], shape[1], count, size])
    return context.op("permute_dims", split, axes=(0, 2, 1, 3))


@converts("LayerNormalization")
def layer_norm(context: Context, node: NodeProto) -> Value:
    if context.reads_others(node):
        return NotImplemented
    x = context.operand(node, 0)
    ndim = context.type(x).ndim
    axis = int(attribute(node, "axis", -1)) % ndim
    extra = [context.operand(node, i) for i in (1, 2) if context.raw(node, i) is not None]
    return context.op(
        "layer_norm",
        x,
        *extra,
        axes=tuple(range(axis - ndim, 0)),
        epsilon=float(attribute(node, "epsilon", 1e-5)),
    )


@converts("BatchNormalization")
def batch_norm(context: Context, node: NodeProto) -> Value:
    """Over all axes but 1, with the running statistics. Before opset 14 more results than one mean
    training."""
    if attribute(node, "training_mode", 0) or (context.opset < 14 and any(node.output[1:])):
        raise FrontendError(
            f"{node_name(node)} is in training mode; export the model in evaluation mode."
        )
    context.only_first(node)
    x = context.operand(node, 0)
    kind = context.type(x)
    given = [context.operand(node, i) for i in range(1, 5)]
    result = normalized(
        context.op, context.builder.weights, x, given[2], given[3], given[0], given[1],
        epsilon=float(attribute(node, "epsilon", 1e-5)), kind=kind,
    )  # fmt: skip
    if result is not None:
        return result
    dims: list[Expr | int] = [kind.shape[1], *[1] * (kind.ndim - 2)]
    scale, bias, mean, variance = (
        context.reshape(context.cast(p, kind.dtype), dims) for p in given
    )
    epsilon = context.scalar(float(attribute(node, "epsilon", 1e-5)), kind.dtype)
    deviation = context.op("rsqrt", context.op("add", variance, epsilon))
    factor = context.op("multiply", deviation, scale)
    centred = context.op("subtract", x, mean)
    return context.op("add", context.op("multiply", centred, factor), bias)

"""Matrix products, softmax, attention and normalisations of torch."""

from __future__ import annotations

import math
from typing import Any

from torch.fx import Node

from ...graphir.dim import product, shape_equal, static_shape
from ...graphir.expr import Atom, Var
from ...graphir.type import tensor_type
from ...support.dtype import DType
from ..batch_norm import normalized
from .registry import Context, arguments, base_name, converts


@converts("aten.linear.default")
def linear(context: Context, node: Node) -> Var:
    """x[..., k] times w[n, k] transposed, plus bias[n]."""
    given = arguments(node)
    operands = [given["input"], given["weight"], given.get("bias")]
    return context.op("linear", *[context.operand(a) for a in operands if a is not None])


@converts(
    "aten.mm.default", "aten.bmm.default", "aten.matmul.default", "aten.mv.default",
    "aten.dot.default",
)  # fmt: skip
def matmul(context: Context, node: Node) -> Var:
    return context.op("matmul", context.operand(node.args[0]), context.operand(node.args[1]))


@converts("aten._int_mm.default")
def integer_matmul(context: Context, node: Node) -> Var:
    """A product of int8, summed in int32."""
    operands = [context.operand(node.args[i]) for i in range(2)]
    return context.op("integer_matmul", *operands)


@converts("aten._weight_int8pack_mm.default")
def int8_weight(context: Context, node: Node) -> Atom:
    """A product with a weight of int8, turned, times a scale for each column: the scaled sums in
    float32, rounded to the operand's dtype."""
    x, w, scale = (context.operand(node.args[i]) for i in range(3))
    wide = [context.cast(a, DType("float32")) for a in (x, w, scale)]
    product = context.op("matmul", *wide[:2], transpose_b=True)
    made = context.op("multiply", product, wide[2])
    return context.cast(made, context.result_type(node).dtype)


@converts("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default")
def addmm(context: Context, node: Node) -> Var:
    """beta * c + alpha * (a @ b)"""
    given = arguments(node)
    dtype = context.result_type(node).dtype
    c, a, b = (context.operand(x) for x in node.args[:3])
    product = context.op("matmul", a, b)
    if given["alpha"] != 1:
        product = context.op("multiply", product, context.operand(given["alpha"], dtype))
    if given["beta"] == 0:  # then not even a NaN of c counts
        return product
    if given["beta"] != 1:
        c = context.op("multiply", c, context.operand(given["beta"], dtype))
    return context.op("add", product, c)


@converts(
    "aten.softmax.int", "aten._softmax.default", "aten.log_softmax.int",
    "aten._log_softmax.default",
)  # fmt: skip
def softmax(context: Context, node: Node) -> Var:
    """A dtype argument is applied before the softmax; a scalar is a row of one."""
    x = context.operand(node.args[0], context.result_type(node).dtype)
    name, axis = base_name(node).lstrip("_"), int(arguments(node)["dim"])
    if context.type(x).ndim:
        return context.op(name, x, axis=axis)
    row = context.op(name, context.op("expand_dims", x, axis=0), axis=0)
    return context.op("squeeze", row, axis=0)


# -- attention -------------------------------------------------------------------------------
@converts("aten.scaled_dot_product_attention.default")
def attention(context: Context, node: Node) -> Var:
    """softmax(q @ k^T * scale + mask) @ v; a bool mask is true where a key takes part.

    It is one operator where its dims are (batch, heads, tokens, size) or can be seen as such;
    otherwise, and for a symbolic number of keys, which its kernel is not made for, its parts.
    """
    given = arguments(node)
    if given["dropout_p"]:
        raise context.refuse("dropout in attention is for training; call module.eval() first.")
    q, k, v = (context.operand(given[name]) for name in ("query", "key", "value"))
    scale = given.get("scale")
    if scale is None:
        width = context.static(given["query"].meta["val"].shape[-1], "the size of a head")
        scale = 1 / math.sqrt(width)
    mask = None if given["attn_mask"] is None else context.operand(given["attn_mask"])
    causal = bool(given["is_causal"])
    grouped = bool(given.get("enable_gqa"))
    whole = static_shape(context.type(k).shape[-2:-1]) is not None or causal
    if not grouped and not (whole and _is_plain(context, q, k, v, mask)):
        return _attention_parts(context, (q, k, v, mask), float(scale), causal=causal)
    kind = context.type(q)
    operands = [_with_heads(context, x) for x in (q, k, v)]
    if mask is not None:
        operands.append(mask)
    y = context.op("attention", *operands, scale=float(scale), causal=causal)
    if kind.ndim == 4:
        return y
    return context.reshaped(
        y, tensor_type([*kind.shape[:-1], context.type(v).shape[-1]], kind.dtype)
    )


def _is_plain(context: Context, q: Atom, k: Atom, v: Atom, mask: Atom | None) -> bool:
    """Whether the leading dims of the operands are the same, and a mask has at most four."""
    kinds = [context.type(x) for x in (q, k, v)]
    lead = kinds[0].shape[:-2]
    return all(shape_equal(kind.shape[:-2], lead) for kind in kinds[1:]) and (
        mask is None or kinds[0].ndim <= 4 or context.type(mask).ndim <= 2
    )


def _with_heads(context: Context, x: Atom) -> Atom:
    """An operand as (batch, heads, tokens, size): heads alone, or nothing, may be missing, and all
    dims before the heads are the batch."""
    kind = context.type(x)
    if kind.ndim == 4:
        return x
    lead = kind.shape[:-3]
    heads = kind.shape[-3] if kind.ndim > 2 else 1
    return context.reshaped(x, tensor_type([product(lead), heads, *kind.shape[-2:]], kind.dtype))


def _attention_parts(
    context: Context,
    operands: tuple[Atom, Atom, Atom, Atom | None],
    scale: float,
    *,
    causal: bool,
) -> Var:
    """Queries that no key takes part in have zeros, as torch's own has."""
    q, k, v, mask = operands
    dtype = context.type(q).dtype
    nothing = context.scalar(-math.inf, dtype)
    masks = mask is not None
    scores = context.op("matmul", q, k, transpose_b=True)
    scores = context.op("multiply", scores, context.scalar(scale, dtype))
    if causal:
        mask = context.below_diagonal(context.type(q).shape[-2], context.type(k).shape[-2])
    if mask is not None and context.type(mask).dtype.is_bool:
        scores = context.op("where", mask, scores, nothing)
    elif mask is not None:
        scores = context.op("add", scores, mask)
    made = context.op("matmul", context.op("softmax", scores, axis=-1), v)
    if not masks or mask is None or not context.type(mask).ndim:
        return made
    if context.type(mask).dtype.is_bool:
        mask = context.op("where", mask, context.scalar(0, dtype), nothing)
    most = context.op("max", context.cast(mask, dtype), axis=-1, keepdims=True)
    return context.op("where", context.op("equal", most, nothing), context.scalar(0, dtype), made)


# -- normalisation ---------------------------------------------------------------------------
@converts("aten.layer_norm.default", "aten.native_layer_norm.default")
def layer_norm(context: Context, node: Node) -> Any:
    """The mean and rstd results of the native form cannot be imported. A narrow input beside a
    weight of float32 is widened, as torch does, and the result is as narrow again."""
    given = arguments(node)
    x = context.operand(given["input"])
    dtype = context.type(x).dtype
    axes = tuple(range(-len(given["normalized_shape"]), 0))
    weight, bias = (
        None if given.get(k) is None else context.operand(given[k]) for k in ("weight", "bias")
    )
    fused = [weight, bias] if weight is not None and bias is not None else [weight]
    operands = [a for a in fused if a is not None]
    others = [context.type(a).dtype for a in (weight, bias) if a is not None]
    x = next((context.cast(x, other) for other in others if other is not dtype), x)
    result: Atom = context.op("layer_norm", x, *operands, axes=axes, epsilon=float(given["eps"]))
    if weight is None and bias is not None:
        result = context.op("add", result, bias)
    result = context.cast(result, dtype)
    return result if base_name(node) == "layer_norm" else [result]


@converts(
    "aten.batch_norm.default", "aten._native_batch_norm_legit_no_training.default",
    "aten._native_batch_norm_legit.no_stats", "aten._batch_norm_no_update.default",
    "aten.native_batch_norm.default",
)  # fmt: skip
def batch_norm(context: Context, node: Node) -> Any:
    """The statistics that the native forms also give cannot be imported."""
    result = normalize_batch(context, node)
    return result if base_name(node) == "batch_norm" else [result]


def normalize_batch(context: Context, node: Node) -> Var:
    """Over all axes but 1; with the running statistics, or (where there are none) the batch's
    own. Those that update running ones are decomposed before."""
    given = arguments(node)
    running = given.get("running_mean") is not None
    x = context.operand(given["input"])
    kind = context.type(x)
    channels = tensor_type([kind.shape[1], *[1] * (kind.ndim - 2)], kind.dtype)
    if running:
        names = ("running_mean", "running_var", "weight", "bias")
        parameters = [None if given.get(n) is None else context.operand(given[n]) for n in names]
        mean, variance, weight, bias = parameters
        assert mean is not None
        assert variance is not None
        result = normalized(
            context.op, context.builder.weights, x, mean, variance, weight, bias,
            epsilon=float(given["eps"]), kind=kind,
        )  # fmt: skip
        if result is not None:
            return result

    def channel(name: str) -> Atom | None:
        value = given.get(name)
        return (
            None
            if value is None
            else context.reshaped(context.operand(value, kind.dtype), channels)
        )

    mean, variance = channel("running_mean"), channel("running_var")
    if mean is None or variance is None:
        axes = tuple([i for i in range(kind.ndim) if i != 1])
        mean = context.op("mean", x, axis=axes, keepdims=True)
        variance = context.op("variance", x, axis=axes, keepdims=True)
    shifted = context.op("add", variance, context.scalar(float(given["eps"]), kind.dtype))
    scale: Atom = context.op("rsqrt", shifted)
    weight, bias = channel("weight"), channel("bias")
    if weight is not None:
        scale = context.op("multiply", scale, weight)
    if not running:
        result = context.op("multiply", context.op("subtract", x, mean), scale)
        return result if bias is None else context.op("add", result, bias)
    # Known statistics make it a scale and a shift, which are constants, and a convolution's.
    shift: Atom = context.op("multiply", mean, scale)
    shift = context.op("negative", shift) if bias is None else context.op("subtract", bias, shift)
    return context.op("add", context.op("multiply", x, scale), shift)

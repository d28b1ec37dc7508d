"""Quantised operators of the domain com.microsoft, which ONNX Runtime's quantiser writes."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from ...graphir.expr import Constant
from ...support.errors import FrontendError
from ..term import join
from .convert_contrib import needed, term
from .convert_contrib_attention import packed_heads
from .convert_quantized import integer_product
from .convert_window import mean_of_windows
from .registry import Context, Value, attribute, converts, node_name
from .term import Term

_DOMAIN = "com.microsoft."


@converts(_DOMAIN + "DynamicQuantizeMatMul", _DOMAIN + "MatMulIntegerToFloat")
def dynamic_matmul(context: Context, node: NodeProto) -> Value:
    """A product of bytes, scaled: of A quantised by its own extremes, or of bytes given."""
    if node.op_type == "MatMulIntegerToFloat":
        a, b, a_scale, b_scale = (needed(context, node, i) for i in range(4))
        a_zero, b_zero, bias = (term(context, node, i) for i in (4, 5, 6))
    else:
        x, b, b_scale = (needed(context, node, i) for i in range(3))
        b_zero, bias = (term(context, node, i) for i in (3, 4))
        low, high = x.op("min").op("minimum", 0.0), x.op("max").op("maximum", 0.0)
        a_scale = (high - low) / 255.0
        shift = (-low / a_scale).op("round").op("clip", min=0.0, max=255.0)
        steps = (x / a_scale).op("round") + shift
        a, a_zero = steps.op("clip", min=0.0, max=255.0).cast("uint8"), shift.cast("uint8")
    made = _product(context, a, b, a_zero, b_zero).cast(a_scale.dtype) * (a_scale * b_scale)
    return (made if bias is None else made + bias).atom


_BINARY = {"QLinearAdd": "add", "QLinearMul": "multiply"}


@converts(*[_DOMAIN + name for name in _BINARY])
def quantised_binary(context: Context, node: NodeProto) -> Value:
    x = _real(context, node, 0).op(_BINARY[node.op_type], _real(context, node, 3))
    return _quantised(context, node, x, 6)


@converts(_DOMAIN + "QLinearSigmoid", _DOMAIN + "QLinearLeakyRelu")
def quantised_unary(context: Context, node: NodeProto) -> Value:
    x = _real(context, node, 0)
    if node.op_type == "QLinearSigmoid":
        return _quantised(context, node, x.op("sigmoid"), 3)
    slope = float(attribute(node, "alpha", 0.01))
    return _quantised(context, node, x.op("leaky_relu", negative_slope=slope), 3)


@converts(_DOMAIN + "QLinearGlobalAveragePool")
def quantised_mean(context: Context, node: NodeProto) -> Value:
    x = _real(context, node, 0)
    last = bool(attribute(node, "channels_last", 0))
    axes = tuple(range(1, x.ndim - 1) if last else range(2, x.ndim))
    return _quantised(context, node, x.op("mean", axis=axes, keepdims=True), 3)


@converts(_DOMAIN + "QLinearConcat")
def quantised_concat(context: Context, node: NodeProto) -> Value:
    """Y's scale and zero point, then a tensor with its own, as often as there are."""
    parts = [_real(context, node, i) for i in range(2, len(node.input), 3)]
    return _quantised(context, node, join(parts, int(attribute(node, "axis"))), 0)


@converts(_DOMAIN + "QGemm")
def quantised_gemm(context: Context, node: NodeProto) -> Value:
    """alpha * (A @ B) + C of bytes, C in int32 steps of both scales; quantised where Y's scale is
    given."""
    a, a_scale, b, b_scale = (needed(context, node, i) for i in (0, 1, 3, 4))
    a_zero, b_zero, bias = (term(context, node, i) for i in (2, 5, 6))
    if attribute(node, "transA", 0):
        a = a.permute(1, 0)
    if attribute(node, "transB", 0):
        b = b.permute(1, 0)
    sums = _product(context, a, b, a_zero, b_zero)
    if bias is not None:
        sums = sums + bias
    scale = a_scale * b_scale * float(attribute(node, "alpha", 1.0))
    made = sums.cast(a_scale.dtype) * scale
    return made.atom if context.raw(node, 7) is None else _quantised(context, node, made, 7)


@converts(_DOMAIN + "QLinearSoftmax")
def quantised_softmax(context: Context, node: NodeProto) -> Value:
    """Before opset 13 the axes from ``axis`` on are one."""
    x, axis = _real(context, node, 0), int(attribute(node, "axis", -1))
    if int(attribute(node, "opset", 13)) >= 13 or axis in (-1, x.ndim - 1):
        return _quantised(context, node, x.op("softmax", axis=axis), 3)
    sizes = x.sizes("QLinearSoftmax of an opset before 13")
    rows = int(np.prod(sizes[: axis % x.ndim], dtype=np.int64))
    flat = x.reshape(rows, -1).op("softmax", axis=-1).reshape(*sizes)
    return _quantised(context, node, flat, 3)


@converts(_DOMAIN + "QLinearAveragePool")
def quantised_average(context: Context, node: NodeProto) -> Value:
    x = _real(context, node, 0)
    if not attribute(node, "channels_last", 0):
        return _quantised(context, node, mean_of_windows(context, node, x), 3)
    made = mean_of_windows(context, node, x.channels_first())
    return _quantised(context, node, made.channels_last(), 3)


@converts(_DOMAIN + "QLinearReduceMean")
def quantised_reduction(context: Context, node: NodeProto) -> Value:
    x = _real(context, node, 0)
    axes = attribute(node, "axes") or range(x.ndim)
    keep = bool(attribute(node, "keepdims", 1))
    made = x.op("mean", axis=tuple([int(a) for a in axes]), keepdims=keep)
    return _quantised(context, node, made, 3)


@converts(_DOMAIN + "QLinearWhere")
def quantised_choice(context: Context, node: NodeProto) -> Value:
    condition = needed(context, node, 0)
    made = condition.where(_real(context, node, 1), _real(context, node, 4))
    return _quantised(context, node, made, 7)


@converts(_DOMAIN + "QAttention")
def quantised_attention(context: Context, node: NodeProto) -> list[Value]:
    """Attention of bytes and one weight for queries, keys and values, whose product is of bytes."""
    x, w, bias, x_scale, w_scale = (needed(context, node, i) for i in range(5))
    x_zero, w_zero = term(context, node, 6), term(context, node, 7)
    if context.raw(node, 8) is not None:
        raise FrontendError(f"{node_name(node)}: past keys cannot be imported.")
    sums = _product(context, x, w, x_zero, w_zero).cast(bias.dtype)
    return packed_heads(context, node, sums * (x_scale * w_scale) + bias, mask=5)


def _product(context: Context, a: Term, b: Term, a_zero: Term | None, b_zero: Term | None) -> Term:
    """The product in int32 less zero points, those of the weight zero where it has none."""
    zeros = [
        None if z is None or _is_zero(context, z) else z.cast("int32").atom
        for z in (a_zero, b_zero)
    ]
    return Term(context, integer_product(context, a.atom, b.atom, *zeros))


def _is_zero(context: Context, zero: Term) -> bool:
    return isinstance(zero.atom, Constant) and not context.array(zero.atom).any()


def _real(context: Context, node: NodeProto, index: int) -> Term:
    """What bytes stand for: (q - zero point) * scale."""
    q, scale, zero = (
        needed(context, node, index), needed(context, node, index + 1),
        term(context, node, index + 2),
    )  # fmt: skip
    wide = q.cast("int32")
    wide = wide if zero is None else wide - zero.cast("int32")
    return wide.cast(scale.dtype) * scale


def _quantised(context: Context, node: NodeProto, x: Term, index: int) -> Value:
    scale, zero = needed(context, node, index), term(context, node, index + 1)
    kind = "uint8" if zero is None else str(zero.dtype)
    steps = (x / scale).op("round")
    steps = steps if zero is None else steps + zero.cast(steps.dtype)
    info = np.iinfo(kind)
    return steps.op("clip", min=float(info.min), max=float(info.max)).cast(kind).atom

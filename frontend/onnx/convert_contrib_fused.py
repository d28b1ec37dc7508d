"""Fused operators of com.microsoft: what ONNX Runtime's optimisers write into the models that they
save, in place of several operators of ONNX."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from ...graphir.dim import static_value
from ...support.errors import FrontendError
from .convert_contrib import needed, term, unpacked
from .convert_nn import gemm
from .convert_recurrent import activation
from .convert_window import conv, pooled
from .data_sizes import positions
from .registry import Context, Narrow, Value, attribute, converts, node_name
from .term import Term

_DOMAIN = "com.microsoft."


@converts(_DOMAIN + "FusedGemm")
def fused_gemm(context: Context, node: NodeProto) -> Value:
    """A Gemm and an activation."""
    made = Term(context, context.tensor(gemm(context, node), node_name(node)))
    numbers = [float(attribute(node, f"activation_{n}", 0.0)) for n in ("alpha", "beta")]
    return _activated(node, made, numbers).atom


@converts(_DOMAIN + "FusedConv")
def fused_conv(context: Context, node: NodeProto) -> Value:
    """A convolution, what is added to it, and an activation."""
    made = Term(context, context.tensor(conv(context, node), node_name(node)))
    added = term(context, node, 3)
    made = made if added is None else made + added
    return _activated(node, made, [float(x) for x in attribute(node, "activation_params", ())]).atom


def _activated(node: NodeProto, x: Term, numbers: list[float]) -> Term:
    name = attribute(node, "activation", "")
    if not name:
        return x
    a, b = [*numbers, 0.0, 0.0][:2]
    if name == "Clip":
        return x.op("clip", min=a, max=b)
    return activation(node, name, a, b)(x)


@converts(_DOMAIN + "EmbedLayerNormalization")
def embed_norm(context: Context, node: NodeProto) -> list[Value]:
    """The norm of the sum of rows of tables, of words, positions and perhaps segments; how many
    words of each sequence the mask has; and that sum."""
    ids, words, places = (needed(context, node, i) for i in (0, 2, 3))
    segments, rows = term(context, node, 1), term(context, node, 4)
    mask, given = term(context, node, 7), term(context, node, 8)
    batch, length = ids.shape
    position = places.op("take", positions(context, length) if given is None else given, axis=0)
    total = words.op("take", ids, axis=0) + position
    if segments is not None and rows is not None:
        total = total + rows.op("take", segments, axis=0)
    gamma, beta = needed(context, node, 5), needed(context, node, 6)
    epsilon = float(attribute(node, "epsilon", 1e-12))
    made = total.op("layer_norm", gamma, beta, axes=(-1,), epsilon=epsilon)
    if mask is None:
        many = ids.data(0, "int32").expand(batch)
    else:
        many = mask.op("equal", 1).cast("int32").sum(1).cast("int32")
    return [made.atom, many.atom, total.atom]


@converts(_DOMAIN + "NhwcMaxPool")
def channels_last_pool(context: Context, node: NodeProto) -> Value:
    """A MaxPool of (batch, places, channels)."""
    x = needed(context, node, 0)
    made = pooled(context, node, x.channels_first().atom, "MaxPool")
    return Term(context, context.tensor(made, "")).channels_last().atom


@converts(_DOMAIN + "GatherBlockQuantized")
def gather_blocks(context: Context, node: NodeProto) -> Value:
    """Rows of a table of integers, by blocks of which there is a scale and perhaps a zero point."""
    axes = [int(attribute(node, f"{n}_axis", d)) for n, d in (("gather", 0), ("quantize", 1))]
    table, scales = context.required(node, 0), needed(context, node, 2)
    axes = [a % scales.ndim for a in axes]
    block, bits = int(attribute(node, "block_size", 128)), int(attribute(node, "bits", 4))
    if axes != [0, scales.ndim - 1]:
        raise FrontendError(
            f"{node_name(node)}: expected gather_axis 0 and blocks along the last axis, found "
            f"gather_axis {axes[0]} and quantize_axis {axes[1]} of {scales.ndim}."
        )
    indices = needed(context, node, 1)
    is_packed = not isinstance(table, Narrow) and bits < 8
    numbers = _rows(context, node, table, indices, bits if is_packed else 8)
    scale = scales.op("take", indices, axis=0)
    zero = context.raw(node, 3)
    if zero is not None:
        shift = _rows(context, node, zero, indices, bits if is_packed else 8)
    else:
        unsigned = not isinstance(table, Narrow) and needed(context, node, 0).dtype == "uint8"
        shift = numbers.data(1 << (bits - 1) if unsigned else 0)
    size, blocks = (static_value(t.shape[-1]) for t in (numbers, scale))
    if size is None or blocks is None:
        raise FrontendError(f"{node_name(node)}: the rows of its table need a static size.")
    places = numbers.data(np.arange(size) // block, "int64")
    if zero is not None:
        shift = shift.op("take", places, axis=-1)
    return ((numbers - shift).cast(str(scale.dtype)) * scale.op("take", places, axis=-1)).atom


def _rows(context: Context, node: NodeProto, table: Value, indices: Term, bits: int) -> Term:
    """Rows of a table of numbers, which may stand packed in bytes, as int32."""
    stored = table.stored if isinstance(table, Narrow) else context.tensor(table, node_name(node))
    rows = Term(context, stored).op("take", indices, axis=0)
    if bits < 8:
        shape = rows.shape
        flat = rows.reshape(-1, shape[-1])
        rows = unpacked(flat, bits).reshape(*shape[:-1], shape[-1] * (8 // bits))
    return rows.cast("int32")

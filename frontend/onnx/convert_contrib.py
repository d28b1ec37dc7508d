"""Operators of the domain com.microsoft that exporters and optimizers write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from onnx import NodeProto

from ...graphir.expr import Constant
from ...graphir.scaled_weights import numbers_of_bytes
from ...support.errors import FrontendError
from ...tensorir.operators.scaled_linear import WORD
from ..term import join, stack
from .registry import Context, Value, attribute, converts, node_name
from .term import Term

_DOMAIN = "com.microsoft."
_SMALLEST = -1e38
"""What a masked score has added."""


def term(context: Context, node: NodeProto, index: int) -> Term | None:
    present = context.raw(node, index) is not None
    return Term(context, context.operand(node, index)) if present else None


def needed(context: Context, node: NodeProto, index: int) -> Term:
    return Term(context, context.operand(node, index))


# -- activations -----------------------------------------------------------------------------------
@converts(*[_DOMAIN + name for name in ("Gelu", "BiasGelu", "FastGelu")])
def gelus(context: Context, node: NodeProto) -> Value:
    x, bias = needed(context, node, 0), term(context, node, 1)
    approximate = "tanh" if node.op_type == "FastGelu" else "none"
    return (x if bias is None else x + bias).op("gelu", approximate=approximate).atom


@converts(_DOMAIN + "QuickGelu")
def quick_gelu(context: Context, node: NodeProto) -> Value:
    x = needed(context, node, 0)
    return (x * (x * float(attribute(node, "alpha", 1.702))).op("sigmoid")).atom


# -- normalisations --------------------------------------------------------------------------------
@converts(_DOMAIN + "SkipLayerNormalization", _DOMAIN + "SkipSimplifiedLayerNormalization")
def skip_norm(context: Context, node: NodeProto) -> list[Value]:
    """The norm of a sum of two tensors and perhaps a bias; the fourth result is that sum."""
    simplified = "Simplified" in node.op_type
    x, skip, gamma = (needed(context, node, i) for i in range(3))
    rest = [term(context, node, i) for i in range(3, 4 if simplified else 5)]
    beta, bias = (None, rest[0]) if simplified else (rest[0], rest[1])
    total = x + skip
    if bias is not None:
        total = total + bias
    epsilon = float(attribute(node, "epsilon", 1e-5 if simplified else 1e-12))
    if simplified:
        made = _rms(total, epsilon) * gamma
    else:
        extra = [gamma] if beta is None else [gamma, beta]
        made = total.op("layer_norm", *extra, axes=(-1,), epsilon=epsilon)
    return [made.atom, None, None, total.atom]


@converts(_DOMAIN + "SimplifiedLayerNormalization")
def simplified_norm(context: Context, node: NodeProto) -> Value:
    epsilon = float(attribute(node, "epsilon", 1e-5))
    return (_rms(needed(context, node, 0), epsilon) * needed(context, node, 1)).atom


def _rms(x: Term, epsilon: float) -> Term:
    wide = x.cast("float32") if x.dtype.bits < 32 else x
    mean = (wide * wide).op("mean", axis=-1, keepdims=True)
    return (wide * (mean + epsilon).op("rsqrt")).cast(x.dtype)


# -- products --------------------------------------------------------------------------------------
@converts(_DOMAIN + "FusedMatMul")
def fused_matmul(context: Context, node: NodeProto) -> Value:
    a, b = needed(context, node, 0), needed(context, node, 1)
    if attribute(node, "transBatchA", 0) or attribute(node, "transBatchB", 0):
        raise FrontendError(f"{node_name(node)}: a transposition of batches is not imported.")
    a = a.swap() if attribute(node, "transA", 0) and a.ndim > 1 else a
    b = b.swap() if attribute(node, "transB", 0) and b.ndim > 1 else b
    alpha = float(attribute(node, "alpha", 1.0))
    made = a @ b
    return (made if alpha == 1.0 else made * alpha).atom


@converts(_DOMAIN + "MatMulNBits")
def matmul_bits(context: Context, node: NodeProto) -> Value:
    """A product with a weight of (columns, blocks of rows), whose numbers of 2, 4 or 8 bits stand
    packed, low bits first; a block has its scale and zero point. Constant weights stay integers,
    and the sums are float32; others are computed, as numbers of the scales' dtype."""
    x, packed, scales = (needed(context, node, i) for i in range(3))
    zero, bias = (term(context, node, i) for i in (3, 5))
    k, n = int(attribute(node, "K")), int(attribute(node, "N"))
    bits, block = int(attribute(node, "bits", 4)), int(attribute(node, "block_size"))
    if bits not in (2, 4, 8):
        raise FrontendError(f"{node_name(node)}: expected 2, 4 or 8 bits, found {bits}.")
    if attribute(node, "weight_prepacked", 0):
        raise FrontendError(
            f"{node_name(node)}: weight_prepacked is a layout of other CPUs' kernels; export the "
            "model without it."
        )
    _check_order(context, node, k, block)
    blocks = -(-k // block)
    given = [context.raw(node, i) for i in (1, 2, 3)]
    if all(v is None or isinstance(v, Constant) for v in given) and block * bits % 32 == 0:
        made = _scaled(context, x, [v for v in given if isinstance(v, Constant)], (n, blocks), bits)
        return (made if bias is None else made + bias).atom
    values = unpacked(packed.reshape(n, -1), bits).reshape(n, blocks, block).cast(scales.dtype)
    if zero is None:
        values = values - float(1 << (bits - 1))
    else:
        if zero.dtype == "uint8":
            zero = unpacked(zero.reshape(n, -1), bits).cut(1, 0, blocks).cast(scales.dtype)
        values = values - zero.reshape(n, blocks, 1)
    weight = (values * scales.reshape(n, blocks, 1)).reshape(n, blocks * block).cut(1, 0, k)
    return x.op("linear", weight.cast(x.dtype), *([] if bias is None else [bias])).atom


def _check_order(context: Context, node: NodeProto, k: int, block: int) -> None:
    """Raise FrontendError for an input g_idx that is not the order in which blocks stand."""
    order = context.raw(node, 4)
    if order is None:
        return
    plain = np.arange(k) // block
    if not isinstance(order, Constant) or not np.array_equal(context.array(order).ravel(), plain):
        raise FrontendError(
            f"{node_name(node)}: the input g_idx sorts the rows of the weight into blocks of their "
            "own, which is not imported; quantise the model without an order of activations "
            "(desc_act=False)."
        )


def _scaled(
    context: Context, x: Term, given: Sequence[Constant], shape: tuple[int, int], bits: int
) -> Term:
    """The product with constant weights, scales and perhaps zero points of ``shape``, columns and
    blocks, as integers."""
    packed, scale, *zeros = given
    weights, (n, blocks) = context.builder.weights, shape

    def zero_points(array: np.ndarray) -> np.ndarray:
        rows = array.reshape(n, -1)
        return (numbers_of_bytes(rows, bits) if rows.dtype == np.uint8 else rows)[:, :blocks]

    words = weights.derive(
        "words", lambda a: a.reshape(n, blocks, -1).view("<u4"), packed, dtype=WORD
    )
    operands = [words, weights.derive("scales", lambda a: a.reshape(n, blocks), scale)]
    operands += [weights.derive("zeros", zero_points, zero) for zero in zeros]
    wide, terms = x.cast("float32"), words.shape[1] * words.shape[2] * (32 // bits)
    missing = terms - x.sizes("A weight of a few bits", x.ndim - 1)[0]
    if missing:
        wide = wide.op("pad", pad_width=(*[0] * (2 * x.ndim - 1), missing))
    atoms = [Term(context, o) for o in operands]
    return wide.op("scaled_linear", *atoms, bits=bits).cast(x.dtype)


def unpacked(packed: Term, bits: int) -> Term:
    """(rows, bytes) as the numbers of the bytes, low bits first."""
    if bits == 8:
        return packed
    parts = [
        packed.op("shift_right", packed.data(s)).op("bitwise_and", packed.data((1 << bits) - 1))
        for s in range(0, 8, bits)
    ]
    return stack(parts, 2).reshape(packed.shape[0], -1)


# -- attention -------------------------------------------------------------------------------------
def heads_of(x: Term, count: int) -> Term:
    """(batch, tokens, heads * size) as (batch, heads, tokens, size)."""
    if x.ndim == 4:
        return x
    size = x.sizes("attention")[2] // count
    return x.reshape(x.shape[0], x.shape[1], count, size).permute(0, 2, 1, 3)


def _attend(q: Term, k: Term, v: Term, mask: Term | None, scale: float, *, causal: bool) -> Term:
    """softmax(q @ k' * scale + mask) @ v, as (batch, tokens, heads * size). Causal queries are the
    last of the keys."""
    tokens, keys = q.sizes("attention")[2], k.sizes("attention")[2]
    if causal and tokens != keys:
        ahead = np.arange(keys) > np.arange(tokens)[:, None] + keys - tokens
        own = q.data(np.where(ahead, _SMALLEST if q.dtype.bits >= 32 else -65504.0, 0.0))
        mask, causal = own if mask is None else mask + own, False
    operands = [k, v] if mask is None else [k, v, mask]
    y = q.op("attention", *operands, scale=scale, causal=causal, zero_masked_rows=False)
    batch, heads, _, size = y.shape
    return y.permute(0, 2, 1, 3).reshape(batch, tokens, heads * size)


def _key_mask(context: Context, node: NodeProto, index: int, like: Term, keys: int) -> Term | None:
    """A mask of keys as numbers to add: of (batch,) lengths, (batch, keys), or of all pairs."""
    mask = term(context, node, index)
    if mask is None:
        return None
    low = _SMALLEST if like.dtype.bits >= 32 else -65504.0
    if mask.ndim == 1:
        mask = mask.data(np.arange(keys)) < mask.unsqueeze(1)
    else:
        mask = mask.op("not_equal", 0) if not mask.dtype.is_bool else mask
    axes = {2: (1, 2), 3: (1,), 4: ()}[mask.ndim]
    mask = mask.unsqueeze(*axes) if axes else mask
    return mask.where(like.data(0.0), low)


def _scale(node: NodeProto, q: Term) -> float:
    scale = float(attribute(node, "scale", 0.0))
    return scale or 1 / math.sqrt(q.sizes(node_name(node))[3])


def _refuse(context: Context, node: NodeProto, inputs: range, what: str) -> None:
    if any(context.raw(node, i) is not None for i in inputs):
        raise FrontendError(f"{node_name(node)}: {what} cannot be imported.")


@converts(_DOMAIN + "Attention")
def packed_attention(context: Context, node: NodeProto) -> list[Value]:
    """Attention of an input and one weight for queries, keys and values."""
    x, w, bias = needed(context, node, 0), needed(context, node, 1), term(context, node, 2)
    if attribute(node, "do_rotary", 0) or context.raw(node, 6) is not None:
        raise FrontendError(f"{node_name(node)}: rotary or shared buffers cannot be imported.")
    joined = x @ w
    joined = joined if bias is None else joined + bias
    return packed_heads(context, node, joined, mask=3, past=4, scores=5)


def packed_heads(
    context: Context,
    node: NodeProto,
    joined: Term,
    *,
    mask: int,
    past: int | None = None,
    scores: int | None = None,
) -> list[Value]:
    """Attention of queries, keys and values behind one another, and the present keys and values;
    ``mask``, ``past`` and ``scores`` are inputs of the node."""
    count = int(attribute(node, "num_heads"))
    sizes = attribute(node, "qkv_hidden_sizes") or [joined.sizes(node_name(node))[2] // 3] * 3
    ends = np.cumsum([0, *sizes])
    q, k, v = (heads_of(joined.cut(2, int(a), int(b)), count) for a, b in pairwise(ends))
    before = None if past is None else term(context, node, past)
    if before is not None:
        k, v = join([before.at(0, 0), k], 2), join([before.at(0, 1), v], 2)
    added = _key_mask(context, node, mask, q, k.sizes(node_name(node))[2])
    given = None if scores is None else term(context, node, scores)
    if given is not None:
        added = given if added is None else added + given
    causal = bool(attribute(node, "unidirectional", 0))
    y = _attend(q, k, v, added, _scale(node, q), causal=causal)
    return [y.atom, stack([k, v], 0).atom]


@converts(_DOMAIN + "MultiHeadAttention")
def multi_head_attention(context: Context, node: NodeProto) -> list[Value]:
    """Attention of queries, keys and values, with a bias of all three and perhaps past keys."""
    count = int(attribute(node, "num_heads"))
    q, k, v = (term(context, node, i) for i in range(3))
    if q is None or k is None or v is None:
        raise FrontendError(f"{node_name(node)}: packed keys and values cannot be imported.")
    _refuse(context, node, range(8, 10), "an attention with a cache of fixed length")
    bias = term(context, node, 3)
    if bias is not None:
        sizes = [q.sizes("")[-1], q.sizes("")[-1]]
        parts = [bias.cut(0, a, b) for a, b in pairwise([0, *np.cumsum(sizes).tolist(), None])]
        q, k, v = (x + b if x.ndim == 3 else x for x, b in zip((q, k, v), parts, strict=True))
    q, k, v = heads_of(q, count), heads_of(k, count), heads_of(v, count)
    past = [term(context, node, i) for i in (6, 7)]
    if past[0] is not None and past[1] is not None:
        k, v = join([past[0], k], 2), join([past[1], v], 2)
    mask, scores = _key_mask(context, node, 4, q, k.sizes("")[2]), term(context, node, 5)
    if scores is not None:
        mask = scores if mask is None else mask + scores
    causal = bool(attribute(node, "unidirectional", 0))
    y = _attend(q, k, v, mask, _scale(node, q), causal=causal)
    return [y.atom, k.atom, v.atom]


@converts(_DOMAIN + "GroupQueryAttention")
def group_query_attention(context: Context, node: NodeProto) -> list[Value]:
    """Causal attention whose key heads serve several query heads each, with past keys.

    The lengths of the sequences are read, so that keys and positions have known places.
    """
    where = node_name(node)
    count, kv_count = int(attribute(node, "num_heads")), int(attribute(node, "kv_num_heads"))
    q, k, v = (term(context, node, i) for i in range(3))
    assert q is not None
    if k is None or v is None:  # packed: (batch, tokens, (heads + 2 key heads) * size)
        size = q.sizes(where)[2] // (count + 2 * kv_count)
        ends = [0, count * size, (count + kv_count) * size, (count + 2 * kv_count) * size]
        q, k, v = (q.cut(2, a, b) for a, b in pairwise(ends))
    window = int(attribute(node, "local_window_size", -1))
    if window != -1 or float(attribute(node, "softcap", 0.0)):
        raise FrontendError(f"{where}: a window or softcap cannot be imported.")
    _refuse(context, node, range(9, len(node.input)), "given positions or biases of the scores")
    lengths = context.array(context.known(context.required(node, 5), node, 5)).reshape(-1) + 1
    total = int(context.number(node, 6) or 0)
    tokens = q.sizes(where)[1]
    if (lengths != total).any():
        raise FrontendError(f"{where}: sequences of different lengths cannot be imported.")
    start = total - tokens
    q, k, v = heads_of(q, count), heads_of(k, kv_count), heads_of(v, kv_count)
    if attribute(node, "do_rotary", 0):
        tables = [needed(context, node, i).cut(0, start, total) for i in (7, 8)]
        interleaved = bool(attribute(node, "rotary_interleaved", 0))
        q, k = (_rotated(x, *tables, interleaved=interleaved) for x in (q, k))
    past = [term(context, node, i) for i in (3, 4)]
    if past[0] is not None and past[1] is not None and start:
        k, v = (join([p.cut(2, 0, start), x], 2) for p, x in ((past[0], k), (past[1], v)))
    y = _attend(q, k, v, None, _scale(node, q), causal=True)
    return [y.atom, k.atom, v.atom]


@converts(_DOMAIN + "RotaryEmbedding")
def rotary_embedding(context: Context, node: NodeProto) -> Value:
    """(batch, tokens, hidden) or (batch, heads, tokens, size), turned by angles of positions."""
    x, positions, cosines, sines = (needed(context, node, i) for i in range(4))
    scale = float(attribute(node, "scale", 1.0))
    if scale != 1.0:
        raise FrontendError(f"{node_name(node)}: scale {scale} cannot be imported.")
    half = cosines.sizes(node_name(node))[1]
    heads = int(attribute(node, "num_heads", 0))
    dims = x.sizes(node_name(node))
    if x.ndim == 3:
        heads = heads or dims[2] // (int(attribute(node, "rotary_embedding_dim", 0)) or 2 * half)
    turned = heads_of(x, heads)
    tokens = turned.sizes("")[2]
    if positions.sizes("") in ((), (1,)):
        positions = positions.reshape(1, 1) + positions.data(np.arange(tokens))
    tables = [
        t.op("take", positions, axis=0).unsqueeze(1) for t in (cosines, sines)
    ]  # (batch, 1, tokens, half)
    made = _rotated(turned, *tables, interleaved=bool(attribute(node, "interleaved", 0)))
    return (made if x.ndim == 4 else made.permute(0, 2, 1, 3).reshape(*dims)).atom


def _rotated(x: Term, cosine: Term, sine: Term, *, interleaved: bool) -> Term:
    """Pairs of the first elements turned; a pair is two halves' elements, or two neighbours."""
    half = cosine.sizes("")[-1]
    head, rest = x.cut(3, 0, 2 * half), x.cut(3, 2 * half, None)
    if interleaved:
        a, b = head.cut(3, 0, None, 2), head.cut(3, 1, None, 2)
    else:
        a, b = head.cut(3, 0, half), head.cut(3, half, None)
    turned = [a * cosine - b * sine, a * sine + b * cosine]
    made = stack(turned, 4).reshape(*head.shape) if interleaved else join(turned, 3)
    return made if x.sizes("")[3] == 2 * half else join([made, rest], 3)

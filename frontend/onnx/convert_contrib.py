"""Operators of the domain com.microsoft that exporters and optimizers write."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from ...graphir.expr import Constant
from ...graphir.scaled_weights import numbers_of_bytes
from ...support.errors import FrontendError
from ...tensorir.operators.scaled_linear import WORD
from ..term import stack
from .registry import Context, Value, attribute, converts, node_name
from .term import Term

_DOMAIN = "com.microsoft."


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

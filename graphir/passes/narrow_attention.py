"""Attention whose two products take rounded operands: written out of its parts.

    attention(q, k, v, mask)

becomes

    s = bf16(q * scale) @ bf16(k)^T + mask                 sums in float32
    p = exp(s - max(s))
    y = (bf16(p) @ bf16(v)) / sum(p)                       sums in float32

Softmax is computed in float32, and what is rounded of it lies between 0 and 1. The products are
ordinary ones, which rules for narrow types take; scores go through memory, so that attention whose
scores exceed a cache stays as it is, and so does what a schedule of its own does less for: causal
attention, of which half is left out, and sizes that are named.
"""

from __future__ import annotations

import math

from ...tensorir.expr import IntImm
from ..builder import call_op
from ..expr import Atom, Call, Value, constant
from ..mutator import ExprMutator
from ..op import attr, tensor_type_of, type_of
from ..type import TensorType

FEWEST_QUERIES = 5
MOST_BYTES = 8 << 20
"""Of all scores."""


def why_whole_attention(call: Call) -> str:
    """Why an attention is not written out; "" where it is."""
    q, k = (type_of(a) for a in call.args[:2])
    assert isinstance(q, TensorType)
    assert isinstance(k, TensorType)
    sizes = [d.value for d in (*q.shape, *k.shape) if isinstance(d, IntImm)]
    if q.dtype != "float32":
        return "its operands are not float32"
    if len(sizes) < q.ndim + k.ndim:
        return "a size of it is named"
    batch, heads, queries, depth, _, shared, keys, _ = sizes
    if attr(call, "causal"):
        return "it is causal, and half of it is left out"
    if heads != shared:
        return "heads of it share keys"
    if queries < FEWEST_QUERIES:
        return f"it has fewer than {FEWEST_QUERIES} queries"
    if depth % 2:
        return "its keys have an odd size, which is no pairs"
    if 4 * batch * heads * queries * keys > MOST_BYTES:
        return f"its scores are more than {MOST_BYTES >> 20} MiB"
    return ""


def rounded_attention(owner: ExprMutator, call: Call, dtype: str) -> Value:
    """An attention that ``why_whole_attention`` has nothing against, with products of ``dtype``."""
    q, k, v, *masks = call.args
    kind = tensor_type_of(q)
    values_kind = tensor_type_of(v)
    depth, keys = kind.shape[-1], values_kind.shape[2]
    assert isinstance(depth, IntImm)
    assert isinstance(keys, IntImm)
    scale = attr(call, "scale")
    factor = 1 / math.sqrt(depth.value) if scale is None else float(scale)

    def emit(op: str, *args: Atom, **attrs: object) -> Atom:
        return owner.emit(call_op(op, *args, **attrs), "attention")

    def rounded(x: Atom) -> Atom:
        return emit("astype", x, dtype=dtype)

    lowest, zero, one = (constant(x, "float32") for x in (-math.inf, 0.0, 1.0))
    scaled = q if factor == 1 else emit("multiply", q, constant(factor, "float32"))
    scores = emit("matmul", rounded(scaled), rounded(k), transpose_b=True, out_dtype="float32")
    for mask in masks:
        mask_type = tensor_type_of(mask)
        is_bool = mask_type.dtype.is_bool
        scores = emit("where", mask, scores, lowest) if is_bool else emit("add", scores, mask)
    largest = emit("max", scores, axis=(3,), keepdims=True)
    empty = bool(masks) and bool(attr(call, "zero_masked_rows"))
    if empty:
        # Where no key takes part, the difference of infinities would be a NaN.
        largest = emit("where", emit("equal", largest, lowest), zero, largest)
    powers = emit("exp", emit("subtract", scores, largest))
    total = emit("sum", powers, axis=(3,), keepdims=True)
    if empty:
        total = emit("where", emit("equal", total, zero), one, total)
    weights, summed = rounded(powers), rounded(v)
    if keys.value % 2:
        # One key more that takes no part: sums are of pairs.
        weights = emit("pad", weights, pad_width=(0, 0, 0, 0, 0, 0, 0, 1))
        summed = emit("pad", summed, pad_width=(0, 0, 0, 0, 0, 1, 0, 0))
    values = emit("matmul", weights, summed, out_dtype="float32")
    return call_op("divide", values, total).with_span(call.span)

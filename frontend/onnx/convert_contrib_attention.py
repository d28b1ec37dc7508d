"""Attention of com.microsoft, as ONNX Runtime's optimisers and model builders write it.

Numbers of sequences, tokens and keys may have names; heads and their sizes are numbers.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from onnx import NodeProto

from ...graphir.dim import dim_equal
from ...support.errors import FrontendError
from ...tensorir.expr import Expr, IntImm
from ..term import join, stack
from .convert_contrib import needed, term
from .data_sizes import counted, positions, size_of
from .registry import Context, Value, attribute, converts, node_name
from .term import Term

_DOMAIN = "com.microsoft."
_SMALLEST = -1e38
"""What a masked score has added."""


def heads_of(x: Term, count: int) -> Term:
    """(batch, tokens, heads * size) as (batch, heads, tokens, size)."""
    if x.ndim == 4:
        return x
    size = x.sizes("attention", 2)[0] // count
    return x.reshape(x.shape[0], x.shape[1], count, size).permute(0, 2, 1, 3)


def _joined_heads(x: Term) -> Term:
    """(batch, heads, tokens, size) as (batch, tokens, heads * size)."""
    batch, heads, tokens, size = x.shape
    return x.permute(0, 2, 1, 3).reshape(batch, tokens, heads * size)


def _lowest(like: Term) -> float:
    return _SMALLEST if like.dtype.bits >= 32 else -65504.0


def _attend(
    context: Context, q: Term, k: Term, v: Term, mask: Term | None, scale: float, *, causal: bool
) -> Term:
    """softmax(q @ k' * scale + mask) @ v, as (batch, tokens, heads * size). Causal queries are the
    last of the keys."""
    tokens, keys = q.shape[2], k.shape[2]
    if causal and not dim_equal(tokens, keys):
        last = positions(context, tokens).unsqueeze(1) + counted(context, keys - tokens)
        ahead = positions(context, keys) > last
        own = ahead.where(q.data(_lowest(q)), 0.0)
        mask, causal = own if mask is None else mask + own, False
    operands = [k, v] if mask is None else [k, v, mask]
    return _joined_heads(
        q.op("attention", *operands, scale=scale, causal=causal, zero_masked_rows=False)
    )


def _key_mask(context: Context, node: NodeProto, index: int, like: Term, keys: Expr) -> Term | None:
    """A mask of keys as numbers to add: of (batch,) lengths, of (2 * batch,) ends and then begins,
    (batch, keys), or of all pairs."""
    mask = term(context, node, index)
    if mask is None:
        return None
    if mask.ndim == 1:
        mask = _within(context, node, mask.cast("int64"), like.shape[0], keys)
    else:
        mask = mask.op("not_equal", 0) if not mask.dtype.is_bool else mask
    axes = {2: (1, 2), 3: (1,), 4: ()}[mask.ndim]
    mask = mask.unsqueeze(*axes) if axes else mask
    return mask.where(like.data(0.0), _lowest(like))


def _within(context: Context, node: NodeProto, bounds: Term, batch: Expr, keys: Expr) -> Term:
    """Which keys of each sequence lie within ``bounds``: its ends, perhaps followed by its
    begins."""
    (size,), at = bounds.shape, positions(context, keys)
    if dim_equal(size, batch * 2) and not dim_equal(size, batch):
        ends, begins = [bounds.reshape(2, batch).at(0, i).unsqueeze(1) for i in range(2)]
        return (at < ends).op("logical_and", at >= begins)
    if isinstance(size, IntImm) and isinstance(batch, IntImm) and size.value != batch.value:
        raise FrontendError(
            f"{node_name(node)}: a mask of one axis has as many lengths as there are sequences "
            f"({batch.value}), or ends and then begins of each; found {size.value} numbers."
        )
    return at < bounds.unsqueeze(1)


def _scale(node: NodeProto, q: Term) -> float:
    scale = float(attribute(node, "scale", 0.0))
    return scale or 1 / math.sqrt(q.sizes(node_name(node), 3)[0])


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
    sizes = attribute(node, "qkv_hidden_sizes") or [joined.sizes(node_name(node), 2)[0] // 3] * 3
    ends = np.cumsum([0, *sizes])
    q, k, v = (heads_of(joined.cut(2, int(a), int(b)), count) for a, b in pairwise(ends))
    before = None if past is None else term(context, node, past)
    if before is not None:
        k, v = join([before.at(0, 0), k], 2), join([before.at(0, 1), v], 2)
    added = _key_mask(context, node, mask, q, k.shape[2])
    given = None if scores is None else term(context, node, scores)
    if given is not None:
        added = given if added is None else added + given
    causal = bool(attribute(node, "unidirectional", 0))
    y = _attend(context, q, k, v, added, _scale(node, q), causal=causal)
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
        size = q.sizes(node_name(node), q.ndim - 1)[0]
        parts = [bias.cut(0, a, b) for a, b in pairwise([0, size, 2 * size, None])]
        q, k, v = (x + b if x.ndim == 3 else x for x, b in zip((q, k, v), parts, strict=True))
    q, k, v = heads_of(q, count), heads_of(k, count), heads_of(v, count)
    past = [term(context, node, i) for i in (6, 7)]
    if past[0] is not None and past[1] is not None:
        k, v = join([past[0], k], 2), join([past[1], v], 2)
    mask, scores = _key_mask(context, node, 4, q, k.shape[2]), term(context, node, 5)
    if scores is not None:
        mask = scores if mask is None else mask + scores
    causal = bool(attribute(node, "unidirectional", 0))
    y = _attend(context, q, k, v, mask, _scale(node, q), causal=causal)
    return [y.atom, k.atom, v.atom]


# -- attention with a cache ------------------------------------------------------------------------
@converts(_DOMAIN + "GroupQueryAttention")
def group_query_attention(context: Context, node: NodeProto) -> list[Value]:
    """Causal attention whose key heads serve several query heads each, with past keys.

    A sequence has its tokens behind the keys that it has already; in a first call, where there are
    as many tokens as keys in all, all begin at the first. The present keys are as many as the past
    ones or those in all, whichever are more: the tokens' stand in their places among them.
    """
    where = node_name(node)
    count, kv_count = int(attribute(node, "num_heads")), int(attribute(node, "kv_num_heads"))
    if attribute(node, "smooth_softmax", 0) == 1:
        raise FrontendError(f"{where}: a smooth softmax cannot be imported.")
    _refuse(context, node, range(11, len(node.input)), "what its inputs from the twelfth on say")
    q, k, v = (term(context, node, i) for i in range(3))
    assert q is not None
    if k is None or v is None:  # packed: (batch, tokens, (heads + 2 key heads) * size)
        size = q.sizes(where, 2)[0] // (count + 2 * kv_count)
        ends = [0, count * size, (count + kv_count) * size, (count + 2 * kv_count) * size]
        q, k, v = (q.cut(2, a, b) for a, b in pairwise(ends))
    batch, tokens, _ = q.shape
    q, k, v = heads_of(q, count), heads_of(k, kv_count), heads_of(v, kv_count)
    begins = _begins(context, node, batch, tokens)
    at = begins + positions(context, tokens)
    if attribute(node, "do_rotary", 0):
        given = term(context, node, 9)
        rows = [needed(context, node, i).op("take", given or at, axis=0) for i in (7, 8)]
        interleaved = bool(attribute(node, "rotary_interleaved", 0))
        tables = [r.unsqueeze(1) for r in rows]
        q, k = (_rotated(x, *tables, interleaved=interleaved) for x in (q, k))
    past = [term(context, node, i) for i in (3, 4)]
    is_plain = int(attribute(node, "local_window_size", -1)) <= 0
    is_plain &= not float(attribute(node, "softcap", 0.0)) and context.raw(node, 10) is None
    if past[0] is not None and past[1] is not None:
        k, v = _present(context, node, begins, [(past[0], k), (past[1], v)])
    elif is_plain:
        y = _attend(context, q, k, v, None, _scale(node, q), causal=True)
        return [y.atom, k.atom, v.atom]
    y = _grouped(context, node, q, k, v, at)
    return [_joined_heads(y).atom, k.atom, v.atom]


def _begins(context: Context, node: NodeProto, batch: Expr, tokens: Expr) -> Term:
    """How many keys each sequence has before its tokens, as (batch, 1)."""
    last, total = needed(context, node, 5), needed(context, node, 6)
    before = last.cast("int64").reshape(batch, 1) + 1 - counted(context, tokens)
    is_first = total.cast("int64").reshape().equals(counted(context, tokens))
    return is_first.where(before.data(0), before)


def _present(
    context: Context, node: NodeProto, begins: Term, pairs: list[tuple[Term, Term]]
) -> list[Term]:
    """Past keys (or values) with those of the tokens in their places."""
    before, tokens = (x.shape[2] for x in pairs[0])
    many, total = counted(context, before), needed(context, node, 6)
    length = size_of(context, total.cast("int64").reshape().op("maximum", many), node, 6)
    place = positions(context, length)
    own = place - begins
    is_own = (own >= 0) & (own < counted(context, tokens))
    rows = is_own.where(own + many, place).op("minimum", counted(context, before + tokens) - 1)
    batch = pairs[0][0].shape[0]
    first = positions(context, batch).unsqueeze(1) * counted(context, before + tokens)
    made = []
    for past, new in pairs:
        whole = join([past, new], 2).permute(0, 2, 1, 3)
        flat = whole.reshape(batch * (before + tokens), *whole.shape[2:])
        made.append(flat.op("take", rows + first, axis=0).permute(0, 2, 1, 3))
    return made


def _grouped(context: Context, node: NodeProto, q: Term, k: Term, v: Term, at: Term) -> Term:
    """The attention of queries at places (batch, tokens) to the keys up to there, or to those of a
    window that ends there."""
    place, query = positions(context, k.shape[2]), at.unsqueeze(1, 3)
    sees = place <= query
    window = int(attribute(node, "local_window_size", -1))
    if window > 0:
        sees = sees & (place > query - window)
    added, scale = term(context, node, 10), _scale(node, q)
    cap = float(attribute(node, "softcap", 0.0))
    if not cap:
        mask = sees if added is None else sees.where(added, _lowest(q))
        return q.op("attention", k, v, mask, scale=scale, causal=False, zero_masked_rows=False)
    batch, heads, tokens, size = q.shape
    groups = (batch, k.shape[1], heads // k.shape[1])
    scores = q.reshape(*groups, tokens, size) @ k.unsqueeze(2).swap()
    scores = (scores * (scale / cap)).op("tanh") * cap
    scores = scores.reshape(batch, heads, tokens, k.shape[2])
    scores = sees.where(scores if added is None else scores + added, _lowest(q))
    weights = scores.op("softmax", axis=-1).reshape(*groups, tokens, k.shape[2])
    return (weights @ v.unsqueeze(2)).reshape(batch, heads, tokens, size)


@converts(_DOMAIN + "RotaryEmbedding")
def rotary_embedding(context: Context, node: NodeProto) -> Value:
    """(batch, tokens, hidden) or (batch, heads, tokens, size), turned by angles of positions."""
    x, places, cosines, sines = (needed(context, node, i) for i in range(4))
    scale = float(attribute(node, "scale", 1.0))
    if scale != 1.0:
        raise FrontendError(f"{node_name(node)}: scale {scale} cannot be imported.")
    half = cosines.sizes(node_name(node), 1)[0]
    heads = int(attribute(node, "num_heads", 0))
    if x.ndim == 3:
        size = int(attribute(node, "rotary_embedding_dim", 0)) or 2 * half
        heads = heads or x.sizes(node_name(node), 2)[0] // size
    turned = heads_of(x, heads)
    if places.ndim < 2:
        # One number: where the first token of each sequence stands.
        places = places.cast("int64").reshape(1, 1) + positions(context, turned.shape[2])
    tables = [
        t.op("take", places, axis=0).unsqueeze(1) for t in (cosines, sines)
    ]  # (batch, 1, tokens, half)
    made = _rotated(turned, *tables, interleaved=bool(attribute(node, "interleaved", 0)))
    return (made if x.ndim == 4 else made.permute(0, 2, 1, 3).reshape(*x.shape)).atom


def _rotated(x: Term, cosine: Term, sine: Term, *, interleaved: bool) -> Term:
    """Pairs of the first elements turned; a pair is two halves' elements, or two neighbours."""
    half, size = cosine.sizes("rotary", 3)[0], x.sizes("rotary", 3)[0]
    head, rest = x.cut(3, 0, 2 * half), x.cut(3, 2 * half, None)
    if interleaved:
        a, b = head.cut(3, 0, None, 2), head.cut(3, 1, None, 2)
    else:
        a, b = head.cut(3, 0, half), head.cut(3, half, None)
    turned = [a * cosine - b * sine, a * sine + b * cosine]
    made = stack(turned, 4).reshape(*head.shape) if interleaved else join(turned, 3)
    return made if size == 2 * half else join([made, rest], 3)

"""Attention: ``softmax(q @ k^T * scale + mask) @ v``, head by head.

The parts are blocks of their own: scores (a product), scores scaled and masked, the largest of a
row, powers, their sum, the product with ``v``, and the division at the end, so that a schedule can
keep a few rows of scores in the cache and never have all of them in memory. Half precision is
computed in float32 and rounded once at the end.

A row in which no key takes part is zero, as PyTorch's operator has it, or NaN, as the parts
written out would be. Vaswani et al., "Attention Is All You
Need", arXiv 1706.03762; groups of heads that share keys: Ainslie et al., arXiv 2305.13245.
"""

from __future__ import annotations

import math

from ...support.dtype import DType
from ...support.errors import ComputeError
from ..expr import EQ, LE, BufferLoad, Expr, IntImm, Select, Var, const, floordiv
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from ..te import compute as te
from ..te.compute import Tensor
from .elementwise import broadcast_load, elementwise
from .reduce import accumulator, largest_number, reduce_block


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    causal: bool = False,
    zero_masked_rows: bool = True,
) -> Tensor:
    """``q[batch, heads, n, d]`` over ``k[batch, kv_heads, m, d]`` and ``v[batch, kv_heads, m, e]``:
    ``[batch, heads, n, e]``.

    ``scale`` is one over the root of ``d`` where it is None. A bool ``mask`` is true where a key
    takes part, any other is added to the scores; it broadcasts to ``[batch, heads, n, m]``.
    ``causal`` lets query ``i`` see the keys up to ``i``. A row in which no key takes part is zero
    with ``zero_masked_rows``, else NaN. Query head ``h`` reads the key head
    ``h // (heads // kv_heads)``. Raises ComputeError for ranks, dtypes or sizes that do not fit.
    """
    group = _check(q, k, v, mask)
    dtype, wide = q.dtype, accumulator(q.dtype)
    zero, one = const(0.0, wide), const(1.0, wide)
    d = q.shape[3]
    if scale is None:
        if not isinstance(d, IntImm):
            raise ComputeError("attention: expected a scale, the size of a head is symbolic.")
        scale = 1 / math.sqrt(d.value) if d.value else 1.0
    batch, heads, n, _ = q.shape
    m = k.shape[2]
    if wide is not q.dtype:
        q, k, v = (_widened(x, wide) for x in (q, k, v))
    scores = _scores(q, k, (batch, heads, n, m), group)
    masked = _masked(scores, mask, const(scale, wide), causal)
    largest = reduce_block("attention_max", masked, (3,), largest_number)
    if mask is not None and zero_masked_rows:
        # Where no key takes part, the difference of infinities would be a NaN.
        lowest = const(-math.inf, wide)
        largest = elementwise(
            "attention_shift",
            lambda x: Select(EQ(x, lowest), zero, x),
            largest,
        )

    def power(*indices: Var) -> Expr:
        return call_intrin(
            "exp_negative", BufferLoad(masked, indices) - BufferLoad(largest, indices[:3])
        )

    powers = te.compute((batch, heads, n, m), power, "attention_exp")
    total = reduce_block("attention_sum", powers, (3,), te.sum)

    def reciprocal(x: Expr) -> Expr:
        return one / (Select(EQ(x, zero), one, x) if zero_masked_rows else x)

    weight = elementwise("attention_weight", reciprocal, total)
    j = te.reduce_axis((0, m), "j")

    def weighted(b: Var, h: Var, i: Var, e: Var) -> Expr:
        return te.sum(
            BufferLoad(powers, (b, h, i, j)) * BufferLoad(v, (b, _head(h, group), j, e)), axis=[j]
        )

    values = te.compute((batch, heads, n, v.shape[3]), weighted, "attention_values")
    return te.compute(
        values.shape,
        lambda *at: cast_expr(BufferLoad(weight, at[:3]) * BufferLoad(values, at), dtype),
        "attention",
    )


def _check(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> int:
    """The number of query heads that share a key head."""
    if any(x.ndim != 4 for x in (q, k, v)):
        found = ", ".join([str(x.ndim) for x in (q, k, v)])
        raise ComputeError(
            f"attention: expected q, k and v of 4 dimensions (batch, heads, tokens, size), found "
            f"{found}."
        )
    if not q.dtype.is_float or any(x.dtype is not q.dtype for x in (k, v)):
        raise ComputeError(
            f"attention: expected q, k and v of one float dtype, found {q.dtype}, {k.dtype} and "
            f"{v.dtype}."
        )
    if mask is not None and not mask.dtype.is_bool and mask.dtype is not q.dtype:
        raise ComputeError(f"attention: expected a mask of bool or {q.dtype}, found {mask.dtype}.")
    for what, a, b in (
        ("batches of q and k", q.shape[0], k.shape[0]),
        ("batches of k and v", k.shape[0], v.shape[0]),
        ("heads of k and v", k.shape[1], v.shape[1]),
        ("numbers of keys and values", k.shape[2], v.shape[2]),
        ("sizes of queries and keys", q.shape[3], k.shape[3]),
    ):
        if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value:
            raise ComputeError(f"attention: expected equal {what}, found {a.value} and {b.value}.")
    heads, shared = q.shape[1], k.shape[1]
    if heads is shared:
        return 1
    if not isinstance(heads, IntImm) or not isinstance(shared, IntImm):
        raise ComputeError("attention: expected numbers of heads that are constants.")
    if heads.value == shared.value:
        return 1
    if not shared.value or heads.value % shared.value:
        raise ComputeError(
            f"attention: expected heads of q that are a multiple of those of k, found "
            f"{heads.value} and {shared.value}."
        )
    return heads.value // shared.value


def _head(head: Expr, group: int) -> Expr:
    """The key head that a query head reads."""
    return head if group == 1 else floordiv(head, IntImm(group))


def _widened(x: Tensor, wide: DType) -> Tensor:
    return elementwise(f"attention_{x.name}", lambda value: cast_expr(value, wide), x)


def _scores(q: Tensor, k: Tensor, shape: tuple[Expr, ...], group: int) -> Tensor:
    """The product of each query with each key."""
    c = te.reduce_axis((0, q.shape[3]), "c")

    def score(b: Var, h: Var, i: Var, j: Var) -> Expr:
        return te.sum(
            BufferLoad(q, (b, h, i, c)) * BufferLoad(k, (b, _head(h, group), j, c)), axis=[c]
        )

    return te.compute(shape, score, "attention_scores")


def _masked(scores: Tensor, mask: Tensor | None, scale: Expr, causal: bool) -> Tensor:
    """The scores times the scale, minus infinity where a key takes no part."""
    lowest = const(-math.inf, scores.dtype)

    def element(*indices: Var) -> Expr:
        value = BufferLoad(scores, indices) * scale
        if mask is not None:
            shape = scores.shape[4 - mask.ndim :]
            given = broadcast_load(mask, indices[4 - mask.ndim :], shape)
            value = (
                Select(given, value, lowest)
                if mask.dtype.is_bool
                else value + cast_expr(given, scores.dtype)
            )
        if causal:
            value = Select(LE(indices[3], indices[2]), value, lowest)
        return value

    return te.compute(scores.shape, element, "attention_masked")

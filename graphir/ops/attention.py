"""The row of attention: ``softmax(q @ k^T * scale + mask) @ v``, head by head.

``q`` is (batch, heads, n, d), ``k`` (batch, kv_heads, m, d) and ``v`` (batch, kv_heads, m, e);
``kv_heads`` divides ``heads``, and each key head serves that many query heads in a row. A bool mask
is true where a key takes part, a float one is added; it broadcasts to (batch, heads, n, m).
``scale`` is one over the root of ``d`` where it is None. ``causal`` lets query i see the keys up to
i. A row in which no key takes part is zero, or, without ``zero_masked_rows``, NaN: what softmax
makes of a row of minus infinities.
"""

from __future__ import annotations

from ...tensorir.expr import Expr, IntImm
from ..dim import DimError, broadcast_shapes, dim_equal, print_dim, shape_equal
from ..expr import Call
from ..op import Op, attr, register
from ..type import TensorType, Type
from .operands import by_operator, describe, fail, require_float, same_dtype, tensors


def _attention(call: Call) -> Type:
    kinds = tensors(call)
    q, k, v = kinds[:3]
    require_float(call, [q, k, v])
    dtype = same_dtype(call, [q, k, v])
    if any(kind.ndim != 4 for kind in (q, k, v)):
        raise fail(
            call,
            "the ranks do not fit",
            "q (batch, heads, n, d), k (batch, kv_heads, m, d) and v (batch, kv_heads, m, e)",
        )
    batch, heads, n, d = q.shape
    for what, a, b in (
        ("batches of q and k", batch, k.shape[0]),
        ("batches of k and v", k.shape[0], v.shape[0]),
        ("heads of k and v", k.shape[1], v.shape[1]),
        ("numbers of keys and values", k.shape[2], v.shape[2]),
        ("sizes of queries and keys", d, k.shape[3]),
    ):
        if not dim_equal(a, b):
            found = f"the {what}, {print_dim(a)} and {print_dim(b)}, are not proved equal"
            raise fail(call, found, "", (a, b))
    if not _shares(heads, k.shape[1]):
        raise fail(
            call,
            f"{print_dim(heads)} heads of q do not share {print_dim(k.shape[1])} heads of k",
            "a number of heads that is a multiple of the number of key heads",
        )
    scale = attr(call, "scale")
    if scale is None and not isinstance(d, IntImm):
        raise fail(call, "the size of a head is symbolic", "a scale")
    if scale is not None and (isinstance(scale, bool) or not isinstance(scale, int | float)):
        raise fail(call, f"scale={scale!r} is no number", "a float, or None")
    for key in ("causal", "zero_masked_rows"):
        if not isinstance(attr(call, key), bool):
            raise fail(call, f"{key}={attr(call, key)!r} is no bool", "True or False")
    if len(kinds) == 4:
        _check_mask(call, kinds[3], (batch, heads, n, k.shape[2]), dtype)
    return TensorType((batch, heads, n, v.shape[3]), dtype)


def _shares(heads: Expr, shared: Expr) -> bool:
    if isinstance(heads, IntImm) and isinstance(shared, IntImm) and shared.value:
        return heads.value % shared.value == 0
    return dim_equal(heads, shared)


def _check_mask(call: Call, mask: TensorType, shape: tuple[Expr, ...], dtype: object) -> None:
    if not mask.dtype.is_bool and mask.dtype is not dtype:
        raise fail(call, f"the mask is {describe(mask)}", f"a mask of bool or {dtype}")
    try:
        fits = mask.ndim <= 4 and shape_equal(broadcast_shapes(mask.shape, shape), shape)
    except DimError:
        fits = False
    if not fits:
        expected = ", ".join([print_dim(d) for d in shape])
        raise fail(
            call, f"the mask {describe(mask)} does not broadcast", f"a mask for ({expected})"
        )


register(
    Op(
        "attention",
        ("q", "k", "v", "mask"),
        _attention,
        by_operator(),
        {"scale": None, "causal": False, "zero_masked_rows": True},
        optional=1,
    )
)

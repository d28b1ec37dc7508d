"""argmax and argmin: the index of the extreme element along one axis, of equal ones the first.

Two reductions: the extreme itself, then the smallest index at which it stands, which is counted in
32 bits where they suffice: a vector has as many of them as of the elements. A NaN is more extreme
than any number, as in PyTorch: the first one is found.

Floats are compared with the number next to the extreme, which is passed by the extreme alone, or
by NaN where that is the extreme: one comparison that is false for NaN decides both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...support.dtype import DType
from ...support.errors import ComputeError
from ..expr import (
    EQ,
    GE,
    GT,
    INDEX,
    LE,
    LT,
    BufferLoad,
    Expr,
    IntImm,
    Select,
    Var,
    const,
    max_value,
    min_value,
    minimum,
)
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from ..te import compute as te
from ..te.compute import Tensor
from .elementwise import elementwise
from .half_keys import KEY, is_keyed, key_of
from .reduce import kept_indices, normal_axes, reduce_block, reduced_shape


def _arg_extreme(
    name: str, reducer: Callable[..., Expr], x: Tensor, axis: int, keepdims: bool, last: bool
) -> Tensor:
    (d,) = normal_axes(axis, x.ndim)
    length = x.shape[d]
    if isinstance(length, IntImm) and length.value == 0:
        raise ComputeError(f"{name}: axis {d} is empty and has no extreme element.")
    if x.dtype.is_bool:
        x = elementwise(f"{name}_bytes", _as_byte, x)
    largest = reducer is te.max
    keyed = is_keyed(x.dtype)
    value_of = partial(_key, negated=not largest) if keyed else _same
    extreme = te.max if keyed else reducer
    limit = reduce_block(f"{name}_extreme", x, [d], extreme, fn=lambda v, _: value_of(v))
    if keyed:
        limit = elementwise(f"{name}_limit", partial(_first_key, dtype=x.dtype), limit)
    elif x.dtype.is_float:
        limit = elementwise(f"{name}_limit", partial(_next_to, below=largest), limit)
    axes = [d]
    k = te.reduce_axis((0, length), "k")
    counted = _index_dtype(x, length)
    place = cast_expr(k.var, counted)

    def element(*indices: Var) -> Expr:
        kept = kept_indices(indices, axes) if keepdims else tuple(indices)
        value = value_of(BufferLoad(x, (*kept[:d], k, *kept[d:])))
        bound = BufferLoad(limit, kept)
        none = const(0, counted) if last else cast_expr(length - 1, counted)
        if keyed:
            term = Select(LT(value, bound), none, place)
        elif x.dtype.is_float:
            term = Select(LE(value, bound) if largest else GE(value, bound), none, place)
        else:
            term = Select(EQ(value, bound), place, none)
        return te.max(term, axis=[k]) if last else te.min(term, axis=[k])

    shape = reduced_shape(x.shape, axes, keepdims=keepdims)
    if counted is INDEX:
        return te.compute(shape, element, name)
    narrow = te.compute(shape, element, f"{name}_{counted}")
    return elementwise(name, lambda v: cast_expr(v, INDEX), narrow)


def _index_dtype(x: Tensor, length: Expr) -> DType:
    """What indices along an axis are counted in: where that suffices, no more bits than are
    needed, so that vectors of indices are no longer than those of elements."""
    kinds: list[DType] = [KEY] if is_keyed(x.dtype) else []
    for narrow in (*kinds, DType("int32")):
        fits = isinstance(length, IntImm) and length.value < 1 << (narrow.bits - 1)
        if fits and x.dtype.bits <= narrow.bits:
            return narrow
    return INDEX


def _same(x: Expr) -> Expr:
    return x


def _key(x: Expr, *, negated: bool) -> Expr:
    """The key of a number, or of the one with the other sign: the extreme is the largest."""
    return key_of(call_intrin("neg", x) if negated else x)


def _first_key(extreme: Expr, *, dtype: DType) -> Expr:
    """The lowest key of what counts as the extreme: either zero, any NaN."""
    nan, zero = [key_of(const(v, dtype)) for v in (float("inf"), 0.0)]
    either = Select(EQ(extreme, zero), zero - const(1, KEY), extreme)
    return minimum(either, nan + const(1, KEY))


def _next_to(extreme: Expr, *, below: bool) -> Expr:
    """The float next to the extreme, ``below`` it or above: NaN, with which no comparison holds,
    where there is none; infinity where the extreme is NaN, as all numbers are up to that."""
    dtype = extreme.dtype
    integer = DType(f"int{dtype.bits}")
    infinity = max_value(dtype) if below else min_value(dtype)
    bits = call_intrin("reinterpret", extreme, dtype=integer)
    outwards = GT(extreme, const(0, dtype)) if below else LT(extreme, const(0, dtype))
    step = Select(outwards, bits - const(1, integer), bits + const(1, integer))
    # Of zeros, the smallest number of the other sign, whichever sign the zero has.
    sign = -(1 << (dtype.bits - 1)) if below else 0
    step = Select(EQ(extreme, const(0, dtype)), const(sign + 1, integer), step)
    found = call_intrin("reinterpret", step, dtype=dtype)
    return Select(call_intrin("isnan", extreme), infinity, found)


def _as_byte(v: Expr) -> Expr:
    """A bool as 0 or 1."""
    return Select(v, const(1, "uint8"), const(0, "uint8"))


def argmax(x: Tensor, axis: int, *, keepdims: bool = False, last: bool = False) -> Tensor:
    """The index (int64) of the largest element along ``axis``; ``last`` takes the last of equal
    ones. Raises ComputeError for an empty axis.
    """
    return _arg_extreme("argmax", te.max, x, axis, keepdims, last)


def argmin(x: Tensor, axis: int, *, keepdims: bool = False, last: bool = False) -> Tensor:
    """The index (int64) of the smallest element; see argmax."""
    return _arg_extreme("argmin", te.min, x, axis, keepdims, last)

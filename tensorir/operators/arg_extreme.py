"""argmax and argmin: the index of the extreme element along one axis, of equal ones the first.

Two reductions: the extreme itself, then the smallest index at which it stands, which is counted in
32 bits where they suffice: a vector has as many of them as of the elements. A NaN is more extreme
than any number, as in PyTorch: the first one is found.
"""

from __future__ import annotations

from collections.abc import Callable

from ...support.dtype import DType
from ...support.errors import ComputeError
from .. import compute as te
from ..compute import Tensor
from ..expr import EQ, INDEX, BufferLoad, Expr, IntImm, Select, Var, const, logical_or
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from .elementwise import elementwise
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
    extreme = reduce_block(f"{name}_extreme", x, [d], reducer)
    axes = [d]
    k = te.reduce_axis((0, length), "k")
    counted = _index_dtype(x, length)
    place = cast_expr(k.var, counted)

    def element(*indices: Var) -> Expr:
        kept = kept_indices(indices, axes) if keepdims else tuple(indices)
        value = BufferLoad(x, (*kept[:d], k, *kept[d:]))
        found: Expr = EQ(value, BufferLoad(extreme, kept))
        if x.dtype.is_float:
            found = logical_or(found, call_intrin("isnan", value))
        if last:
            return te.max(Select(found, place, const(0, counted)), axis=[k])
        return te.min(Select(found, place, cast_expr(length - 1, counted)), axis=[k])

    shape = reduced_shape(x.shape, axes, keepdims=keepdims)
    if counted is INDEX:
        return te.compute(shape, element, name)
    narrow = te.compute(shape, element, f"{name}_{counted}")
    return elementwise(name, lambda v: cast_expr(v, INDEX), narrow)


def _index_dtype(x: Tensor, length: Expr) -> DType:
    """What indices along an axis are counted in: where that suffices, no more bits than are
    needed, so that vectors of indices are no longer than those of elements."""
    narrow = DType("int32")
    fits = isinstance(length, IntImm) and length.value < 1 << (narrow.bits - 1)
    return narrow if fits and x.dtype.bits <= narrow.bits else INDEX


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

"""Operators that read elements at places that data say: take, gather_elements.

Indices count from the end where they are negative. One that is out of range is taken to the nearest
element, so that no kernel ever reads outside of its operands; from an axis without elements, 0.
"""

from __future__ import annotations

from ...support.errors import ComputeError
from ..expr import INDEX, BufferLoad, Expr, IntImm, Select, Var, const, maximum, minimum
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from ..te.compute import Tensor, compute
from .reduce import normal_axes


def inside(index: Expr, size: Expr) -> Expr:
    """An index made one of ``0 <= i < size``: see the module."""
    wide = cast_expr(index, INDEX)
    if index.dtype.startswith("int"):
        wide = Select(wide < 0, wide + size, wide)
        wide = maximum(wide, const(0, INDEX))
    return minimum(wide, size - 1)


def guarded(x: Tensor, axis: int, load: Expr) -> Expr:
    """``load``, or 0 where a symbolic axis turns out to have no elements to load."""
    size = x.shape[axis]
    if isinstance(size, IntImm):
        return load
    return call_intrin("if_then_else", size > 0, load, const(0, x.dtype))


def take(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """``x`` at ``indices`` of one axis: ``[..., *indices.shape, ...]`` in the place of the axis.

    ``indices`` are integers; see the module for those out of range. Raises ComputeError for others.
    """
    _check("take", indices)
    (d,) = normal_axes(axis, x.ndim)
    shape = (*x.shape[:d], *indices.shape, *x.shape[d + 1 :])

    def element(*at: Var) -> Expr:
        place = BufferLoad(indices, at[d : d + indices.ndim])
        own = inside(place, x.shape[d])
        return guarded(x, d, BufferLoad(x, (*at[:d], own, *at[d + indices.ndim :])))

    return compute(shape, element, "take")


def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """``x[..., indices[...], ...]`` with an index for every element of the result, which has the
    shape of ``indices``. Raises ComputeError for indices of another rank or that are no integers.
    """
    _check("gather_elements", indices)
    (d,) = normal_axes(axis, x.ndim)
    if indices.ndim != x.ndim:
        raise ComputeError(
            f"gather_elements: expected indices of {x.ndim} dimensions, found {indices.ndim}."
        )

    def element(*at: Var) -> Expr:
        own = inside(BufferLoad(indices, at), x.shape[d])
        return guarded(x, d, BufferLoad(x, (*at[:d], own, *at[d + 1 :])))

    return compute(indices.shape, element, "gather_elements")


def _check(name: str, indices: Tensor) -> None:
    if not indices.dtype.is_integer:
        raise ComputeError(f"{name}: expected indices of an integer dtype, found {indices.dtype}.")

"""Rows of the operators that read elements at places that data say: take, gather_elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...tensorir.function import PrimFunc
from ..dim import static_value
from ..expr import Call
from ..op import Op, attr, register
from ..type import TensorType, Type
from .operands import (
    as_prim_func,
    describe,
    fail,
    inputs,
    normal_axis,
    operator_function,
    tensor,
)


def _indices(call: Call) -> TensorType:
    kind = tensor(call, 1)
    if not kind.dtype.is_integer or kind.dtype.is_bool:
        raise fail(call, f"indices are {describe(kind)}", "indices of an integer dtype")
    return kind


def _axis(call: Call, kind: TensorType) -> int:
    if kind.ndim == 0:
        raise fail(call, "x is a scalar", "x of rank 1 and more")
    axis = normal_axis(call, attr(call, "axis"), kind.ndim)
    if static_value(kind.shape[axis]) == 0:
        raise fail(call, f"axis {axis} of x is empty", "an axis with elements")
    return axis


def _take(call: Call) -> Type:
    x, indices = tensor(call, 0), _indices(call)
    axis = _axis(call, x)
    return TensorType((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)


def _gather_elements(call: Call) -> Type:
    x, indices = tensor(call, 0), _indices(call)
    axis = _axis(call, x)
    if indices.ndim != x.ndim:
        raise fail(call, "the ranks of x and indices differ", "an index for each element")
    for d, (a, b) in enumerate(zip(indices.shape, x.shape, strict=True)):
        own, whole = static_value(a), static_value(b)
        if d != axis and own is not None and whole is not None and own > whole:
            raise fail(call, f"dim {d} of indices is larger than that of x", "at most that of x")
    return TensorType(indices.shape, x.dtype)


def _legalize(call: Call) -> PrimFunc:
    x, indices = inputs(call)
    axis = normal_axis(call, attr(call, "axis"), tensor(call, 0).ndim)
    return as_prim_func(call, [x, indices], operator_function(call.op)(x, indices, axis=axis))


def _fold(call: Call, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    """Only for indices within their axis: what others read is the kernel's affair."""
    x, indices = arrays
    axis = normal_axis(call, attr(call, "axis"), x.ndim)
    if indices.size and not (indices.min() >= 0 and indices.max() < x.shape[axis]):
        return None
    if call.op == "take":
        return np.take(x, indices, axis)
    whole = tuple([slice(n) if d != axis else slice(None) for d, n in enumerate(indices.shape)])
    return np.take_along_axis(x[whole], indices, axis)


register(Op("take", ("x", "indices"), _take, _legalize, {"axis": 0}, fold=_fold))
register(
    Op("gather_elements", ("x", "indices"), _gather_elements, _legalize, {"axis": 0}, fold=_fold)
)

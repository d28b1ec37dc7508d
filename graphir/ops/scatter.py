"""Rows of the operators that read or write several axes at places that data say, and of the padding
with elements of the tensor itself."""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from ...tensorir.expr import Expr
from ...tensorir.function import PrimFunc
from ...tensorir.operators.advanced_index import indexed_axes
from ...tensorir.operators.pad_edges import PAD_MODES
from ...tensorir.operators.scatter import REDUCTIONS
from ..dim import (
    DimError,
    broadcast_shapes,
    dim_equal,
    fold_dim,
    print_dim,
    shape_equal,
    static_value,
)
from ..expr import Call
from ..op import REQUIRED, Op, attr, get_op, register
from ..type import TensorType, Type
from .operands import (
    by_operator,
    describe,
    fail,
    inputs,
    normal_axis,
    operator_function,
    same_dtype,
    tensor,
    tensors,
)


def _check_indices(call: Call, kinds: Sequence[TensorType]) -> None:
    for kind in kinds:
        if not kind.dtype.is_integer or kind.dtype.is_bool:
            raise fail(call, f"indices are {describe(kind)}", "indices of an integer dtype")


def _region(call: Call, indices: Sequence[TensorType]) -> tuple[Expr, ...]:
    """The shape of x at the indices."""
    x, axes = tensor(call, 0), attr(call, "axes")
    _check_indices(call, indices)
    if not isinstance(axes, (tuple, list)):
        raise fail(call, f"axes={axes!r}", "an axis for each index tensor")
    found = [normal_axis(call, a, x.ndim, "axes") for a in axes]
    try:
        normal, first = indexed_axes(found, x.ndim, len(indices))
    except ComputeError:
        raise fail(call, f"axes={axes!r}", "ascending axes, one for each index tensor") from None
    for d in normal:
        if static_value(x.shape[d]) == 0:
            raise fail(call, f"axis {d} of x is empty", "axes with elements")
    shape = indices[0].shape
    try:
        for kind in indices[1:]:
            shape = broadcast_shapes(shape, kind.shape)
    except DimError as error:
        raise fail(call, f"the indices do not broadcast: {error.message}") from None
    dims = [s for d, s in enumerate(x.shape) if d not in normal]
    return (*dims[:first], *shape, *dims[first:])


def _advanced_index(call: Call) -> Type:
    return TensorType(_region(call, tensors(call)[1:]), tensor(call, 0).dtype)


def _check_reduction(call: Call) -> None:
    how = attr(call, "reduction")
    if how not in REDUCTIONS or (how != "none" and tensor(call, 0).dtype.is_bool):
        raise fail(call, f"reduction={how!r}", f"one of {', '.join(REDUCTIONS)}; for bools none")


def _scatter_index(call: Call) -> Type:
    x, updates, *indices = tensors(call)
    same_dtype(call, [x, updates])
    _check_reduction(call)
    region = _region(call, indices)
    try:
        fits = shape_equal(broadcast_shapes(updates.shape, region), region)
    except DimError:
        fits = False
    if not fits:
        raise fail(call, f"updates are {describe(updates)}", "the shape of x at the indices")
    return x


def _scatter_elements(call: Call) -> Type:
    x, indices, updates = tensors(call)
    same_dtype(call, [x, updates])
    _check_reduction(call)
    _check_indices(call, [indices])
    if x.ndim == 0:
        raise fail(call, "x is a scalar", "x of rank 1 and more")
    axis = normal_axis(call, attr(call, "axis"), x.ndim)
    is_given = updates.ndim == 0 or shape_equal(indices.shape, updates.shape)
    if indices.ndim == x.ndim == updates.ndim and not is_given:
        pairs = list(zip(indices.shape, updates.shape, strict=True))
        odd = next((a, b) for a, b in pairs if not dim_equal(a, b))
        found = f"the sizes {print_dim(odd[0])} and {print_dim(odd[1])} are not proved equal"
        raise fail(call, found, "indices of x's rank, updates of their shape", odd)
    if indices.ndim != x.ndim or not is_given:
        raise fail(call, "the shapes do not fit", "indices of x's rank, updates of their shape")
    for d, (a, b) in enumerate(zip(indices.shape, x.shape, strict=True)):
        own, whole = static_value(a), static_value(b)
        known = own is not None and whole is not None
        if d != axis and (own > whole if known else not dim_equal(a, b)):  # type: ignore[operator]
            raise fail(call, f"dim {d} of indices is not at most that of x", "at most that of x")
    if static_value(x.shape[axis]) == 0 and static_value(indices.shape[axis]) != 0:
        raise fail(call, f"axis {axis} of x is empty", "an axis with elements")
    return x


def _legalize(call: Call) -> PrimFunc:
    """Operators whose function is no compute."""
    keywords = {key: attr(call, key) for key in get_op(call.op).attrs}
    made: object = operator_function(call.op)(*inputs(call), **keywords)
    assert isinstance(made, PrimFunc)
    return made


register(
    Op(
        "advanced_index",
        ("x",),
        _advanced_index,
        by_operator(),
        {"axes": REQUIRED},
        variadic=True,
    )
)
register(
    Op(
        "scatter_index",
        ("x",),
        _scatter_index,
        _legalize,
        {"axes": REQUIRED, "reduction": "none"},
        variadic=True,
    )
)
register(
    Op(
        "scatter_elements",
        ("x", "indices", "updates"),
        _scatter_elements,
        _legalize,
        {"axis": 0, "reduction": "none"},
    )
)


def _pad_edges(call: Call) -> Type:
    kind, widths, mode = tensor(call, 0), attr(call, "pad_width"), attr(call, "mode")
    if mode not in PAD_MODES:
        raise fail(call, f"mode={mode!r}", f"one of {', '.join(PAD_MODES)}")
    if (
        not isinstance(widths, (tuple, list))
        or len(widths) != 2 * kind.ndim
        or any(not isinstance(w, int) or w < 0 for w in widths)
    ):
        raise fail(call, f"pad_width={widths!r}", f"{2 * kind.ndim} ints of at least 0")
    for d, dim in enumerate(kind.shape):
        widest, size = max(widths[2 * d : 2 * d + 2]), static_value(dim)
        needed = {"reflect": widest + 1, "circular": widest, "replicate": 1}[mode]
        if widest and size is not None and size < needed:
            raise fail(call, f"axis {d} has {size} elements", f"{needed} of them for this padding")
    dims = [fold_dim(d + widths[2 * i] + widths[2 * i + 1]) for i, d in enumerate(kind.shape)]
    return TensorType(tuple(dims), kind.dtype)


register(
    Op("pad_edges", ("x",), _pad_edges, by_operator(), {"pad_width": REQUIRED, "mode": REQUIRED})
)

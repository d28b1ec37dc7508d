"""Rows of the operators that move elements: reshape, flatten, permute_dims, concat, slices, pads.

``reshape``, ``flatten``, ``squeeze`` and ``expand_dims`` are views: the result is the operand's
memory under another shape, and legalisation leaves them as ``reshape``. Axes and bounds are
attributes; new shapes are operands (``R.shape``), because their dims are expressions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...tensorir.expr import Expr, IntImm
from ...tensorir.function import PrimFunc
from ...tensorir.visitor import free_vars
from ..dim import (
    DimError,
    broadcast_shapes,
    dim_equal,
    divide,
    fold_dim,
    print_dim,
    print_shape,
    product,
    shape_equal,
    static_shape,
    static_value,
    substitute_dim,
)
from ..expr import Call
from ..op import REQUIRED, Op, attr, register
from ..type import TensorType, Type
from .operands import (
    as_prim_func,
    by_operator,
    describe,
    fail,
    fail_to_broadcast,
    inputs,
    normal_axes,
    normal_axis,
    operator_function,
    same_dtype,
    shape_operand,
    tensor,
    tensors,
)


# -- views -------------------------------------------------------------------------------------
def resolve_reshape(call: Call) -> tuple[Expr, ...]:
    """The new shape of a reshape; a dim of -1 is what the others leave."""
    kind, shape = tensor(call, 0), shape_operand(call, 1)
    unknown = [i for i, d in enumerate(shape) if static_value(d) == -1]
    total = product(kind.shape)
    if len(unknown) > 1:
        raise fail(call, f"{print_shape(shape)} has more than one -1", "at most one")
    if unknown:
        known = product([d for i, d in enumerate(shape) if i != unknown[0]])
        rest = divide(total, known) if static_value(known) != 0 else None
        if rest is None:
            raise fail(
                call,
                f"{print_dim(total)} elements are not proved to divide into {print_shape(shape)}",
                dims=_of_two_names(total, known),
            )
        shape = tuple([rest if i == unknown[0] else d for i, d in enumerate(shape)])
    elif not dim_equal(total, product(shape)):
        raise fail(
            call,
            f"{print_shape(shape)} is not proved to have the operand's {print_dim(total)} elements",
            dims=_of_two_names(total, product(shape)),
        )
    return tuple([fold_dim(d) for d in shape])


def _of_two_names(a: Expr, b: Expr) -> tuple[Expr, Expr] | None:
    """Two sizes that would make one number of elements divide the other if they were equal: the
    only ones that either has alone."""
    names = set(free_vars([a])), set(free_vars([b]))
    own = [one - other for one, other in (names, names[::-1])]
    if [len(s) for s in own] != [1, 1]:
        return None
    x, y = (next(iter(s)) for s in own)
    return (x, y) if divide(substitute_dim(a, {x: y}), b) is not None else None


def _reshape(call: Call) -> Type:
    return TensorType(resolve_reshape(call), tensor(call, 0).dtype)


def _flatten(call: Call) -> Type:
    kind = tensor(call, 0)
    if kind.ndim == 0:
        return TensorType((IntImm(1),), kind.dtype)
    start = normal_axis(call, attr(call, "start_dim"), kind.ndim, "start_dim")
    end = normal_axis(call, attr(call, "end_dim"), kind.ndim, "end_dim")
    if start > end:
        raise fail(call, f"start_dim={start} is after end_dim={end}", "start_dim <= end_dim")
    merged = product(kind.shape[start : end + 1])
    return TensorType((*kind.shape[:start], merged, *kind.shape[end + 1 :]), kind.dtype)


def _squeeze(call: Call) -> Type:
    kind = tensor(call, 0)
    if attr(call, "axis") is None:
        axes: Sequence[int] = [i for i, d in enumerate(kind.shape) if static_value(d) == 1]
    else:
        axes = normal_axes(call, attr(call, "axis"), kind.ndim)
        for axis in axes:
            if static_value(kind.shape[axis]) != 1:
                raise fail(call, f"dim {axis} is {print_dim(kind.shape[axis])}", "a dim of 1")
    return TensorType(tuple([d for i, d in enumerate(kind.shape) if i not in axes]), kind.dtype)


def _expand_dims(call: Call) -> Type:
    kind = tensor(call, 0)
    axis = attr(call, "axis")
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = normal_axes(call, axis, kind.ndim + count)
    dims = list(kind.shape)
    for position in axes:
        dims.insert(position, IntImm(1))
    return TensorType(tuple(dims), kind.dtype)


register(Op("reshape", ("x", "shape"), _reshape, is_view=True))
register(Op("flatten", ("x",), _flatten, None, {"start_dim": 0, "end_dim": -1}, is_view=True))
register(Op("squeeze", ("x",), _squeeze, None, {"axis": None}, is_view=True))
register(Op("expand_dims", ("x",), _expand_dims, None, {"axis": REQUIRED}, is_view=True))


# -- permutation and broadcast -----------------------------------------------------------------
def resolve_axes(call: Call) -> tuple[int, ...]:
    """The axes of a permute_dims from the front; None reverses them."""
    ndim, axes = tensor(call, 0).ndim, attr(call, "axes")
    if axes is None:
        return tuple(reversed(range(ndim)))
    if not isinstance(axes, (tuple, list)) or len(axes) != ndim:
        raise fail(call, f"axes={axes!r}", f"a permutation of {ndim} axes")
    found = tuple([normal_axis(call, a, ndim, "axes") for a in axes])
    if sorted(found) != list(range(ndim)):
        raise fail(call, f"axes={axes!r} names an axis twice", f"a permutation of {ndim} axes")
    return found


def _permute_dims(call: Call) -> Type:
    kind = tensor(call, 0)
    return TensorType(tuple([kind.shape[a] for a in resolve_axes(call)]), kind.dtype)


def _legalize_permute_dims(call: Call) -> PrimFunc:
    (x,) = inputs(call)
    return as_prim_func(call, [x], operator_function("permute_dims")(x, resolve_axes(call)))


def _broadcast_to(call: Call) -> Type:
    kind, shape = tensor(call, 0), shape_operand(call, 1)
    if any(isinstance(n, IntImm) and n.value < 0 for n in shape):
        raise fail(call, f"cannot become {print_shape(shape)}", "sizes of 0 and more")
    try:
        result = broadcast_shapes(kind.shape, shape)
    except DimError as error:
        raise fail_to_broadcast(call, f"cannot become {print_shape(shape)}", error) from None
    if not shape_equal(result, shape):
        raise fail(call, f"cannot become {print_shape(shape)}", "a shape that x broadcasts to")
    return TensorType(shape, kind.dtype)


def _legalize_broadcast_to(call: Call) -> PrimFunc:
    (x,) = inputs(call)
    return as_prim_func(call, [x], operator_function("broadcast_to")(x, shape_operand(call, 1)))


def _fold_permute_dims(call: Call, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return arrays[0].transpose(resolve_axes(call))


def _fold_broadcast_to(call: Call, arrays: Sequence[np.ndarray]) -> np.ndarray | None:
    shape = static_shape(shape_operand(call, 1))
    return None if shape is None else np.broadcast_to(arrays[0], shape)


register(
    Op(
        "permute_dims",
        ("x",),
        _permute_dims,
        _legalize_permute_dims,
        {"axes": None},
        fold=_fold_permute_dims,
    )
)
register(
    Op(
        "broadcast_to",
        ("x", "shape"),
        _broadcast_to,
        _legalize_broadcast_to,
        fold=_fold_broadcast_to,
    )
)


# -- joining and cutting -----------------------------------------------------------------------
def _concat(call: Call) -> Type:
    if not call.args:
        raise fail(call, "nothing to join", "one or more tensors")
    kinds = tensors(call)
    dtype = same_dtype(call, kinds)
    axis = normal_axis(call, attr(call, "axis"), kinds[0].ndim)
    total: Expr = IntImm(0)
    for kind in kinds:
        found = f"{describe(kind)} does not join along axis {axis}"
        if kind.ndim != kinds[0].ndim:
            raise fail(call, found, "equal dims elsewhere")
        for i, dims in enumerate(zip(kind.shape, kinds[0].shape, strict=True)):
            if i != axis and not dim_equal(*dims):
                axes = (i - kind.ndim,) * len(kinds)
                raise fail(call, found, "equal dims elsewhere", dims, axes)
        total = total + kind.shape[axis]
    shape = (*kinds[0].shape[:axis], fold_dim(total), *kinds[0].shape[axis + 1 :])
    return TensorType(shape, dtype)


def _legalize_concat(call: Call) -> PrimFunc:
    operands = inputs(call)
    axis = normal_axis(call, attr(call, "axis"), tensor(call, 0).ndim)
    return as_prim_func(call, operands, operator_function("concat")(operands, axis=axis))


def _fold_concat(call: Call, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays, normal_axis(call, attr(call, "axis"), arrays[0].ndim))


register(
    Op(
        "concat",
        ("x",),
        _concat,
        _legalize_concat,
        {"axis": 0},
        variadic=True,
        fold=_fold_concat,
    )
)


def _interleave(call: Call) -> Type:
    """The last axis is as long as those of all operands together."""
    if not call.args:
        raise fail(call, "nothing to interleave", "one or more tensors")
    kinds = tensors(call)
    dtype, first = same_dtype(call, kinds), kinds[0]
    for kind in kinds:
        if not kind.ndim or not shape_equal(kind.shape, first.shape):
            found = f"{describe(kind)} beside {describe(first)}"
            raise fail(call, found, "tensors of one shape, with an axis")
    last = fold_dim(first.shape[-1] * len(kinds))
    return TensorType((*first.shape[:-1], last), dtype)


def _legalize_interleave(call: Call) -> PrimFunc:
    operands = inputs(call)
    return as_prim_func(call, operands, operator_function("interleave")(operands))


def _fold_interleave(call: Call, arrays: Sequence[np.ndarray]) -> np.ndarray:
    *outer, last = arrays[0].shape
    return np.stack(arrays, -1).reshape(*outer, last * len(arrays))


register(
    Op(
        "interleave",
        ("x",),
        _interleave,
        _legalize_interleave,
        variadic=True,
        fold=_fold_interleave,
    )
)


Slices = list[tuple[int, int, Expr, int]]


def resolve_slices(call: Call) -> Slices:
    """(axis, begin, extent, stride) of each sliced axis, Python's rules; of a symbolic axis some
    elements in front and some behind may be left out, which it has to have: a size below 0 is an
    error where the tensor is made."""
    kind = tensor(call, 0)
    axes, begin, end = attr(call, "axes"), attr(call, "begin"), attr(call, "end")
    strides = attr(call, "strides") or (1,) * len(axes)
    if not len(axes) == len(begin) == len(end) == len(strides):
        raise fail(call, "axes, begin, end and strides have different lengths", "one entry an axis")
    result: Slices = []
    for a, b, e, s in zip(axes, begin, end, strides, strict=True):
        axis = normal_axis(call, a, kind.ndim, "axes")
        size = static_value(kind.shape[axis])
        if s == 0:
            raise fail(call, "a stride of 0", "a stride other than 0")
        if size is not None:
            positions = range(*slice(b, e, s).indices(size))
            result.append((axis, positions.start, IntImm(len(positions)), s))
        elif s == 1 and (b or 0) >= 0 and (e is None or e < 0):
            extent = fold_dim(kind.shape[axis] - ((b or 0) - (e or 0)))
            result.append((axis, b or 0, extent, 1))
        else:
            raise fail(
                call,
                f"axis {axis} has the symbolic size {print_dim(kind.shape[axis])}, so the size of "
                f"[{b}:{e}:{s}] is not known",
                "a static axis, or one of which some elements in front and behind are left out",
            )
    return result


def _strided_slice(call: Call) -> Type:
    kind = tensor(call, 0)
    dims = list(kind.shape)
    for axis, _, extent, _ in resolve_slices(call):
        dims[axis] = extent
    return TensorType(tuple(dims), kind.dtype)


def _legalize_strided_slice(call: Call) -> PrimFunc:
    (x,) = inputs(call)
    kind = tensor(call, 0)
    result = _strided_slice(call)
    assert isinstance(result, TensorType)
    begin, strides = [0] * kind.ndim, [1] * kind.ndim
    for axis, start, _, stride in resolve_slices(call):
        begin[axis], strides[axis] = start, stride
    function = operator_function("strided_slice")
    return as_prim_func(call, [x], function(x, begin, strides, result.shape))


def _fold_strided_slice(call: Call, arrays: Sequence[np.ndarray]) -> np.ndarray:
    (x,) = arrays
    axes, begin, end = attr(call, "axes"), attr(call, "begin"), attr(call, "end")
    strides = attr(call, "strides") or (1,) * len(axes)
    places = [slice(None)] * x.ndim
    for axis, *bounds in zip(axes, begin, end, strides, strict=True):
        places[normal_axis(call, axis, x.ndim, "axes")] = slice(*bounds)
    return x[tuple(places)]


register(
    Op(
        "strided_slice",
        ("x",),
        _strided_slice,
        _legalize_strided_slice,
        {"axes": REQUIRED, "begin": REQUIRED, "end": REQUIRED, "strides": None},
        fold=_fold_strided_slice,
    )
)


def _pad(call: Call) -> Type:
    kind, widths = tensor(call, 0), attr(call, "pad_width")
    if not isinstance(widths, (tuple, list)) or len(widths) != 2 * kind.ndim:
        raise fail(
            call,
            f"pad_width={widths!r}",
            f"{2 * kind.ndim} ints: before and after, for each axis in turn",
        )
    if any(not isinstance(w, int) or w < 0 for w in widths):
        raise fail(call, f"pad_width={widths!r}", "ints of at least 0")
    dims = [fold_dim(d + widths[2 * i] + widths[2 * i + 1]) for i, d in enumerate(kind.shape)]
    return TensorType(tuple(dims), kind.dtype)


register(Op("pad", ("x",), _pad, by_operator(), {"pad_width": REQUIRED, "pad_value": 0.0}))

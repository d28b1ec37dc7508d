"""Indexing of torch by several tensors, and writing at places that data say."""

from __future__ import annotations

import math

import numpy as np
from torch.fx import Node

from ...graphir.dim import product, static_value
from ...graphir.expr import Atom, Var, constant
from ...graphir.type import TensorType
from ...support.dtype import DType
from ...tensorir.expr import IntImm
from ..imported import IndexRange
from ..scatter import scatter_elements
from .convert_index import row
from .registry import INDEX, Context, arguments, base_name, converts

INT64 = DType("int64")
_REDUCE = {"add": "add", "multiply": "mul", "sum": "add", "prod": "mul", "amax": "max",
           "amin": "min"}  # fmt: skip
BYTE = DType("uint8")
_OF_BOOLS = {"add": "max", "mul": "min", "max": "max", "min": "min"}
"""What a reduction of truth values is, of them as bytes."""


def _indices(context: Context, node: Node) -> tuple[list[Atom], list[int]]:
    """The index tensors and their axes. Masks are refused: how many elements they choose is
    data."""
    found: list[Atom] = []
    axes: list[int] = []
    for axis, given in enumerate(arguments(node)["indices"]):
        if given is None:
            continue
        index = context.operand(given)
        dtype = context.type(index).dtype
        if dtype.is_bool or dtype == "uint8":
            raise context.refuse(
                "indexes with a boolean mask, whose result has as many elements as the data say; "
                "use torch.where or masked_fill, which keep the shape."
            )
        found.append(index)
        axes.append(axis)
    return found, axes


@converts("aten.index.Tensor")
def index(context: Context, node: Node) -> Var:
    """One index is a take."""
    x = context.operand(node.args[0])
    found, axes = _indices(context, node)
    if len(found) == 1:
        return context.op("take", x, found[0], axis=axes[0])
    return context.op("advanced_index", x, *found, axes=tuple(axes))


@converts("aten.index_put.default")
def index_put(context: Context, node: Node) -> Var:
    """A mask alone is a where: of one value for all, or of the next one for each."""
    given = arguments(node)
    x = context.operand(given["self"])
    dtype = context.type(x).dtype
    updates = context.operand(given["values"], dtype)
    places = [(axis, a) for axis, a in enumerate(given["indices"]) if a is not None]
    if len(places) == 1:
        mask = context.operand(places[0][1])
        if context.type(mask).dtype.is_bool:
            return _put_masked(context, x, mask, updates, places[0][0], bool(given["accumulate"]))
    found, axes = _indices(context, node)
    how = "add" if given["accumulate"] else "none"
    if dtype.is_bool and how == "add":
        x, updates, how = context.cast(x, BYTE), context.cast(updates, BYTE), _OF_BOOLS[how]
    result = context.op("scatter_index", x, updates, *found, axes=tuple(axes), reduction=how)
    return context.op("astype", result, dtype="bool") if dtype.is_bool else result


@converts("aten.index_add.default", "aten.index_copy.default")
def index_add(context: Context, node: Node) -> Atom:
    """Slices of ``source`` at places of one axis. Scalars are vectors of one."""
    given = arguments(node)
    kind = context.type(context.operand(given["self"]))
    x, source, places = (
        row(context, context.operand(given[key])) for key in ("self", "source", "index")
    )
    alpha = context.static(given.get("alpha", 1), "alpha")
    how, is_bool = "add" if base_name(node) == "index_add" else "none", kind.dtype.is_bool
    if alpha != 1:
        product = "logical_and" if is_bool else "multiply"
        source = context.op(product, source, context.scalar(alpha, kind.dtype))
    if is_bool and how == "add":
        x, source, how = context.cast(x, BYTE), context.cast(source, BYTE), _OF_BOOLS[how]
    axes = (int(given["dim"]) % max(kind.ndim, 1),)
    result = context.op("scatter_index", x, source, places, axes=axes, reduction=how)
    return context.cast(result if kind.ndim else context.reshaped(result, kind), kind.dtype)


def _put_masked(
    context: Context, x: Atom, mask: Atom, updates: Atom, axis: int, accumulate: bool
) -> Var:
    """``updates`` where a mask of the axes from ``axis`` on is true."""
    kind, own, size = context.type(x), context.type(mask), context.type(updates)
    behind = kind.ndim - axis - own.ndim
    chosen = size.ndim - behind - 1  # the axis of the updates that runs over the chosen places
    count = static_value(size.shape[chosen]) if chosen >= 0 else 1
    if count != 1:
        flat = context.op("reshape", context.cast(mask, INT64), context.shape([-1]))
        number = context.op("cumsum", flat, axis=0)
        # The first value is number 1. What nobody chooses is in front of it, also where there is no
        # value; behind the last one, values that are one for all places stay that.
        widths = [int(i == 2 * chosen) for i in range(2 * size.ndim)]
        updates = context.op("pad", updates, pad_width=widths)
        updates = context.op("take", updates, number, axis=chosen)
    if chosen >= 0:
        places = own.shape if count != 1 else (IntImm(1),) * own.ndim
        shape = (*size.shape[:chosen], *places, *size.shape[chosen + 1 :])
        updates = context.reshaped(updates, TensorType(shape, kind.dtype))
    if accumulate:
        updates = context.op("logical_or" if kind.dtype.is_bool else "add", x, updates)
    if behind:
        mask = context.op("expand_dims", mask, axis=tuple(range(-behind, 0)))
    return context.op("where", mask, updates, x)


@converts(
    "aten.scatter.src", "aten.scatter.value", "aten.scatter.reduce", "aten.scatter.value_reduce",
    "aten.scatter_add.default", "aten.scatter_reduce.two",
)  # fmt: skip
def scatter(context: Context, node: Node) -> Atom:
    """torch reads as much of ``src`` as the index has."""
    given = arguments(node)
    x, places = context.operand(given["self"]), context.operand(given["index"])
    dtype, shape = context.type(x).dtype, context.type(places).shape
    how = "sum" if base_name(node) == "scatter_add" else given.get("reduce")
    if how is not None and how not in (*_REDUCE, "mean"):
        known = ", ".join((*_REDUCE, "mean"))
        raise context.refuse(f"reduce={how!r} cannot be imported, only {known}.")
    if "src" in given:
        updates = context.operand(given["src"], dtype)
        for d, (own, wanted) in enumerate(zip(context.type(updates).shape, shape, strict=True)):
            size, whole = static_value(wanted), static_value(own)
            if size is not None and size != whole:
                updates = context.op(
                    "strided_slice", updates, axes=(d,), begin=(0,), end=(size,), strides=(1,)
                )
    else:
        updates = context.operand(given["value"], dtype)
    kind = context.type(x)
    if not kind.ndim:
        x, places = (
            context.reshaped(a, TensorType((IntImm(1),), context.type(a).dtype))
            for a in (x, places)
        )
        updates = context.reshaped(updates, TensorType((IntImm(1),), dtype))
    keep = bool(given.get("include_self", True))
    if dtype.is_bool and how == "mean":
        raise context.refuse("takes the mean of booleans; convert them to floats first.")
    if dtype.is_bool and how is not None:
        x, updates = context.cast(x, BYTE), context.cast(updates, BYTE)
        how = "amax" if _OF_BOOLS[_REDUCE[how]] == "max" else "amin"
    result = _reduced(context, x, places, updates, int(given["dim"]), how, keep)
    if dtype.is_bool:
        result = context.cast(result, dtype)
    return result if kind.ndim else context.reshaped(result, kind)


def _reduced(
    context: Context, x: Atom, places: Atom, updates: Atom, axis: int, how: str | None, keep: bool
) -> Atom:
    """``x`` with updates; without ``keep``, what stood at their places does not count."""
    kind = context.type(x)

    def write(into: Atom, values: Atom, reduction: str) -> Var:
        return scatter_elements(context, into, places, values, axis=axis, reduction=reduction)

    def number(value: float) -> Atom:
        return context.scalar(value, kind.dtype)

    if not keep and how is not None:
        x = write(x, number(_identity(how, kind.dtype)), "none")
    if how != "mean":
        return write(x, updates, "none" if how is None else _REDUCE[how])
    counts = context.broadcast(number(1), kind)
    if not keep:
        counts = write(counts, number(0), "none")
    counts = write(counts, number(1), "add")
    name = "divide" if kind.dtype.is_float else "floor_divide"
    return context.op(name, write(x, updates, "add"), counts)


def _identity(how: str, dtype: DType) -> float:
    """What combines with anything to that; of integers the least or the largest."""
    if how in ("prod", "multiply"):
        return 1
    if how not in ("amax", "amin"):
        return 0
    if dtype.is_float:
        return -math.inf if how == "amax" else math.inf
    limits = np.iinfo(dtype.to_numpy())
    return int(limits.min if how == "amax" else limits.max)


@converts("aten.one_hot.default")
def one_hot(context: Context, node: Node) -> Atom:
    """The comparison of each class number with all of them; the number of classes is given."""
    given = arguments(node)
    count = int(context.static(given["num_classes"], "the number of classes"))
    if count < 0:
        raise context.refuse("takes the number of classes from the data; pass num_classes.")
    x = context.operand(given["self"])
    dtype = context.type(x).dtype
    classes = constant(np.arange(count), dtype)
    wide = context.op("expand_dims", x, axis=-1)
    context.look_ups[wide.name] = node
    context.index_ranges[wide.name] = IndexRange("one_hot", count)
    hot = context.op("equal", wide, classes)
    return context.cast(hot, context.result_type(node).dtype)


# -- views that read elements several times, or some of them --------------------------------------
@converts("aten.diagonal.default")
def diagonal(context: Context, node: Node) -> Var:
    """Both axes leave, and their diagonal becomes the last one."""
    given = arguments(node)
    x = context.operand(given["self"])
    ndim = context.type(x).ndim
    first, second = int(given["dim1"]) % ndim, int(given["dim2"]) % ndim
    sizes = [static_value(context.type(x).shape[d]) for d in (first, second)]
    offset = int(given["offset"])
    length = max(0, min((sizes[0] or 0) + min(offset, 0), (sizes[1] or 0) - max(offset, 0)))
    rest = [d for d in range(ndim) if d not in (first, second)]
    if [*rest, first, second] != list(range(ndim)):
        x = context.op("permute_dims", x, axes=(*rest, first, second))
    if None in sizes:
        count = context.positions(context.result_type(node).shape[-1])
        begins = [context.scalar(max(0, s), INDEX) for s in (-offset, offset)]
        places: list[Atom] = [context.op("add", count, begin) for begin in begins]
    else:
        places = [constant(np.arange(length) + max(0, s), "int64") for s in (-offset, offset)]
    return context.op("advanced_index", x, *places, axes=(ndim - 2, ndim - 1))


@converts("aten.unfold.default")
def unfold(context: Context, node: Node) -> Atom:
    """Windows along an axis, of which the elements become the last axis."""
    given = arguments(node)
    x = context.operand(given["self"])
    ndim = context.type(x).ndim
    if not ndim:
        return context.reshaped(x, context.result_type(node))
    axis, size, step = int(given["dimension"]) % ndim, int(given["size"]), int(given["step"])
    shape, places = context.type(x).shape, context.result_type(node).shape[axis]
    if size and context.type(x).dtype != "bool":
        before, behind = shape[:axis], shape[axis + 1 :]
        rows = context.reshape(x, (product(before), shape[axis], product(behind)))
        found = context.op(
            "im2col", rows, kernel=(size,), strides=(step,), padding=(0, 0), dilation=(1,)
        )
        windows: Atom = context.reshape(found, (*before, places, IntImm(size), *behind))
    else:
        first = context.op("multiply", context.positions(places), context.scalar(step, INDEX))
        column = context.op("expand_dims", first, axis=1)
        indices = context.op("add", column, constant(np.arange(size)))
        windows = context.op("take", x, indices, axis=axis)
    order = [d for d in range(ndim + 1) if d != axis + 1] + [axis + 1]
    return context.op("permute_dims", windows, axes=tuple(order)) if axis < ndim - 1 else windows

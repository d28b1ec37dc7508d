"""Reading and writing of ONNX at places that data say: gathers by element and by point, scatters,
one-hot rows."""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from ...graphir.dim import static_value
from ...graphir.expr import Atom, constant
from ...support.errors import FrontendError
from .. import scatter
from .data_sizes import counted, positions, size_of
from .registry import Context, Value, attribute, converts, import_dtype, node_name
from .term import Term

_REDUCTIONS = ("none", "add", "mul", "max", "min")


@converts("GatherElements")
def gather_elements(context: Context, node: NodeProto) -> Value:
    x, indices = context.operand(node, 0), context.operand(node, 1)
    return elements_at(context, x, indices, int(attribute(node, "axis", 0)))


def elements_at(context: Context, x: Atom, indices: Atom, axis: int) -> Atom:
    """The elements at indices along an axis, which may be empty where no index is given."""
    shape = context.type(indices).shape
    if any(static_value(d) == 0 for d in shape):
        nothing = context.scalar(0, context.type(x).dtype)
        return context.op("broadcast_to", nothing, context.shape(shape))
    return context.op("gather_elements", x, indices, axis=axis)


def _points(
    context: Context, node: NodeProto, x: Atom, indices: Atom, batch_dims: int
) -> tuple[list[Atom], tuple[int, ...]]:
    """An index tensor for each axis that a point names, and those axes.

    A point's numbers stand in the last dim of ``indices``; batch dims are numbered through.
    """
    shape = context.type(indices).shape
    count = static_value(shape[-1]) if shape else None
    if count is None or not 1 <= count <= context.type(x).ndim - batch_dims:
        raise FrontendError(
            f"{node_name(node)}: the last dim of its indices must be a static number of axes."
        )
    found: list[Atom] = []
    for b in range(batch_dims):
        size = static_value(shape[b])
        if size is None:
            raise FrontendError(f"{node_name(node)}: batch dims must be static.")
        column = (-1, *[1] * (len(shape) - 2 - b))
        found.append(constant(np.arange(size).reshape(column), "int64"))
    for i in range(count):
        part: Atom = context.op(
            "strided_slice", indices, axes=(len(shape) - 1,), begin=(i,), end=(i + 1,), strides=(1,)
        )
        found.append(context.op("squeeze", part, axis=-1))
    return found, tuple(range(batch_dims + count))


@converts("GatherND")
def gather_nd(context: Context, node: NodeProto) -> Value:
    x, indices = context.operand(node, 0), context.operand(node, 1)
    found, axes = _points(context, node, x, indices, int(attribute(node, "batch_dims", 0)))
    if len(found) == 1:
        return context.op("take", x, found[0], axis=0)
    return context.op("advanced_index", x, *found, axes=axes)


def _reduction(node: NodeProto) -> str:
    how = str(attribute(node, "reduction", "none"))
    if how not in _REDUCTIONS:
        raise FrontendError(
            f"{node_name(node)}: reduction {how!r} is unknown; known are {', '.join(_REDUCTIONS)}."
        )
    return how


@converts("ScatterND")
def scatter_nd(context: Context, node: NodeProto) -> Value:
    x, indices, updates = (context.operand(node, i) for i in range(3))
    found, axes = _points(context, node, x, indices, 0)
    return context.op("scatter_index", x, updates, *found, axes=axes, reduction=_reduction(node))


@converts("ScatterElements", "Scatter")
def scatter_elements(context: Context, node: NodeProto) -> Value:
    x, indices, updates = (context.operand(node, i) for i in range(3))
    axis = int(attribute(node, "axis", 0))
    how = _reduction(node)
    return scatter.scatter_elements(context, x, indices, updates, axis=axis, reduction=how)


@converts("OneHot")
def one_hot(context: Context, node: NodeProto) -> Value:
    """Each class number compared with the index, and with the index from the end."""
    indices, values = context.operand(node, 0), context.operand(node, 2)
    value = context.answered(context.required(node, 1))
    sizes = context.sizes(value)
    count = Term(context, context.tensor(value, node_name(node)))
    depth = sizes.dims[0] if sizes is not None else size_of(context, count, node, 1)
    kind = context.type(indices)
    axis = int(attribute(node, "axis", -1))
    axis += kind.ndim + 1 if axis < 0 else 0
    if not 0 <= axis <= kind.ndim:
        raise FrontendError(f"{node_name(node)}: axis {axis} of a result of {kind.ndim + 1} dims.")
    wide = context.op("expand_dims", indices, axis=axis)
    classes = positions(context, depth).reshape(depth, *[1] * (kind.ndim - axis))
    hot: Atom = context.op("equal", wide, classes.cast(str(kind.dtype)).atom)
    if kind.dtype.kind != "uint":
        behind = (classes - counted(context, depth)).cast(str(kind.dtype))
        hot = context.op("logical_or", hot, context.op("equal", wide, behind.atom))
    off, on = (
        context.reshape(
            context.op("strided_slice", values, axes=(0,), begin=(i,), end=(i + 1,), strides=(1,)),
            [],
        )
        for i in range(2)
    )
    return context.op("where", hot, on, off)


@converts("EyeLike")
def eye_like(context: Context, node: NodeProto) -> Value:
    """1 on a diagonal, else 0."""
    value = context.required(node, 0)
    rows, columns = Term(context, context.tensor(value, node_name(node))).sizes(node_name(node))
    number = int(attribute(node, "dtype", 0)) or context.dtype_number(value)
    diagonal = np.eye(rows, columns, int(attribute(node, "k", 0)))
    return constant(diagonal, import_dtype(number, node_name(node)))


@converts("TensorScatter")
def tensor_scatter(context: Context, node: NodeProto) -> Value:
    """A cache with new rows from a place on, which each batch has for itself."""
    cache, update = (Term(context, context.operand(node, i)) for i in range(2))
    axis = int(attribute(node, "axis", -2)) % cache.ndim
    sizes = update.sizes(node_name(node))
    whole = cache.sizes(node_name(node))[axis]
    at = cache.data(np.arange(sizes[axis]), "int64").reshape(
        *[n if d == axis else 1 for d, n in enumerate(sizes)]
    )
    if context.raw(node, 2) is not None:
        first = Term(context, context.operand(node, 2)).cast("int64")
        at = at + first.reshape(-1, *[1] * (cache.ndim - 1))
    if str(attribute(node, "mode", "linear")) == "circular":
        at = at.modulo(whole)
    return cache.op("scatter_elements", at.expand(*sizes), update, axis=axis).atom

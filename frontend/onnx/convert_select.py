"""Operators of ONNX whose result has as many elements as data say: NonZero, Compress, Unique,
NonMaxSuppression.

How many there are is a named size (``data_sizes.py``), and one program is right for all data.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import NodeProto

from ...graphir.dim import product, static_value
from ..term import stack
from .data_sizes import coordinates, positions, true_places
from .registry import Context, Value, attribute, converts, node_name
from .term import Term


@converts("NonZero")
def nonzero(context: Context, node: NodeProto) -> Value:
    """A row of coordinates for each axis: none for a scalar."""
    x = Term(context, context.operand(node, 0))
    mask = x if x.dtype.is_bool else x.op("not_equal", 0)
    places = true_places(context, mask.reshape(-1), node)
    if not x.ndim:
        return x.data(0, "int64").expand(0, *places.shape).atom
    return stack(coordinates(context, places, x.shape), 0).atom


@converts("Compress")
def compress(context: Context, node: NodeProto) -> Value:
    """The places of an axis (without one: of the flattened tensor) where a condition is true."""
    x, condition = (Term(context, context.operand(node, i)) for i in range(2))
    axis = attribute(node, "axis")
    if axis is None:
        x, axis = x.reshape(-1), 0
    return x.op("take", true_places(context, condition, node, 1), axis=int(axis)).atom


# -- Unique --------------------------------------------------------------------------------------
@converts("Unique")
def unique(context: Context, node: NodeProto) -> list[Value]:
    """Values, where each stands first, the place of each element's value, and counts.

    Elements (rows, with an axis) are sorted; one that differs from the one before begins a group.
    """
    x = Term(context, context.operand(node, 0))
    axis = attribute(node, "axis")
    rows = x.reshape(-1, 1) if axis is None else _rows(x, int(axis) % x.ndim)
    length, (width,) = rows.shape[0], rows.sizes(node_name(node), 1)
    numbers = order = positions(context, length)
    for column in range(width - 1, -1, -1):
        keys = rows.at(1, column).op("take", order, axis=0)
        order = order.op("take", keys.op("argsort", axis=0), axis=0)
    ordered = rows.op("take", order, axis=0)
    before = ordered.op("take", (numbers - 1).op("maximum", 0), axis=0)
    differs = ordered.op("not_equal", before).cast("int32").op("max", axis=1) > 0
    begins = differs | numbers.equals(0)
    starts = true_places(context, begins, node)
    group = begins.cast("int64").op("cumsum", axis=0) - 1
    none, ones = x.data(0, "int64").expand(*starts.shape), x.data(1, "int64").expand(length)
    counts = none.op("scatter_index", ones, group, axes=(0,), reduction="add")
    first = order.op("take", starts, axis=0)
    back = order.op("argsort", axis=0)
    inverse = group.op("take", back, axis=0)
    if not attribute(node, "sorted", 1):
        by_place = first.op("argsort", axis=0)
        first, counts = first.op("take", by_place, axis=0), counts.op("take", by_place, axis=0)
        inverse = by_place.op("argsort", axis=0).op("take", inverse, axis=0)
    if axis is None:
        values = x.reshape(-1).op("take", first, axis=0)
    else:
        values = x.op("take", first, axis=int(axis))
    return [t.atom for t in (values, first, inverse, counts)]


def _rows(x: Term, axis: int) -> Term:
    others = [d for d in range(x.ndim) if d != axis]
    width = product([x.shape[d] for d in others])
    return x.permute(axis, *others).reshape(x.shape[axis], width)


# -- NonMaxSuppression -----------------------------------------------------------------------------
@converts("NonMaxSuppression")
def non_max_suppression(context: Context, node: NodeProto) -> Value:
    """(batch, class, box) of the boxes that stay, best first in each class."""
    boxes, scores = (Term(context, context.operand(node, i)) for i in range(2))
    batches, classes, count = scores.shape
    limit, threshold, least = (_scalar(context, node, i) for i in (2, 3, 4))
    if limit is None or static_value(count) == 0:
        return boxes.data(np.zeros((0, 3)), "int64").atom
    centred = bool(attribute(node, "center_point_box", 0))
    there = scores >= -math.inf if least is None else scores > least
    order = scores.op("argsort", axis=2, descending=True)
    share = boxes.data(0.0) if threshold is None else threshold
    kept = stack(_corners(boxes, centred=centred), 1).op(
        "non_max_suppression", order, there, limit.cast("int64"), share
    )
    found = true_places(context, kept.reshape(-1), node, 1)
    batch, kind, _ = coordinates(context, found, (batches, classes, count))
    columns = [batch, kind, order.reshape(-1).op("take", found, axis=0)]
    return stack(columns, 1).atom


def _scalar(context: Context, node: NodeProto, index: int) -> Term | None:
    """An input of one number; None where it is absent."""
    given = context.raw(node, index) is not None
    return Term(context, context.operand(node, index)).reshape() if given else None


def _corners(boxes: Term, *, centred: bool) -> list[Term]:
    """Top, left, bottom and right, whichever corners are given."""
    a, b, c, d = (boxes.at(2, i) for i in range(4))
    if centred:
        return [b - d * 0.5, a - c * 0.5, b + d * 0.5, a + c * 0.5]
    return [
        a.op("minimum", c), b.op("minimum", d), a.op("maximum", c), b.op("maximum", d)
    ]  # fmt: skip

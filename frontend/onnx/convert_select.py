"""Operators of ONNX whose result has as many elements as data say: NonZero, Compress, Unique,
NonMaxSuppression.

How many there are is a named size (``data_sizes.py``), and one program is right for all data.
"""

from __future__ import annotations

import math

import numpy as np
from onnx import NodeProto

from ...graphir.dim import product
from ...support.errors import FrontendError
from ..term import join, stack
from .data_sizes import coordinates, positions, true_places
from .registry import Context, Value, attribute, converts, node_name
from .term import Term

MOST_BOXES = 512
"""Boxes of a class that NonMaxSuppression selects, each some operators."""


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
    """(batch, class, box) of the boxes that stay, best first in each class.

    Each step takes the best box left of every batch and class at once, and gives up those that
    overlap it by more than the threshold.
    """
    boxes, scores = (Term(context, context.operand(node, i)) for i in range(2))
    limit, overlap, least = (context.number(node, i) for i in (2, 3, 4))
    batches, count, _ = boxes.sizes(node_name(node))
    classes = scores.sizes(node_name(node))[1]
    steps = min(int(limit or 0), count)
    if steps > MOST_BOXES:
        raise FrontendError(
            f"{node_name(node)}: {steps} boxes of a class; at most {MOST_BOXES} can be imported."
        )
    if not steps:
        return boxes.data(np.zeros((0, 3)), "int64").atom
    centred = bool(attribute(node, "center_point_box", 0))
    sides = [c.unsqueeze(1) for c in _corners(boxes, centred=centred)]  # each (batches, 1, count)
    areas = (sides[2] - sides[0]) * (sides[3] - sides[1])
    left = scores
    if least is not None:
        left = (left > float(least)).where(left, -math.inf)
    chosen, valid = [], []
    numbers = boxes.data(np.arange(count), "int64")
    for _ in range(steps):
        best = left.op("argmax", axis=2, keepdims=True)
        score = left.op("gather_elements", best, axis=2)
        chosen.append(best)
        valid.append(score > -math.inf)
        wide = [s.expand(batches, classes, count) for s in sides]
        y1, x1, y2, x2 = (s.op("gather_elements", best, axis=2) for s in wide)
        height = y2.op("minimum", sides[2]) - y1.op("maximum", sides[0])
        width = x2.op("minimum", sides[3]) - x1.op("maximum", sides[1])
        common = height.op("relu") * width.op("relu")
        both = areas + (y2 - y1) * (x2 - x1) - common
        goes = (common > both * float(overlap or 0.0)) | numbers.equals(best)
        left = goes.where(-math.inf, left)
    picked, is_valid = join(chosen, 2), join(valid, 2)
    shape = (batches, classes, steps)
    found = true_places(context, is_valid.reshape(-1), node, 1)
    grid = np.indices(shape)
    columns = [
        boxes.data(grid[0].reshape(-1), "int64"),
        boxes.data(grid[1].reshape(-1), "int64"),
        picked.reshape(-1),
    ]
    return stack([c.op("take", found, axis=0) for c in columns], 1).atom


def _corners(boxes: Term, *, centred: bool) -> list[Term]:
    """Top, left, bottom and right, whichever corners are given."""
    a, b, c, d = (boxes.at(2, i) for i in range(4))
    if centred:
        return [b - d * 0.5, a - c * 0.5, b + d * 0.5, a + c * 0.5]
    return [
        a.op("minimum", c), b.op("minimum", d), a.op("maximum", c), b.op("maximum", d)
    ]  # fmt: skip

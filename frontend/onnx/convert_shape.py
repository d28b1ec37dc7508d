"""Shapes: views, permutations, joins, cuts, and values made of sizes."""

from __future__ import annotations

from onnx import NodeProto

from ...graphir.expr import Constant
from ...support.errors import FrontendError
from ...tensorir.expr import Expr, IntImm
from .registry import Context, ShapeValue, Value, attribute, converts, node_name

_LARGE = 1 << 31
"""Slice bounds from here on mean: to the end."""


@converts("Reshape")
def reshape(context: Context, node: NodeProto) -> Value:
    """0 copies a dim of the input (unless allowzero), -1 takes what is left."""
    x = context.operand(node, 0)
    wanted = context.shape_value(context.raw(node, 1), node).dims
    own = context.type(x).shape
    dims: list[Expr] = []
    for i, d in enumerate(wanted):
        copies = isinstance(d, IntImm) and d.value == 0 and not attribute(node, "allowzero", 0)
        if copies and i >= len(own):
            raise FrontendError(f"{node_name(node)}: dim {i} is copied from an input of {len(own)} dims.")
        dims.append(own[i] if copies else d)
    return context.reshape(x, dims)


@converts("Flatten")
def flatten(context: Context, node: NodeProto) -> Value:
    """To two dims: those before ``axis`` and those from it on."""
    x = context.operand(node, 0)
    shape = context.type(x).shape
    axis = int(attribute(node, "axis", 1))
    axis = axis + len(shape) if axis < 0 else axis
    before: Expr = IntImm(1)
    after: Expr = IntImm(1)
    for d in shape[:axis]:
        before = before * d
    for d in shape[axis:]:
        after = after * d
    return context.reshape(x, [before, after])


@converts("Transpose")
def transpose(context: Context, node: NodeProto) -> Value:
    x = context.operand(node, 0)
    ndim = context.type(x).ndim
    return context.op("permute_dims", x, axes=tuple(attribute(node, "perm") or range(ndim - 1, -1, -1)))


def _axes(context: Context, node: NodeProto) -> list[int] | None:
    axes = attribute(node, "axes")
    return list(axes) if axes is not None else context.ints(node, 1)


@converts("Squeeze")
def squeeze(context: Context, node: NodeProto) -> Value:
    axes = _axes(context, node)
    value = context.raw(node, 0)
    if isinstance(value, ShapeValue):
        return ShapeValue(value.dims, scalar=True)
    return context.op("squeeze", context.operand(node, 0), axis=tuple(axes) if axes is not None else None)


@converts("Unsqueeze")
def unsqueeze(context: Context, node: NodeProto) -> Value:
    axes = _axes(context, node)
    value = context.raw(node, 0)
    if isinstance(value, ShapeValue) and value.scalar:
        return ShapeValue(value.dims)
    if axes is None:
        raise FrontendError(f"{node_name(node)}: no axes are given.")
    return context.op("expand_dims", context.operand(node, 0), axis=tuple(axes))


@converts("Expand")
def expand(context: Context, node: NodeProto) -> Value:
    """Broadcasts both ways: a 1 in the wanted shape keeps the input's dim."""
    x = context.operand(node, 0)
    own, wanted = list(context.type(x).shape), list(context.shape_value(context.raw(node, 1), node).dims)
    width = max(len(own), len(wanted))
    own = [IntImm(1)] * (width - len(own)) + own
    wanted = [IntImm(1)] * (width - len(wanted)) + wanted
    dims = [o if isinstance(w, IntImm) and w.value == 1 else w for o, w in zip(own, wanted, strict=True)]
    return context.op("broadcast_to", x, context.shape(dims))


@converts("Concat")
def concat(context: Context, node: NodeProto) -> Value:
    values = context.inputs(node)
    if any(isinstance(v, ShapeValue) for v in values):
        parts = [context.shape_value(v, node).dims for v in values]
        return ShapeValue(tuple([d for p in parts for d in p]))
    tensors = [context.operand(node, i) for i in range(len(values))]
    return context.op("concat", *tensors, axis=int(attribute(node, "axis")))


@converts("Slice")
def slice_(context: Context, node: NodeProto) -> Value:
    if context.opset < 10:
        starts, ends, axes = attribute(node, "starts"), attribute(node, "ends"), attribute(node, "axes")
        steps = None
    else:
        starts, ends, axes, steps = (context.ints(node, i) for i in range(1, 5))
    if starts is None or ends is None:
        raise FrontendError(f"{node_name(node)}: starts and ends are missing.")
    axes = list(axes) if axes is not None else list(range(len(starts)))
    steps = list(steps) if steps is not None else [1] * len(starts)
    ends = [None if abs(e) >= _LARGE else e for e in ends]
    value = context.raw(node, 0)
    if isinstance(value, ShapeValue):
        return ShapeValue(value.dims[slice(starts[0], ends[0], steps[0])])
    return context.op(
        "strided_slice",
        context.operand(node, 0),
        axes=tuple(axes),
        begin=tuple(starts),
        end=tuple(ends),
        strides=tuple(steps),
    )


# -- values made of sizes --------------------------------------------------------------------------------
@converts("Shape")
def shape(context: Context, node: NodeProto) -> Value:
    dims = context.type(context.operand(node, 0)).shape
    start, end = int(attribute(node, "start", 0)), attribute(node, "end")
    return ShapeValue(tuple(dims[slice(start, end)]))


@converts("Gather")
def gather(context: Context, node: NodeProto) -> Value:
    """Of sizes by constant indices; a gather of data has no operator yet and says so."""
    value = context.raw(node, 0)
    index = context.raw(node, 1)
    if isinstance(value, ShapeValue) and isinstance(index, Constant):
        picked = tuple([value.dims[int(i)] for i in index.data.reshape(-1)])
        return ShapeValue(picked, scalar=index.data.ndim == 0)
    raise FrontendError(f"{node_name(node)}: Gather is supported on shapes only, with constant indices.")

"""Shapes: views, permutations, joins and cuts."""

from __future__ import annotations

import sys

from torch.fx import Node

from ...graphir.expr import Atom, Var
from .registry import Context, arguments, converts


@converts(
    "aten.view.default",
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.unsqueeze.default",
    "aten.view_as.default",
)
def reshape(context: Context, node: Node) -> Atom:
    """Everything that keeps the order of elements is a reshape to the shape torch inferred."""
    return context.reshaped(context.operand(node.args[0]), node)


@converts("aten.permute.default")
def permute(context: Context, node: Node) -> Var:
    return context.op("permute_dims", context.operand(node.args[0]), axes=tuple(node.args[1]))  # type: ignore[arg-type]


@converts("aten.t.default", "aten.transpose.int", "aten.numpy_T.default", "aten.mT.default")
def transpose(context: Context, node: Node) -> Atom:
    x = context.operand(node.args[0])
    ndim = context.type(x).ndim
    if ndim < 2:
        return x
    axes = list(range(ndim))
    name = str(node.target)
    if name == "aten.numpy_T.default":
        axes.reverse()
    else:
        first, second = (node.args[1], node.args[2]) if name == "aten.transpose.int" else (-2, -1)
        i, j = int(first) % ndim, int(second) % ndim  # type: ignore[arg-type]
        axes[i], axes[j] = axes[j], axes[i]
    return context.op("permute_dims", x, axes=tuple(axes))


@converts("aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default")
def expand(context: Context, node: Node) -> Var:
    return context.op("broadcast_to", context.operand(node.args[0]), context.result_shape(node))


@converts("aten.cat.default", "aten.concat.default")
def concat(context: Context, node: Node) -> Var:
    dtype = context.result_type(node).dtype
    tensors = [context.operand(a, dtype) for a in node.args[0]]  # type: ignore[union-attr]
    return context.op("concat", *tensors, axis=int(arguments(node)["dim"]))


@converts("aten.stack.default")
def stack(context: Context, node: Node) -> Var:
    dtype = context.result_type(node).dtype
    axis = int(arguments(node)["dim"])
    tensors = [context.op("expand_dims", context.operand(a, dtype), axis=axis) for a in node.args[0]]  # type: ignore[union-attr]
    return context.op("concat", *tensors, axis=axis)


@converts("aten.slice.Tensor")
def slice_(context: Context, node: Node) -> Var:
    given = arguments(node)
    end = given.get("end")
    if isinstance(end, int) and end >= sys.maxsize:
        end = None
    return context.op(
        "strided_slice",
        context.operand(node.args[0]),
        axes=(int(given["dim"]),),
        begin=(context.static(given.get("start"), "start", node),),
        end=(context.static(end, "end", node),),
        strides=(int(given["step"]),),
    )


@converts("aten.select.int")
def select(context: Context, node: Node) -> Var:
    axis, index = int(node.args[1]), int(node.args[2])  # type: ignore[arg-type]
    end = index + 1 if index != -1 else None
    cut = context.op(
        "strided_slice", context.operand(node.args[0]), axes=(axis,), begin=(index,), end=(end,), strides=(1,)
    )
    return context.reshaped(cut, node)

"""Matrix products, softmax and normalisations."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from ...graphir.expr import Atom, Var
from ...support.errors import FrontendError
from .registry import DTYPES, Context, arguments, converts, location


@converts("aten.linear.default")
def linear(context: Context, node: Node) -> Var:
    """x[..., k] times w[n, k] transposed, plus bias[n]."""
    operands = [context.operand(a) for a in node.args if a is not None]
    return context.op("linear", *operands)


@converts("aten.mm.default", "aten.bmm.default", "aten.matmul.default")
def matmul(context: Context, node: Node) -> Var:
    return context.op("matmul", context.operand(node.args[0]), context.operand(node.args[1]))


@converts("aten.addmm.default", "aten.baddbmm.default")
def addmm(context: Context, node: Node) -> Var:
    """beta * c + alpha * (a @ b)"""
    given = arguments(node)
    dtype = context.result_type(node).dtype
    c, a, b = (context.operand(x) for x in node.args[:3])
    product = context.op("matmul", a, b)
    if given["alpha"] != 1:
        product = context.op("multiply", product, context.operand(given["alpha"], dtype))
    if given["beta"] == 0:
        return product
    if given["beta"] != 1:
        c = context.op("multiply", c, context.operand(given["beta"], dtype))
    return context.op("add", product, c)


@converts("aten.softmax.int", "aten._softmax.default", "aten.log_softmax.int", "aten._log_softmax.default")
def softmax(context: Context, node: Node) -> Var:
    name = "log_softmax" if "log_softmax" in str(node.target) else "softmax"
    x = context.operand(node.args[0])
    wanted = context.result_type(node).dtype
    # a dtype argument is applied before the softmax, as torch does it
    return context.op(name, context.cast(x, wanted), axis=int(arguments(node)["dim"]))


def _normalized(context: Context, node: Node) -> tuple[Atom, list[Atom], tuple[int, ...], float]:
    given = arguments(node)
    x = context.operand(given["input"])
    axes = tuple(range(-len(given["normalized_shape"]), 0))
    extra = [context.operand(given[k]) if given.get(k) is not None else None for k in ("weight", "bias")]
    if extra[0] is None and extra[1] is not None:
        raise FrontendError(f"{node.target} at {location(node)}: a bias without a weight is not supported.")
    return x, [e for e in extra if e is not None], axes, float(given["eps"])


@converts("aten.layer_norm.default")
def layer_norm(context: Context, node: Node) -> Var:
    x, extra, axes, eps = _normalized(context, node)
    return context.op("layer_norm", x, *extra, axes=axes, epsilon=eps)


@converts("aten.native_layer_norm.default")
def native_layer_norm(context: Context, node: Node) -> list[Any]:
    """Its mean and rstd results are refused where they are used."""
    for user in node.users:
        if user.args[1:] != (0,):
            raise FrontendError(f"{node.target} at {location(node)}: its mean and rstd results cannot be imported.")
    x, extra, axes, eps = _normalized(context, node)
    return [context.op("layer_norm", x, *extra, axes=axes, epsilon=eps)]


def dtype_argument(node: Node) -> Any:
    """The dtype a node's ``dtype`` argument names, or None."""
    dtype = arguments(node).get("dtype")
    return DTYPES[dtype] if isinstance(dtype, torch.dtype) else None

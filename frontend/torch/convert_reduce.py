"""Reductions along axes."""

from __future__ import annotations

from torch.fx import Node

from ...graphir.expr import Var
from .registry import Context, arguments, converts

_REDUCE = {"sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "prod": "prod"}


@converts(
    "aten.sum.default",
    "aten.sum.dim_IntList",
    "aten.mean.default",
    "aten.mean.dim",
    "aten.amax.default",
    "aten.amin.default",
    "aten.prod.default",
    "aten.prod.dim_int",
)
def reduce(context: Context, node: Node) -> Var:
    """Computed in the dtype of torch's result (integers sum in int64)."""
    given = arguments(node)
    x = context.operand(node.args[0], context.result_type(node).dtype)
    dims = given.get("dim")
    if isinstance(dims, int):
        dims = [dims]
    axis = tuple(dims) if dims else None
    name = _REDUCE[str(node.target).split(".")[1]]
    return context.op(name, x, axis=axis, keepdims=bool(given.get("keepdim", False)))

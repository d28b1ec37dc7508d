"""Indexing of torch by data: embedding, index_select, gather, take_along_dim."""

from __future__ import annotations

from torch.fx import Node

from ...graphir.expr import Var
from .registry import Context, arguments, converts


@converts("aten.embedding.default")
def embedding(context: Context, node: Node) -> Var:
    """The row of each index; padding_idx and the like matter in training alone."""
    given = arguments(node)
    return context.op(
        "take", context.operand(given["weight"]), context.operand(given["indices"]), axis=0
    )


@converts("aten.index_select.default")
def index_select(context: Context, node: Node) -> Var:
    given = arguments(node)
    x, indices = context.operand(given["self"]), context.operand(given["index"])
    return context.op("take", x, indices, axis=int(given["dim"]))


@converts("aten.gather.default")
def gather(context: Context, node: Node) -> Var:
    given = arguments(node)
    x, indices = context.operand(given["self"]), context.operand(given["index"])
    return context.op("gather_elements", x, indices, axis=int(given["dim"]))

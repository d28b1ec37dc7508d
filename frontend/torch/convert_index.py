"""Indexing of torch by data: embedding, index_select, gather, take_along_dim."""

from __future__ import annotations

from torch.fx import Node

from ...graphir.expr import Atom, Var
from .registry import Context, arguments, base_name, converts, operator_name

_FROM_ZERO = (
    *("aten.embedding.", "aten.gather.", "aten.index_select.", "aten.index_add."),
    *("aten.index_copy.", "aten.scatter.", "aten.scatter_add.", "aten.scatter_reduce."),
)


@converts("aten.embedding.default")
def embedding(context: Context, node: Node) -> Var:
    """The row of each index; padding_idx and the like matter in training alone."""
    given = arguments(node)
    return context.op(
        "take", context.operand(given["weight"]), context.operand(given["indices"]), axis=0
    )


def refuses_negative(node: Node) -> bool:
    """Whether torch refuses negative indices of an operator, which others count from the end."""
    return operator_name(node).startswith(_FROM_ZERO)


def row(context: Context, x: Atom) -> Atom:
    """A scalar as a vector of one, which has an axis."""
    return x if context.type(x).ndim else context.op("expand_dims", x, axis=0)


@converts("aten.index_select.default", "aten.gather.default")
def select(context: Context, node: Node) -> Atom:
    """Scalars are vectors of one."""
    given, kind = arguments(node), context.result_type(node)
    x, indices = (row(context, context.operand(given[key])) for key in ("self", "index"))
    name = "gather_elements" if base_name(node) == "gather" else "take"
    result = context.op(name, x, indices, axis=int(given["dim"]))
    return result if context.type(result).ndim == kind.ndim else context.reshaped(result, kind)

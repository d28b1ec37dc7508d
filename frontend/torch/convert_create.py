"""Tensors made from nothing: filled ones of any shape, and sequences of static length.

A filled tensor is a broadcast scalar, so that its shape may be symbolic. A sequence is computed by
torch itself at import and becomes a constant.
"""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from ...graphir.expr import Atom, constant
from ...tensorir.expr import INDEX, Expr
from .registry import Context, arguments, base_name, converts, location, values_of


@converts(
    "aten.full.default", "aten.full_like.default", "aten.new_full.default", "aten.fill.Scalar",
    "aten.fill.Tensor", "aten.scalar_tensor.default", "prims.scalar_tensor.default",
)  # fmt: skip
def full(context: Context, node: Node) -> Atom:
    given, kind = arguments(node), context.result_type(node)
    name = {"fill": "value", "scalar_tensor": "s"}.get(base_name(node), "fill_value")
    return context.broadcast(context.operand(given[name], kind.dtype), kind)


@converts(
    "aten.zeros.default", "aten.zeros_like.default", "aten.new_zeros.default",
    "aten.ones.default", "aten.ones_like.default", "aten.new_ones.default",
    "aten.empty.memory_format", "aten.empty_like.default", "aten.empty_permuted.default",
    "aten.new_empty.default",
)  # fmt: skip
def zeros_and_ones(context: Context, node: Node) -> Atom:
    """What is left empty may hold anything: zeros here."""
    kind = context.result_type(node)
    return context.broadcast(context.scalar(int("ones" in base_name(node)), kind.dtype), kind)


@converts(
    "aten.arange.default", "aten.arange.start", "aten.arange.start_step",
    "aten.linspace.default", "aten.eye.default", "aten.eye.m",
)  # fmt: skip
def sequence(context: Context, node: Node) -> Atom:
    """Evaluated now where its arguments are known; counted when the model runs otherwise."""
    if base_name(node) == "arange" and any(isinstance(context.value(a), Expr) for a in node.args):
        given, kind = arguments(node), context.result_type(node)
        start, step = given.get("start", 0), given.get("step", 1)
        places = context.cast(context.positions(kind.shape[0]), kind.dtype)
        if step != 1:
            places = context.op("multiply", places, context.operand(step, kind.dtype))
        if start != 0:
            places = context.op("add", places, context.operand(start, kind.dtype))
        return places
    if base_name(node) == "eye" and any(isinstance(context.value(a), Expr) for a in node.args):
        rows, columns = (kind := context.result_type(node)).shape
        row = context.op("expand_dims", context.positions(rows), axis=1)
        return context.cast(context.op("equal", row, context.positions(columns)), kind.dtype)
    args: list[Any] = [context.static(a, "every argument of a sequence") for a in node.args]
    assert callable(node.target)
    return constant(*values_of(node.target(*args, **node.kwargs), location(node)))


@converts("aten.tril.default", "aten.triu.default")
def triangle(context: Context, node: Node) -> Atom:
    """The elements on and below (above) a diagonal, 0 elsewhere; sizes and numbers of data may tell
    which it is."""
    x = context.operand(node.args[0])
    kind = context.type(x)
    given = context.value(arguments(node)["diagonal"])
    lower = base_name(node) == "tril"
    rows, columns = kind.shape[-2:]
    diagonal: int | Atom
    if isinstance(given, int):
        diagonal = given if lower else given - 1
    else:
        diagonal = context.operand(given, INDEX)
        if not lower:
            diagonal = context.op("subtract", diagonal, context.scalar(1, INDEX))
    below = context.below_diagonal(rows, columns, diagonal)
    zero = context.scalar(0, kind.dtype)
    return context.op("where", below, *((x, zero) if lower else (zero, x)))

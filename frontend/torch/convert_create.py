"""Tensors made from nothing: filled ones of any shape, and sequences of static length.

A filled tensor is a broadcast scalar, so that its shape may be symbolic. A sequence is computed by
torch itself at import and becomes a constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch.fx import Node

from ...graphir.expr import Atom, constant
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
    return context.broadcast(context.number(int("ones" in base_name(node)), kind.dtype), kind)


@converts(
    "aten.arange.default", "aten.arange.start", "aten.arange.start_step",
    "aten.linspace.default", "aten.eye.default", "aten.eye.m",
)  # fmt: skip
def sequence(context: Context, node: Node) -> Atom:
    """Evaluated now; its length must be known."""
    args: list[Any] = [context.static(a, "every argument of a sequence") for a in node.args]
    assert callable(node.target)
    return constant(*values_of(node.target(*args, **node.kwargs), location(node)))


@converts("aten.tril.default", "aten.triu.default")
def triangle(context: Context, node: Node) -> Atom:
    """The elements on and below (above) a diagonal, 0 elsewhere; the last two dims must be
    static."""
    x = context.operand(node.args[0])
    kind = context.type(x)
    sizes = [context.static(size, "the size of a triangle") for size in node.meta["val"].shape[-2:]]
    diagonal = int(arguments(node)["diagonal"])
    lower = base_name(node) == "tril"
    below = np.tri(sizes[0], sizes[1], diagonal if lower else diagonal - 1) > 0
    mask = below if lower else ~below
    return context.op("where", constant(mask), x, context.number(0, kind.dtype))

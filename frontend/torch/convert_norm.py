"""Normalisations of torch beside layer norm and batch norm: over groups, instances, and by the root
of the mean square."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from ...graphir.expr import Atom
from ..normalization import group_norm, rms_norm
from .convert_nn import normalize_batch
from .registry import DTYPES, Context, arguments, base_name, converts


def _parameters(context: Context, given: Any, x: Atom) -> list[Atom | None]:
    dtype = context.type(x).dtype
    return [
        None if given.get(name) is None else context.operand(given[name], dtype)
        for name in ("weight", "bias")
    ]


@converts("aten.group_norm.default", "aten.native_group_norm.default")
def groups(context: Context, node: Node) -> Any:
    """The mean and rstd results of the native form cannot be imported."""
    given = arguments(node)
    x = context.operand(given["input"])
    weight, bias = _parameters(context, given, x)
    count = int(given.get("num_groups") or given["group"])
    result = group_norm(context, x, count, weight, bias, float(given["eps"]))
    return result if base_name(node) == "group_norm" else [result]


@converts("aten.instance_norm.default")
def instances(context: Context, node: Node) -> Atom:
    """With the statistics of each instance; running ones are a batch norm."""
    given = arguments(node)
    if not given["use_input_stats"]:
        return normalize_batch(context, node)
    x = context.operand(given["input"])
    weight, bias = _parameters(context, given, x)
    return group_norm(context, x, None, weight, bias, float(given["eps"]))


@converts("aten.rms_norm.default")
def rms(context: Context, node: Node) -> Atom:
    """Without an epsilon: that of the dtype."""
    given = arguments(node)
    x = context.operand(given["input"])
    axes = tuple(range(-len(given["normalized_shape"]), 0))
    weight, _ = _parameters(context, given, x)
    epsilon = given.get("eps")
    if epsilon is None:
        dtype = next(t for t, d in DTYPES.items() if d is context.type(x).dtype)
        epsilon = torch.finfo(dtype).eps
    return rms_norm(context, x, axes, weight, float(epsilon))

"""Operators of torch that order, find or accumulate elements along one axis."""

from __future__ import annotations

from typing import Any

from torch.fx import Node

from ...graphir.expr import Atom, Var
from ...support.dtype import DType
from ...tensorir.expr import Expr, IntImm
from ..log_sum_exp import log_sum_exp
from ..sizes_as_data import section
from .registry import Context, arguments, base_name, converts, integers

BYTE = DType("uint8")


def _row(context: Context, x: Atom) -> Atom:
    """A scalar as a vector of one, which has an axis."""
    return x if context.type(x).ndim else context.op("expand_dims", x, axis=0)


def _as(context: Context, result: Atom, node: Node, index: int | None = None) -> Atom:
    """The result of a row under the shape torch gave it."""
    kind = context.result_type(node, index)
    if context.type(result).ndim == kind.ndim:
        return result
    return context.reshaped(result, kind)


@converts("aten.argmax.default", "aten.argmin.default")
def arg_extreme(context: Context, node: Node) -> Atom:
    """Without a dim: of all elements in their order."""
    given, kind = arguments(node), context.result_type(node)
    x, axis = context.operand(given["self"]), given.get("dim")
    if axis is None:
        x, axis = context.op("reshape", x, context.shape([-1])), 0
    x = _row(context, x)
    keepdims = bool(given["keepdim"]) and given.get("dim") is not None
    result = context.op(base_name(node), x, axis=int(axis), keepdims=keepdims)
    return result if context.type(result).ndim == kind.ndim else context.reshaped(result, kind)


@converts("aten.max.dim", "aten.min.dim")
def extreme_of_axis(context: Context, node: Node) -> list[Atom]:
    """The values and their first indices; what nobody reads is dropped later."""
    given = arguments(node)
    x = _row(context, context.operand(given["self"]))
    name, dtype = base_name(node), context.type(x).dtype
    attrs: dict[str, Any] = {"axis": int(given["dim"]), "keepdims": bool(given["keepdim"])}
    numbers = context.cast(x, BYTE) if dtype.is_bool else x
    values = context.cast(context.op(name, numbers, **attrs), dtype)
    found = [values, context.op(f"arg{name}", x, **attrs)]
    return [_as(context, f, node, i) for i, f in enumerate(found)]


def _ordered(
    context: Context,
    x: Atom,
    axis: int,
    *,
    descending: bool,
    count: int | None = None,
    start: int = 0,
) -> list[Atom]:
    """The elements in order, and their indices: the first ``count`` but for ``start`` of them."""
    attrs = {"descending": descending, "count": count, "start": start}
    order = context.op("argsort", x, axis=axis, **attrs)
    return [context.op("gather_elements", x, order, axis=axis), order]


@converts("aten.sort.default", "aten.sort.stable", "aten.argsort.default", "aten.argsort.stable")
def sort(context: Context, node: Node) -> Any:
    given = arguments(node)
    x = _row(context, context.operand(given["self"]))
    found = _ordered(context, x, int(given["dim"]), descending=bool(given["descending"]))
    if base_name(node) == "argsort":
        return _as(context, found[1], node)
    return [_as(context, f, node, i) for i, f in enumerate(found)]


@converts("aten.topk.default")
def topk(context: Context, node: Node) -> list[Atom]:
    """Always in order, of equal elements the first; torch leaves open which it takes."""
    given = arguments(node)
    x = _row(context, context.operand(given["self"]))
    if isinstance(context.value(given["k"]), Expr):
        return _first_named(context, node, x)
    count = int(context.static(given["k"], "the number of elements of topk"))
    largest = bool(given["largest"])
    found = _ordered(context, x, int(given["dim"]), descending=largest, count=count)
    return [_as(context, f, node, i) for i, f in enumerate(found)]


def _first_named(context: Context, node: Node, x: Atom) -> list[Atom]:
    """As many as a named size says: all in order, and a part of that."""
    given, kind = arguments(node), context.result_type(node, 0)
    axis = int(given["dim"]) % context.type(x).ndim
    all_ = _ordered(context, x, axis, descending=bool(given["largest"]))
    return [
        _as(context, section(context, f, axis, 0, kind.shape[axis]), node, i)
        for i, f in enumerate(all_)
    ]


@converts("aten.kthvalue.default")
def kth_value(context: Context, node: Node) -> list[Atom]:
    """The last of the k smallest."""
    given = arguments(node)
    x = _row(context, context.operand(given["self"]))
    axis = int(given["dim"]) % context.type(x).ndim
    kinds = [context.result_type(node, i) for i in range(2)]
    named = context.value(given["k"])
    if isinstance(named, Expr):
        all_ = _ordered(context, x, axis, descending=False)
        found = [section(context, f, axis, named - 1, IntImm(1)) for f in all_]
        return [context.reshaped(f, kind) for f, kind in zip(found, kinds, strict=True)]
    k = int(context.static(given["k"], "k"))
    found = _ordered(context, x, axis, descending=False, count=k, start=k - 1)
    return [context.reshaped(f, kind) for f, kind in zip(found, kinds, strict=True)]


@converts("aten.cumsum.default", "aten.cumprod.default")
def scan(context: Context, node: Node) -> Atom:
    """Computed in the dtype of torch's result, int64 for integers."""
    x = context.operand(node.args[0], context.result_type(node).dtype)
    if not context.type(x).ndim:
        return x
    return context.op(base_name(node), x, axis=int(arguments(node)["dim"]))


@converts("aten.cummax.default", "aten.cummin.default")
def running_extreme(context: Context, node: Node) -> list[Atom]:
    """The values, and where each stands: of equal ones, and of NaN, the last place."""
    given = arguments(node)
    x, axis = _row(context, context.operand(given["self"])), int(given["dim"])
    dtype = context.type(x).dtype
    numbers = context.cast(x, BYTE) if dtype.is_bool else x
    values = context.op(base_name(node), numbers, axis=axis)
    places = context.op("last_match", numbers, values, axis=axis)
    return [_as(context, f, node, i) for i, f in enumerate((context.cast(values, dtype), places))]


@converts("aten.logsumexp.default")
def logsumexp(context: Context, node: Node) -> Atom:
    given, kind = arguments(node), context.result_type(node)
    x = context.operand(given["self"], kind.dtype)
    axes = integers(given["dim"]) if context.type(x).ndim else ()
    result = log_sum_exp(context, x, axes or None)
    return context.reshaped(result, kind)


@converts("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(context: Context, node: Node) -> Var:
    x = context.operand(node.args[0])
    dtype = context.type(x).dtype
    if not dtype.is_bool:
        x = context.op("not_equal", x, context.scalar(0, dtype))
    axes = integers(arguments(node).get("dim"))
    return context.op("sum", context.cast(x, DType("int64")), axis=axes or None, keepdims=False)

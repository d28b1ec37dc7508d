"""Convolutions and pooling of ONNX: one to three spatial dims, explicit and automatic padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import NodeProto

from ...graphir.dim import static_value
from ...graphir.expr import Atom, Var
from ...support.errors import FrontendError
from .registry import Context, Value, attribute, converts, node_name


def _ints(node: NodeProto, name: str, count: int, default: int) -> tuple[int, ...]:
    value = attribute(node, name)
    found = tuple([default] * count if value is None else [int(v) for v in value])
    if len(found) != count:
        raise FrontendError(f"{node_name(node)}: {name} has {len(found)} entries, not {count}.")
    return found


def _padding(
    context: Context, node: NodeProto, x: Atom, kernel: Sequence[int], strides: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:  # fmt: skip
    """``pads`` is all befores, then all afters; here they come in pairs."""
    count = len(kernel)
    mode = attribute(node, "auto_pad", "NOTSET")
    if mode == "VALID":
        return (0,) * (2 * count)
    if mode == "NOTSET":
        pads = _ints(node, "pads", 2 * count, 0)
        if min(pads) < 0:
            raise FrontendError(f"{node_name(node)}: negative pads cannot be imported; slice.")
        return tuple([p for d in range(count) for p in (pads[d], pads[d + count])])
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise FrontendError(f"{node_name(node)}: auto_pad {mode!r} is unknown.")
    found: list[int] = []
    for d, size in enumerate(context.type(x).shape[2:]):
        n, reach = static_value(size), (kernel[d] - 1) * dilation[d] + 1
        if strides[d] == 1:
            total = reach - 1
        elif n is not None:
            total = max(0, (-(-n // strides[d]) - 1) * strides[d] + reach - n)
        else:
            raise FrontendError(
                f"{node_name(node)}: auto_pad of a symbolic size; make the dim static."
            )
        less = total // 2
        found += [less, total - less] if mode == "SAME_UPPER" else [total - less, less]
    return tuple(found)


def _kernel(context: Context, node: NodeProto, w: Atom) -> tuple[int, ...]:
    sizes = [static_value(d) for d in context.type(w).shape[2:]]
    if any(s is None for s in sizes) or not sizes:
        raise FrontendError(f"{node_name(node)}: the weight needs a static kernel.")
    return tuple([int(s or 0) for s in sizes])


def _operands(context: Context, node: NodeProto) -> tuple[Atom, Atom, list[Atom]]:
    bias = [context.operand(node, 2)] if context.raw(node, 2) is not None else []
    return context.operand(node, 0), context.operand(node, 1), bias


@converts("Conv")
def conv(context: Context, node: NodeProto) -> Value:
    x, w, bias = _operands(context, node)
    kernel = _kernel(context, node, w)
    count = len(kernel)
    strides, dilation = _ints(node, "strides", count, 1), _ints(node, "dilations", count, 1)
    return context.op(
        "conv", x, w, *bias, strides=strides, dilation=dilation,
        padding=_padding(context, node, x, kernel, strides, dilation),
        groups=int(attribute(node, "group", 1)),
    )  # fmt: skip


@converts("ConvTranspose")
def conv_transpose(context: Context, node: NodeProto) -> Value:
    """Automatic padding and ``output_shape`` are not imported."""
    x, w, bias = _operands(context, node)
    kernel = _kernel(context, node, w)
    count = len(kernel)
    if attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise FrontendError(f"{node_name(node)}: auto_pad cannot be imported; write pads.")
    if attribute(node, "output_shape") is not None:
        raise FrontendError(f"{node_name(node)}: output_shape cannot be imported; write pads.")
    strides, dilation = _ints(node, "strides", count, 1), _ints(node, "dilations", count, 1)
    return context.op(
        "conv_transpose", x, w, *bias, strides=strides, dilation=dilation,
        padding=_padding(context, node, x, kernel, strides, dilation),
        output_padding=_ints(node, "output_padding", count, 0),
        groups=int(attribute(node, "group", 1)),
    )  # fmt: skip


@converts("MaxPool", "AveragePool")
def pool(context: Context, node: NodeProto) -> Value:
    context.only_first(node)
    x = context.operand(node, 0)
    count = context.type(x).ndim - 2
    kernel = _ints(node, "kernel_shape", count, 1)
    strides, dilation = _ints(node, "strides", count, 1), _ints(node, "dilations", count, 1)
    attrs: dict[str, Any] = {
        "kernel": kernel,
        "strides": strides,
        "padding": _padding(context, node, x, kernel, strides, dilation),
        "ceil_mode": bool(attribute(node, "ceil_mode", 0)),
    }
    if node.op_type == "MaxPool":
        return context.op("max_pool", x, **attrs, dilation=dilation)
    if any(d != 1 for d in dilation):
        raise FrontendError(f"{node_name(node)}: a dilated mean cannot be imported.")
    counted = bool(attribute(node, "count_include_pad", 0))
    return context.op("avg_pool", x, **attrs, count_include_pad=counted)


@converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(context: Context, node: NodeProto) -> Var:
    x = context.operand(node, 0)
    axes = tuple(range(2, context.type(x).ndim))
    name = "mean" if node.op_type == "GlobalAveragePool" else "max"
    return context.op(name, x, axis=axes, keepdims=True)

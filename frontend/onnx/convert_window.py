"""Convolutions and pooling of ONNX: one to three spatial dims, explicit and automatic padding."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from onnx import NodeProto

from ...graphir.dim import static_shape, static_value
from ...graphir.expr import Atom, Constant, Var
from ...graphir.integer_products import integer_conv, is_integer_conv
from ...support.dtype import DType
from ...support.errors import FrontendError
from ..term import stack
from .registry import Context, Value, attribute, converts, node_name
from .term import Term


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


@converts("ConvInteger")
def conv_integer(context: Context, node: NodeProto) -> Value:
    """A convolution of bytes less their zero points, in int32."""
    given = [context.operand(node, i) for i in range(2)]
    zeros = [context.operand(node, i) if context.raw(node, i) else None for i in (2, 3)]
    return _integer_conv(context, node, given[0], given[1], zeros).cast("int32").atom


@converts("QLinearConv", "com.microsoft.QLinearConv")
def qlinear_conv(context: Context, node: NodeProto) -> Value:
    """The convolution of what bytes stand for, quantised as Y's scale and zero point say; that of
    com.microsoft may have channels last."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (
        Term(context, context.operand(node, i)) for i in range(8)
    )
    last = bool(attribute(node, "channels_last", 0))
    if last:
        x = x.channels_first()
    made = _integer_conv(context, node, x.atom, w.atom, [x_zero.atom, w_zero.atom])
    column = [1] * (x.ndim - 2)
    if context.raw(node, 8) is not None:
        made = made + Term(context, context.operand(node, 8)).cast(made.dtype).reshape(-1, *column)
    scale = (x_scale * w_scale / y_scale).cast("float32").reshape(-1, *column)
    steps = (made.cast("float32") * scale).op("round") + y_zero.cast("float32")
    info = np.iinfo(str(y_zero.dtype))
    low, high = float(info.min), float(info.max)
    steps = steps.op("clip", min=low, max=high).cast(y_zero.dtype)
    return (steps.channels_last() if last else steps).atom


def _byte_conv(
    context: Context, node: NodeProto, x: Atom, w: Atom, zeros: Sequence[Atom | None]
) -> Term | None:
    """The convolution as a product of bytes, where its shapes and zero points are fit for it."""
    kernel, (x_zero, w_zero) = _kernel(context, node, w), zeros
    sizes = static_shape(context.type(x).shape)
    is_single = x_zero is None or static_shape(context.type(x_zero).shape) in ((), (1,))
    if not is_single or not is_integer_conv(x, w, int(attribute(node, "group", 1))):
        return None
    shift: int | Atom = 0
    if isinstance(x_zero, Constant):
        shift = int(context.array(x_zero).reshape(()))
    elif x_zero is not None:
        if sizes is None:
            return None
        shift = context.reshape(x_zero, [])
    count = len(kernel)
    strides, dilation = _ints(node, "strides", count, 1), _ints(node, "dilations", count, 1)
    if isinstance(w_zero, Constant) and not context.array(w_zero).any():
        w_zero = None
    made = integer_conv(
        context.op, x, w, shift, None if w_zero is None else context.cast(w_zero, DType("int32")),
        strides=strides, dilation=dilation,
        padding=_padding(context, node, x, kernel, strides, dilation),
    )  # fmt: skip
    return Term(context, made).op("permute_dims", axes=(0, count + 1, *range(1, count + 1)))


def _integer_conv(
    context: Context, node: NodeProto, x: Atom, w: Atom, zeros: Sequence[Atom | None]
) -> Term:
    """The convolution of bytes, exact: in int32, or in a float dtype in which it is."""
    kernel = _kernel(context, node, w)
    found = _byte_conv(context, node, x, w, zeros)
    if found is not None:
        return found
    terms = math.prod(kernel) * (static_value(context.type(w).shape[1]) or 1)
    wide = "float32" if terms * 255 * 255 < 1 << 24 else "float64"
    operands = []
    for operand, zero, column in zip((x, w), zeros, (1, len(kernel) + 1), strict=True):
        value = Term(context, operand).cast(wide)
        if zero is not None:
            shift = Term(context, zero).cast(wide)
            many = shift.ndim and static_value(shift.shape[0]) != 1
            value = value - shift.reshape(-1, *[1] * column if many else [1] * 0)
        operands.append(value.atom)
    count = len(kernel)
    strides, dilation = _ints(node, "strides", count, 1), _ints(node, "dilations", count, 1)
    made = context.op(
        "conv", *operands, strides=strides, dilation=dilation,
        padding=_padding(context, node, x, kernel, strides, dilation),
        groups=int(attribute(node, "group", 1)),
    )  # fmt: skip
    return Term(context, made)


@converts("ConvTranspose")
def conv_transpose(context: Context, node: NodeProto) -> Value:
    """With ``output_shape`` or automatic padding, the padding is what gives that size."""
    x, w, bias = _operands(context, node)
    kernel = _kernel(context, node, w)
    count = len(kernel)
    strides, dilation = _ints(node, "strides", count, 1), _ints(node, "dilations", count, 1)
    extra = _ints(node, "output_padding", count, 0)
    mode = str(attribute(node, "auto_pad", "NOTSET"))
    wanted = attribute(node, "output_shape")
    if wanted is None and mode in ("NOTSET", "VALID"):
        padding = _padding(context, node, x, kernel, strides, dilation)
    else:
        sizes = Term(context, x).sizes(node_name(node), 2)
        wanted = [s * t for s, t in zip(sizes, strides, strict=True)] if wanted is None else wanted
        found: list[int] = []
        for d in range(count):
            whole = (sizes[d] - 1) * strides[d] + extra[d] + (kernel[d] - 1) * dilation[d] + 1
            total = whole - int(wanted[-count + d])
            if total < 0:  # the result is larger than what the kernel reaches: zeros behind
                extra = (*extra[:d], extra[d] - total, *extra[d + 1 :])
                total = 0
            half = total // 2
            found += [half, total - half] if mode == "SAME_UPPER" else [total - half, half]
        padding = tuple(found)
    # Padding beyond the kernel's reach cuts the result.
    reach = [(k - 1) * s for k, s in zip(kernel, dilation, strict=True) for _ in range(2)]
    inner = tuple([min(p, r) for p, r in zip(padding, reach, strict=True)])
    made = Term(context, context.op(
        "conv_transpose", x, w, *bias, strides=strides, dilation=dilation, padding=inner,
        output_padding=extra, groups=int(attribute(node, "group", 1)),
    ))  # fmt: skip
    for d in range(count):
        before, after = (padding[2 * d + i] - inner[2 * d + i] for i in range(2))
        if before or after:
            made = made.cut(2 + d, before, -after or None)
    return made.atom


@converts("MaxPool", "AveragePool")
def pool(context: Context, node: NodeProto) -> Value:
    return pooled(context, node, context.operand(node, 0), node.op_type)


def mean_of_windows(context: Context, node: NodeProto, x: Term) -> Term:
    """The means of windows as AveragePool's attributes say."""
    return Term(
        context, context.tensor(pooled(context, node, x.atom, "AveragePool"), node_name(node))
    )


def pooled(context: Context, node: NodeProto, x: Atom, name: str) -> Value:
    """The MaxPool or AveragePool of ``x`` by a node's attributes."""
    count = context.type(x).ndim - 2
    kernel = _ints(node, "kernel_shape", count, 1)
    strides, dilation = _ints(node, "strides", count, 1), _ints(node, "dilations", count, 1)
    padding = _padding(context, node, x, kernel, strides, dilation)
    ceil_mode = bool(attribute(node, "ceil_mode", 0))
    windows = _Windows(Term(context, x), kernel, strides, padding, dilation, ceil_mode, node)
    attrs: dict[str, Any] = {
        "kernel": kernel, "strides": strides, "padding": padding, "ceil_mode": ceil_mode,
    }  # fmt: skip
    if name == "MaxPool":
        if context.reads_others(node):
            return windows.largest(rows_last=bool(attribute(node, "storage_order", 0)))
        return context.op("max_pool", x, **attrs, dilation=dilation)
    counted = bool(attribute(node, "count_include_pad", 0))
    if any(d != 1 for d in dilation):
        return windows.mean(counted=counted)
    return context.op("avg_pool", x, **attrs, count_include_pad=counted)


@converts("LpPool")
def lp_pool(context: Context, node: NodeProto) -> Value:
    """The root of the sum of powers over a window."""
    x = Term(context, context.operand(node, 0))
    count, p = x.ndim - 2, int(attribute(node, "p", 2))
    kernel = _ints(node, "kernel_shape", count, 1)
    strides, dilation = _ints(node, "strides", count, 1), _ints(node, "dilations", count, 1)
    padding = _padding(context, node, x.atom, kernel, strides, dilation)
    powers = x.op("abs") if p == 1 else x * x if p == 2 else x.op("abs").op("power", float(p))
    ceil_mode = bool(attribute(node, "ceil_mode", 0))
    total = _Windows(powers, kernel, strides, padding, dilation, ceil_mode, node).total()
    return _root(total, p).atom


@converts("GlobalLpPool")
def global_lp_pool(context: Context, node: NodeProto) -> Value:
    x, p = Term(context, context.operand(node, 0)), int(attribute(node, "p", 2))
    axes = tuple(range(2, x.ndim))
    return _root(x.op("abs").op("power", float(p)).sum(*axes, keepdims=True), p).atom


def _root(x: Term, p: int) -> Term:
    return x if p == 1 else x.op("sqrt") if p == 2 else x.op("power", 1.0 / p)


@dataclass
class _Windows:
    """Windows of ``x`` one tap at a time, for what no operator of ours pools."""

    x: Term
    kernel: Sequence[int]
    strides: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    ceil_mode: bool
    node: NodeProto

    def extents(self) -> list[int]:
        sizes = self.x.sizes(node_name(self.node), 2)
        found = []
        for d, size in enumerate(sizes):
            before, after = self.padding[2 * d : 2 * d + 2]
            room = size + before + after - (self.kernel[d] - 1) * self.dilation[d] - 1
            step = self.strides[d]
            extent = (-(-room // step) if self.ceil_mode else room // step) + 1
            if self.ceil_mode and (extent - 1) * self.strides[d] >= size + before:
                extent -= 1  # a window must begin inside, or in the padding before
            found.append(extent)
        return found

    def taps(self, x: Term, fill: float) -> list[Term]:
        """What each place of the kernel reads, padded with ``fill``."""
        extents, sizes = self.extents(), x.sizes(node_name(self.node), 2)
        widths = [0, 0, 0, 0]
        for d, size in enumerate(sizes):
            reach = (extents[d] - 1) * self.strides[d] + (self.kernel[d] - 1) * self.dilation[d]
            before = self.padding[2 * d]
            widths += [before, max(0, reach + 1 - before - size)]
        padded = x.op("pad", pad_width=tuple(widths), pad_value=fill) if any(widths) else x
        found = []
        for place in itertools.product(*[range(k) for k in self.kernel]):
            tap = padded
            for d, k in enumerate(place):
                begin = k * self.dilation[d]
                end = begin + (extents[d] - 1) * self.strides[d] + 1
                tap = tap.cut(2 + d, begin, end, self.strides[d])
            found.append(tap)
        return found

    def total(self) -> Term:
        return reduce(lambda a, b: a + b, self.taps(self.x, 0.0))

    def mean(self, *, counted: bool) -> Atom:
        """The mean; of the elements that are there, or also of the padding, as ONNX counts it."""
        sizes = self.x.sizes(node_name(self.node), 2)
        ones = np.ones((1, 1, *sizes), np.float32)
        if counted:  # padding that is asked for counts, and what ceil_mode adds does not
            widths = [(0, 0), (0, 0)]
            pads = [tuple(self.padding[2 * d : 2 * d + 2]) for d in range(len(sizes))]
            ones = np.pad(ones, [*widths, *pads], constant_values=1)
            own = replace(self, x=self.x.data(ones), padding=[0] * len(self.padding))
            own.ceil_mode = self.ceil_mode
            counts = reduce(lambda a, b: a + b, own.taps(own.x, 0.0))
        else:
            counts = reduce(lambda a, b: a + b, self.taps(self.x.data(ones), 0.0))
        return (self.total() / counts).atom

    def largest(self, *, rows_last: bool) -> list[Value]:
        """The largest elements, and their numbers in the whole tensor."""
        lowest = -np.inf if self.x.dtype.is_float else int(np.iinfo(str(self.x.dtype)).min)
        values = stack(self.taps(self.x, lowest), self.x.ndim)
        sizes = self.x.sizes(node_name(self.node))
        spatial = math.prod(sizes[2:])
        order = np.arange(math.prod(sizes)).reshape(sizes)
        if rows_last:
            planes = order.reshape(sizes[0], sizes[1], -1)[..., :1]
            inner = np.arange(spatial).reshape(sizes[2:][::-1]).T
            order = planes.reshape(sizes[0], sizes[1], *[1] * (len(sizes) - 2)) + inner
        numbers = stack(self.taps(self.x.data(order, "int64"), 0), self.x.ndim)
        best = values.op("argmax", axis=-1, keepdims=True)
        return [
            t.op("gather_elements", best, axis=t.ndim - 1).op("squeeze", axis=-1).atom
            for t in (values, numbers)
        ]


@converts("GlobalAveragePool", "GlobalMaxPool")
def global_pool(context: Context, node: NodeProto) -> Var:
    x = context.operand(node, 0)
    axes = tuple(range(2, context.type(x).ndim))
    name = "mean" if node.op_type == "GlobalAveragePool" else "max"
    return context.op(name, x, axis=axes, keepdims=True)

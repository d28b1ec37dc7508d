"""Convolutions and pooling of torch: one to three spatial dims, with or without a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import Node

from ...graphir.dim import fold_dim, product, static_value
from ...graphir.expr import Atom, Var
from ...graphir.type import TensorType
from ...support.errors import InternalError
from ...tensorir.expr import Expr, IntImm, floordiv
from .registry import Context, arguments, base_name, converts, integers


def spread(value: Any, count: int) -> tuple[int, ...]:
    """One int for all dims, or one each."""
    found = integers(value)
    return found * count if len(found) == 1 else found


def both(values: Sequence[int]) -> tuple[int, ...]:
    """The same padding before and after each dim."""
    return tuple([v for v in values for _ in range(2)])


def batched(context: Context, x: Atom, count: int, apply: Callable[[Atom], Var]) -> Var:
    """Apply to ``x``, which may lack its batch dim, as torch's spatial operators allow."""
    if context.type(x).ndim == count + 2:
        return apply(x)
    return context.op("squeeze", apply(context.op("expand_dims", x, axis=0)), axis=0)


@converts(
    "aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default", "aten.conv1d.padding",
    "aten.conv2d.padding", "aten.conv3d.padding", "aten.convolution.default",
)  # fmt: skip
def conv(context: Context, node: Node) -> Var:
    """The general form may also be a transposed one."""
    given = arguments(node)
    x, w = context.operand(given["input"]), context.operand(given["weight"])
    count = context.type(w).ndim - 2
    if given.get("transposed"):
        return _transposed(context, given, x, w, given["output_padding"])
    strides, dilation = (spread(given[k], count) for k in ("stride", "dilation"))
    padding = _padding(given["padding"], context.type(w), strides, dilation)
    operands = [] if given.get("bias") is None else [context.operand(given["bias"])]
    if not isinstance(given["groups"], int):
        window = {"strides": strides, "padding": padding, "dilation": dilation}
        groups = context.dim(given["groups"])
        return batched(
            context, x, count, lambda x: _in_groups(context, x, w, operands, groups, window)
        )

    def apply(x: Atom) -> Var:
        return context.op(
            "conv", x, w, *operands,
            strides=strides, padding=padding, dilation=dilation, groups=given["groups"],
        )  # fmt: skip

    return batched(context, x, count, apply)


@converts("aten.im2col.default")
def im2col(context: Context, node: Node) -> Var:
    """``torch.nn.functional.unfold``: a column for each window, of all its channels."""
    given = arguments(node)
    kernel = integers(given["kernel_size"])
    window = {
        "strides": integers(given["stride"]),
        "padding": both(integers(given["padding"])),
        "dilation": integers(given["dilation"]),
    }

    def apply(x: Atom) -> Var:
        x = context.op("permute_dims", x, axes=(0, 2, 3, 1))
        windows = context.op("im2col", x, kernel=kernel, **window)
        batch, *places, _, _, channels = context.type(windows).shape
        columns = context.op("permute_dims", windows, axes=(0, 5, 3, 4, 1, 2))
        width = product([channels, *[IntImm(k) for k in kernel]])
        return context.reshape(columns, (batch, width, product(places)))

    return batched(context, context.operand(given["self"]), 2, apply)


def _in_groups(
    context: Context, x: Atom, w: Atom, bias: Sequence[Atom], groups: Expr, window: Any
) -> Var:
    """A convolution of as many groups as a named size: each image of a batch with weights of its
    own, whose batch is in the channels. One product a group, of all windows."""
    count = context.type(w).ndim - 2
    kernel = tuple([static_value(k) for k in context.type(w).shape[2:]])
    if None in kernel:
        raise context.refuse("the sizes of its kernel must be constants where its groups are none.")
    batch, _, *spatial = context.type(x).shape
    outs, inner = context.type(w).shape[:2]
    each = fold_dim(floordiv(outs, groups))
    x = context.reshape(x, (fold_dim(batch * groups), inner, *spatial))
    order = (0, *range(2, count + 2), 1)
    x = context.op("permute_dims", x, axes=order)
    windows = context.op("im2col", x, kernel=kernel, **window)
    places = context.type(windows).shape[1 : count + 1]
    width = product([*context.type(w).shape[2:], inner])
    rows = context.reshape(windows, (batch, groups, product(places), width))
    weight = context.reshape(context.op("permute_dims", w, axes=order), (groups, each, width))
    weight = context.op("permute_dims", weight, axes=(0, 2, 1))
    y = context.op("permute_dims", context.op("matmul", rows, weight), axes=(0, 1, 3, 2))
    y = context.reshape(y, (batch, outs, *places))
    for b in bias:
        y = context.op("add", y, context.reshape(b, (outs, *[1] * count)))
    return y


def _padding(
    value: Any,
    weight: TensorType,
    strides: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Paddings as numbers; ``same`` adds the odd element behind, as torch does."""
    count = weight.ndim - 2
    if value == "valid":
        return (0,) * (2 * count)
    if value != "same":
        return both(spread(value, count))
    if any(s != 1 for s in strides):
        raise InternalError(f"torch let padding='same' pass with strides {tuple(strides)}")
    found: list[int] = []
    for d in range(count):
        total = (int(getattr(weight.shape[2 + d], "value", 1)) - 1) * dilation[d]
        found += [total // 2, total - total // 2]
    return tuple(found)


@converts(
    "aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input"
)
def conv_transpose(context: Context, node: Node) -> Var:
    given = arguments(node)
    x, w = context.operand(given["input"]), context.operand(given["weight"])
    return _transposed(context, given, x, w, given["output_padding"])


def _transposed(context: Context, given: Any, x: Atom, w: Atom, extra: Any) -> Var:
    """What is padded beyond the kernel's reach is cut off the result."""
    count = context.type(w).ndim - 2
    operands = [] if given.get("bias") is None else [context.operand(given["bias"])]
    padding, dilation = (spread(given[k], count) for k in ("padding", "dilation"))
    reach = [
        (static_value(k) or 1) * d - d
        for k, d in zip(context.type(w).shape[2:], dilation, strict=True)
    ]
    cuts = [max(p - r, 0) for p, r in zip(padding, reach, strict=True)]

    def apply(x: Atom) -> Var:
        y = context.op(
            "conv_transpose", x, w, *operands,
            strides=spread(given["stride"], count),
            padding=both([p - c for p, c in zip(padding, cuts, strict=True)]),
            dilation=dilation,
            output_padding=spread(extra, count),
            groups=context.static(given["groups"], "the number of its groups"),
        )  # fmt: skip
        if not any(cuts):
            return y
        return context.op(
            "strided_slice", y, axes=tuple(range(2, count + 2)), begin=tuple(cuts),
            end=tuple([-c or None for c in cuts]),
        )  # fmt: skip

    return batched(context, x, count, apply)


# -- pooling -------------------------------------------------------------------------------------
@converts(
    "aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default",
    "aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default",
)  # fmt: skip
def max_pool(context: Context, node: Node) -> Any:
    """The indices of the forms that have them cannot be imported."""
    given = arguments(node)
    count = _dims(node)
    kernel = spread(given["kernel_size"], count)

    def apply(x: Atom) -> Var:
        return context.op(
            "max_pool", x, kernel=kernel,
            strides=spread(given.get("stride") or kernel, count),
            padding=both(spread(given["padding"], count)),
            dilation=spread(given["dilation"], count),
            ceil_mode=bool(given["ceil_mode"]),
        )  # fmt: skip

    result = batched(context, context.operand(given["self"]), count, apply)
    return [result] if "indices" in base_name(node) else result


@converts("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(context: Context, node: Node) -> Var:
    given = arguments(node)
    count = _dims(node)
    kernel = spread(given["kernel_size"], count)

    def apply(x: Atom) -> Var:
        return context.op(
            "avg_pool", x, kernel=kernel,
            strides=spread(given.get("stride") or kernel, count),
            padding=both(spread(given["padding"], count)),
            ceil_mode=bool(given["ceil_mode"]),
            count_include_pad=bool(given["count_include_pad"]),
            divisor=given.get("divisor_override"),
        )  # fmt: skip

    return batched(context, context.operand(given["self"]), count, apply)


@converts(
    "aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool2d.default",
    "aten.adaptive_avg_pool3d.default", "aten._adaptive_avg_pool2d.default",
    "aten._adaptive_avg_pool3d.default", "aten.adaptive_max_pool1d.default",
    "aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default",
)  # fmt: skip
def adaptive_pool(context: Context, node: Node) -> Any:
    """The indices of the maxima cannot be imported."""
    given = arguments(node)
    count = _dims(node)
    mode = "max" if "max" in base_name(node) else "avg"
    sizes = spread(given["output_size"], count)

    def apply(x: Atom) -> Var:
        return context.op("adaptive_pool", x, output_size=sizes, mode=mode)

    result = batched(context, context.operand(given["self"]), count, apply)
    return [result] if mode == "max" else result


def _dims(node: Node) -> int:
    """The number of spatial dims in an operator's name: 2 of ``max_pool2d``."""
    return int(next(c for c in base_name(node) if c.isdigit()))

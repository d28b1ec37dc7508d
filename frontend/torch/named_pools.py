"""Pools whose last window may reach over the edge (``ceil_mode``) of images of named sizes, and
parts of named axes: operators that stay whole in a program.

How many windows there are torch finds by a comparison of sizes, and where a part may begin too, of
which it shows neither for all of them. Here both are expressions: the parts are the caller's to
get right, the windows ``tensorir.operators.pool``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node

from ...graphir.expr import Atom, Var
from ...tensorir.expr import minimum
from ..sizes_as_data import section
from .convert_window import batched, both, spread
from .numbers_of_data import check_equal
from .registry import Context, converts


@torch.library.custom_op("burnish::pool", mutates_args=())
def pool(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    mode: str,
    include_pad: bool,
    divisor: int | None,
) -> Tensor:
    """``max_pool`` or ``avg_pool`` with ``ceil_mode``, of as many axes as the kernel has."""
    count = len(kernel)
    if mode == "max":
        function: Callable[..., Tensor] = getattr(torch, f"max_pool{count}d")
        return function(x, kernel, strides, padding, dilation, True).clone()
    function = getattr(nn.functional, f"avg_pool{count}d")
    more = () if count == 1 else (divisor,)
    return function(x, kernel, strides, padding, True, include_pad, *more).clone()


@pool.register_fake
def _(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    mode: str,
    include_pad: bool,
    divisor: int | None,
) -> Tensor:
    count = len(kernel)
    sizes: list[Any] = list(x.shape[-count:])
    for d, size in enumerate(sizes):
        far = (kernel[d] - 1) * dilation[d]
        after = min(padding[d] + strides[d] - 1, far)
        sizes[d] = (size + padding[d] + after - far - 1) // strides[d] + 1
    return x.new_empty((*x.shape[:-count], *sizes))


@converts("burnish.pool.default")
def convert_pool(context: Context, node: Node) -> Var:
    values: Any = node.args
    x, kernel, strides, padding, dilation, mode, include_pad, divisor = values
    attributes: dict[str, Any] = {"kernel": tuple(kernel), "strides": tuple(strides)}
    attributes |= {"padding": both(padding), "ceil_mode": True}
    if mode == "max":
        attributes["dilation"] = tuple(dilation)
    else:
        attributes |= {"count_include_pad": include_pad, "divisor": divisor}

    def apply(x: Atom) -> Var:
        return context.op(f"{mode}_pool", x, **attributes)

    return batched(context, context.operand(x), len(kernel), apply)


def whole_pool(
    mode: str,
    count: int,
    function: Callable[..., Any],
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    *args: Any,
    **given: Any,
) -> Any:
    """A pool of torch's, as the operator where it has ``ceil_mode`` and named sizes."""
    names = (
        ("dilation", "ceil_mode")
        if mode == "max"
        else ("ceil_mode", "count_include_pad", "divisor_override")
    )
    given |= dict(zip(names, args, strict=False))
    is_named = any(isinstance(s, torch.SymInt) for s in input.shape[-count:])
    if not given.get("ceil_mode") or not is_named:
        return function(input, kernel_size, stride, padding, **given)
    operator: Any = torch.ops.burnish.pool
    kernel = list(spread(kernel_size, count))
    return operator(
        input, kernel, list(spread(stride or kernel, count)), list(spread(padding, count)),
        list(spread(given.get("dilation", 1), count)), mode,
        bool(given.get("count_include_pad", True)), given.get("divisor_override"),
    )  # fmt: skip


@torch.library.custom_op("burnish::span", mutates_args=())
def span(x: Tensor, axis: int, begin: int, length: int) -> Tensor:
    """``x.narrow(axis, begin, length)``, which is inside."""
    return x.narrow(axis, begin, length).clone()


@span.register_fake
def _(x: Tensor, axis: int, begin: int, length: int) -> Tensor:
    return x.new_empty((*x.shape[:axis], length, *x.shape[axis + 1 :]))


@converts("burnish.span.default")
def convert_span(context: Context, node: Node) -> Atom:
    x, axis, begin, length = node.args
    assert isinstance(axis, int)
    return section(context, context.operand(x), axis, context.dim(begin), context.dim(length))


@torch.library.custom_op("burnish::chunk_span", mutates_args=())
def chunk_span(x: Tensor, axis: int, begin: int, length: int, last: int) -> Tensor:
    """A chunk of an axis: a call for which the last one is empty, and the axis is not, has less of
    them than the program, and is refused whichever of them are used."""
    return span(x, axis, begin, length if last or not x.shape[axis] else -1)


@chunk_span.register_fake
def _(x: Tensor, axis: int, begin: int, length: int, last: int) -> Tensor:
    return x.new_empty((*x.shape[:axis], length, *x.shape[axis + 1 :]))


@converts("burnish.chunk_span.default")
def convert_chunk_span(context: Context, node: Node) -> Atom:
    x, axis, begin, length, last = node.args
    assert isinstance(axis, int)
    value = context.operand(x)
    size = context.type(value).shape[axis]
    check_equal(context, minimum(size, 1), minimum(context.dim(last), 1))
    return section(context, value, axis, context.dim(begin), context.dim(length))


__all__ = ["whole_pool"]

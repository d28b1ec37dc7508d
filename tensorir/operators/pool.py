"""Pooling: the maximum or the mean of windows of one size.

Padding of a maximum is its identity, so that it never wins; NaN does. A mean over windows that
reach over the edge counts the padding or not, as asked. Half precision accumulates in float32.

Large windows of rows of pixels are combined in two steps: whole rows of the image first, which are
vectors, then what is left in a row. That takes fewer operations, and the sums are shorter, so that
their errors are smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...support.dtype import DType
from ...support.errors import ComputeError
from ..expr import (
    INDEX,
    BufferLoad,
    Expr,
    IntImm,
    Var,
    const,
    div,
    maximum,
    min_value,
    minimum,
)
from ..expr import cast as cast_expr
from ..te import compute as te
from ..te.compute import Tensor, compute
from .elementwise import elementwise
from .half_keys import is_keyed, key_of, number_of
from .reduce import accumulator
from .window import arranged, check_window, pad_spatial, parts_of, window_extent

LARGE = 32
"""Elements of a window's row from which on its rows are combined first."""


def max_pool(
    x: Tensor,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool = False,
    channels_last: bool = False,
) -> Tensor:
    """The maximum of each window. ``ceil_mode`` adds a last window that starts inside but reaches
    over the edge. Raises ComputeError for parameters that do not fit."""
    _check("max_pool", x, kernel, strides, padding, dilation)
    kernel = _inside(x, kernel, strides, padding, dilation, ceil_mode, channels_last)
    reach = _whole_windows(x, kernel, strides, padding, dilation, ceil_mode, channels_last)
    lowest = _lowest(x.dtype)
    padded = pad_spatial(x, reach, lowest, "max_pool_pad", last=channels_last)
    sizes = _Sizes(tuple(kernel), tuple(strides), tuple(dilation), channels_last)
    if not is_keyed(x.dtype):
        return _combined(padded, sizes, te.max, "max_pool")
    keys = _combined(padded, sizes, te.max, "max_pool_key", key_of)
    return elementwise("max_pool", lambda v: number_of(v, x.dtype), keys)


def avg_pool(
    x: Tensor,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
    channels_last: bool = False,
) -> Tensor:
    """The mean of each window; ``divisor`` replaces the count. With ``count_include_pad`` padding
    counts as elements (but what only ``ceil_mode`` adds never does). Means of integers are
    truncated. Raises ComputeError for parameters that do not fit."""
    ones = [1] * len(kernel)
    _check("avg_pool", x, kernel, strides, padding, ones)
    kernel = _inside(x, kernel, strides, padding, ones, ceil_mode, channels_last)
    reach = _whole_windows(x, kernel, strides, padding, ones, ceil_mode, channels_last)
    padded = pad_spatial(x, reach, 0.0, "avg_pool_pad", last=channels_last)
    sizes = _Sizes(tuple(kernel), tuple(strides), tuple(ones), channels_last)
    wide = accumulator(x.dtype)
    sums = _combined(padded, sizes, te.sum, "avg_pool_sum", lambda v: cast_expr(v, wide))
    spatial = parts_of(x.shape, last=channels_last)[2]
    whole = not any(reach) or (count_include_pad and list(reach) == list(padding))

    def mean(*indices: Var) -> Expr:
        if divisor is not None or whole:
            size = 1
            for k in kernel:
                size *= k
            count: Expr = const(divisor or size, wide)
        else:
            number: Expr = IntImm(1, INDEX)
            at = parts_of(indices, last=channels_last)[2]
            for d, i in enumerate(at):
                low, high = (
                    (-padding[2 * d], spatial[d] + padding[2 * d + 1])
                    if count_include_pad
                    else (0, spatial[d])
                )
                start = i * strides[d] - padding[2 * d]
                number = number * (minimum(start + kernel[d], high) - maximum(start, low))
            count = cast_expr(number, wide)
        return cast_expr(div(BufferLoad(sums, indices), count), x.dtype)

    return compute(sums.shape, mean, "avg_pool")


def _check(
    name: str,
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> None:
    check_window(name, x.ndim - 2, strides, padding, dilation)
    if len(kernel) != x.ndim - 2 or min(kernel) < 1:
        raise ComputeError(
            f"{name}: expected a kernel of {x.ndim - 2} sizes, found {list(kernel)}."
        )


def _lowest(dtype: DType) -> float:
    lowest = min_value(dtype)
    return float("-inf") if dtype.is_float else lowest.value  # type: ignore[attr-defined]


def pool_extent(
    size: Expr, kernel: int, stride: int, before: int, after: int, dilation: int, *, ceil_mode: bool
) -> tuple[Expr, int]:
    """The number of windows along an axis, and the elements beyond the padded axis that they take
    (in ``ceil_mode`` alone): those that the last one reaches over, of a symbolic size as many as it
    may. No window starts in the padding behind an axis."""
    if not ceil_mode:
        return window_extent(size, kernel, stride, before, after, dilation), 0
    far = (kernel - 1) * dilation
    if not isinstance(size, IntImm):
        # Padded by one stride less 1, a quotient is rounded up, and by less than a window reaches
        # beyond its first element, the last one starts inside.
        beyond = min(stride - 1, far - after)
        return window_extent(size, kernel, stride, before, after + beyond, dilation), beyond
    span = size.value + before + after - far - 1
    count = -(-span // stride) + 1
    if (count - 1) * stride >= size.value + before:
        count -= 1  # the last window must start inside of the input or the padding before it
    beyond = max(0, (count - 1) * stride + far + 1 - size.value - before - after)
    return IntImm(count, INDEX), beyond


def _inside(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    last: bool,
) -> list[int]:
    """The kernel without what lies beyond the padding on an axis that has a single window:
    ``ceil_mode`` allows one that is far larger than the image."""
    sizes = list(kernel)
    for d, size in enumerate(parts_of(x.shape, last=last)[2]):
        before, after = padding[2 * d : 2 * d + 2]
        if not ceil_mode or not isinstance(size, IntImm):
            continue
        count, beyond = pool_extent(
            size, kernel[d], strides[d], before, after, dilation[d], ceil_mode=True
        )
        if isinstance(count, IntImm) and count.value == 1 and beyond:
            sizes[d] = max(1, (size.value + before + after - 1) // dilation[d] + 1)
    return sizes


def _whole_windows(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    last: bool,
) -> list[int]:
    """The padding with what windows of ``ceil_mode`` reach beyond it."""
    reach = list(padding)
    for d, size in enumerate(parts_of(x.shape, last=last)[2]):
        before, after = padding[2 * d : 2 * d + 2]
        _, beyond = pool_extent(
            size, kernel[d], strides[d], before, after, dilation[d], ceil_mode=ceil_mode
        )
        reach[2 * d + 1] += beyond
    return reach


@dataclass(frozen=True)
class _Sizes:
    """The windows of a pooling: one number a spatial dim of each."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    last: bool
    is_step: bool = False
    """Whether this is one of two steps, which leave axes alone."""

    @property
    def are_large(self) -> bool:
        """Whether windows are combined rows first."""
        *rows, row = self.kernel
        plain = not self.last and not self.is_step and self.strides[-1] <= row
        return plain and row >= LARGE and math.prod(rows) > 1

    def of_rows(self) -> _Sizes:
        """What combines the rows of windows element by element."""
        return self._with((*self.kernel[:-1], 1), (*self.strides[:-1], 1))

    def in_rows(self) -> _Sizes:
        """What is left to combine in a row."""
        ones = (1,) * (len(self.kernel) - 1)
        return self._with((*ones, self.kernel[-1]), (*ones, self.strides[-1]))

    def _with(self, kernel: tuple[int, ...], strides: tuple[int, ...]) -> _Sizes:
        return replace(self, kernel=kernel, strides=strides, is_step=True)


def _combined(
    x: Tensor,
    sizes: _Sizes,
    combine: Callable[..., Expr],
    name: str,
    of: Callable[[Expr], Expr] = lambda v: v,
) -> Tensor:
    """The windows of ``x`` (no padding), what each element becomes ``of`` them combined. The one
    window of an image, whose rows are vectors, is written as the reduction that it is."""
    batch, channels, spatial = parts_of(x.shape, last=sizes.last)
    extents = [
        window_extent(s, k, stride, 0, 0, dil)
        for s, k, stride, dil in zip(
            spatial, sizes.kernel, sizes.strides, sizes.dilation, strict=True
        )
    ]
    alone = not sizes.last and all(isinstance(e, IntImm) and e.value == 1 for e in extents)
    if sizes.are_large and not alone:
        rows = _combined(x, sizes.of_rows(), combine, f"{name}_rows", of)
        return _combined(rows, sizes.in_rows(), combine, name)
    kept = [d for d, k in enumerate(sizes.kernel) if not sizes.is_step or k > 1]
    steps = {d: te.reduce_axis((0, sizes.kernel[d]), f"k{d}") for d in kept}

    def place(indices: Sequence[Expr]) -> tuple[Expr, ...]:
        n, c, at = parts_of(indices, last=sizes.last)
        own: list[Expr] = []
        for d, (i, stride, dil) in enumerate(zip(at, sizes.strides, sizes.dilation, strict=True)):
            index = i * stride if stride > 1 else i
            if d in steps:
                within = steps[d] * dil if dil > 1 else steps[d]
                index = within if alone else index + within
            own.append(index)
        return arranged(n, c, own, last=sizes.last)

    def element(*indices: Var) -> Expr:
        value = of(BufferLoad(x, place(indices)))
        return combine(value, axis=list(steps.values()))

    return compute(arranged(batch, channels, extents, last=sizes.last), element, name)

"""What operators with sliding windows share: the order of dims, padding, and how many windows fit.

A spatial operator works on ``[batch, channels, spatial...]``, or with ``last`` on ``[batch,
spatial..., channels]``. Paddings are (before, after) of each spatial dim in turn, flat.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var, all_of, const, floordiv
from ..intrinsics import call_intrin
from ..te.compute import Tensor, compute


def window_extent(
    size: Expr, kernel: Expr | int, stride: int, before: int, after: int, dilation: int = 1
) -> Expr:
    """The number of windows along an axis: ``(size + padding - (kernel - 1) * dilation - 1) //
    stride + 1``."""
    kernel = kernel.value if isinstance(kernel, IntImm) else kernel
    reach = (kernel - 1) * dilation + 1 - before - after
    span = size - reach
    if isinstance(span, IntImm):
        return IntImm(span.value // stride + 1, INDEX)
    return floordiv(span, IntImm(stride, INDEX)) + 1 if stride > 1 else span + 1


def arranged(
    batch: Expr, channel: Expr, spatial: Sequence[Expr], *, last: bool
) -> tuple[Expr, ...]:
    return (batch, *spatial, channel) if last else (batch, channel, *spatial)


def parts_of(x: Sequence[Expr], *, last: bool) -> tuple[Expr, Expr, tuple[Expr, ...]]:
    """Batch, channel, and spatial entries of dims or indices."""
    return (x[0], x[-1], tuple(x[1:-1])) if last else (x[0], x[1], tuple(x[2:]))


def pad_spatial(
    x: Tensor, padding: Sequence[int], value: float, name: str, *, last: bool
) -> Tensor:
    """``x`` with ``value`` around its spatial dims; ``padding`` is (before, after) of each."""
    if not any(padding):
        return x
    batch, channels, spatial = parts_of(x.shape, last=last)
    before, after = padding[::2], padding[1::2]
    dims = [s + (b + a) for s, b, a in zip(spatial, before, after, strict=True)]

    def element(*indices: Var) -> Expr:
        n, c, at = parts_of(indices, last=last)
        inside: list[Expr] = []
        for i, s, b, a in zip(at, spatial, before, after, strict=True):
            inside += [i >= b] if b else []
            inside += [i < s + b] if a or b else []
        own = [i - b if b else i for i, b in zip(at, before, strict=True)]
        load = BufferLoad(x, arranged(n, c, own, last=last))
        return call_intrin("if_then_else", all_of(inside), load, const(value, x.dtype))

    return compute(arranged(batch, channels, dims, last=last), element, name)


def static_dim(dim: Expr) -> int:
    if not isinstance(dim, IntImm):
        raise ComputeError("A kernel must have a static size.")
    return dim.value


def check_window(
    name: str,
    count: int,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> None:
    if count < 1 or len(strides) != count or len(dilation) != count or len(padding) != 2 * count:
        raise ComputeError(
            f"{name}: expected {count} strides and dilations and {2 * count} paddings, found "
            f"{list(strides)}, {list(dilation)} and {list(padding)}."
        )
    if min(*strides, *dilation, 1) < 1 or min(*padding) < 0:
        raise ComputeError(f"{name}: expected strides and dilations of at least 1, paddings of 0.")

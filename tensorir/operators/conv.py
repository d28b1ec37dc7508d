"""Convolutions of one, two or three spatial dims, and their transposes.

    C[n, o, p...] = sum over c, k... of X[n, g * c' + c, p * stride + k * dilation] * W[o, c, k...]

``channels_last`` puts the channels of ``x`` and of the result behind the spatial dims; weights are
always ``[out, in / groups, kernel...]``. Padding is a block of its own, so that the reduction reads
without a condition. Half precision accumulates in float32 and is rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from ..expr import EQ, INDEX, BufferLoad, Expr, IntImm, Var, all_of, const, floordiv, floormod
from ..expr import cast as cast_expr
from ..intrinsics import call_intrin
from ..te import compute as te
from ..te.compute import Tensor, compute
from .elementwise import elementwise
from .matmul import result_dtype_of
from .reduce import accumulator
from .window import arranged, check_window, pad_spatial, parts_of, static_dim, window_extent


def conv(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
    channels_last: bool = False,
    out_channels_last: bool | None = None,
    out_dtype: str = "",
) -> Tensor:
    """The convolution (cross-correlation) of ``x`` with ``w``, plus ``bias[o]``.

    ``strides`` and ``dilation`` have an int a spatial dim, ``padding`` two. ``channels_last`` is
    the layout of ``x``, ``out_channels_last`` that of the result (None: the same). ``out_dtype`` is
    that of ``matmul``, and the bias has the result's. Raises ComputeError for ranks, dtypes, or
    sizes that do not fit.
    """
    count = x.ndim - 2
    result_dtype = result_dtype_of("conv", x, out_dtype)
    check_window("conv", count, strides, padding, dilation)
    last = channels_last
    out_last = channels_last if out_channels_last is None else out_channels_last
    batch, channels, spatial = parts_of(x.shape, last=last)
    out, own, kernel = w.shape[0], w.shape[1], w.shape[2:]
    if w.ndim != x.ndim or (bias is not None and bias.ndim != 1):
        raise ComputeError("conv: expected x and w of the same rank, and bias[out].")
    if x.dtype is not w.dtype:
        raise ComputeError(f"conv: expected operands of one dtype, found {x.dtype} and {w.dtype}.")
    sizes = [d.value if isinstance(d, IntImm) else None for d in (channels, out, own)]
    if sizes[0] is not None and sizes[2] is not None and sizes[0] != sizes[2] * groups:
        raise ComputeError(
            f"conv: {sizes[0]} channels do not fit a weight of {sizes[2]} in {groups} groups."
        )
    padded = pad_spatial(x, padding, 0.0, "conv_pad", last=last)
    extents = [
        window_extent(s, k, stride, padding[2 * d], padding[2 * d + 1], dilation[d])
        for d, (s, k, stride) in enumerate(zip(spatial, kernel, strides, strict=True))
    ]
    depth = te.reduce_axis((0, own), "c")
    steps = [te.reduce_axis((0, k), f"k{d}") for d, k in enumerate(kernel)]
    wide = accumulator(x.dtype)
    # With one channel in and one out, a group is a window of pixels: nothing is summed over.
    single = groups > 1 and (sizes[1], sizes[2]) == (groups, 1)

    def element(*indices: Var) -> Expr:
        n, o, at = parts_of(indices, last=out_last)
        place = [
            _affine(i, stride, k, dil)
            for i, stride, k, dil in zip(at, strides, steps, dilation, strict=True)
        ]
        c = _in_channel(o, depth, groups, out, own)
        inner: Expr = IntImm(0, INDEX) if single else depth
        left = BufferLoad(padded, arranged(n, c, place, last=last))
        right = BufferLoad(w, (o, inner, *steps))
        product = cast_expr(left, wide) * cast_expr(right, wide)
        return te.sum(product, axis=[*steps] if single else [*steps, depth])

    shape = arranged(batch, out, extents, last=out_last)
    result = compute(shape, element, "conv")
    if bias is None:
        if wide is result_dtype:
            return result
        return elementwise(f"conv_{x.dtype}", lambda v: cast_expr(v, x.dtype), result)
    if bias.dtype is not result_dtype:
        raise ComputeError(f"conv: expected a bias of {result_dtype}, found {bias.dtype}.")

    def biased(*indices: Var) -> Expr:
        _, o, _ = parts_of(indices, last=out_last)
        total = BufferLoad(result, indices) + cast_expr(BufferLoad(bias, (o,)), wide)
        return cast_expr(total, result_dtype)

    return compute(shape, biased, "bias_add")


def _affine(i: Expr, stride: int, k: Expr, dilation: int) -> Expr:
    first = i * stride if stride > 1 else i
    return first + (k * dilation if dilation > 1 else k)


def _in_channel(o: Expr, c: Expr, groups: int, out: Expr, own: Expr) -> Expr:
    """The channel of ``x`` that output ``o`` reads for the weight's channel ``c``."""
    if groups == 1:
        return c
    if not isinstance(out, IntImm) or not isinstance(own, IntImm):
        raise ComputeError("conv: groups need a weight of static size.")
    if out.value % groups:
        raise ComputeError(f"conv: {out.value} output channels do not divide into {groups} groups.")
    each = out.value // groups
    group = floordiv(o, IntImm(each, INDEX)) if each > 1 else o
    return group if own.value == 1 else group * own.value + c


def conv_transpose(
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
    channels_last: bool = False,
) -> Tensor:
    """The transposed convolution: ``w[in, out / groups, kernel...]``, each ``x`` spread by ``w``.

    It is the convolution, with the kernel reversed, of ``x`` with ``stride - 1`` zeros between its
    elements. The extent of a result is ``(size - 1) * stride - padding + (kernel - 1) * dilation +
    output_padding + 1``. Raises ComputeError for ranks, dtypes, or sizes that do not fit.
    """
    count = x.ndim - 2
    check_window("conv_transpose", count, strides, padding, dilation)
    last = channels_last
    batch, channels, _ = parts_of(x.shape, last=last)
    if w.ndim != x.ndim or x.dtype is not w.dtype or len(output_padding) != count:
        raise ComputeError("conv_transpose: expected x and w of the same rank and dtype.")
    each, kernel = w.shape[1], w.shape[2:]
    if not isinstance(channels, IntImm) or not isinstance(each, IntImm):
        raise ComputeError("conv_transpose: expected static channels.")
    own = channels.value // groups
    reach = [(static_dim(k) - 1) * d for k, d in zip(kernel, dilation, strict=True)]
    spread = _spread(x, strides, padding, output_padding, reach, last=last)
    extents = [s - r for s, r in zip(parts_of(spread.shape, last=last)[2], reach, strict=True)]
    depth = te.reduce_axis((0, own), "c")
    steps = [te.reduce_axis((0, k), f"k{d}") for d, k in enumerate(kernel)]
    wide = accumulator(x.dtype)

    def element(*indices: Var) -> Expr:
        n, o, at = parts_of(indices, last=last)
        place = [_affine(i, 1, k, d) for i, k, d in zip(at, steps, dilation, strict=True)]
        group = floordiv(o, each) if groups > 1 else IntImm(0, INDEX)
        within = floormod(o, each) if groups > 1 else o
        c = group * own + depth if groups > 1 else depth
        flipped = [k - 1 - s for k, s in zip(kernel, steps, strict=True)]
        left = BufferLoad(spread, arranged(n, c, place, last=last))
        right = BufferLoad(w, (c, within, *flipped))
        return te.sum(cast_expr(left, wide) * cast_expr(right, wide), axis=[*steps, depth])

    shape = arranged(batch, IntImm(each.value * groups, INDEX), extents, last=last)
    result = compute(shape, element, "conv_transpose")

    def finished(*indices: Var) -> Expr:
        _, o, _ = parts_of(indices, last=last)
        total: Expr = BufferLoad(result, indices)
        if bias is not None:
            total = total + cast_expr(BufferLoad(bias, (o,)), wide)
        return cast_expr(total, x.dtype)

    if bias is None and wide is x.dtype:
        return result
    return compute(shape, finished, "conv_transpose_out")


def _spread(
    x: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    reach: Sequence[int],
    *,
    last: bool,
) -> Tensor:
    """``x`` with zeros between its elements and around them, as the reversed kernel needs."""
    batch, channels, spatial = parts_of(x.shape, last=last)
    before = [r - p for r, p in zip(reach, padding[::2], strict=True)]
    dims: list[Expr] = [
        (s - 1) * stride + (1 + b + r - p + extra)
        for s, stride, b, r, p, extra in zip(
            spatial, strides, before, reach, padding[1::2], output_padding, strict=True
        )
    ]

    def element(*indices: Var) -> Expr:
        n, c, at = parts_of(indices, last=last)
        inside: list[Expr] = []
        own: list[Expr] = []
        for i, s, stride, b in zip(at, spatial, strides, before, strict=True):
            z = i - b if b else i
            inside += [z >= 0, z <= (s - 1) * stride]
            if stride > 1:
                inside.append(EQ(floormod(z, stride), IntImm(0, INDEX)))
                z = floordiv(z, stride)
            own.append(z)
        load = BufferLoad(x, arranged(n, c, own, last=last))
        return call_intrin("if_then_else", all_of(inside), load, const(0.0, x.dtype))

    return compute(arranged(batch, channels, dims, last=last), element, "conv_spread")

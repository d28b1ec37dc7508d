"""Operators of torch written with others, for which torch itself has no decomposition for export.

Each function has the operator's parameters and is traced in its place. Nothing here depends on
data: what has a size that only data tell has no row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch._decomp import global_decomposition_table
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from ...support.errors import FrontendError
from .numbers_of_data import OF_SIZES

FEW_BOUNDARIES = 64
"""Boundaries that are all compared; of more, the place is found by halving."""

aten = torch.ops.aten
_Function = TypeVar("_Function", bound=Callable[..., Any])
DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {}
"""By operator."""
_AT_ONE_PLACE = global_decomposition_table["post_autograd"][aten.select_scatter.default]
_STEPWISE = global_decomposition_table["post_autograd"][aten.slice_scatter.default]
FIRST_RESULT = (aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
"""Operators of which only the first result is made here: others are for training."""
OTHER_RESULTS = (
    aten.max_pool2d_with_indices.default, aten.max_pool3d_with_indices.default,
    aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default,
    aten.adaptive_max_pool3d.default, aten.native_layer_norm.default,
    aten.native_group_norm.default, aten.native_batch_norm.default,
    aten._native_batch_norm_legit.no_stats,
)  # fmt: skip
"""Operators that are decomposed where another than their first result is used."""
BATCH_NORMS = (
    aten.batch_norm.default, aten.native_batch_norm.default, aten._native_batch_norm_legit.default,
    aten.instance_norm.default,
)  # fmt: skip
"""Operators that are decomposed where they update running statistics."""


def decomposes(*ops: Any) -> Callable[[_Function], _Function]:
    """Make a function the decomposition of operators."""

    def register(function: _Function) -> _Function:
        DECOMPOSITIONS.update(dict.fromkeys(ops, function))
        return function

    return register


# -- products and distances ----------------------------------------------------------------------
@decomposes(aten._trilinear.default)
def trilinear(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """``nn.Bilinear``: the sum of the products of three broadcast tensors."""
    product = None
    for x, dims in ((a, expand1), (b, expand2), (c, expand3)):
        for d in sorted(dims):
            x = x.unsqueeze(d)
        product = x if product is None else product * x
    assert product is not None
    return product.sum(list(sumdim)) if sumdim else product


def _norm(x: Tensor, p: float) -> Tensor:
    """The p-norm along the last axis."""
    if p == 0:
        return (x != 0).to(x.dtype).sum(-1)
    if p == math.inf:  # of nothing it is 0, and not undefined as a maximum is
        return x.abs().amax(-1) if x.shape[-1] != 0 else x.sum(-1)
    if p in (1, 2):
        norm: Tensor = torch.linalg.vector_norm(x, p, -1)
        return norm
    return x.abs().pow(p).sum(-1).pow(1 / p)


@decomposes(aten._cdist_forward.default)
def cdist(a: Tensor, b: Tensor, p: float, compute_mode: int | None = None) -> Tensor:
    """From differences whatever the mode: squares of large sums would cancel."""
    return _norm(a.unsqueeze(-2) - b.unsqueeze(-3), p)


@decomposes(aten._pdist_forward.default)
def pdist(x: Tensor, p: float = 2) -> Tensor:
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1, device=x.device)
    return _norm(x.index_select(0, first) - x.index_select(0, second), p)


@decomposes(aten.dist.default)
def dist(a: Tensor, b: Tensor, p: float = 2) -> Tensor:
    result: Tensor = torch.linalg.vector_norm(a - b, p)
    return result


@decomposes(aten.addbmm.default)
def addbmm(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """The products of a batch, added up."""
    if not c.is_floating_point():
        beta, alpha = int(beta), int(alpha)
    total = torch.bmm(a, b).sum(0, dtype=c.dtype)
    total = total * alpha if alpha != 1 else total
    if beta == 0:  # then not even a NaN of c counts
        return total.expand(torch.broadcast_shapes(c.shape, total.shape))
    return (c * beta if beta != 1 else c) + total


@decomposes(aten.conv_tbc.default)
def conv_tbc(x: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution of (time, batch, channels)."""
    result = torch.conv1d(x.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1)


# -- places in sorted sequences ------------------------------------------------------------------
@decomposes(aten.searchsorted.Tensor)
def searchsorted(
    sequence: Tensor,
    x: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """How many elements of a row are before ``x`` (NaN stands behind all)."""
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    from_right = right or side == "right"
    flat = sequence.ndim == 1

    def is_before(elements: Tensor, values: Tensor) -> Tensor:
        return ~(elements > values) if from_right else ~(elements >= values)

    dtype = torch.int32 if out_int32 else torch.int64
    size = sequence.shape[-1]
    if size <= FEW_BOUNDARIES:
        rows = sequence if flat else sequence.unsqueeze(-2)
        return is_before(rows, x.unsqueeze(-1)).to(dtype).sum(-1, dtype=dtype)
    found = torch.zeros_like(x, dtype=torch.int64)
    step = 1 << (size.bit_length() - 1)
    while step:
        probe = found + step
        place = (probe - 1).clamp(max=size - 1)
        if flat:
            elements = sequence.index_select(0, place.reshape(-1)).reshape(place.shape)
        else:
            elements = sequence.gather(-1, place)
        found = torch.where((probe <= size) & is_before(elements, x), probe, found)
        step //= 2
    return found.to(dtype)


@decomposes(aten.searchsorted.Scalar)
def searchsorted_number(sequence: Tensor, x: float, **options: Any) -> Tensor:
    """In the dtype of the sequence, unless that cannot hold a fraction."""
    dtype = torch.float64 if isinstance(x, float) else torch.int64
    if sequence.dtype.is_floating_point:
        dtype = sequence.dtype
    return searchsorted(sequence, torch.full((), x, dtype=dtype), **options)


@decomposes(aten.bucketize.Tensor)
def bucketize(
    x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    return searchsorted(boundaries, x, out_int32=out_int32, right=right)


@decomposes(aten.bucketize.Scalar)
def bucketize_number(x: float, boundaries: Tensor, **options: Any) -> Tensor:
    return searchsorted_number(boundaries, x, **options)


# -- parts of numbers ----------------------------------------------------------------------------
@decomposes(aten.angle.default)
def angle(x: Tensor) -> Tensor:
    """Of real numbers 0 or pi."""
    turned = torch.where(x < 0, math.pi, 0.0)
    if not x.is_floating_point():
        return turned
    return torch.where(x.isnan(), x, turned.to(x.dtype))


@decomposes(aten.round.decimals)
def round_decimals(x: Tensor, *, decimals: int) -> Tensor:
    if not x.is_floating_point() or decimals == 0:
        return x.round()
    factor = float(10 ** abs(decimals))
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    rounded = (wide * factor).round() / factor
    if decimals < 0:
        rounded = (wide / factor).round() * factor
    return rounded.to(x.dtype)


def _power_of_two(exponent: Tensor) -> Tensor:
    """In float64 and exactly, of exponents from -1074 to 1023."""
    size, is_negative = exponent.abs(), exponent < 0
    power = one = torch.ones((), dtype=torch.float64, device=exponent.device)
    for k in range(11):
        up, down = math.ldexp(1.0, 1 << k) if k < 10 else math.inf, math.ldexp(1.0, -(1 << k))
        factor = torch.where(is_negative, one * down, one * up)
        power = power * torch.where((size >> k) & 1 != 0, factor, one)
    return power


def _exponent(size: Tensor) -> Tensor:
    """Of float64 above 0, the whole number e with ``2 ** e <= size < 2 ** (e + 1)``."""
    near = torch.log2(size).floor().clamp(-1074, 1023).to(torch.int64)
    near = torch.where(_power_of_two(near) > size, near - 1, near)
    return torch.where((near < 1023) & (_power_of_two(near + 1) <= size), near + 1, near)


@decomposes(aten.frexp.Tensor)
def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """The mantissa from a half up to 1, and the exponent of 2."""
    wide = x.double()
    is_number = wide.isfinite() & (wide != 0)
    size = torch.where(is_number, wide.abs(), 1.0)
    exponent = torch.where(is_number, _exponent(size) + 1, 0)
    half = exponent // 2  # of the least numbers the inverse power is no number
    mantissa = wide * _power_of_two(-half) * _power_of_two(half - exponent)
    return torch.where(is_number, mantissa, wide).to(x.dtype), exponent.to(torch.int32)


@decomposes(aten.nextafter.default)
def nextafter(x: Tensor, y: Tensor) -> Tensor:
    """Steps are exact in float64: half as wide below a power of two as above it."""
    info = torch.finfo(x.dtype)
    wide, goal = x.double(), y.double()
    outward = (goal > wide) == (wide > 0)
    size = wide.abs().clamp(max=info.max)
    digits = round(-math.log2(info.eps))
    least = info.smallest_normal * info.eps
    exponent = _exponent(size.clamp(min=info.tiny))
    is_power = (_power_of_two(exponent) == size) & ~outward & (size > info.tiny)
    step = _power_of_two(exponent - digits - is_power.to(torch.int64)).clamp(min=least)
    moved = torch.where(outward, size + step, torch.where(wide.isinf(), size, size - step))
    moved = torch.copysign(torch.where(moved > info.max, math.inf, moved), wide)
    first = torch.copysign(torch.full_like(wide, least), goal)
    moved = torch.where(wide == 0, first, moved)
    stays = (wide == goal) | (wide.isinf() & outward)
    moved = torch.where(stays, torch.where(wide == goal, goal, wide), moved)
    return torch.where(wide.isnan() | goal.isnan(), math.nan, moved).to(x.dtype)


@decomposes(aten.lcm.default)
def lcm(a: Tensor, b: Tensor) -> Tensor:
    """The least common multiple; that of 0 is 0. What is too large wraps as integers of C do."""
    dtype = torch.result_type(a, b)
    wide = torch.promote_types(dtype, torch.int32)
    a, b = a.to(wide), b.to(wide)
    parts = torch.div(a, torch.gcd(a, b).clamp(min=1), rounding_mode="trunc")
    return (parts * b).abs().to(dtype)


# -- scans ---------------------------------------------------------------------------------------
def _scanned(
    parts: tuple[Tensor, ...],
    dim: int,
    combine: Callable[[tuple[Tensor, ...], tuple[Tensor, ...]], tuple[Tensor, ...]],
) -> tuple[Tensor, ...]:
    """All prefixes along an axis by doubling: of what stands before and what is there."""
    size, step = parts[0].shape[dim], 1
    while step < size:
        before = tuple([p.narrow(dim, 0, size - step) for p in parts])
        here = tuple([p.narrow(dim, step, size - step) for p in parts])
        made = combine(before, here)
        parts = tuple(
            [torch.cat([p.narrow(dim, 0, step), m], dim) for p, m in zip(parts, made, strict=True)]
        )
        step *= 2
    return parts


@decomposes(aten.logcumsumexp.default)
def logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Of float32 in float64, as errors of the elements before add up."""
    if x.ndim == 0:
        return x
    wide = x.double() if x.dtype == torch.float32 else x
    if not isinstance(x.shape[dim], int):
        return _logcumsumexp_of_any_size(wide, dim % x.ndim).to(x.dtype)
    (result,) = _scanned((wide,), dim % x.ndim, lambda a, b: (torch.logaddexp(a[0], b[0]),))
    return result.to(x.dtype)


def _logcumsumexp_of_any_size(x: Tensor, dim: int) -> Tensor:
    """How often doubling goes on depends on the size. Where that has a name, each prefix is summed
    by itself, relative to its largest element: n * n elements for n."""
    last = x.movedim(dim, -1)
    largest = last.cummax(-1).values
    finite = torch.where(largest.isinf(), 0.0, largest).unsqueeze(-1)
    places = torch.arange(last.shape[-1])
    is_before = places.unsqueeze(0) <= places.unsqueeze(1)
    terms = torch.where(is_before, (last.unsqueeze(-2) - finite).exp(), 0.0)
    return (terms.sum(-1).log() + finite.squeeze(-1)).movedim(-1, dim)


# -- order statistics ----------------------------------------------------------------------------
@decomposes(aten.median.dim)
def median(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower of the two in the middle; NaN where there is one."""
    if x.ndim == 0:
        return x, torch.zeros_like(x, dtype=torch.int64)
    value, place = torch.kthvalue(x, (x.shape[dim] + 1) // 2, dim, True)
    if x.is_floating_point():
        missing = x.isnan()
        any_missing = missing.any(dim, keepdim=True)
        first = missing.to(torch.uint8).argmax(dim, keepdim=True)
        value = torch.where(any_missing, torch.full_like(value, math.nan), value)
        place = torch.where(any_missing, first, place)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@decomposes(aten.nanmedian.dim)
def nanmedian(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Of the numbers; NaN where there are none. NaN are sorted behind all numbers."""
    if x.ndim == 0 or not x.is_floating_point():
        return median(x, dim, keepdim)
    values, places = torch.sort(x, dim=dim, stable=True)
    count = (~x.isnan()).sum(dim, keepdim=True)
    middle = ((count - 1) // 2).clamp(min=0)
    value, place = values.gather(dim, middle), places.gather(dim, middle)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


@decomposes(aten.median.default)
def median_of_all(x: Tensor) -> Tensor:
    return median(x.reshape(-1))[0]


@decomposes(aten.nanmedian.default)
def nanmedian_of_all(x: Tensor) -> Tensor:
    return nanmedian(x.reshape(-1))[0]


# -- writing at places ---------------------------------------------------------------------------
@decomposes(aten.slice_scatter.default)
def slice_scatter(
    x: Tensor,
    source: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """What stays in front, the source, what stays behind: moves of whole pieces, where torch looks
    each element up. With a step torch's own; where data tell the bounds, elements are looked up."""
    if free_unbacked_symbols([b for b in (start, end) if b is not None]):
        return _scattered(x, source, dim, start, end, step)
    if step != 1:
        result: Tensor = _STEPWISE(x, source, dim, start, end, step)
        return result
    if start is not None and start < 0 and isinstance(x.shape[dim], torch.SymInt):
        start = torch.sym_max(x.shape[dim] + start, 0)  # the axis may be shorter
    front = aten.slice.Tensor(x, dim, 0, 0 if start is None else start)
    first = front.shape[dim] + source.shape[dim]
    behind = x.narrow(dim, first, x.shape[dim] - first)
    parts = [front, source, behind]
    parts = [p for p in parts if not (isinstance(p.shape[dim], int) and p.shape[dim] == 0)]
    return torch.cat(parts, dim) if len(parts) > 1 else (parts or [x])[0].clone()


def _scattered(
    x: Tensor, source: Tensor, dim: int, start: int | None, end: int | None, step: int
) -> Tensor:
    size = x.shape[dim]

    def bound(value: int | None, absent: int) -> Tensor:
        return _place(absent if value is None else value, size).clamp(0, size)

    begin = bound(start, 0)
    reach = bound(end, size) - begin
    count = ((reach + (step - 1)) // step).clamp(min=0)
    told = f"{OF_SIZES}of a slice as large as what it is set to"
    aten._assert_async.msg(count == source.shape[dim], told)
    place = torch.arange(size) - begin
    inside = (place >= 0) & (place < reach) & (place % step == 0)
    one = [1 if d == dim % x.ndim else n for d, n in enumerate(x.shape)]
    some = torch.cat([source.to(x.dtype), x.new_zeros(one)], dim)  # there may be none
    found = some.index_select(dim, torch.where(inside, place // step, 0))
    return torch.where(_along(inside, x, dim), found, x)


def _place(number: int, size: int) -> Tensor:
    """A number as a place on an axis, counted from its end where it is negative."""
    given = torch.full((), number, dtype=torch.int64)
    return torch.where(given < 0, given + size, given)


def _along(row: Tensor, x: Tensor, dim: int) -> Tensor:
    """A vector that broadcasts along an axis of ``x``."""
    return row.reshape([-1] + [1] * (x.ndim - 1 - dim % x.ndim))


@decomposes(aten.select_scatter.default)
def select_scatter(x: Tensor, source: Tensor, dim: int, index: int) -> Tensor:
    """The source at one place of an axis; torch's own asks which place it is."""
    if not free_unbacked_symbols([index]):
        result: Tensor = _AT_ONE_PLACE(x, source, dim, index)
        return result
    size = x.shape[dim]
    is_there = _along(torch.arange(size) == _place(index, size), x, dim)
    return torch.where(is_there, source.unsqueeze(dim).to(x.dtype), x)


@decomposes(aten.pad_sequence.default)
def pad_sequence(
    sequences: Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Each as long as the longest; torch's own compares them in Python."""
    most = reduce(torch.sym_max, [x.shape[0] for x in sequences])
    rows = []
    for x in sequences:
        widths = [0, 0] * (x.ndim - 1)
        more = most - x.shape[0]
        widths += [0, more] if padding_side == "right" else [more, 0]
        rows.append(torch.nn.functional.pad(x, widths, value=padding_value))
    return torch.stack(rows, 0 if batch_first else 1)


@decomposes(aten.masked_scatter.default)
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements of ``source`` in order, one for each place of the mask."""
    x, mask = torch.broadcast_tensors(x, mask)
    flat = mask.reshape(-1)
    number = (flat.to(torch.int64).cumsum(0) - 1).clamp(min=0, max=source.numel() - 1)
    return torch.where(mask, source.reshape(-1)[number].reshape(x.shape), x)


@decomposes(aten.put.default)
def put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """At places of the elements in a row."""
    flat, places = x.reshape(-1), index.reshape(-1)
    return flat.index_put((places,), source.reshape(-1), accumulate).reshape(x.shape)


@decomposes(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """Places count from the end where they are negative; those of index_copy, which torch's
    decomposition is made of, must not be."""
    row = x.reshape(1) if not x.ndim else x
    one = value.to(x.dtype) if isinstance(value, Tensor) else torch.full((), value, dtype=x.dtype)
    places = [None] * (dim % row.ndim) + [index]
    result: Tensor = aten.index_put.default(row, places, one)
    return result.reshape(x.shape)


@decomposes(aten.take.default)
def take(x: Tensor, index: Tensor) -> Tensor:
    """At places of the elements in a row."""
    result: Tensor = aten.index.Tensor(x.reshape(-1), [index])
    return result


@decomposes(aten.as_strided.default, aten.as_strided_copy.default)
def as_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Elements of the memory, where x is all of that."""
    return _in_memory(x).reshape(-1)[_places(x, size, stride, storage_offset)]


@decomposes(aten.as_strided_scatter.default)
def as_strided_scatter(
    x: Tensor,
    src: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    places, kept = _places(x, size, stride, storage_offset), _in_memory(x)
    changed = kept.reshape(-1).index_put((places,), src).reshape(kept.shape)
    order = _order_in_memory(x)
    return changed.permute([order.index(d) for d in range(x.ndim)])


def _order_in_memory(x: Tensor) -> list[int]:
    """The dims, those of the longest strides first; as they are where strides are named sizes."""
    strides = x.stride()
    if not all(isinstance(n, int) for n in (*strides, *x.shape)):
        return list(range(x.ndim))
    return sorted(range(x.ndim), key=lambda d: (-strides[d], -x.shape[d], d))


def _in_memory(x: Tensor) -> Tensor:
    """A tensor whose dims are in the order of its memory, of which it has all elements."""
    if x.is_contiguous():
        return x
    kept = x.permute(_order_in_memory(x))
    if not kept.is_contiguous():
        raise FrontendError(
            "as_strided of a tensor that is a part of its memory reads that by its layout, which a "
            "compiled model does not have; call .contiguous() first, or index."
        )
    return kept


def _places(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> Tensor:
    lowest = 0 if storage_offset is None else storage_offset - int(x.storage_offset())
    highest = lowest + sum([(n - 1) * step for n, step in zip(size, stride, strict=True)])
    is_empty = any([statically_known_true(n == 0) for n in size])
    outside = statically_known_true(lowest < 0) or statically_known_true(highest >= x.numel())
    if outside and not is_empty:
        raise FrontendError(
            f"as_strided reads the places {lowest} to {highest} of a tensor of {x.numel()} "
            "elements: what lies around it in memory a compiled model does not have. Take it of "
            "the whole tensor, or index."
        )
    places = torch.full((1,) * len(size), lowest)
    for d, (extent, step) in enumerate(zip(size, stride, strict=True)):
        along = torch.arange(extent) * step
        places = places + along.reshape([-1 if i == d else 1 for i in range(len(size))])
    return places


@decomposes(aten.index_reduce.default)
def index_reduce(
    x: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if not source.ndim:
        x1, source1, places1 = (a.reshape(1) for a in (x, source, index))
        one = x1.scatter_reduce(0, places1, source1, reduce, include_self=include_self)
        return one.reshape(x.shape)
    shape = [1] * source.ndim
    shape[dim] = -1
    places = index.reshape(shape).expand(source.shape)
    return x.scatter_reduce(dim, places, source, reduce, include_self=include_self)


@decomposes(aten.diagonal_scatter.default)
def diagonal_scatter(
    x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    apart = x.movedim((dim1, dim2), (0, 1))
    row = torch.arange(src.shape[-1], device=x.device)
    places = (row + max(-offset, 0), row + max(offset, 0))
    written = apart.index_put(places, src.movedim(-1, 0))
    return written.movedim((0, 1), (dim1, dim2))


@decomposes(aten.embedding_renorm.default)
def embedding_renorm(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The rows that are looked up, not longer than allowed."""
    norm = torch.linalg.vector_norm(weight, norm_type, 1, keepdim=True)
    asked = torch.zeros(weight.shape[0], dtype=torch.bool, device=weight.device)
    asked = asked.index_fill(0, indices.reshape(-1), True).unsqueeze(1)
    return torch.where(asked & (norm > max_norm), weight * (max_norm / (norm + 1e-7)), weight)


# -- bags of embeddings --------------------------------------------------------------------------
@decomposes(*FIRST_RESULT)
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Modes 0, 1 and 2 are sum, mean and max. Bag i begins at offset i; one without rows is 0."""
    bags = offsets.shape[0] - int(include_last_offset)
    starts = offsets[:bags]
    element = torch.arange(indices.shape[0], device=indices.device, dtype=starts.dtype)
    bag = searchsorted(starts, element, right=True) - 1
    rows = weight.index_select(0, indices)
    counted = torch.ones_like(bag)
    if padding_idx >= 0:
        counted = (indices != padding_idx).to(bag.dtype)
    count = torch.zeros(bags, dtype=bag.dtype, device=bag.device).index_add(0, bag, counted)
    size = (bags, weight.shape[1])
    if mode == 2:
        least = torch.full(size, -math.inf, dtype=rows.dtype, device=rows.device)
        if padding_idx >= 0:
            rows = torch.where(counted.unsqueeze(-1) > 0, rows, -math.inf)
        places = bag.unsqueeze(-1).expand(rows.shape)
        largest = least.scatter_reduce(0, places, rows, "amax")
        result = torch.where(count.unsqueeze(-1) > 0, largest, 0.0)
    else:
        if per_sample_weights is not None:
            rows = rows * per_sample_weights.unsqueeze(-1)
        if padding_idx >= 0:
            rows = torch.where(counted.unsqueeze(-1) > 0, rows, 0.0)
        result = torch.zeros(size, dtype=rows.dtype, device=rows.device).index_add(0, bag, rows)
        if mode == 1:
            result = result / count.clamp(min=1).unsqueeze(-1).to(result.dtype)
    return result, bag, count, count

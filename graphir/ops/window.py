"""Rows of the operators with sliding windows: convolutions and pooling, one to three spatial dims.

Activations are ``(batch, channels, spatial...)``, or with ``channels_last`` ``(batch, spatial...,
channels)``; weights are ``(out, in / groups, kernel...)`` always (a transposed convolution's are
``(in, out / groups, kernel...)``). ``padding`` is (before, after) of each spatial dim in turn.
``out_dtype`` of ``conv`` is that of ``matmul``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...tensorir.expr import Expr, IntImm
from ...tensorir.operators.pool import pool_extent
from ...tensorir.operators.window import arranged, parts_of, window_extent
from ..dim import dim_equal, fold_dim, print_dim, static_value
from ..expr import Call
from ..op import REQUIRED, Op, attr, register
from ..type import TensorType, Type
from .matmul import result_dtype_of
from .operands import (
    by_operator,
    describe,
    fail,
    require_float,
    require_numbers,
    same_dtype,
    tensor,
    tensors,
)


def ints(call: Call, key: str, count: int, least: int) -> tuple[int, ...]:
    """An attribute of ``count`` ints of at least ``least``."""
    value = attr(call, key)
    if (
        not isinstance(value, (tuple, list))
        or len(value) != count
        or any(not isinstance(v, int) or isinstance(v, bool) or v < least for v in value)
    ):
        raise fail(call, f"{key}={value!r}", f"{count} ints of at least {least}")
    return tuple(value)


def _spatial_rank(call: Call, kind: TensorType) -> int:
    if not 3 <= kind.ndim <= 5:
        raise fail(call, f"x has {kind.ndim} dims", "a batch, channels, and 1 to 3 spatial dims")
    return kind.ndim - 2


def _result(
    call: Call, batch: Expr, channels: Expr, spatial: Sequence[Expr], key: str = "channels_last"
) -> TensorType:
    for d in spatial:
        size = static_value(d)
        if size is not None and size < 1:
            raise fail(call, f"a window does not fit: an extent of {size}", "a smaller kernel")
    last = attr(call, key)
    if last is None:
        last = attr(call, "channels_last")
    shape = arranged(batch, channels, [fold_dim(d) for d in spatial], last=bool(last))
    return TensorType(shape, tensor(call, 0).dtype)


def _check_weight(call: Call, kinds: Sequence[TensorType], outputs: Expr) -> None:
    x, w = kinds[:2]
    if w.ndim != x.ndim:
        raise fail(call, "the ranks of x and w differ", "a weight (out, in / groups, kernel...)")
    if any(static_value(k) is None for k in w.shape):
        raise fail(call, "the weight has a symbolic dim", "a weight of static shape")
    if len(kinds) == 3 and (kinds[2].ndim != 1 or not dim_equal(kinds[2].shape[0], outputs)):
        raise fail(call, "the bias does not fit", f"bias ({print_dim(outputs)},)")


def _groups(call: Call, *divided: Expr) -> int:
    groups = attr(call, "groups")
    sizes = [static_value(d) for d in divided]
    if not isinstance(groups, int) or groups < 1 or any(s is None or s % groups for s in sizes):
        raise fail(call, f"groups={groups!r}", "an int that divides the channels")
    return groups


def _conv(call: Call) -> Type:
    kinds = tensors(call)
    require_numbers(call, kinds)
    dtype = result_dtype_of(call, same_dtype(call, kinds[:2]))
    x, w = kinds[:2]
    if len(kinds) == 3 and kinds[2].dtype is not dtype:
        raise fail(
            call,
            "the operands have different dtypes",
            f"a bias of {dtype}, the dtype of the result; cast with R.astype",
        )
    n = _spatial_rank(call, x)
    _check_weight(call, kinds, w.shape[0] if w.ndim else IntImm(0))
    strides, dilation = ints(call, "strides", n, 1), ints(call, "dilation", n, 1)
    padding = ints(call, "padding", 2 * n, 0)
    batch, channels, spatial = parts_of(x.shape, last=bool(attr(call, "channels_last")))
    groups = _groups(call, w.shape[0])
    own = static_value(w.shape[1])
    if not dim_equal(channels, IntImm((own or 0) * groups)):
        raise fail(
            call,
            f"x has {print_dim(channels)} channels, and w takes {own} in each of {groups} groups",
            "channels = w.shape[1] * groups",
        )
    extents = [
        window_extent(s, k, strides[d], padding[2 * d], padding[2 * d + 1], dilation[d])
        for d, (s, k) in enumerate(zip(spatial, w.shape[2:], strict=True))
    ]
    made = _result(call, batch, w.shape[0], extents, "out_channels_last")
    return TensorType(made.shape, dtype)


def _conv_transpose(call: Call) -> Type:
    kinds = tensors(call)
    require_numbers(call, kinds)
    same_dtype(call, kinds)
    x, w = kinds[:2]
    n = _spatial_rank(call, x)
    groups = attr(call, "groups")
    batch, channels, spatial = parts_of(x.shape, last=bool(attr(call, "channels_last")))
    _groups(call, channels)
    if w.ndim != x.ndim or not dim_equal(channels, w.shape[0]):
        raise fail(call, "the weight does not fit", "a weight (in, out / groups, kernel...)")
    outputs = IntImm((static_value(w.shape[1]) or 0) * groups)
    _check_weight(call, kinds, outputs)
    strides, dilation = ints(call, "strides", n, 1), ints(call, "dilation", n, 1)
    padding, extra = ints(call, "padding", 2 * n, 0), ints(call, "output_padding", n, 0)
    extents = []
    for d, (size, k) in enumerate(zip(spatial, w.shape[2:], strict=True)):
        reach = ((static_value(k) or 1) - 1) * dilation[d] + extra[d] + 1
        reach -= padding[2 * d] + padding[2 * d + 1]
        if (
            min(padding[2 * d : 2 * d + 2]) < 0
            or max(padding[2 * d : 2 * d + 2]) > ((static_value(k) or 1) - 1) * dilation[d]
        ):
            raise fail(call, f"padding={padding!r}", "at most (kernel - 1) * dilation")
        extents.append((size - 1) * strides[d] + reach)
    return _result(call, batch, outputs, extents)


_WINDOW = {"strides": REQUIRED, "padding": REQUIRED, "dilation": REQUIRED, "groups": 1}
register(
    Op(
        "conv",
        ("x", "w", "bias"),
        _conv,
        by_operator(),
        {**_WINDOW, "channels_last": False, "out_channels_last": None, "out_dtype": ""},
        optional=1,
    )
)
register(
    Op(
        "conv_transpose",
        ("x", "w", "bias"),
        _conv_transpose,
        by_operator(),
        {**_WINDOW, "output_padding": REQUIRED, "channels_last": False},
        optional=1,
    )
)


def _im2col(call: Call) -> Type:
    x = tensor(call, 0)
    n = _spatial_rank(call, x)
    kernel, strides = ints(call, "kernel", n, 1), ints(call, "strides", n, 1)
    padding, dilation = ints(call, "padding", 2 * n, 0), ints(call, "dilation", n, 1)
    batch, channels, spatial = parts_of(x.shape, last=True)
    extents = [
        window_extent(s, IntImm(k), strides[d], padding[2 * d], padding[2 * d + 1], dilation[d])
        for d, (s, k) in enumerate(zip(spatial, kernel, strict=True))
    ]
    sizes = [IntImm(k) for k in kernel]
    if any((static_value(d) or 1) < 1 for d in extents):
        raise fail(call, "a window does not fit", "a smaller kernel")
    return TensorType((batch, *[fold_dim(d) for d in extents], *sizes, channels), x.dtype)


register(
    Op(
        "im2col",
        ("x",),
        _im2col,
        by_operator(),
        {
            **dict.fromkeys(("kernel", "strides", "padding", "dilation"), REQUIRED),
            "pad_value": 0.0,
        },
    )
)


# -- pooling -----------------------------------------------------------------------------------
def _pool(call: Call) -> Type:
    x = tensor(call, 0)
    n = _spatial_rank(call, x)
    require_numbers(call, [x])
    kernel, strides = ints(call, "kernel", n, 1), ints(call, "strides", n, 1)
    padding = ints(call, "padding", 2 * n, 0)
    dilation = ints(call, "dilation", n, 1) if call.op == "max_pool" else (1,) * n
    batch, channels, spatial = parts_of(x.shape, last=bool(attr(call, "channels_last")))
    extents: list[Expr] = []
    for d, size in enumerate(spatial):
        before, after = padding[2 * d : 2 * d + 2]
        if max(before, after) > (kernel[d] - 1) * dilation[d]:
            raise fail(call, f"padding={padding!r}", "less than the kernel")
        extent, _ = pool_extent(
            size, kernel[d], strides[d], before, after, dilation[d],
            ceil_mode=bool(attr(call, "ceil_mode")),
        )  # fmt: skip
        extents.append(extent)
    return _result(call, batch, channels, extents)


def _adaptive_pool(call: Call) -> Type:
    x = tensor(call, 0)
    n = _spatial_rank(call, x)
    require_float(call, [x])
    out = ints(call, "output_size", n, 1)
    if attr(call, "mode") not in ("avg", "max"):
        raise fail(call, f"mode={attr(call, 'mode')!r}", "avg or max")
    batch, channels, spatial = parts_of(x.shape, last=bool(attr(call, "channels_last")))
    if any(o != 1 and static_value(s) is None for s, o in zip(spatial, out, strict=True)):
        raise fail(call, f"{describe(x)} has symbolic spatial dims", "static ones, or output 1")
    return _result(call, batch, channels, [IntImm(o) for o in out])


_POOL = {"kernel": REQUIRED, "strides": REQUIRED, "padding": REQUIRED, "ceil_mode": False}
register(
    Op(
        "max_pool",
        ("x",),
        _pool,
        by_operator(),
        {**_POOL, "dilation": REQUIRED, "channels_last": False},
    )
)
register(
    Op(
        "avg_pool",
        ("x",),
        _pool,
        by_operator(),
        {**_POOL, "count_include_pad": True, "divisor": None, "channels_last": False},
    )
)
register(
    Op(
        "adaptive_pool",
        ("x",),
        _adaptive_pool,
        by_operator(),
        {"output_size": REQUIRED, "mode": REQUIRED, "channels_last": False},
    )
)

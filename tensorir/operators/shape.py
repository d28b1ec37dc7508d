"""Operators that move elements: one block each that reads every output element from its place.

Index expressions are simplified under the ranges of the output's axes, so that a reshape of dims it
keeps reads them by the axis itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...support.errors import ComputeError
from ..arith import Analyzer
from ..buffer import Range
from ..expr import INDEX, BufferLoad, Expr, IntImm, Var, all_of, const, is_const
from ..intrinsics import call_intrin
from ..te.compute import ShapeLike, Tensor, as_shape, compute
from .elementwise import broadcast_load
from .reduce import normal_axes


def _analyzer(indices: Sequence[Var], shape: Sequence[Expr]) -> Analyzer:
    analyzer = Analyzer()
    for i, extent in zip(indices, shape, strict=True):
        analyzer.bind(i, Range(IntImm(0, INDEX), extent))
    return analyzer


def _product(dims: Sequence[Expr]) -> Expr:
    result: Expr = IntImm(1, INDEX)
    for d in dims:
        result = result * d
    return result


def _view(name: str, x: Tensor, shape: tuple[Expr, ...]) -> Tensor:
    """``x`` under another shape of as many elements, in row-major order."""

    def element(*indices: Var) -> Expr:
        analyzer = _analyzer(indices, shape)
        flat: Expr = IntImm(0, INDEX)
        for i, extent in zip(indices, shape, strict=True):
            flat = flat * extent + i
        own: list[Expr] = []
        for d in range(x.ndim):
            inner = _product(x.shape[d + 1 :])
            index = flat // inner
            own.append(analyzer.simplify(index % x.shape[d] if d else index))
        return BufferLoad(x, tuple(own))

    return compute(shape, element, name)


def reshape(x: Tensor, shape: ShapeLike) -> Tensor:
    """``x`` under another shape; one dim may be -1: what the others leave.

    Raises ComputeError for a second -1, or constants whose products differ.
    """
    dims = list(as_shape(shape))
    open_dims = [i for i, d in enumerate(dims) if isinstance(d, IntImm) and d.value == -1]
    if len(open_dims) > 1:
        raise ComputeError("reshape: expected at most one dim of -1.")
    total = _product(x.shape)
    if open_dims:
        known = _product([d for i, d in enumerate(dims) if i != open_dims[0]])
        dims[open_dims[0]] = Analyzer().simplify(total // known)
    count = _product(dims)
    if isinstance(total, IntImm) and isinstance(count, IntImm) and total.value != count.value:
        raise ComputeError(f"reshape: {total.value} elements do not fill a shape of {count.value}.")
    return _view("reshape", x, tuple(dims))


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dims from ``start_dim`` to ``end_dim`` (included) as one; a scalar becomes a vector of
    1.
    """
    if x.ndim == 0:
        return _view("flatten", x, (IntImm(1, INDEX),))
    (start,), (end,) = normal_axes(start_dim, x.ndim), normal_axes(end_dim, x.ndim)
    if start > end:
        raise ComputeError(f"flatten: start_dim={start} is after end_dim={end}.")
    merged = _product(x.shape[start : end + 1])
    return _view("flatten", x, (*x.shape[:start], merged, *x.shape[end + 1 :]))


def squeeze(x: Tensor, axis: int | Sequence[int] | None = None) -> Tensor:
    """``x`` without these dims of 1 (None: without all); raises ComputeError for a dim of another
    size.
    """
    ones = [d for d, s in enumerate(x.shape) if isinstance(s, IntImm) and s.value == 1]
    axes = ones if axis is None else list(normal_axes(axis, x.ndim))
    for d in axes:
        if d not in ones:
            raise ComputeError(f"squeeze: expected dim {d} to be 1.")
    return _view("squeeze", x, tuple([s for d, s in enumerate(x.shape) if d not in axes]))


def expand_dims(x: Tensor, axis: int | Sequence[int]) -> Tensor:
    """``x`` with dims of 1 inserted so that they stand at ``axis`` of the result."""
    count = 1 if isinstance(axis, int) else len(axis)
    dims = list(x.shape)
    for d in normal_axes(axis, x.ndim + count):
        dims.insert(d, IntImm(1, INDEX))
    return _view("expand_dims", x, tuple(dims))


def permute_dims(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """``result[..., i_a, ...] = x``: dim ``d`` of the result is dim ``axes[d]`` of ``x``; None
    reverses.
    """
    order = list(reversed(range(x.ndim))) if axes is None else [a % x.ndim for a in axes]
    if sorted(order) != list(range(x.ndim)):
        raise ComputeError(
            f"permute_dims: expected a permutation of {x.ndim} axes, found {list(axes or ())}."
        )

    def element(*indices: Var) -> Expr:
        return BufferLoad(x, tuple([indices[order.index(d)] for d in range(x.ndim)]))

    return compute([x.shape[a] for a in order], element, "permute_dims")


transpose = permute_dims


def broadcast_to(x: Tensor, shape: ShapeLike) -> Tensor:
    """``x`` repeated along its dims of 1, and along new leading ones, to ``shape``."""
    dims = as_shape(shape)
    if len(dims) < x.ndim:
        raise ComputeError(f"broadcast_to: {x.ndim} dimensions do not broadcast to {len(dims)}.")
    for own, wanted in zip(reversed(x.shape), reversed(dims), strict=False):
        if (
            isinstance(own, IntImm)
            and isinstance(wanted, IntImm)
            and own.value not in (1, wanted.value)
        ):
            raise ComputeError(
                f"broadcast_to: a dim of {own.value} does not broadcast to {wanted.value}."
            )
    return compute(dims, lambda *indices: broadcast_load(x, indices, dims), "broadcast_to")


def concat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after another along ``axis``. Raises ComputeError where there is none, or
    ranks or dtypes differ.
    """
    if not tensors:
        raise ComputeError("concat: expected at least one tensor.")
    first = tensors[0]
    if any(t.ndim != first.ndim or t.dtype is not first.dtype for t in tensors):
        raise ComputeError("concat: expected tensors of one rank and dtype.")
    (d,) = normal_axes(axis, first.ndim)
    ends: list[Expr] = []
    total: Expr = IntImm(0, INDEX)
    for t in tensors:
        total = total + t.shape[d]
        ends.append(total)

    def element(*indices: Var) -> Expr:
        def load(n: int) -> Expr:
            own: Expr = indices[d] - ends[n - 1] if n else indices[d]
            if is_const(tensors[n].shape[d], 1):
                own = IntImm(0, INDEX)  # so that what reads it runs along the other axes alone
            return BufferLoad(tensors[n], (*indices[:d], own, *indices[d + 1 :]))

        result = load(len(tensors) - 1)
        for n in range(len(tensors) - 2, -1, -1):
            result = call_intrin("if_then_else", indices[d] < ends[n], load(n), result)
        return result

    return compute((*first.shape[:d], total, *first.shape[d + 1 :]), element, "concat")


def interleave(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of the last axes in turn: ``result[..., k * i + n] = tensors[n][..., i]`` of k
    tensors. What ``stack`` along a new last axis gives, seen with one axis less. Raises
    ComputeError where there is none, they have no axes, or ranks or dtypes differ.
    """
    if not tensors or not tensors[0].ndim:
        raise ComputeError("interleave: expected at least one tensor with an axis.")
    first, count = tensors[0], len(tensors)
    if any(t.ndim != first.ndim or t.dtype is not first.dtype for t in tensors):
        raise ComputeError("interleave: expected tensors of one rank and dtype.")

    def element(*indices: Var) -> Expr:
        *outer, last = indices
        place = last // count
        loads = [BufferLoad(t, (*outer, place)) for t in tensors]
        result: Expr = loads[-1]
        for n in range(count - 2, -1, -1):
            result = call_intrin("if_then_else", last % count < n + 1, loads[n], result)
        return result

    return compute((*first.shape[:-1], first.shape[-1] * count), element, "interleave")


def strided_slice(
    x: Tensor, begin: Sequence[int | Expr], strides: Sequence[int], shape: ShapeLike
) -> Tensor:
    """``result[i] = x[begin + i * strides]`` for each axis; ``shape`` is the result's."""
    dims = as_shape(shape)
    if not len(begin) == len(strides) == len(dims) == x.ndim:
        raise ComputeError(
            f"strided_slice: expected begin, strides and shape of {x.ndim} entries each."
        )

    def element(*indices: Var) -> Expr:
        return BufferLoad(
            x, tuple([i * s + b for i, s, b in zip(indices, strides, begin, strict=True)])
        )

    return compute(dims, element, "strided_slice")


def pad(x: Tensor, pad_width: Sequence[int], pad_value: float = 0.0) -> Tensor:
    """``x`` with ``pad_value`` around it; ``pad_width`` is (before, after) for each axis in turn,
    flat.

    Elements outside of ``x`` are never read. Raises ComputeError for a wrong number of widths or a
    negative one.
    """
    if len(pad_width) != 2 * x.ndim or any(w < 0 for w in pad_width):
        raise ComputeError(
            f"pad: expected {2 * x.ndim} widths of at least 0, found {list(pad_width)}."
        )
    before, after = pad_width[::2], pad_width[1::2]
    dims = [s + b + a for s, b, a in zip(x.shape, before, after, strict=True)]

    def element(*indices: Var) -> Expr:
        inside: list[Expr] = []
        for i, s, b, a in zip(indices, x.shape, before, after, strict=True):
            inside += [i >= b] if b else []
            inside += [i < s + b] if a else []
        load = BufferLoad(x, tuple([i - b for i, b in zip(indices, before, strict=True)]))
        return (
            call_intrin("if_then_else", all_of(inside), load, const(pad_value, x.dtype))
            if inside
            else load
        )

    return compute(dims, element, "pad")

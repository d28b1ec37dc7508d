"""Operators whose sizes data tell: what they give is gathered, element by element of named sizes.

    Slice(x, s, e)    ->  n = bind_size(max(0, clip(e) - clip(s)));  x at clip(s), clip(s) + 1, ...
    Reshape(x, s)     ->  a, b = bind_size(s[0]), bind_size(s[1]);   x at 0, 1, ... a b, as (a, b)

Sizes that cannot be (a shape of another number of elements, what does not broadcast) are refused
when the model runs: the size that is bound is -1 then (``data_sizes.valid``).
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from ...graphir.dim import dim_equal, fold_dim, is_nonnegative, product, static_value
from ...support.errors import FrontendError
from ...tensorir.expr import Expr, IntImm, floordiv
from .data_sizes import Entry, counted, dim_of, positions, size_of, term_of, valid
from .registry import Context, node_name
from .size_bounds import smaller
from .term import Term


def along(x: Term, axis: int, size: Expr, values: Term) -> Term:
    """A vector of ``size`` values as a tensor that broadcasts along an axis of ``x``."""
    return values.reshape(size, *[1] * (x.ndim - 1 - axis % x.ndim))


# -- Slice -----------------------------------------------------------------------------------------
def sliced(
    context: Context,
    node: NodeProto,
    x: Term,
    axis: int,
    bounds: tuple[Entry | None, Entry | None],
    step: int,
) -> Term:
    """An axis between bounds that are counted from its end where negative; None is that end."""
    size = x.shape[axis]
    known = _known_bounds(context, size, bounds) if step == 1 else None
    if known is not None:
        start, stop = known
        if static_value(start) == 0 and dim_equal(stop, size):
            return x
        count = _count(context, size, bounds, start, stop)
        places = positions(context, count)
        if static_value(start) != 0:
            places = places + counted(context, start)
        return x.op("take", places, axis=axis)
    first, last = bounds
    if step > 1 and last is None and (first is None or static_value_of(first) == 0):
        places = positions(context, fold_dim(floordiv(size + (step - 1), step))) * step
        return x.op("take", places, axis=axis)
    length = counted(context, size)
    low, high = (length * 0, length) if step > 0 else (length * 0 - 1, length - 1)
    begin, end = (None if b is None else _clipped(context, b, length, low, high) for b in bounds)
    begin = begin or (low if step > 0 else high)
    end = end or (high if step > 0 else low)
    reach = end - begin if step > 0 else begin - end
    steps = (reach + (abs(step) - 1)).floor_divide(abs(step)).op("maximum", 0)
    found = size_of(context, steps, node, 1)
    return x.op("take", positions(context, found) * step + begin, axis=axis)


def _known_bounds(
    context: Context, size: Expr, bounds: Sequence[Entry | None]
) -> tuple[Expr, Expr] | None:
    """Bounds as sizes from 0 to ``size``, where they are arithmetic of sizes alone."""
    found: list[Expr] = []
    for bound, absent in zip(bounds, (IntImm(0), size), strict=True):
        if bound is None:
            found.append(absent)
        elif isinstance(bound, IntImm) and bound.value < 0:
            found.append(context.size_or_none(size + bound.value))
        elif isinstance(bound, Expr) and context.is_size(bound):
            zero = static_value(bound) == 0
            whole = zero or dim_equal(bound, size)
            found.append(bound if whole else smaller(bound, size, context.at_most))
        else:
            return None
    return found[0], found[1]


def _count(
    context: Context, size: Expr, bounds: Sequence[Entry | None], start: Expr, stop: Expr
) -> Expr:
    """How many elements are between ``start`` and ``stop``, which the bounds came to; said so that
    [1:] and [:-1] are seen to be as many."""
    first, last = bounds
    if static_value(start) == 0:
        return stop
    if last is None and isinstance(first, IntImm) and first.value < 0:
        return smaller(IntImm(-first.value), size, context.at_most)
    if isinstance(first, Expr) and context.is_size(first):
        if isinstance(last, IntImm) and last.value < 0:
            stop = fold_dim(size + last.value)
        return context.size_or_none(stop - first)
    return context.size_or_none(stop - start)


def _clipped(context: Context, bound: Entry, length: Term, low: Term, high: Term) -> Term:
    place = term_of(context, bound)
    place = (place < 0).where(place + length, place)
    return place.op("maximum", low).op("minimum", high)


# -- Reshape, Expand -------------------------------------------------------------------------------
def reshaped(
    context: Context, node: NodeProto, x: Term, wanted: Sequence[Entry], *, allowzero: bool
) -> Term:
    """The elements in order under another shape, some sizes of which are data: there 0 copies one
    of the input, and -1 takes what is left."""
    own = x.shape
    total = counted(context, product(own))
    given: list[Entry] = []
    for i, entry in enumerate(wanted):
        copies = not allowzero and i < len(own)
        if isinstance(entry, Term) and copies:
            entry = entry.equals(0).where(counted(context, own[i]), entry)
        elif copies and static_value_of(entry) == 0:
            entry = own[i]
        given.append(entry)
    numbers = [term_of(context, e) for e in given]
    one = total * 0 + 1
    rest, open_ = one, one * 0
    for n in numbers:
        left = n.equals(-1)
        rest = rest * left.where(one, n)
        open_ = open_ + left.cast("int64")
    each = (total.op("floor_divide", rest.op("maximum", 1)),)
    sizes = [n.equals(-1).where(*each, n) for n in numbers]
    made = one
    for n in sizes:
        made = made * n
    fits = made.equals(total) & (open_ < 2)
    dims = [
        size_of(context, valid(n, fits), node, 1)
        if isinstance(e, Term) or static_value_of(e) == -1
        else e
        for n, e in zip(sizes, given, strict=True)
    ]
    places = positions(context, product(dims))
    return x.reshape(product(own)).op("take", places, axis=0).reshape(*dims)


def static_value_of(entry: Entry) -> int | None:
    return static_value(entry) if isinstance(entry, Expr) else None


def expanded(context: Context, node: NodeProto, x: Term, wanted: Sequence[Entry]) -> Term:
    """Broadcast both ways: a 1 in the wanted shape keeps the input's size."""
    width = max(x.ndim, len(wanted))
    x = x.reshape(*[1] * (width - x.ndim), *x.shape)
    dims: list[Expr] = []
    for axis, entry in enumerate([*[IntImm(1)] * (width - len(wanted)), *wanted]):
        own = x.shape[axis]
        if static_value(own) == 1 or static_value_of(entry) == 1:
            dims.append(own if static_value_of(entry) == 1 else dim_of(context, entry, node, 1))
            continue
        if isinstance(entry, Expr):
            dims.append(entry)
            continue
        length = counted(context, own)
        stays = entry.equals(1) | entry.equals(length)
        if static_value(own) is not None:
            size_of(context, valid(length, stays), node, 1)
            dims.append(own)
            continue
        wide = entry.equals(1).where(length, entry)
        size = size_of(context, valid(wide, stays | length.equals(1)), node, 1)
        x = x.op("take", positions(context, size).op("minimum", length - 1), axis=axis)
        dims.append(size)
    return x.expand(*dims)


# -- Pad -------------------------------------------------------------------------------------------
def padded(
    context: Context,
    node: NodeProto,
    x: Term,
    widths: dict[int, tuple[Entry, Entry]],
    mode: str,
    value: Term | None,
) -> Term:
    """Some axes with more elements before and after, or fewer."""
    for axis, (first, last) in widths.items():
        if static_value_of(first) == 0 and static_value_of(last) == 0:
            continue
        before, after = term_of(context, first), term_of(context, last)
        length = counted(context, x.shape[axis])
        size = _padded_size(x.shape[axis], first, last)
        if size is None:
            size = size_of(context, before + length + after, node, 1)
        places = positions(context, size) - before
        inside = (places >= 0) & (places < length)
        top = length - 1
        if mode == "wrap":
            places = places.op("floor_mod", length.op("maximum", 1))
        elif mode == "reflect":
            places = places.op("floor_mod", (top * 2).op("maximum", 1))
            places = places.op("minimum", top * 2 - places)
        x = x.op("take", places.op("maximum", 0).op("minimum", top), axis=axis)
        if mode == "constant":
            fill: Term | float = x.data(0) if value is None else value
            x = along(x, axis, size, inside).where(x, fill)
    return x


def _padded_size(size: Expr, first: Entry, last: Entry) -> Expr | None:
    """That of an axis with more elements; None where data say how many, or it may be fewer."""
    if isinstance(first, Term) or isinstance(last, Term):
        return None
    is_more = is_nonnegative(first) and is_nonnegative(last)
    return fold_dim(size + first + last) if is_more else None


# -- Range -----------------------------------------------------------------------------------------
def numbers(context: Context, node: NodeProto, start: Term, limit: Term, step: Term) -> Term:
    """From ``start`` up to ``limit``, by ``step``."""
    dtype = start.dtype
    if dtype.is_float:
        start, limit, step = (t.cast("float64") for t in (start, limit, step))
        count = ((limit - start) / step).op("ceil")
    else:
        start, limit, step = (t.cast("int64") for t in (start, limit, step))
        count = -(start - limit).op("floor_divide", step)
    runs = step.equals(0).op("logical_not")
    size = size_of(context, valid(count.op("maximum", 0).cast("int64"), runs), node)
    return (positions(context, size).cast(str(start.dtype)) * step + start).cast(str(dtype))


def steps_of_sizes(context: Context, start: Entry, limit: Entry, step: Entry) -> Expr | None:
    """How many numbers are between two sizes; None where that is no arithmetic of sizes."""
    if isinstance(start, Term) or isinstance(limit, Term) or not isinstance(step, IntImm):
        return None
    if step.value <= 0:
        return None
    reach = context.size_or_none(limit - start)
    return fold_dim((reach + (step.value - 1)) // step.value)


def split_at(
    context: Context, node: NodeProto, x: Term, axis: int, sizes: Sequence[Entry]
) -> list[Term]:
    """An axis in parts, which are as long as it is."""
    length, begin = counted(context, x.shape[axis]), counted(context, IntImm(0))
    terms = [term_of(context, s) for s in sizes]
    total = begin
    for t in terms:
        total = total + t
    found = []
    for entry, t in zip(sizes, terms, strict=True):
        size = size_of(context, valid(t, total.equals(length)), node, 1)
        found.append(x.op("take", positions(context, size) + begin, axis=axis))
        begin = begin + term_of(context, entry)
    return found


def triangle(context: Context, node: NodeProto, x: Term, diagonal: Term, *, upper: bool) -> Term:
    """The elements on one side of a diagonal, 0 elsewhere."""
    if x.ndim < 2:
        raise FrontendError(f"{node_name(node)}: expected a matrix, found {x.ndim} dims.")
    rows = along(x, -2, x.shape[-2], positions(context, x.shape[-2]) + diagonal)
    columns = positions(context, x.shape[-1])
    kept = rows <= columns if upper else rows >= columns
    return kept.where(x, x.data(0))

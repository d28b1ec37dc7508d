"""Shapes of ONNX: views, permutations, joins, cuts, pads, and values made of sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import NodeProto

from ...graphir.dim import fold_dim, print_shape, product, static_shape, static_value
from ...graphir.expr import Atom, Constant, Var, constant
from ...support.errors import FrontendError, TypeInferenceError
from ...tensorir.expr import Expr, IntImm, minimum
from ...tensorir.visitor import free_vars
from ..sizes_as_data import section
from .data_shapes import (
    expanded,
    numbers,
    padded,
    reshaped,
    sliced,
    split_at,
    steps_of_sizes,
    triangle,
)
from .data_sizes import Entry, counted, dims_of, entries, positions, term_of
from .registry import (
    MOST_ELEMENTS,
    MOST_SIZES,
    Context,
    Narrow,
    ShapeValue,
    Value,
    attribute,
    converts,
    node_name,
    parts_array,
)
from .term import Term

_LARGE = 1 << 31
"""Slice bounds from here on are beyond every size."""
_PAD_MODES = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}


# -- views -----------------------------------------------------------------------------------
@converts("Reshape")
def reshape(context: Context, node: NodeProto) -> Value:
    """0 copies a dim of the input (unless allowzero), -1 takes what is left."""
    value = context.required(node, 0)
    given = _reshape_dims(node) if context.opset < 5 else entries(context, node, 1) or ()
    sizes = context.sizes(value)
    if sizes is not None and len(given) <= 1:
        return ShapeValue(sizes.dims, scalar=not given)
    x = context.operand(node, 0)
    wanted = [d for d in given if isinstance(d, Expr)]
    if len(wanted) < len(given):
        zero = bool(attribute(node, "allowzero", 0))
        return reshaped(context, node, Term(context, x), given, allowzero=zero).atom
    own = context.type(x).shape
    dims: list[Expr] = []
    for i, d in enumerate(wanted):
        copies = isinstance(d, IntImm) and d.value == 0 and not attribute(node, "allowzero", 0)
        if copies and i >= len(own):
            raise FrontendError(
                f"{node_name(node)}: dim {i} is to be copied from an input of {len(own)} dims."
            )
        dims.append(own[i] if copies else d)
    known = [d.value for d in dims if isinstance(d, IntImm)]
    if min(known, default=0) < -1 or known.count(-1) > 1:
        raise FrontendError(
            f"{node_name(node)}: expected dims of 0 or more and at most one -1, found "
            f"{[str(d) for d in dims]}."
        )
    try:
        return context.reshape(x, dims)
    except TypeInferenceError:
        told = set(context.sizes_of_data.values()) & set(free_vars([*own, *dims]))
        is_open = -1 in known or any(static_value(d) is None for d in dims)
        if not context.binds_sizes or not told or not is_open:
            raise
    # Of sizes that data tell the number of elements is compared when the model runs.
    parts: list[Entry] = [*dims]
    named = [i for i, d in enumerate(dims) if static_value(d) is None]
    if -1 not in known and named:
        parts[named[0]] = counted(context, dims[named[0]])
    return reshaped(context, node, Term(context, x), parts, allowzero=True).atom


def _reshape_dims(node: NodeProto) -> tuple[Expr, ...]:
    return tuple([IntImm(int(d)) for d in attribute(node, "shape")])


@converts("Flatten")
def flatten(context: Context, node: NodeProto) -> Value:
    """To two dims: those before ``axis`` and those from it on."""
    x = context.operand(node, 0)
    shape = context.type(x).shape
    axis = int(attribute(node, "axis", 1))
    axis += len(shape) if axis < 0 else 0
    return context.reshape(x, [product(shape[:axis]), product(shape[axis:])])


@converts("Transpose")
def transpose(context: Context, node: NodeProto) -> Value:
    x = context.operand(node, 0)
    axes = attribute(node, "perm") or range(context.type(x).ndim - 1, -1, -1)
    return context.op("permute_dims", x, axes=tuple(axes))


def _axes(context: Context, node: NodeProto) -> list[int] | None:
    axes = attribute(node, "axes")
    return list(axes) if axes is not None else context.ints(node, 1)


@converts("Squeeze")
def squeeze(context: Context, node: NodeProto) -> Value:
    axes = _axes(context, node)
    sizes = context.sizes(context.required(node, 0))
    if sizes is not None and len(sizes.dims) == 1:
        return ShapeValue(sizes.dims, scalar=True)
    x = context.operand(node, 0)
    return context.op("squeeze", x, axis=tuple(axes) if axes is not None else None)


@converts("Unsqueeze")
def unsqueeze(context: Context, node: NodeProto) -> Value:
    axes = _axes(context, node)
    if axes is None:
        raise FrontendError(f"{node_name(node)}: no axes are given.")
    sizes = context.sizes(context.required(node, 0))
    if sizes is not None and sizes.scalar and len(axes) == 1:
        return ShapeValue(sizes.dims)
    return context.op("expand_dims", context.operand(node, 0), axis=tuple(axes))


@converts("Expand")
def expand(context: Context, node: NodeProto) -> Value:
    """Broadcasts both ways: a 1 in the wanted shape keeps the input's dim."""
    given = entries(context, node, 1) or []
    x = context.operand(node, 0)
    wanted = [d for d in given if isinstance(d, Expr)]
    if len(wanted) < len(given):
        return expanded(context, node, Term(context, x), given).atom
    own = list(context.type(x).shape)
    width = max(len(own), len(wanted))
    own = [IntImm(1)] * (width - len(own)) + own
    wanted = [IntImm(1)] * (width - len(wanted)) + wanted
    dims = [
        o if isinstance(w, IntImm) and w.value == 1 else w for o, w in zip(own, wanted, strict=True)
    ]
    return context.op("broadcast_to", x, context.shape(dims)) if dims else x


@converts("Tile")
def tile(context: Context, node: NodeProto) -> Value:
    """x[n] repeated r times is x[1, n] stretched to [r, n] and flattened, in each dim."""
    x = context.operand(node, 0)
    own = context.type(x).shape
    counts = dims_of(context, node, 1)
    if len(counts) != len(own):
        raise FrontendError(f"{node_name(node)}: {len(counts)} repeats for {len(own)} dims.")
    split = [d for size in own for d in (IntImm(1), size)]
    wide = [d for count, size in zip(counts, own, strict=True) for d in (count, size)]
    stretched = context.op("broadcast_to", context.reshape(x, split), context.shape(wide))
    return context.reshape(stretched, [a * b for a, b in zip(counts, own, strict=True)])


# -- joining and cutting ---------------------------------------------------------------------
@converts("Concat")
def concat(context: Context, node: NodeProto) -> Value:
    values = context.inputs(node)
    parts = context.all_sizes(values)
    if parts is not None and not any(p.scalar for p in parts):
        return ShapeValue(tuple([d for p in parts for d in p.dims]))
    tensors = [context.tensor(v, node_name(node)) for v in values]
    made = context.op("concat", *tensors, axis=int(attribute(node, "axis")))
    found = [_parts(context, v, t) for v, t in zip(values, tensors, strict=True)]
    known = [p for p in found if p is not None]
    if len(known) == len(found) and any(
        isinstance(t, Constant) or context.sizes(v) is not None or t in context.parts
        for v, t in zip(values, tensors, strict=True)
    ):
        context.parts[made] = parts_array([p for parts in known for p in parts])
    return made


def _parts(context: Context, value: Value, atom: Atom) -> list[Expr | Atom] | None:
    """The sizes in a vector, and scalars of those that are data; None where it is no short vector
    of sizes or of scales."""
    sizes = context.sizes(value)
    if sizes is not None:
        return None if sizes.scalar else list(sizes.dims)
    if isinstance(atom, Var) and atom in context.parts:
        return list(context.parts[atom]) if context.parts[atom].ndim == 1 else None
    kind = context.type(atom)
    count = static_value(kind.shape[0]) if kind.ndim == 1 else None
    if count is None or count > MOST_SIZES or kind.dtype not in ("int64", "float32"):
        return None
    if isinstance(atom, Constant):
        return [context.scalar(v.item(), kind.dtype) for v in context.array(atom)]
    return [Term(context, atom).at(0, i).atom for i in range(count)]


@converts("Slice")
def slice_(context: Context, node: NodeProto) -> Value:
    if context.opset < 10:
        found = [attribute(node, n) for n in ("starts", "ends", "axes")]
        starts, ends = (None if f is None else _numbers(f) for f in found[:2])
        axes, steps = found[2], None
    else:
        starts, ends = (entries(context, node, i) for i in (1, 2))
        axes, steps = (context.ints(node, i) for i in (3, 4))
    if starts is None or ends is None:
        raise FrontendError(f"{node_name(node)}: its starts or ends are missing.")
    axes = list(axes) if axes is not None else list(range(len(starts)))
    steps = list(steps) if steps is not None else [1] * len(starts)
    bounds = [
        (_bound(b, is_low=s > 0), _bound(e, is_low=s < 0))
        for b, e, s in zip(starts, ends, steps, strict=True)
    ]
    sizes = context.sizes(context.required(node, 0))
    if sizes is not None and not sizes.scalar:
        first = _known_bounds(bounds[0])
        if first is not None:
            return ShapeValue(sizes.dims[slice(*first, steps[0])])
    x = Term(context, context.operand(node, 0))
    for axis, both, step in zip(axes, bounds, steps, strict=True):
        known, is_static = _known_bounds(both), static_value(x.shape[axis]) is not None
        is_whole = known in ((None, None), (0, None)) and abs(step) == 1
        if known is not None and (is_static or is_whole):
            x = Term(context, _cut(context, x.atom, axis, known[0], known[1], step))
        else:
            x = sliced(context, node, x, axis, both, step)
    return x.atom


def _numbers(values: Sequence[int]) -> list[Entry]:
    return [IntImm(v) for v in values]


def _bound(entry: Entry, *, is_low: bool) -> Entry | None:
    """The lower or the upper bound of a slice; None where it means: to the end on that side."""
    if not isinstance(entry, IntImm) or abs(entry.value) < _LARGE:
        return entry
    return None if (entry.value < 0) == is_low else IntImm(_LARGE if is_low else -_LARGE)


def _known_bounds(
    bounds: tuple[Entry | None, Entry | None],
) -> tuple[int | None, int | None] | None:
    """Bounds as numbers, where both are known."""
    if not all(b is None or isinstance(b, IntImm) for b in bounds):
        return None
    start, end = (b.value if isinstance(b, IntImm) else None for b in bounds)
    return start, end


@converts("Split")
def split(context: Context, node: NodeProto) -> list[Value]:
    """Into given sizes, or equal ones (the last may be smaller)."""
    given = None if context.opset < 13 else entries(context, node, 1)
    x = context.operand(node, 0)
    axis = int(attribute(node, "axis", 0))
    if any(not isinstance(s, IntImm) for s in given or ()):
        parts = split_at(context, node, Term(context, x), axis, given or ())
        return [p.atom for p in parts]
    sizes = attribute(node, "split") if context.opset < 13 else context.ints(node, 1)
    length = static_shape([context.type(x).shape[axis]])
    if sizes is None:
        count = int(attribute(node, "num_outputs", len(node.output)))
        if length is None:
            return _equal_parts(context, x, axis % context.type(x).ndim, count)
        each = -(-length[0] // count)
        sizes = [min(each, length[0] - i * each) for i in range(count)]
    begins = np.cumsum([0, *sizes])
    return [
        _cut(context, x, axis, int(b), int(b) + int(s)) for b, s in zip(begins, sizes, strict=False)
    ]


def _equal_parts(context: Context, x: Atom, axis: int, count: int) -> list[Value]:
    """Parts of a named size: each the quotient, rounded up, as far as there are elements."""
    size = context.type(x).shape[axis]
    each = fold_dim((size + (count - 1)) // count)
    parts: list[Value] = []
    for i in range(count):
        begin = minimum(each * i, size)
        end = size if i == count - 1 else minimum(each * (i + 1), size)
        parts.append(section(context, x, axis, begin, fold_dim(end - begin)))
    return parts


def _cut(
    context: Context, x: Atom, axis: int, begin: int | None, end: int | None, step: int = 1
) -> Atom:
    return context.op("strided_slice", x, axes=(axis,), begin=(begin,), end=(end,), strides=(step,))


@converts("Gather")
def gather(context: Context, node: NodeProto) -> Value:
    """Of sizes by constant indices: sizes. Of data: a take, or a slice where the indices are one
    run inside a static axis."""
    axis = int(attribute(node, "axis", 0))
    index = context.operand(node, 1)
    sizes = context.sizes(context.required(node, 0))
    chosen = context.type(index).shape
    if sizes is None and any(static_value(d) == 0 for d in chosen):
        kind = context.type(context.operand(node, 0))
        axis %= max(kind.ndim, 1)
        left = context.shape([*kind.shape[:axis], *chosen, *kind.shape[axis + 1 :]])
        return context.op("broadcast_to", context.scalar(0, kind.dtype), left)
    if not isinstance(index, Constant):
        return context.op("take", context.operand(node, 0), index, axis=axis)
    positions = [int(i) for i in context.array(index).reshape(-1)]
    if sizes is not None and not sizes.scalar and len(index.shape) <= 1:
        if any(not -len(sizes.dims) <= i < len(sizes.dims) for i in positions):
            shown = print_shape(sizes.dims)
            raise FrontendError(f"{node_name(node)}: there is no index {positions} in {shown}.")
        return ShapeValue(tuple([sizes.dims[i] for i in positions]), scalar=not index.shape)
    return _gather_constant(context, node, axis, index, positions)


def _gather_constant(
    context: Context, node: NodeProto, axis: int, index: Constant, positions: list[int]
) -> Value:
    x = context.operand(node, 0)
    shape = context.type(x).shape
    axis %= max(len(shape), 1)
    length = static_shape(shape[axis : axis + 1])
    if not length:
        return context.op("take", x, index, axis=axis)
    if any(not -length[0] <= i < length[0] for i in positions):
        raise FrontendError(
            f"{node_name(node)}: indices {positions} of an axis of size "
            f"{print_shape([shape[axis]])}."
        )
    runs = _runs([i % length[0] for i in positions])
    if len(runs) > 1:
        return context.op("take", x, index, axis=axis)
    cut = _cut(context, x, axis, *runs[0])
    return context.reshape(cut, [*shape[:axis], *index.shape, *shape[axis + 1 :]])


def _runs(positions: list[int]) -> list[tuple[int, int]]:
    """Ascending neighbours joined: [0, 1, 2, 5] is (0, 3), (5, 6); nothing is (0, 0)."""
    runs: list[tuple[int, int]] = []
    for p in positions:
        if runs and runs[-1][1] == p:
            runs[-1] = (runs[-1][0], p + 1)
        else:
            runs.append((p, p + 1))
    return runs or [(0, 0)]


@converts("Pad")
def pad(context: Context, node: NodeProto) -> Value:
    """A negative width cuts. ONNX gives all widths before, then all after."""
    mode = attribute(node, "mode", "constant")
    if mode != "constant" and mode not in _PAD_MODES:
        known = ", ".join(["constant", *_PAD_MODES])
        raise FrontendError(
            f"{node_name(node)}: mode {mode!r} cannot be imported; known are {known}."
        )
    old = context.opset < 11
    given = None if old else entries(context, node, 1)
    x = context.operand(node, 0)
    ndim = context.type(x).ndim
    axes = None if old else context.ints(node, 3)
    axes = [a % ndim for a in axes] if axes is not None else list(range(ndim))
    number = None if old else context.answered(context.raw(node, 2))
    is_known = all(isinstance(w, IntImm) for w in given or ())
    if given is not None and not is_known and len(given) == 2 * len(axes):
        fill = None if number is None else Term(context, context.operand(node, 2)).reshape()
        both = zip(given[: len(axes)], given[len(axes) :], strict=True)
        pairs = dict(zip(axes, both, strict=True))
        return padded(context, node, Term(context, x), pairs, mode, fill).atom
    widths = attribute(node, "pads") if old else context.ints(node, 1)
    is_data = mode == "constant" and isinstance(number, Var)
    value = attribute(node, "value", 0.0) if old else None if is_data else context.number(node, 2)
    if widths is None or len(widths) != 2 * len(axes):
        raise FrontendError(f"{node_name(node)}: expected {2 * len(axes)} pads, found {widths}.")
    flat = [0] * (2 * ndim)
    for i, axis in enumerate(axes):
        before, after = widths[i], widths[len(axes) + i]
        if before < 0 or after < 0:
            x = _cut(context, x, axis, max(0, -before), min(0, after) or None)
        flat[2 * axis], flat[2 * axis + 1] = max(0, before), max(0, after)
    if not any(flat):
        return x
    if mode != "constant":
        return context.op("pad_edges", x, pad_width=tuple(flat), mode=_PAD_MODES[mode])
    padded_x = context.op("pad", x, pad_width=tuple(flat), pad_value=value or 0)
    if not is_data:
        return padded_x
    inside = context.op(
        "broadcast_to", constant(np.array(True)), context.shape(context.type(x).shape)
    )
    inside = context.op("pad", inside, pad_width=tuple(flat), pad_value=0)
    fill = Term(context, context.operand(node, 2)).reshape()
    return context.op("where", inside, padded_x, fill.atom)


@converts("Trilu")
def trilu(context: Context, node: NodeProto) -> Value:
    """The upper (lower) triangle, 0 elsewhere."""
    x = context.operand(node, 0)
    kind = context.type(x)
    sizes = static_shape(kind.shape[-2:])
    upper = bool(attribute(node, "upper", 1))
    given = entries(context, node, 1) or [IntImm(0)]
    if sizes is None or not isinstance(given[0], IntImm):
        side = term_of(context, given[0])
        return triangle(context, node, Term(context, x), side, upper=upper).atom
    diagonal = given[0].value
    below = np.tri(sizes[0], sizes[1], diagonal - 1 if upper else diagonal) > 0
    mask = ~below if upper else below
    return context.op("where", constant(mask), x, context.scalar(0, kind.dtype))


# -- values made of sizes --------------------------------------------------------------------
@converts("Shape")
def shape(context: Context, node: NodeProto) -> Value:
    dims = _dims_of(context, node)
    start, end = int(attribute(node, "start", 0)), attribute(node, "end")
    return ShapeValue(tuple(dims[slice(start, end)]))


@converts("Size")
def size(context: Context, node: NodeProto) -> Value:
    return ShapeValue((product(_dims_of(context, node)),), scalar=True)


def _dims_of(context: Context, node: NodeProto) -> tuple[Expr, ...]:
    value = context.required(node, 0)
    if isinstance(value, ShapeValue):
        return () if value.scalar else (IntImm(len(value.dims)),)
    if isinstance(value, Narrow):
        return context.type(value.stored).shape
    return context.type(context.tensor(value, node_name(node))).shape


@converts("Range")
def range_(context: Context, node: NodeProto) -> Value:
    """Of known bounds: a constant."""
    values = [context.answered(context.required(node, i)) for i in range(3)]
    dtype = context.type(context.tensor(values[0], node_name(node))).dtype
    if not all(isinstance(v, Constant) for v in values) and context.binds_sizes:
        return _counted_range(context, node, values)
    bounds = [context.number(node, i) or 0 for i in range(3)]
    if not bounds[2] or (bounds[1] - bounds[0]) / bounds[2] > MOST_ELEMENTS:
        raise FrontendError(
            f"{node_name(node)}: from {bounds[0]} to {bounds[1]} by {bounds[2]}; expected at most "
            f"{MOST_ELEMENTS} numbers."
        )
    start, stop, step = (np.array(b, "float64" if dtype.is_float else "int64") for b in bounds)
    count = max(0, math.ceil((stop - start) / step))
    return constant(start + np.arange(count) * step, dtype)


def _counted_range(context: Context, node: NodeProto, values: list[Value]) -> Value:
    """Of sizes: as many numbers as these say. Of data: a size of its own."""
    terms = [Term(context, context.tensor(v, node_name(node))).reshape() for v in values]
    sizes = context.all_sizes(values)
    if sizes is not None:
        start, limit, step = (s.dims[0] for s in sizes)
        count = steps_of_sizes(context, start, limit, step)
        if count is not None:
            places = positions(context, count)
            return (places * terms[2] + terms[0]).atom
    return numbers(context, node, terms[0], terms[1], terms[2]).atom

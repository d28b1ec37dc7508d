"""Shapes of torch: views, permutations, joins, cuts and pads.

A view's new shape is read from the shape torch inferred, so that every way of writing it becomes
one operator.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from torch.fx import Node

from ...graphir.dim import fold_dim, is_nonnegative, product, static_value
from ...graphir.expr import Atom, Var, constant
from ...graphir.type import TensorType, types_equal
from ...support.dtype import DType
from ...tensorir.expr import Expr, IntImm, maximum
from ..sizes_as_data import section
from . import numbers_of_data
from .registry import INDEX, Context, arguments, base_name, converts, integers


@converts(
    "aten.view.default", "aten.reshape.default", "aten._unsafe_view.default",
    "aten.view_as.default", "aten.flatten.using_ints", "aten.unflatten.int",
    "aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default",
)  # fmt: skip
def reshape(context: Context, node: Node) -> Atom:
    """Everything that keeps the order of elements is a reshape to the shape torch inferred."""
    return context.reshaped(context.operand(node.args[0]), context.result_type(node))


@converts("aten.permute.default")
def permute(context: Context, node: Node) -> Var:
    axes = integers(arguments(node)["dims"])
    return context.op("permute_dims", context.operand(node.args[0]), axes=axes)


@converts("aten.t.default", "aten.transpose.int", "aten.numpy_T.default", "aten.mT.default")
def transpose(context: Context, node: Node) -> Atom:
    x = context.operand(node.args[0])
    ndim = context.type(x).ndim
    if ndim < 2:
        return x
    axes = list(range(ndim))
    if base_name(node) == "numpy_T":
        axes.reverse()
    else:
        given = arguments(node)
        i, j = int(given.get("dim0", -2)) % ndim, int(given.get("dim1", -1)) % ndim
        axes[i], axes[j] = axes[j], axes[i]
    return context.op("permute_dims", x, axes=tuple(axes))


@converts("aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default")
def expand(context: Context, node: Node) -> Atom:
    return context.broadcast(context.operand(node.args[0]), context.result_type(node))


@converts("aten.repeat.default")
def repeat(context: Context, node: Node) -> Atom:
    """x[n] repeated r times is x[1, n] stretched to [r, n] and flattened, in each dim."""
    x = context.operand(node.args[0])
    counts = [context.dim(c) for c in arguments(node)["repeats"]]
    own: list[Expr] = list(context.type(x).shape)
    own = [IntImm(1)] * (len(counts) - len(own)) + own
    split = [d for size in own for d in (IntImm(1), size)]
    wide = [d for count, size in zip(counts, own, strict=True) for d in (count, size)]
    dtype = context.type(x).dtype
    apart = context.reshaped(x, TensorType(tuple(split), dtype))
    stretched = context.broadcast(apart, TensorType(tuple(wide), dtype))
    return context.reshaped(stretched, context.result_type(node))


# -- joining ---------------------------------------------------------------------------------
@converts("aten.cat.default", "aten.concat.default")
def concat(context: Context, node: Node) -> Var:
    """torch ignores tensors of shape (0,) among others of a higher rank."""
    kind, given = context.result_type(node), arguments(node)
    tensors = [context.operand(a, kind.dtype) for a in given["tensors"]]
    tensors = [t for t in tensors if context.type(t).ndim == kind.ndim]
    return context.op("concat", *tensors, axis=int(given["dim"]))


@converts("aten.stack.default")
def stack(context: Context, node: Node) -> Var:
    dtype, given = context.result_type(node).dtype, arguments(node)
    axis = int(given["dim"])
    tensors = [context.operand(a, dtype) for a in given["tensors"]]
    return context.op(
        "concat", *[context.op("expand_dims", t, axis=axis) for t in tensors], axis=axis
    )


# -- cutting ---------------------------------------------------------------------------------
def _cut(context: Context, x: Atom, axis: int, begin: Any, end: Any, step: int = 1) -> Var:
    return context.op("strided_slice", x, axes=(axis,), begin=(begin,), end=(end,), strides=(step,))


def without_ends(context: Context, x: Atom, pairs: Iterable[tuple[int, int]]) -> Atom:
    """Without as many elements at the ends of each axis as negative widths of pads say. Those of an
    axis whose size has a name are looked up."""
    for axis, (before, after) in enumerate(pairs):
        begin, back = max(0, -before), max(0, -after)
        kind = context.type(x)
        if begin == back == 0:
            continue
        if static_value(kind.shape[axis]) is not None:
            x = _cut(context, x, axis, begin, -back or None)
            continue
        size = kind.shape[axis] - (begin + back)
        shape = (*kind.shape[:axis], size, *kind.shape[axis + 1 :])
        x = _looked_up(context, x, axis, begin, 1, TensorType(shape, kind.dtype))
    return x


@converts("aten.slice.Tensor", "aten.narrow.default")
def slice_(context: Context, node: Node) -> Atom:
    """Where its bounds are symbolic and it is not the whole axis, elements are looked up."""
    given = arguments(node)
    x, axis = context.operand(node.args[0]), int(given["dim"])
    begin, end = context.value(given.get("start")), context.value(given.get("end"))
    step = int(given.get("step", 1))
    size = node.meta["val"].shape[axis]
    if isinstance(end, int) and end >= sys.maxsize:
        end = None
    if numbers_of_data.is_new(context, size):
        return numbers_of_data.sliced(context, x, axis, (begin, end), step, size)
    kind = context.result_type(node)
    is_whole = begin is None or (isinstance(begin, int) and begin == 0)
    if types_equal(context.type(x), kind) and (is_whole or base_name(node) == "narrow"):
        return x
    if base_name(node) == "narrow":
        end = begin + context.value(given["length"])
    is_static = static_value(context.type(x).shape[axis]) is not None
    if not is_static or any(not isinstance(b, int | None) for b in (begin, end)):
        if isinstance(begin, Expr) and (given["start"].meta["val"].node.hint or 0) < 0:
            begin = _from_end(context, x, axis, begin)
        return _looked_up(context, x, axis, 0 if begin is None else begin, step, kind)
    begin, end = context.static(begin, "start of a slice"), context.static(end, "end of a slice")
    return _cut(context, x, axis, begin, end, step)


def _looked_up(
    context: Context, x: Atom, axis: int, begin: Any, step: int, kind: TensorType
) -> Var:
    """A slice by the places of its elements; ``begin`` may be symbolic, and counts from the end
    where it is a negative number."""
    places = context.positions(kind.shape[axis])
    index = DType("int64")
    if step != 1:
        places = context.op("multiply", places, context.scalar(step, index))
    if isinstance(begin, int) and begin < 0:
        begin = _from_end(context, x, axis, begin)
    if not isinstance(begin, int) or begin:
        places = context.op("add", places, context.operand(begin, index))
    return context.op("take", x, places, axis=axis)


def _from_end(context: Context, x: Atom, axis: int, begin: int | Expr) -> Expr:
    """Where a slice begins whose beginning counts from the end: at the first element of an axis
    that has not as many."""
    return fold_dim(maximum(context.type(x).shape[axis] + begin, 0))


@converts("aten.select.int")
def select(context: Context, node: Node) -> Atom:
    """A view where the size of the axis and the place are known."""
    given = arguments(node)
    x, axis, index = context.operand(node.args[0]), int(given["dim"]), context.value(given["index"])
    if not isinstance(index, int):
        at = context.operand(index, INDEX)
        behind = context.op("add", at, context.operand(context.type(x).shape[axis], INDEX))
        at = context.op("where", context.op("less", at, context.scalar(0, INDEX)), behind, at)
        return context.op("take", x, at, axis=axis)
    if static_value(context.type(x).shape[axis]) is None:
        return context.op("take", x, constant(index, "int64"), axis=axis)
    cut = _cut(context, x, axis, index, index + 1 if index != -1 else None)
    return context.reshaped(cut, context.result_type(node))


@converts(
    "aten.chunk.default", "aten.split.Tensor", "aten.split.sizes",
    "aten.split_with_sizes.default", "aten.tensor_split.sections", "aten.unbind.int",
)  # fmt: skip
def split(context: Context, node: Node) -> list[Atom]:
    """The pieces of an axis, in order; their sizes are those torch gave the results."""
    x, axis = context.operand(node.args[0]), int(arguments(node)["dim"])
    unbinds = base_name(node) == "unbind"
    if not unbinds and any(not isinstance(f.shape[axis], int) for f in node.meta["val"]):
        return _named_pieces(context, node, x, axis)
    pieces: list[Atom] = []
    begin = 0
    for i, fake in enumerate(node.meta["val"]):
        size = 1 if unbinds else fake.shape[axis]
        piece: Atom = _cut(context, x, axis, begin, begin + size)
        pieces.append(context.reshaped(piece, context.result_type(node, i)) if unbinds else piece)
        begin += size
    return pieces


def _named_pieces(context: Context, node: Node, x: Atom, axis: int) -> list[Atom]:
    """The pieces of an axis whose sizes have names, or are computed of such."""
    pieces: list[Atom] = []
    begin: Expr = IntImm(0)
    for i in range(len(node.meta["val"])):
        kind = context.result_type(node, i)
        pieces.append(section(context, x, axis % kind.ndim, begin, kind.shape[axis]))
        begin = fold_dim(begin + kind.shape[axis])
    return pieces


@converts("aten.flip.default")
def flip(context: Context, node: Node) -> Atom:
    """torch lets a scalar be flipped along an axis it has not. A named axis is read at places that
    are counted when the model runs."""
    x = context.operand(node.args[0])
    kind = context.type(x)
    axes = integers(arguments(node)["dims"]) if kind.ndim else ()
    for axis in [a for a in axes if static_value(kind.shape[a]) is None]:
        last = context.op("subtract", context.counted(kind.shape[axis]), context.scalar(1, INDEX))
        places = context.op("subtract", last, context.positions(kind.shape[axis]))
        x = context.op("take", x, places, axis=axis % kind.ndim)
    axes = tuple([a for a in axes if static_value(kind.shape[a]) is not None])
    none = (None,) * len(axes)
    return context.op(
        "strided_slice", x, axes=axes, begin=none, end=none, strides=(-1,) * len(axes)
    )


@converts("aten.roll.default")
def roll(context: Context, node: Node) -> Atom:
    """The end of each axis before its beginning; without axes, of all elements in a row."""
    given, kind = arguments(node), context.result_type(node)
    x = context.operand(node.args[0])
    shifts, axes = context.value(given["shifts"]), integers(given.get("dims") or ())
    if not axes:
        count = fold_dim(product(kind.shape))
        x, axes = context.reshaped(x, TensorType((count,), kind.dtype)), (0,)
    for shift, axis in zip(shifts, axes, strict=True):
        dim = context.type(x).shape[axis]
        size = static_value(dim)
        if size is None or not isinstance(shift, int):
            shifted = context.op("subtract", context.positions(dim), context.operand(shift, INDEX))
            places = context.op("floor_mod", shifted, context.counted(dim))
            x = context.op("take", x, places, axis=axis % context.type(x).ndim)
        elif size and shift % size:
            at = size - shift % size
            parts = (_cut(context, x, axis, at, size), _cut(context, x, axis, 0, at))
            x = context.op("concat", *parts, axis=axis)
    return x if types_equal(context.type(x), kind) else context.reshaped(x, kind)


# -- padding ---------------------------------------------------------------------------------
@converts("aten.constant_pad_nd.default")
def pad(context: Context, node: Node) -> Atom:
    """torch gives the widths last axis first; a negative one cuts."""
    given = arguments(node)
    x = context.operand(node.args[0])
    ndim = context.type(x).ndim
    if any(isinstance(context.value(w), Expr) for w in given["pad"]):
        return padded_by_names(context, given, x)
    widths = [int(context.static(w, "a pad width")) for w in given["pad"]]
    before, after = [0] * ndim, [0] * ndim
    for i in range(len(widths) // 2):
        before[ndim - 1 - i], after[ndim - 1 - i] = widths[2 * i], widths[2 * i + 1]
    x = without_ends(context, x, zip(before, after, strict=True))
    flat = tuple([max(0, w) for pair in zip(before, after, strict=True) for w in pair])
    if not any(flat):
        return x
    return context.op("pad", x, pad_width=flat, pad_value=float(given["value"] or 0))


def padded_by_names(context: Context, given: Mapping[str, Any], x: Atom) -> Atom:
    """Pads by sizes that have names: parts are joined. Where one may be negative, which cuts, the
    elements are looked up."""
    kind = context.type(x)
    value = context.scalar(given["value"] or 0, kind.dtype)
    widths = [context.dim(w) for w in given["pad"]]
    for i in range(len(widths) // 2):
        axis = kind.ndim - 1 - i
        shape = context.type(x).shape
        before, after = widths[2 * i : 2 * i + 2]
        if not (is_nonnegative(before) and is_nonnegative(after)):
            x = _moved(context, x, axis, before, shape[axis] + before + after, value)
            continue
        parts = [
            context.op("broadcast_to", value, context.shape([*shape[:axis], w, *shape[axis + 1 :]]))
            for w in (before, after)
        ]
        x = context.op("concat", parts[0], x, parts[1], axis=axis)
    return x


def _moved(context: Context, x: Atom, axis: int, by: Expr, size: Expr, value: Atom) -> Var:
    """So many elements of an axis, which begin ``by`` places before its first one: ``value`` where
    there is none."""
    kind = context.type(x)
    places = context.op("subtract", context.positions(size), context.counted(by))
    first, last = context.scalar(0, INDEX), context.counted(kind.shape[axis] - 1)
    known = context.op("minimum", context.op("maximum", places, first), last)
    inside = context.op(
        "logical_and",
        context.op("greater_equal", places, first),
        context.op("less_equal", places, last),
    )
    behind = kind.ndim - 1 - axis
    if behind:
        inside = context.op("expand_dims", inside, axis=tuple(range(1, behind + 1)))
    return context.op("where", inside, context.op("take", x, known, axis=axis), value)

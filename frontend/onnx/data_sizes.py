"""Sizes that data tell: a named size of the program, bound where it is known.

    NonZero(x)  ->  n = bind_size(sum(x != 0))       from here on n is a named size
                    of all places the first n

One program is right for all data. Where something behind it needs the number itself, the import is
repeated and the number asked for (``Context.binds_sizes``).
"""

from __future__ import annotations

import numpy as np
from onnx import NodeProto

from ...graphir.dim import static_value
from ...graphir.expr import Call, Constant, ShapeExpr, Var
from ...graphir.type import ShapeType
from ...tensorir.expr import Expr, IntImm
from ...tensorir.expr import Var as DimVar
from .. import sizes_as_data
from .registry import MOST_SIZES, Context
from .term import Term


def size_of(context: Context, count: Term, node: NodeProto, index: int = 0) -> Expr:
    """The size that a scalar of integers tells: the same name for the same computation. A number,
    where it is constant, or where the import asks for sizes (of data behind input ``index``)."""
    count = count.reshape().cast("int64")
    if isinstance(count.atom, Constant) or not context.binds_sizes:
        return IntImm(int(context.array(context.known(count.atom, node, index)).item()))
    number = context.numbers.of(count.atom)
    if number not in context.sizes_of_data:
        hint = next((o for o in node.output if o), node.op_type)
        dim = DimVar(context.dim_names.fresh(f"{hint}_size"))
        shape = ShapeExpr((dim,), ShapeType((dim,)))
        context.builder.emit(Call("bind_size", (count.atom, shape)))
        context.sizes_of_data[number] = dim
    return context.sizes_of_data[number]


def positions(context: Context, size: Expr) -> Term:
    """The tensor 0, 1, ... of ``size`` int64."""
    return Term(context, sizes_as_data.positions(context, size))


def counted(context: Context, size: Expr) -> Term:
    """A size as a scalar int64."""
    return Term(context, sizes_as_data.counted(context, size))


def true_places(context: Context, mask: Term, node: NodeProto, index: int = 0) -> Term:
    """Where a vector of truth values is true, ascending."""
    size = mask.shape[0]
    if static_value(size) == 0:
        return mask.data(np.zeros(0), "int64")
    number = mask.cast("int64")
    found = size_of(context, number.sum(), node, index)
    known = static_value(found)
    if known is not None and static_value(size) is not None:
        return mask.cast("int32").op("argsort", axis=0, descending=True, count=known)
    # Each place goes where its number says; all that are false go behind the last.
    target = mask.where(number.op("cumsum", axis=0) - 1, counted(context, size))
    row = mask.data(0, "int64").expand(size + 1)
    row = row.op("scatter_index", positions(context, size), target, axes=(0,))
    return row.op("take", positions(context, found), axis=0)


def coordinates(context: Context, places: Term, shape: tuple[Expr, ...]) -> list[Term]:
    """Places in a row of all elements of a shape, as indices along each of its axes."""
    found = []
    for size in reversed(shape):
        extent = counted(context, size)
        found.append(places.op("floor_mod", extent))
        places = places.op("floor_divide", extent)
    return found[::-1]


def dims_of(context: Context, node: NodeProto, index: int) -> tuple[Expr, ...]:
    """An input that holds sizes of 0 or more: those of data have names, where it is a vector of
    known length."""
    value = context.required(node, index)
    if isinstance(value, Var) and context.binds_sizes:
        kind = context.type(value)
        count = static_value(kind.shape[0]) if kind.ndim == 1 else None
        if count is not None and count <= MOST_SIZES and kind.dtype.is_integer:
            sizes = Term(context, value)
            return tuple([size_of(context, sizes.at(0, i), node, index) for i in range(count)])
    return context.shape_value(node, index).dims

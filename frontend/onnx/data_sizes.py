"""Sizes that data tell: a named size of the program, bound where it is known.

    NonZero(x)  ->  n = bind_size(sum(x != 0))       from here on n is a named size
                    of all places the first n

One program is right for all data. Where something behind it needs the number itself, the import is
repeated and the number asked for (``Context.binds_sizes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from onnx import NodeProto

from ...graphir.dim import static_value
from ...graphir.expr import Call, Constant, ShapeExpr, Var
from ...tensorir.expr import Expr, IntImm
from ...tensorir.expr import Var as DimVar
from .. import sizes_as_data
from .registry import MOST_SIZES, Context
from .term import Term


def size_of(context: Context, count: Term, node: NodeProto, index: int = 0) -> Expr:
    """The size that a scalar of integers tells: the same name for the same computation. A number,
    where it is constant, or where the import asks for sizes (of data behind input ``index``)."""
    if isinstance(count.atom, Constant):
        return IntImm(int(context.array(count.atom).item()))
    count = count.reshape().cast("int64")
    if not context.binds_sizes:
        return IntImm(int(context.array(context.known(count.atom, node, index)).item()))
    return bound_size(context, count, next((o for o in node.output if o), node.op_type))


def bound_size(
    context: Context, count: Term, hint: str, sizes: Sequence[Expr] = (), expected: str = ""
) -> Expr:
    """The name of a size that data tell; where it is of two ``sizes``, as errors say, they are as
    ``expected``."""
    number = context.numbers.of(count.atom)
    if number not in context.sizes_of_data:
        dim = DimVar(context.dim_names.fresh(f"{hint}_size"))
        shape = ShapeExpr((dim,))
        met = (context.shape(sizes),) if sizes else ()
        told = (("place", context.where), ("expected", expected)) if context.where else ()
        context.builder.emit(Call("bind_size", (count.atom, shape, *met), told))
        context.sizes_of_data[number] = dim
        context.binds_shapes |= not context.reads_data(count.atom)
    return context.sizes_of_data[number]


def positions(context: Context, size: Expr) -> Term:
    """The tensor 0, 1, ... of ``size`` int64."""
    return Term(context, sizes_as_data.positions(context, size))


def counted(context: Context, size: Expr) -> Term:
    """A size as a scalar int64."""
    return Term(context, sizes_as_data.counted(context, size, context.counts))


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


Entry: TypeAlias = Expr | Term
"""A number that decides about sizes: known at import (arithmetic on sizes), or a scalar int64 of
data."""


def entries(context: Context, node: NodeProto, index: int) -> list[Entry] | None:
    """An input of integers that decide about sizes, one by one; None where it is absent. What is
    data is asked for, where sizes are not bound, or it is no vector of known length."""
    value = context.raw(node, index)
    if value is None:
        return None
    value = context.answered(value)
    if isinstance(value, Var) and context.binds_sizes:
        kind = context.type(value)
        count = static_value(kind.shape[0]) if kind.ndim == 1 else 1 if kind.ndim == 0 else None
        if count is not None and count <= MOST_SIZES and kind.dtype.is_integer:
            return _entries_of(context, value, count)
    return list(context.shape_value(node, index).dims)


def _entries_of(context: Context, value: Var, count: int) -> list[Entry]:
    known = context.parts.get(value)
    if known is not None:
        return [p if isinstance(p, Expr) else Term(context, p) for p in known.reshape(-1)]
    row = Term(context, value).reshape(count).cast("int64")
    return [row.at(0, i) for i in range(count)]


def term_of(context: Context, entry: Entry) -> Term:
    """An entry as a scalar int64."""
    return entry if isinstance(entry, Term) else counted(context, entry)


def dim_of(context: Context, entry: Entry, node: NodeProto, index: int) -> Expr:
    """An entry of 0 or more as a size."""
    return size_of(context, entry, node, index) if isinstance(entry, Term) else entry


def dims_of(context: Context, node: NodeProto, index: int) -> tuple[Expr, ...]:
    """An input that holds sizes of 0 or more: those of data have names, where it is a vector of
    known length."""
    context.required(node, index)
    return tuple([dim_of(context, e, node, index) for e in entries(context, node, index) or ()])


def valid(term: Term, *conditions: Term) -> Term:
    """A size, or -1, which none is, where one of the conditions does not hold."""
    for condition in conditions:
        term = condition.where(term, -1)
    return term

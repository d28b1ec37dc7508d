"""Named sizes as tensors: what both front ends emit where a size is used as data.

n as a scalar        sum(broadcast_to(1, [n]))
0, 1, ... n - 1      cumsum(broadcast_to(1, [n])) - 1
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from ..graphir.dim import static_value
from ..graphir.expr import Atom, ShapeExpr, constant
from ..tensorir.arith.linear import expr_key
from ..tensorir.expr import (
    Add,
    BinaryOp,
    Expr,
    ExprLike,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mul,
    Sub,
    as_expr,
)
from ..tensorir.expr import Var as DimVar
from .integer_division import Emitter

_OF_SIZES: dict[type[Expr], str] = {
    Add: "add", Sub: "subtract", Mul: "multiply", FloorDiv: "floor_divide", FloorMod: "floor_mod",
    Max: "maximum", Min: "minimum",
}  # fmt: skip
"""Operators on tensors that compute what arithmetic on sizes does."""


def positions(context: Emitter, size: Expr) -> Atom:
    """The tensor 0, 1, ... of ``size`` int64; symbolic ones are counted when the model runs."""
    known = static_value(size)
    if known is not None:
        return constant(np.arange(known))
    counted = context.op("cumsum", _ones(context, size), axis=0)
    return context.op("subtract", counted, constant(1, "int64"))


def counted(context: Emitter, size: Expr, made: dict[Hashable, Atom] | None = None) -> Atom:
    """A size as a scalar int64: of each symbol the number of ones in a tensor of its size. Sizes
    that are among ``made`` are there already; those that are not are added."""
    made = {} if made is None else made
    key = expr_key(size)
    found = made.get(key)
    if found is None:
        found = made[key] = _counted(context, size, made)
    return found


def _counted(context: Emitter, size: Expr, made: dict[Hashable, Atom]) -> Atom:
    known = static_value(size)
    if known is not None:
        return constant(known, "int64")
    if isinstance(size, DimVar):
        return context.op("sum", _ones(context, size))
    assert isinstance(size, BinaryOp)  # a dim is a number, a name, or arithmetic of two dims
    a, b = (counted(context, part, made) for part in (size.a, size.b))
    return context.op(_OF_SIZES[type(size)], a, b)


def section(context: Emitter, x: Atom, axis: int, begin: ExprLike, size: Expr) -> Atom:
    """``size`` elements of an axis from ``begin`` on, where one of both has a name."""
    places = positions(context, size)
    if static_value(as_expr(begin)) != 0:
        places = context.op("add", places, counted(context, as_expr(begin)))
    return context.op("take", x, places, axis=axis)


def _ones(context: Emitter, size: Expr) -> Atom:
    return context.op("broadcast_to", constant(1, "int64"), ShapeExpr((size,)))

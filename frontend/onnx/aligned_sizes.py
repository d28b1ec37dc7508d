"""Sizes of data that nothing proves equal, made one: an operator's operands get a size that both
have when the model runs.

    Mul(x, y)          x has a rows and y has b, of which one at least only data tell
    n = bind_size(a == b ? a : a == 1 ? b : b == 1 ? a : -1)
    Mul(x at 0 ... n - 1, y at 0 ... n - 1)         of one row: always that one

A call where they do not fit is refused: -1 is no size. Of sizes that the inputs' shapes tell the
import asks instead (``size_bounds.relation``), so that no element is moved.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...graphir.dim import dim_equal, static_value
from ...graphir.expr import Atom, ShapeExpr
from ...support.errors import TypeInferenceError
from ...tensorir.expr import Expr
from ...tensorir.operators.elementwise import ELEMENTWISE
from ...tensorir.visitor import free_vars
from .data_sizes import bound_size, counted, positions
from .registry import Context
from .term import Term


def aligned(
    context: Context, name: str, args: Sequence[Atom], error: TypeInferenceError
) -> list[Atom] | None:
    """The operands of an operator whose sizes were not proved equal, with one size for both; None
    where that is not what is wrong, or no size of data is among them."""
    if error.dims is None or not context.binds_sizes:
        return None
    a, b = [d for d in error.dims if isinstance(d, Expr)]
    own = set(context.sizes_of_data.values())
    if not own & set(free_vars([a, b])) or 1 in (static_value(a), static_value(b)):
        return None
    one, other = counted(context, a), counted(context, b)
    is_equal, count = one.equals(other), one
    if name in ELEMENTWISE or name in ("broadcast_to", "where"):
        single = one.equals(1).where(other, other.equals(1).where(one, -1))
        count = is_equal.where(one, single)
    else:
        count = is_equal.where(one, -1)
    size = bound_size(context, count, name)
    return [_with_size(context, x, (a, b), size) for x in args]


def _with_size(context: Context, x: Atom, dims: tuple[Expr, Expr], size: Expr) -> Atom:
    """A tensor whose axes of one of two sizes have another; a shape with it in their place."""
    if isinstance(x, ShapeExpr):
        return context.shape([size if _is_one(d, dims) else d for d in x.values])
    found = Term(context, x)
    for axis, dim in enumerate(found.shape):
        if _is_one(dim, dims):
            places = positions(context, size).op("minimum", counted(context, dim) - 1)
            found = found.op("take", places, axis=axis)
    return found.atom


def _is_one(dim: Expr, dims: tuple[Expr, Expr]) -> bool:
    return any(dim_equal(dim, d) for d in dims)

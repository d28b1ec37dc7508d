"""Sizes of data that nothing proves equal, made one: an operator's operands get a size that both
have when the model runs.

    Mul(x, y)          x has a rows and y has b, of which one at least only data tell
    n = bind_size(a == b ? a : a == 1 ? b : b == 1 ? a : -1)
    Mul(x at 0 ... n - 1, y at 0 ... n - 1)         of one row: always that one

Only the axes that meet are cut: another may have one of the two sizes as well. A call where they do
not fit is refused: -1 is no size. Of sizes that the inputs' shapes tell the
import asks instead (``size_bounds.relation``), so that no element is moved.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...graphir.dim import dim_equal, static_value
from ...graphir.expr import Atom, ShapeExpr
from ...support.errors import TypeInferenceError
from ...tensorir.expr import Expr
from ...tensorir.visitor import free_vars
from .data_sizes import bound_size, counted, positions
from .registry import Context
from .term import Term


def aligned(
    context: Context, name: str, args: Sequence[Atom], error: TypeInferenceError
) -> list[Atom] | None:
    """The operands of an operator whose sizes were not proved equal, with one size for both; None
    where that is not what is wrong, or no size of data is among them."""
    if error.dims is None or not error.axes or not context.binds_sizes:
        return None
    a, b = [d for d in error.dims if isinstance(d, Expr)]
    own = set(context.sizes_of_data.values())
    if not own & set(free_vars([a, b])) or 1 in (static_value(a), static_value(b)):
        return None
    one, other = counted(context, a), counted(context, b)
    is_equal, count = one.equals(other), one
    if error.broadcasts:
        single = one.equals(1).where(other, other.equals(1).where(one, -1))
        count = is_equal.where(one, single)
    else:
        count = is_equal.where(one, -1)
    expected = f"of equal sizes{' or of one element' if error.broadcasts else ''} where they meet"
    size = bound_size(context, count, name, (a, b), expected)
    return [
        _with_size(context, x, axis, (a, b), size) for x, axis in zip(args, error.axes, strict=True)
    ]


def _with_size(context: Context, x: Atom, axis: int, dims: tuple[Expr, Expr], size: Expr) -> Atom:
    """A tensor whose axis, counted from the right, has another size, where it has one of two that
    met; a shape with it in that place."""
    shape = x.values if isinstance(x, ShapeExpr) else context.type(x).shape
    if len(shape) < -axis or not any(dim_equal(shape[axis], d) for d in dims):
        return x
    axis += len(shape)
    if isinstance(x, ShapeExpr):
        return context.shape([*shape[:axis], size, *shape[axis + 1 :]])
    places = positions(context, size).op("minimum", counted(context, shape[axis]) - 1)
    return Term(context, x).op("take", places, axis=axis).atom

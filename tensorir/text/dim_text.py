"""Dimensions as text: Python integer arithmetic over dim names, which vm.shape_text reads."""

from __future__ import annotations

from collections.abc import Callable

from ...support.errors import BurnishError
from ..expr import Add, Expr, FloorDiv, FloorMod, IntImm, Max, Min, Mul, Sub, Var

_OPERATORS: dict[type[Expr], tuple[str, int]] = {
    Add: ("+", 1),
    Sub: ("-", 1),
    Mul: ("*", 2),
    FloorDiv: ("//", 2),
    FloorMod: ("%", 2),
}


class DimError(BurnishError, ValueError):
    """A dimension that cannot be read, or shapes that do not fit each other: because of ``dims``,
    where two are not equal, at an ``axis`` counted from the right (-1, -2)."""

    def __init__(self, message: str, dims: tuple[Expr, Expr] | None = None, axis: int = 0) -> None:
        super().__init__(message)
        self.dims, self.axis = dims, axis


def print_dim(dim: Expr, name_of: Callable[[Var], str] = lambda v: v.name, level: int = 0) -> str:
    """The dim as Python arithmetic: ``784``, ``m``, ``m * 2 + 1``; DimError for other nodes.

    The right operand is printed one level tighter, so that the text parses to the very same tree.
    """
    if isinstance(dim, IntImm):
        return str(dim.value)
    if isinstance(dim, Var):
        return name_of(dim)
    if isinstance(dim, (Min, Max)):
        function = "min" if isinstance(dim, Min) else "max"
        return f"{function}({print_dim(dim.a, name_of)}, {print_dim(dim.b, name_of)})"
    if isinstance(dim, (Add, Sub, Mul, FloorDiv, FloorMod)):
        symbol, own = _OPERATORS[type(dim)]
        text = f"{print_dim(dim.a, name_of, own)} {symbol} {print_dim(dim.b, name_of, own + 1)}"
        return f"({text})" if own < level else text
    raise DimError(f"A dimension is integer arithmetic over dims; found {type(dim).__name__}.")

"""Symbolic sizes: torch's SymInts (sympy expressions) to dim expressions, one Var a symbol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ...support.errors import FrontendError
from ...tensorir.expr import Expr, IntImm, Var, as_expr, floordiv, floormod, maximum, minimum


class SymbolTable:
    """Maps torch's symbols to Vars. ``names`` gives them the names users know (``batch``)."""

    def __init__(self, names: Mapping[str, str] | None = None) -> None:
        self._names = dict(names or {})
        self._vars: dict[str, Var] = {}

    @property
    def dim_names(self) -> tuple[str, ...]:
        return tuple(v.name for v in self._vars.values())

    def convert(self, size: Any) -> Expr:
        """A size (int or SymInt) as an expression."""
        if isinstance(size, torch.SymInt):
            return self._expression(size.node.expr)
        return as_expr(int(size))

    def _symbol(self, name: str) -> Var:
        if name not in self._vars:
            self._vars[name] = Var(self._names.get(name, name))
        return self._vars[name]

    def _expression(self, e: Any) -> Expr:
        if e.is_Integer:
            return IntImm(int(e))
        if e.is_Symbol:
            return self._symbol(str(e))
        arguments = [self._expression(a) for a in e.args]
        kind = type(e).__name__
        if kind in ("Add", "Mul", "Max", "Min"):
            result = arguments[0]
            for a in arguments[1:]:
                match kind:
                    case "Add":
                        result = result + a
                    case "Mul":
                        result = result * a
                    case "Max":
                        result = maximum(result, a)
                    case _:
                        result = minimum(result, a)
            return result
        if kind in ("FloorDiv", "CleanDiv", "IntTrueDiv"):
            return floordiv(arguments[0], arguments[1])
        if kind in ("Mod", "PythonMod"):
            return floormod(arguments[0], arguments[1])
        if kind == "Pow" and isinstance(arguments[1], IntImm) and arguments[1].value > 0:
            result = arguments[0]
            for _ in range(arguments[1].value - 1):
                result = result * arguments[0]
            return result
        raise FrontendError(
            f"the symbolic size {e} ({kind}) cannot be imported; make the dims it depends on static."
        )

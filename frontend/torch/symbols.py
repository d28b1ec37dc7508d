"""Symbolic sizes: torch's SymInts (sympy expressions) to dim expressions, one Var a symbol.

Known are the symbols that stand in the shape of an input, and those that ``computed`` has told of:
numbers that the program reads out of its data. Any other is refused. Constants stand to the right
of symbols, as people write them: ``batch * 2 + 1``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import reduce
from typing import Any

import torch

from ...graphir.dim import dim_equal
from ...support.errors import FrontendError
from ...tensorir.arith.one_size import simplest
from ...tensorir.expr import Expr, IntImm, Var, as_expr, floordiv, floormod, maximum, minimum
from ...tensorir.visitor import free_vars, substitute
from ..resize import scaled_size

_FOLDS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Add": lambda a, b: a - -b.value if isinstance(b, IntImm) and b.value < 0 else a + b,
    "Mul": lambda a, b: a * b,
    "Max": maximum,
    "Min": minimum,
}
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "FloorDiv": floordiv,
    "CleanDiv": floordiv,
    "Mod": floormod,
    "PythonMod": floormod,
}
"""Functions of torch's symbolic arithmetic by class name; all are of integers."""
_MOST_PARTS = 1024
"""Numbers with a point that are so many parts of a whole one, at most, are computed exactly."""


class NoDim(FrontendError):
    """Arithmetic on sizes that is none of ours."""


def _unknown(e: Any) -> NoDim:
    return NoDim(
        f"the symbolic size {e} ({type(e).__name__}) cannot be imported; make the dims it depends "
        "on static."
    )


def _may_be_negative(e: Any) -> bool:
    """Whether numbers out of data stand in an expression of torch's: sizes are not negative."""
    return any(str(s).startswith("u") for s in e.free_symbols)


def _is_rounded_twice(under: int, factor: int) -> bool:
    """Whether Python's ``n / under * factor`` may miss a whole number that it is: ``61 / 7 * 7`` is
    less than 61. Without a common factor but 2 it is whole where ``n / under`` is exact."""
    common = math.gcd(under, factor)
    return common & (common - 1) != 0


def _nearest(a: Expr, b: int) -> Expr:
    """``round(a / b)`` of Python: of two that are as near, the even one."""
    above = floordiv(a * 2 + b, 2 * b)
    is_between = 1 - minimum(floormod(a * 2 + b, 2 * b), 1)
    return above - is_between * floormod(above, 2)


def _towards_zero(a: Expr, b: int) -> Expr:
    return maximum(floordiv(a, b), 0) - maximum(floordiv(-a, b), 0)


_ROUNDED: dict[str, Callable[[Expr, int], Expr]] = {
    "FloorToInt": floordiv,
    "TruncToInt": _towards_zero,
    "CeilToInt": lambda a, b: floordiv(a + (b - 1), b),
    "RoundToInt": _nearest,
}
"""A quotient as a whole number, by class name."""


class SymbolTable:
    """Maps torch's symbols to Vars. ``symbols`` are those of the inputs' shapes, by name (``s31``);
    ``names`` gives some of them the names users know (``batch``), one Var for each name; ``equal``
    are pairs of Vars' names of which the second is to be the first; ``supposed`` is what stands in
    the place of an expression of torch's, and of ``alike`` sizes, in Vars of these names, the first
    in the place of the second."""

    def __init__(
        self,
        symbols: Iterable[str],
        names: Mapping[str, str] | None = None,
        equal: Iterable[tuple[str, str]] = (),
        supposed: Mapping[Any, Any] | None = None,
        alike: Iterable[tuple[Expr, Expr]] = (),
    ) -> None:
        self._vars: dict[str, Var] = {}
        self._supposed = dict(supposed or {})
        given = dict(names or {})
        for symbol in symbols:
            known = {v.name: v for v in self._vars.values()}
            taken = {*known, *given.values()}
            name = given.get(symbol) or (symbol if symbol not in taken else f"{symbol}_")
            # Symbols of one given name are one size, though this export tells them apart.
            self._vars[symbol] = known[name] if name in known else Var(name)
        known = {v.name: v for v in self._vars.values()}
        for kept, gone in equal:
            old, new = known[gone], known[kept]
            known = {n: new if v is old else v for n, v in known.items()}
            self._vars = {s: new if v is old else v for s, v in self._vars.items()}
        self.alike = [(self.own(kept), self.own(gone)) for kept, gone in alike]

    def own(self, size: Expr) -> Expr:
        """A size in Vars of another table, in those of this one."""
        own = {v.name: v for v in self._vars.values()}
        return substitute(size, {v: own[v.name] for v in free_vars([size])})

    @property
    def dim_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([v.name for v in self._vars.values()]))

    def computed(self, size: torch.SymInt, same: Var | None) -> Var | None:
        """The dim of a number that is read out of data: a new one, or that of the ``same`` number.
        None where torch holds the number to be another one, or a constant."""
        symbol = size.node.expr
        name = str(symbol)
        if not symbol.is_Symbol or self._vars.get(name, same) is not same:
            return None
        taken = {v.name for v in self._vars.values()}
        if same is None:
            same = Var(name if name not in taken else f"{name}_")
        self._vars[name] = same
        return same

    def supposes(self, e: Any) -> bool:
        """Whether an expression of torch's is taken for another one."""
        return e in self._supposed

    @contextmanager
    def supposing_nothing(self) -> Iterator[None]:
        """Leaves expressions what they are: for what compares them."""
        held, self._supposed = self._supposed, {}
        try:
            yield
        finally:
            self._supposed = held

    def knows(self, symbol: Any) -> bool:
        """Whether a symbol of torch's is a dim."""
        return str(symbol) in self._vars

    def convert(self, size: Any) -> Expr:
        """A size (int or SymInt) as an expression.

        Raises FrontendError for a size that depends on data, or on a function dims do not have.
        """
        if not isinstance(size, torch.SymInt):
            return as_expr(int(size))
        found = self.expression(size.node.expr)
        if not _may_be_negative(size.node.expr):
            found = simplest(found)  # which is the same from 0 up
        return next((kept for kept, gone in self.alike if dim_equal(found, gone)), found)

    def expression(self, e: Any) -> Expr:
        """What torch's arithmetic on sizes computes, as one of ours. Raises NoDim."""
        e = self._supposed.get(e, e)
        if e.is_Integer:
            return IntImm(int(e))
        if e.is_Symbol:
            if str(e) not in self._vars:
                raise NoDim(
                    f"the size {e} is computed from the contents of a tensor, which cannot be "
                    "compiled; sizes may depend on the sizes of the inputs only."
                )
            return self._vars[str(e)]
        kind = type(e).__name__
        if kind in _ROUNDED:
            rounded = self._rounded(kind, e.args[0])
            if rounded is None:
                raise _unknown(e)
            return rounded
        terms = [self.expression(a) for a in e.args]
        if kind == "Abs":
            return maximum(terms[0], -terms[0])
        if kind in _FOLDS:
            return reduce(_FOLDS[kind], sorted(terms, key=lambda t: isinstance(t, IntImm)))
        if kind in _BINARY:
            return _BINARY[kind](terms[0], terms[1])
        if kind == "Pow" and isinstance(terms[1], IntImm) and terms[1].value > 0:
            return reduce(_FOLDS["Mul"], [terms[0]] * terms[1].value)
        raise _unknown(e)

    def _rounded(self, kind: str, e: Any) -> Expr | None:
        """A real number made whole; None where that is no size."""
        ratio = self._ratio(e)
        if ratio is None:
            return self._scaled(e) if kind in ("TruncToInt", "FloorToInt") else None
        over, under = ratio
        if under == 1:
            return over
        has_negative = any(a.is_negative for a in e.atoms() if a.is_number)
        if kind == "TruncToInt" and not has_negative and not _may_be_negative(e):
            kind = "FloorToInt"  # sizes are not negative; numbers out of data may be
        return _ROUNDED[kind](over, under)

    def _ratio(self, e: Any) -> tuple[Expr, int] | None:
        """A real number as a whole one over a positive constant; None where that is not exact."""
        if e.is_Integer or e.is_Float:
            exact = Fraction(float(e))
            fits = exact.denominator <= _MOST_PARTS
            return (IntImm(exact.numerator), exact.denominator) if fits else None
        kind = type(e).__name__
        if kind == "ToFloat":
            return self.expression(e.args[0]), 1
        if kind not in ("IntTrueDiv", "FloatTrueDiv", "Mul") or len(e.args) != 2:
            return None
        first, second = sorted(e.args, key=lambda a: a.is_number) if e.is_Mul else e.args
        over = (self.expression(first), 1) if kind == "IntTrueDiv" else self._ratio(first)
        by = self._ratio(second)
        if over is None or by is None or not isinstance(by[0], IntImm) or not by[0].value:
            return None
        number = Fraction(by[0].value, by[1])
        number = number if e.is_Mul else 1 / number
        if _is_rounded_twice(over[1], number.numerator):
            return None
        whole = over[0] if number.numerator == 1 else over[0] * number.numerator
        return whole, over[1] * number.denominator

    def _scaled(self, e: Any) -> Expr | None:
        """The whole part of a size times a number; None where that is no size."""
        numbers = [a for a in e.args if a.is_Float]
        sizes = [a.args[0] for a in e.args if type(a).__name__ == "ToFloat"]
        if not e.is_Mul or len(numbers) != 1 or len(sizes) != 1 or len(e.args) != 2:
            return None
        return scaled_size(self.expression(sizes[0]), float(numbers[0]))


def symbols_of(sizes: Iterable[Any]) -> list[str]:
    """The names of the symbols in some sizes, each once, in order."""
    found: list[str] = []
    for size in sizes:
        if isinstance(size, torch.SymInt):
            found += sorted(str(s) for s in size.node.expr.free_symbols if str(s) not in found)
    return found

"""torch's symbolic sizes as dims: arithmetic, names, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import sympy  # type: ignore[import-untyped]
import torch
from torch.utils._sympy.functions import (
    CeilToInt,
    FloatTrueDiv,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Mod,
    PythonMod,
    RoundToInt,
    ToFloat,
    TruncToInt,
)

from burnish.frontend.torch.symbols import SymbolTable, symbols_of
from burnish.support.errors import FrontendError
from burnish.tensorir.arith.evaluate import evaluate
from burnish.tensorir.text.dim_text import print_dim
from burnish.tensorir.visitor import free_vars

S, T = sympy.Symbol("s0", integer=True), sympy.Symbol("s1", integer=True)


class _Node:
    def __init__(self, expr: Any) -> None:
        self.expr = expr


def symbolic(expr: Any) -> torch.SymInt:
    return torch.SymInt(_Node(expr))  # type: ignore[no-untyped-call]


def shown(expr: Any) -> str:
    table = SymbolTable(["s0", "s1"], {"s0": "batch"})
    return print_dim(table.convert(symbolic(expr)))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (S, "batch"),
        (2 * S, "batch * 2"),
        (S + 1, "batch + 1"),
        (S - 1, "batch - 1"),
        (S * T * 4, "batch * s1 * 4"),
        (S**3, "batch * batch * batch"),
        (FloorDiv(S, 2), "batch // 2"),
        (Mod(S, 4), "batch % 4"),
        (PythonMod(S, 4), "batch % 4"),
        (sympy.Max(S, T), "max(batch, s1)"),
        (sympy.Min(S, 3), "min(batch, 3)"),
        (FloorDiv(S + 5, 3) * 2, "(batch + 5) // 3 * 2"),
        (sympy.Abs(S - 3), "max(batch - 3, 0 - (batch - 3))"),
        (FloorToInt(IntTrueDiv(S, 2)), "batch // 2"),
        (CeilToInt(IntTrueDiv(S, 3)), "(batch + 2) // 3"),
        (FloorToInt(IntTrueDiv(S, 3)), "batch // 3"),
        (TruncToInt(FloatTrueDiv(ToFloat(S), sympy.Float(2.0))), "batch // 2"),
        (TruncToInt(sympy.Float(0.75) * ToFloat(S)), "batch * 3 // 4"),
        (
            TruncToInt(IntTrueDiv(S - 5, 2)),
            "max((batch - 5) // 2, 0) - max((0 - (batch - 5)) // 2, 0)",
        ),
        (CeilToInt(IntTrueDiv(S, 4)), "(batch + 3) // 4"),
        (CeilToInt(FloatTrueDiv(ToFloat(S), sympy.Float(-1.0))), "batch * -1"),
    ],
)
def test_arithmetic(expr: Any, text: str) -> None:
    assert shown(expr) == text


@pytest.mark.parametrize(
    ("kind", "function"), [(RoundToInt, round), (TruncToInt, math.trunc), (CeilToInt, math.ceil)]
)
@pytest.mark.parametrize("divisor", [1, 2, 3, 4])
def test_quotients_are_rounded_as_pythons(kind: Any, function: Any, divisor: int) -> None:
    made = SymbolTable(["s0"]).convert(symbolic(kind(IntTrueDiv(S - 5, divisor))))
    (size,) = free_vars([made])
    for value in range(14):
        assert evaluate(made, {size: value}.__getitem__) == function((value - 5) / divisor)


@pytest.mark.parametrize(("divisor", "factor"), [(3, 2), (7, 6), (14, 4), (12, 5), (49, 10)])
def test_a_quotient_times_a_number_is_that_of_pythons_floats(divisor: int, factor: int) -> None:
    expr = TruncToInt(sympy.Float(float(factor)) * IntTrueDiv(S, divisor))
    made = SymbolTable(["s0"]).convert(symbolic(expr))
    (size,) = free_vars([made])
    for value in range(2000):
        assert evaluate(made, {size: value}.__getitem__) == int(value / divisor * factor)


@pytest.mark.parametrize(("divisor", "factor"), [(7, 7), (14, 7), (35, 21)])
def test_what_pythons_floats_may_round_below_a_whole_number_is_no_size(
    divisor: int, factor: int
) -> None:
    assert any(int(n / divisor * factor) != n * factor // divisor for n in range(4000))
    expr = TruncToInt(sympy.Float(float(factor)) * IntTrueDiv(S, divisor))
    with pytest.raises(FrontendError, match="make the dims it depends on static"):
        SymbolTable(["s0"]).convert(symbolic(expr))


def test_numbers_out_of_data_may_be_negative() -> None:
    number = sympy.Symbol("u0", integer=True)
    made = SymbolTable(["u0"]).convert(symbolic(TruncToInt(IntTrueDiv(number, 2))))
    (size,) = free_vars([made])
    for value in range(-5, 6):
        assert evaluate(made, {size: value}.__getitem__) == int(value / 2)


def test_plain_sizes_are_constants() -> None:
    assert print_dim(SymbolTable([]).convert(7)) == "7"


def test_one_symbol_is_one_var() -> None:
    table = SymbolTable(["s0"])
    assert table.convert(symbolic(S)) is table.convert(symbolic(S))


def test_names_are_unique() -> None:
    """A user may call a dim what torch calls another."""
    assert SymbolTable(["s0", "s1"], {"s0": "s1"}).dim_names == ("s1", "s1_")


def test_a_symbol_that_no_input_has_comes_from_data() -> None:
    with pytest.raises(
        FrontendError, match="the size s1 is computed from the contents of a tensor"
    ):
        SymbolTable(["s0"]).convert(symbolic(S + T))


def test_other_functions_are_refused_by_name() -> None:
    with pytest.raises(FrontendError, match=r"the symbolic size .*\(Pow\) cannot be imported"):
        SymbolTable(["s0"]).convert(symbolic(1 / S))


def test_symbols_of_sizes_in_order() -> None:
    assert symbols_of([4, symbolic(T), symbolic(S + T)]) == ["s1", "s0"]


def test_symbols_of_one_name_are_one_size() -> None:
    table = SymbolTable(["s0", "s1"], {"s0": "n", "s1": "n"})
    assert table.convert(symbolic(S)) is table.convert(symbolic(T))
    assert table.dim_names == ("n",)

"""The walk: what is rebuilt, what stays the same object, vectors and floats."""

from __future__ import annotations

import pytest

from burnish.tensorir.arith import Analyzer
from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import (
    INDEX,
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    DType,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Ramp,
    Select,
    Var,
    as_expr,
)
from burnish.tensorir.text.printer import print_expr

I_, J, M = Var("i"), Var("j"), Var("m")
A = make_buffer("A", (16, 16))


def test_buffers_are_not_rebuilt() -> None:
    buffer = make_buffer("B", (Add(M, IntImm(0)), M))
    load = BufferLoad(buffer, (Add(I_, IntImm(0)), J))
    simplified = Analyzer().simplify(load)
    assert isinstance(simplified, BufferLoad)
    assert simplified.buffer is buffer
    assert simplified.indices == (I_, J)


@pytest.fixture
def analyzer() -> Analyzer:
    a = Analyzer()
    a.bind(I_, 8)
    a.bind(J, 8)
    a.declare_dim(M)
    return a


@pytest.mark.parametrize(
    "expr",
    [
        I_,
        as_expr(3),
        I_ * 8 + J,
        I_ * 8 + J + 1,
        M - I_ - 1,
        I_ * M + J,
        (M + 7) // 8 * 8,
        M // 8 * 16 + M % 8,
        I_ * 8 + J < M,
        A[I_, J] * 2.0 + A[J, I_],
        Select(I_ < J, A[I_, J], A[J, I_]),
        Ramp(I_ * 8, as_expr(1), 8),
        Cast(DType("float32"), I_),
    ],
)
def test_the_same_object_where_there_is_nothing_to_do(analyzer: Analyzer, expr: Expr) -> None:
    assert analyzer.simplify(expr) is expr


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (I_ + (J + 1) - I_, "j + 1"),
        (2 + J, "j + 2"),
        (8 * I_, "i * 8"),
        (A[I_ + 0 * J + J - I_, (I_ * 8 + J) // 8] + 1.0, "A[j, i] + T.float32(1)"),
        (Ramp((I_ * 8 + J) // 8 * 8, as_expr(1), 8), "T.Ramp(i * 8, 1, 8)"),
        (Broadcast(I_ - I_ + 3, 4), "T.Broadcast(3, 4)"),
        (Call("exp", (A[I_ + I_, J],), DType("float32")), "T.exp(A[i * 2, j])"),
        (Div(I_, as_expr(2)), "i // 2"),
        (Div(as_expr(-7), as_expr(2)), "-3"),
        (FloorDiv(as_expr(-7), as_expr(-2)), "3"),
        (FloorMod(as_expr(-7), as_expr(-2)), "-1"),
        (Cast(DType("int64"), IntImm(3, DType("int32"))) + I_, "i + 3"),
    ],
)
def test_rebuilt(analyzer: Analyzer, expr: Expr, text: str) -> None:
    assert print_expr(analyzer.simplify(expr)) == text


def test_absolute_values_of_known_sign_are_sums(analyzer: Analyzer) -> None:
    def absolute(e: Expr) -> str:
        return print_expr(analyzer.simplify(Call("abs", (e,), INDEX) - 1))

    analyzer.bind(I_, 8)
    assert absolute(I_ + 1) == "i"
    assert absolute(I_ - 9) == "8 - i"
    assert absolute(I_ - 3 + 0) == "T.abs(i - 3) - 1"


def test_division_by_zero_is_left_alone(analyzer: Analyzer) -> None:
    zero = as_expr(0)
    for e in (
        FloorDiv(I_, zero),
        FloorMod(I_, zero),
        Div(I_, zero),
        FloorDiv(as_expr(4), zero),
        Div(as_expr(4), zero),
    ):
        assert analyzer.simplify(e) is e


def test_truncating_division_of_what_may_be_negative_stays(analyzer: Analyzer) -> None:
    e = Div(I_ - J, as_expr(2))
    assert analyzer.simplify(e) is e


def test_shared_results(analyzer: Analyzer) -> None:
    e = (I_ * 8 + J) // 8 + M
    assert analyzer.simplify(e) is analyzer.simplify(e)

"""Modular bounds: tables; soundness on random expressions is in test_analyzer."""

from __future__ import annotations

import pytest

from burnish.tensorir.arith import Analyzer
from burnish.tensorir.arith.modular import join, normal
from burnish.tensorir.expr import Expr, Var, as_expr, maximum

I_, M = Var("i"), Var("m")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (as_expr(5), (0, 5)),
        (M, (1, 0)),
        (M * 8, (8, 0)),
        (M * 8 + 3, (8, 3)),
        (M * 8 - I_ * 12 + 5, (4, 1)),
        ((M * 6 + 3) * (I_ * 4 + 2), (12, 6)),
        ((M * 8 + 3) % 12, (4, 3)),
        (maximum(M * 8 + 1, I_ * 12 + 5), (4, 1)),
        (M // 8 * 8, (8, 0)),
    ],
)
def test_modular(expr: Expr, expected: tuple[int, int]) -> None:
    assert Analyzer().modular(expr) == expected


def test_divides() -> None:
    a = Analyzer()
    assert a.divides(M * 24 + 48, 8)
    assert not a.divides(M * 24 + 4, 8)
    assert a.divides(0, 8)
    assert not a.divides(M, 2)


def test_a_constraint_on_a_remainder() -> None:
    a = Analyzer()
    with a.constraint((M % 8).equal(0)):
        assert a.modular(M + 3) == (8, 3)
        assert a.divides(M * 2, 16)
    assert a.modular(M) == (1, 0)


def test_pairs() -> None:
    assert normal(-8, 11) == (8, 3)
    assert normal(0, 11) == (0, 11)
    assert join((8, 1), (12, 5)) == (4, 1)
    assert join((0, 3), (0, 9)) == (6, 3)

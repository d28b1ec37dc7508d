from __future__ import annotations

from burnish.tensorir.analysis.conditions import conjunction, conjuncts
from burnish.tensorir.expr import IntImm, Var, logical_and
from burnish.tensorir.text.printer import print_expr


def test_conditions() -> None:
    x = Var("x")
    a, b = x < 4, x >= 1
    assert [print_expr(c) for c in conjuncts(logical_and(a, b))] == ["x < 4", "x >= 1"]
    assert print_expr(conjunction([a, b, x < IntImm(4)])) == "x < 4 and x >= 1"
    assert conjuncts(conjunction([])) == []

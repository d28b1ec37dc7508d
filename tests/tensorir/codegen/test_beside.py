"""Two vectors as one of twice the lanes, and what cannot be one."""

from __future__ import annotations

import pytest

from burnish.support.node import walk
from burnish.tensorir.codegen.beside import joined
from burnish.tensorir.expr import Expr
from burnish.tensorir.lowering.scope import Scope
from burnish.tensorir.stmt import BufferStore
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr

TEXT = """
@T.prim_func
def f(x: T.Buffer((64,), "float32"), s: T.Buffer((4,), "float32"), y: T.Buffer((64,), "float32")):
    for i in range(2):
        y[T.Ramp(0, 1, 4)] = FIRST
        y[T.Ramp(4, 1, 4)] = SECOND
"""


def values(first: str, second: str) -> list[Expr]:
    func = parse_func(TEXT.replace("FIRST", first).replace("SECOND", second))
    return [n.value for n in walk(func.body) if isinstance(n, BufferStore)]


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        ("x[T.Ramp(i * 8, 1, 4)]", "x[T.Ramp(i * 8 + 4, 1, 4)]", "x[T.Ramp(i * 8, 1, 8)]"),
        ("T.exp(x[T.Ramp(1, 1, 4)])", "T.exp(x[T.Ramp(5, 1, 4)])", "T.exp(x[T.Ramp(1, 1, 8)])"),
        ("T.Broadcast(s[i], 4)", "T.Broadcast(s[i], 4)", "T.Broadcast(s[i], 8)"),
        ("T.Broadcast(s[i], 4)", "T.Broadcast(s[0], 4)", None),
        ("x[T.Ramp(0, 1, 4)]", "x[T.Ramp(5, 1, 4)]", None),
        ("x[T.Ramp(0, 2, 4)]", "x[T.Ramp(8, 2, 4)]", None),
        ("T.exp(x[T.Ramp(0, 1, 4)])", "T.tanh(x[T.Ramp(4, 1, 4)])", None),
    ],
)
def test_what_is_beside(first: str, second: str, both: str | None) -> None:
    a, b = values(first, second)
    found = joined(a, b, Scope().linear)
    assert (found and print_expr(found.value)) == both


def test_loads_under_masks_are_a_variable_of_both() -> None:
    masked = "x.vload([T.Ramp({at}, 1, 4)], predicate=T.Ramp(0, 1, 4) >= T.Broadcast({k}, 4))"
    first, second = values(masked.format(at=0, k=1), masked.format(at=4, k=-3))
    found = joined(first, second, Scope().linear)
    assert found is not None
    (halves,) = found.halves.values()
    assert halves.var is found.value
    assert (halves.first, halves.second) == (first, second)
    assert halves.var.dtype.lanes == 8

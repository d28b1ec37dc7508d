"""Guards are read from what torch says of named sizes."""

from __future__ import annotations

import pytest
import sympy
import torch
from torch import nn

from burnish.frontend.torch.dynamic_shapes import plan_export
from burnish.frontend.torch.said_guards import Gaps, fails_at, gaps_of
from burnish.support.errors import FrontendError

SAID = "  - Not all values of n = s in the specified range satisfy the generated guard {}"


def gaps(*guards: str) -> Gaps | None:
    plan = plan_export(nn.ReLU(), (torch.rand(2, 3),), None, ({0: "n"},))
    error = FrontendError("no export")
    error.__cause__ = RuntimeError("\n".join(map(SAID.format, guards)))
    return gaps_of(error, plan)


def test_guards_that_are_no_python_leave_the_refusal_to_torch() -> None:
    assert gaps("2s") is gaps("Unheard(s) > 1") is None


@pytest.mark.parametrize(
    ("guard", "sizes"),
    [
        ("s != 3", [3]),
        ("s > 8", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("s > 300", list(range(1, 301))),
        ("s % 8 != 0", list(range(8, 400, 8))),
        ("(s % 2 == 1) | (s > 7)", [2, 4, 6]),
        ("(s > 3) & (s % 8 != 5)", [1, 2, 3, *range(5, 400, 8)]),
        ("s % 8 > 1", [n for n in range(1, 400) if n % 8 < 2]),
    ],
)
def test_sizes_that_are_left_out(guard: str, sizes: list[int]) -> None:
    found = gaps(guard)
    assert found is not None
    assert [n for n in found.sizes["n"] if n < 400] == sizes
    holds = [n for n in range(1, 400) if not found.have({"n": n})]
    assert holds == [n for n in range(1, 400) if eval(guard, {"s": n})]


@pytest.mark.parametrize("guard", ["s < 900", "(s % 8 > 1) & (s < 5000)", "s <= 300000"])
def test_all_sizes_from_one_on_are_no_gaps(guard: str) -> None:
    assert gaps(guard) is None


def test_a_condition_fails_at_sizes_of_names() -> None:
    b, n = sympy.symbols("b n", positive=True, integer=True)
    names = {b: "batch", n: "length"}
    assert fails_at(sympy.Gt(n, 2), names) == [{"length": 1}, {"length": 2}]
    assert fails_at(sympy.Ge(b * n, 1), names) == []
    together = fails_at(sympy.Ne(b * n, 1), names)
    assert together == [{"batch": 1, "length": 1}]
    assert fails_at(sympy.Ne(b * sympy.Symbol("u0"), 1), names) is None
    assert fails_at(sympy.true, names) == []
    assert fails_at(sympy.false, names) is None

"""Values of index arithmetic, beside those of the laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.tensorir.arith.evaluate import OF_ARRAYS, evaluate
from burnish.tensorir.expr import Call, Expr, IntImm, Max, Min, Var, floordiv, floormod, maximum
from burnish.tests.tensorir.arith.evaluate import evaluate as expected

N, M = Var("n"), Var("m")


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(-(2**70), 2**70), st.integers(-9, 9), st.sampled_from([-3, 2, 7]))
def test_integers_of_any_size(n: int, m: int, k: int) -> None:
    e = maximum(floordiv(N * k - M, k), floormod(M, k)) + N * M
    values = {N: n, M: m}
    assert evaluate(e, values.__getitem__) == expected(e, values)


def test_arrays_are_evaluated_at_once() -> None:
    e = Max(Min(N * 2, IntImm(7)), M) - floormod(N, 3)
    n, m = np.arange(5), np.arange(5)[::-1]
    found = evaluate(e, {N: n, M: m}.__getitem__, OF_ARRAYS)
    assert found.tolist() == [
        expected(e, {N: int(a), M: int(b)}) for a, b in zip(n, m, strict=True)
    ]


def test_what_is_no_arithmetic_is_asked_for() -> None:
    other = Call("popcount", (N,), N.dtype)
    asked: list[Expr] = []
    assert evaluate(other * 3, lambda e: asked.append(e) or 5) == 15
    assert asked == [other]
    with pytest.raises(ZeroDivisionError):
        evaluate(floordiv(N, M), {N: 1, M: 0}.__getitem__)

"""Dims of one size: what is equal for every value of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.graphir.dim import fold_dim, parse_dim, print_dim
from burnish.tensorir.arith.one_size import is_same, simplest
from burnish.tensorir.expr import Expr, IntImm, Max, Min, Var

N, M = Var("n"), Var("m")


def dim(text: str) -> Expr:
    return parse_dim(text, {"n": N, "m": M}.__getitem__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max(n, 0)", "n"),
        ("min(n, n + 3)", "n"),
        ("min(n, min(1, n) + n)", "n"),
        ("max(min(1 + n, min(1, n) + n) - 1, 0)", "n"),
        ("max((n + 1) // 2, n // 2)", "(n + 1) // 2"),
        ("max(n - 1, 0)", "max(n - 1, 0)"),
        ("max(min(n, 2), 0) * m", "min(n, 2) * m"),
        ("max(n - max(n - 2, 0), 0) * 2", "(n - max(n - 2, 0)) * 2"),
        ("max(n, m - m)", "max(n, m - m)"),
        ("min(n, 512)", "min(n, 512)"),
        ("max(n * n, 0)", "max(n * n, 0)"),
        ("n + 1", "n + 1"),
    ],
)
def test_the_shortest_equal_part(text: str, expected: str) -> None:
    assert print_dim(simplest(dim(text))) == expected


def test_dims_are_folded_to_it() -> None:
    assert fold_dim(dim("max(min(1, n) + n - 1, 0)")) is N
    assert fold_dim(dim("max(min(1, n) + n - 1, 0) + 0")) is N


def test_what_begins_alike_and_parts_late() -> None:
    assert not is_same(dim("min(n, 1000)"), N)
    assert not is_same(dim("max(n, n // 1000 * 1001)"), N)
    assert not is_same(dim("min(n, 9999)"), N)


def _dims(depth: int) -> st.SearchStrategy[Expr]:
    leaf = st.one_of(st.just(N), st.integers(-4, 6).map(IntImm))
    if not depth:
        return leaf
    part = _dims(depth - 1)
    pairs = st.tuples(part, part)
    return st.one_of(
        leaf,
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        pairs.map(lambda p: Min(*p)),
        pairs.map(lambda p: Max(*p)),
        st.tuples(part, st.integers(1, 5)).map(lambda p: p[0] // p[1]),
        st.tuples(part, st.integers(1, 5)).map(lambda p: p[0] % p[1]),
        st.tuples(part, st.integers(-3, 3)).map(lambda p: p[0] * p[1]),
    )


def value(text: str, n: int) -> int:
    found = eval(text, {"n": n, "min": min, "max": max})
    assert isinstance(found, int)
    return found


@settings(max_examples=200, deadline=None, derandomize=True)
@given(_dims(3), _dims(2))
def test_equality_is_that_of_all_values(a: Expr, b: Expr) -> None:
    """Of the dims as Python computes them, far beyond where they were looked at."""
    texts = [print_dim(d) for d in (a, b, simplest(a))]
    sizes = [*range(60), 997, 10_007, 123_456]
    if is_same(a, b):
        assert all(value(texts[0], n) == value(texts[1], n) for n in sizes)
    assert all(value(texts[0], n) == value(texts[2], n) for n in sizes)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(_dims(1), _dims(1))
def test_the_smaller_and_the_larger_are_both(a: Expr, b: Expr) -> None:
    assert is_same(Max(a, b) + Min(a, b) + N, a + b + N)

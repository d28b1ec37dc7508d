"""Linear forms: canonical, value-preserving, and what bounds decide."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.dtype import DType
from burnish.tensorir.arith.linear import ZERO
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import (
    INDEX,
    Cast,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Var,
    as_expr,
)
from burnish.tensorir.lowering.scope import Scope
from burnish.tensorir.text.printer import print_expr

I, J, M, N = Var("i"), Var("j"), Var("m"), Var("n")  # noqa: E741 - as the text reads


def scope() -> Scope:
    s = Scope()
    s.declare_dim(N)
    s.bind(I, Range(IntImm(0), IntImm(16)))
    s.bind(J, Range(IntImm(0), N))
    return s


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        (I * 4 + J - I * 3, "i + j"),
        ((I + 1) * N, "i * n + n"),
        ((I * 8 + 5) // 4, "i * 2 + 1"),
        ((I * 8 + 5) % 4, "1"),
        (I // 16, "0"),
        (I % 16, "i"),
        ((J * 16 + I) // 16, "j"),
        ((J * 16 + I) % 16, "i"),
        (J // 7 * 7 + J % 7, "j"),
        ((J * 4) // 8, "j // 2"),
        (I // 4 * 4 + I % 4, "i"),
        (J // N * N + J % N, "j"),
        ((J * 8 + I) // N * (N * 3) + (J * 8 + I) % N * 3, "j * 24 + i * 3"),
        (J // N * M * N + J % N * M, "j * m"),
        ((J * 2) // M * N + (J * 2) % N, "n * (j * 2 // m) + j * 2 % n"),
        (as_expr(3) - 3, "0"),
        (Min(I, IntImm(20)), "i"),
        (Max(I, IntImm(20)), "20"),
        (I < 16, "T.bool(True)"),
        (I >= 16, "T.bool(False)"),
        (J < N, "T.bool(True)"),
        (J * 4 + 3 < N * 4, "T.bool(True)"),
        (J.equal(N), "T.bool(False)"),
        (I < J, "i < j"),
        (I - 3 < J + 4, "i < j + 7"),
    ],
    ids=lambda e: print_expr(e) if isinstance(e, Expr) else None,
)
def test_simplify(e: Expr, expected: str) -> None:
    assert print_expr(scope().simplify(e)) == expected


def evaluate(e: Expr, env: dict[int, int]) -> int:
    match e:
        case Var():
            return env[id(e)]
        case IntImm(value):
            return value
    a, b = evaluate(e.a, env), evaluate(e.b, env)  # type: ignore[attr-defined]
    table = {
        "Add": lambda: a + b,
        "Sub": lambda: a - b,
        "Mul": lambda: a * b,
        "FloorDiv": lambda: a // b,
        "FloorMod": lambda: a % b,
        "Min": lambda: min(a, b),
        "Max": lambda: max(a, b),
        "LT": lambda: a < b,
        "LE": lambda: a <= b,
        "GT": lambda: a > b,
        "GE": lambda: a >= b,
        "EQ": lambda: a == b,
        "NE": lambda: a != b,
    }
    return int(table[type(e).__name__]())


leaves = st.one_of(st.sampled_from([I, J, N]), st.integers(-9, 40).map(IntImm))
indices = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] - p[1]),
        st.tuples(inner, st.integers(-4, 16)).map(lambda p: p[0] * p[1]),
        st.tuples(inner, st.integers(1, 17)).map(lambda p: p[0] // p[1]),
        st.tuples(inner, st.integers(1, 17)).map(lambda p: p[0] % p[1]),
        st.tuples(inner, inner).map(lambda p: Min(*p)),
        st.tuples(inner, inner).map(lambda p: Max(*p)),
    ),
    max_leaves=8,
)
comparisons = st.tuples(
    indices, indices, st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"])
).map(
    lambda t: {
        "lt": t[0] < t[1],
        "le": t[0] <= t[1],
        "gt": t[0] > t[1],
        "ge": t[0] >= t[1],
        "eq": t[0].equal(t[1]),
        "ne": t[0].not_equal(t[1]),
    }[t[2]]
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.one_of(indices, comparisons), st.integers(1, 30), st.data())
def test_simplify_keeps_the_value_and_bounds_hold(e: Expr, n: int, data: st.DataObject) -> None:
    env = {id(N): n, id(I): data.draw(st.integers(0, 15)), id(J): data.draw(st.integers(0, n - 1))}
    s = scope()
    simple = s.simplify(e)
    assert evaluate(simple, env) == evaluate(e, env)
    if not e.dtype.is_bool:
        low, high = s.interval(s.linear(e))
        value = evaluate(e, env)
        assert low is None or low <= value
        assert high is None or value <= high


@settings(max_examples=100, deadline=None, derandomize=True)
@given(indices)
def test_simplify_is_idempotent(e: Expr) -> None:
    once = scope().simplify(e)
    assert print_expr(scope().simplify(once)) == print_expr(once)


def test_a_quotient_of_a_quotient_is_one() -> None:
    s = scope()
    assert print_expr(s.simplify(N // 4 // 2)) == "n // 8"
    assert print_expr(s.simplify((N // 4 + 3) // 2)) == "(n + 4) // 8 + 1"


@pytest.mark.parametrize(
    "condition",
    [I * 4 + J + N // 8 * 8 < N, I * 4 + J + N // 8 * 8 < N // 4 * 4, I * 4 + N // 8 * 8 + 4 <= N],
    ids=print_expr,
)
def test_the_end_of_a_loop_may_be_a_digit_of_a_size(condition: Expr) -> None:
    s = Scope()
    s.declare_dim(N)
    with s.loop(I, IntImm(0), N // 4 % 2), s.loop(J, IntImm(0), IntImm(4)):
        assert print_expr(s.simplify(condition)) == "T.bool(True)"
    with s.loop(I, IntImm(0), N // 4 % 2), s.loop(J, IntImm(0), IntImm(5)):
        assert not isinstance(s.simplify(I * 4 + J + N // 8 * 8 < N // 4 * 4), IntImm)


def test_bounds_of_integers_narrower_than_int64() -> None:
    """Indices are clamped in the type that they are read in: ``(T.max(I[i], 0) // 2) // 4``."""
    x = Var("x", DType("int8"))

    def c(value: int) -> IntImm:
        return IntImm(value, DType("int8"))

    clamped = Min(FloorDiv(Max(x, c(0)), c(2)), c(7))
    scope = Scope()
    index = Cast(INDEX, clamped)
    assert scope.interval(scope.linear(index)) == (0, 7)
    assert scope.interval(scope.linear(Cast(INDEX, Max(x, c(3))))) == (3, 127)
    assert scope.interval(scope.linear(Cast(INDEX, FloorMod(x, c(5))))) == (0, 4)
    quotient = scope.linear(FloorDiv(index, IntImm(8, INDEX)))
    assert quotient.key == ZERO.key

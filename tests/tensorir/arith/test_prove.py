"""The search for proofs: what each step adds, and that the search is bounded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.tensorir.arith import Analyzer
from burnish.tensorir.arith.linear import Linear
from burnish.tensorir.arith.prove import STEPS, tighten
from burnish.tensorir.buffer import Range
from burnish.tensorir.expr import And, Expr, Var, as_expr, maximum, minimum

I_, J, M, N, X, Y = (Var(n) for n in ("i", "j", "m", "n", "x", "y"))


@pytest.fixture
def analyzer() -> Analyzer:
    a = Analyzer()
    a.declare_dim(M)
    a.declare_dim(N)
    a.bind(I_, Range(as_expr(0), N))
    a.bind(J, Range(as_expr(0), M))
    return a


@pytest.mark.parametrize(
    "claim",
    [
        M // 4 * 4 >= M - 3,
        M // N * N >= M - N + 1,
        X // (M * N) * M * N >= X - M * N + 1,
        (M + 15) // 16 * 16 >= M,
        (M + 15) // 16 * 16 < M + 16,
        M // 16 * 8 <= M,
        M // 16 * 24 <= M * 2,
        I_ * M + J <= N * M - 1,
        (N - I_) * M >= J,
        minimum(X, Y) <= X,
        minimum(X, Y) <= maximum(X, Y),
        maximum(X, Y) + 1 > Y,
        X - X % 8 <= X,
        J % 8 <= J,
        J // M < 1,
        (I_ * M + J) // M < N,
        M * N * 8 >= M * N,
        X % 8 >= X // 4 % 2 * 4,
        minimum(M - I_ * 8, 8) + I_ * 8 <= M,
    ],
)
def test_proved(analyzer: Analyzer, claim: Expr) -> None:
    assert analyzer.can_prove(claim)


@pytest.mark.parametrize(
    "claim",
    [
        M // 4 * 4 >= M - 2,
        M // N * N >= M - N + 2,
        M // 8 * 8 >= M,
        (M + 7) // 8 * 8 <= M,
        I_ * M + J < N,
        X * X >= X * Y,
        minimum(X, Y) >= X,
        X % 8 <= X,
        X // 4 * 4 * M * Y <= X * M * Y,
        M > 0,
        X // M <= X,
    ],
)
def test_not_proved(analyzer: Analyzer, claim: Expr) -> None:
    assert not analyzer.can_prove(claim)


def test_tighten_divides_and_rounds_down() -> None:
    assert tighten(Linear({I_: 8, J: -4}, 7)).key == Linear({I_: 2, J: -1}, 1).key
    assert tighten(Linear({I_: 8}, -1)).key == Linear({I_: 1}, -1).key


def test_equalities(analyzer: Analyzer) -> None:
    assert analyzer.can_prove_equal((I_ + 1) * M, M + M * I_)
    assert analyzer.can_prove_equal(X // 8 * 8 + X % 8, X)
    assert not analyzer.can_prove_equal(X // 8 * 8, X)
    with analyzer.constraint(X <= Y), analyzer.constraint(Y <= X):
        assert analyzer.can_prove_equal(X, Y)


def test_divisors_of_unknown_sign() -> None:
    a = Analyzer()
    with a.constraint(X >= Y):
        assert not a.can_prove(X // Y >= 1), "0 // -5 is 0"
    with a.constraint(X // -4 <= 3):
        assert not a.can_prove(X < 0), "0 // -4 is 0"


def test_a_hopeless_claim_over_many_extrema_ends(analyzer: Analyzer) -> None:
    e = X
    for k in range(12):
        e = minimum(e, Var(f"v{k}")) + maximum(e, Var(f"w{k}")) // 2
    assert not analyzer.can_prove(e >= 0)


def test_each_step_states_itself() -> None:
    assert all(step.__doc__ for step in STEPS)


DIGIT_CLAIMS = (
    I_ * 4 + M // 8 * 8 + 4 <= M // 4 * 4,
    I_ * 4 + J + M // 8 * 8 < M // 4 * 4,
    I_ * 4 + J + M // 8 * 8 < M,
    M // 8 * 2 + I_ < M // 4,
    M // 8 * 8 + M // 4 % 2 * 4 <= M,
    M // 4 % 2 >= 1,
)


@pytest.mark.parametrize("claim", DIGIT_CLAIMS)
def test_a_loop_over_a_digit_of_a_size_stays_below_the_size(claim: Expr) -> None:
    a = Analyzer()
    a.declare_dim(M)
    assert not a.can_prove(M // 4 % 2 >= 1)
    with a.scope():
        a.bind(I_, Range(as_expr(0), M // 4 % 2))
        a.bind(J, Range(as_expr(0), as_expr(4)))
        assert a.can_prove(claim)
        a.bind(I_, Range(as_expr(0), M))
        assert not a.can_prove(M // 4 % 2 >= 1)
    assert not a.can_prove(M // 4 % 2 >= 1)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.sampled_from([2, 4, 6, 8]),
    st.sampled_from([2, 3, 4]),
    st.integers(-4, 8),
    st.integers(-8, 8),
    st.sampled_from([1, 2, 4, 8]),
)
def test_what_is_proved_of_digits_is_true(
    place: int, base: int, scale: int, offset: int, unit: int
) -> None:
    claim = I_ * scale + M // (place * base) * (place * base) + offset <= M // unit * unit
    a = Analyzer()
    a.declare_dim(M)
    a.bind(I_, Range(as_expr(0), M // place % base))
    if a.can_prove(claim):
        for m in range(4 * place * base):
            for i in range(m // place % base):
                left = i * scale + m // (place * base) * (place * base) + offset
                assert left <= m // unit * unit, (m, i)


def test_a_remainder_of_an_extremum_does_not_ask_for_itself() -> None:
    """To choose between the operands of max needs a proof; a proof about the remainder must not
    begin by choosing anew."""
    total = maximum(J * 4, X * 8 + Y * 4) - (7 - X - J * 8)
    assert not Analyzer().can_prove(
        And((Y * -2 % -16 + 1) // 2 * 2 <= (J - 8) // 2 * 2 + (J - 8) % 2 + 7, total <= total % 8)
    )

"""Dims: text both ways, proved equality, broadcasting, solving. Laws by evaluation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.graphir.dim import (
    DimError,
    OwnDims,
    broadcast_shapes,
    dim_equal,
    divide,
    fold_dim,
    parse_dim,
    print_dim,
    print_shape,
    product,
    shape_equal,
    solve_dims,
    static_shape,
    static_value,
    substitute_dim,
)
from burnish.support.structural import structural_equal
from burnish.tensorir.expr import Expr, FloatImm, IntImm, Var, as_expr, floordiv, floormod, maximum

M, N = Var("m"), Var("n")
VARS = {"m": M, "n": N}


def dim(text: str) -> Expr:
    return parse_dim(text, VARS.__getitem__)


TEXTS = [
    "7",
    "m",
    "m * 2 + 1",
    "(m + 1) * 2",
    "m - (n - 1)",
    "m - n - 1",
    "(m + 3) // 4",
    "m % 3 * 2",
    "min(m, n + 1)",
    "max(m, 2) * (n % 4)",
    "m // (n // 2)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_round_trips(text: str) -> None:
    assert print_dim(dim(text)) == text
    assert structural_equal(dim(print_dim(dim(text))), dim(text), map_free_vars=False)


@pytest.mark.parametrize("text", ["", "m +", "m ** 2", "f(m)", "1.5", "True"])
def test_what_is_no_dim_is_refused(text: str) -> None:
    with pytest.raises(DimError, match=r"[Ee]xpected"):
        dim(text)


def test_a_float_has_no_text() -> None:
    with pytest.raises(DimError, match="found FloatImm"):
        print_dim(FloatImm(1.0))


EQUAL = [
    ("m * 28 * 28", "m * 784"),
    ("(m + n) * 2", "n + m + n + m"),
    ("m - m", "0"),
    ("m * n", "n * m"),
    ("m * 6 // 3", "m * 2"),
    ("m * 4 % 2", "0"),
    ("min(m, m)", "m"),
    ("(m + 1) * (m - 1)", "m * m - 1"),
    ("max(3, 5)", "5"),
    ("17 // 5 + m", "m + 3"),
    ("(m + n) // 2", "(n + m) // 2"),
]
DIFFERENT = [
    ("m", "n"),
    ("m", "m + 1"),
    ("m // 2 * 2", "m"),
    ("min(m, n)", "max(m, n)"),
    ("m % 2", "m // 2"),
]


@pytest.mark.parametrize(("a", "b"), EQUAL)
def test_equality_is_proved(a: str, b: str) -> None:
    assert dim_equal(dim(a), dim(b))


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_what_may_differ_is_not_equal(a: str, b: str) -> None:
    assert not dim_equal(dim(a), dim(b))


@st.composite
def dims(draw: st.DrawFn, depth: int = 3) -> Expr:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([M, N, as_expr(0), as_expr(2), as_expr(3)]))
    a, b = draw(dims(depth=depth - 1)), draw(dims(depth=depth - 1))
    divisor = draw(st.sampled_from([1, 2, 3]))
    return draw(
        st.sampled_from(
            [a + b, a - b, a * b, floordiv(a, divisor), floormod(a, divisor), maximum(a, b)]
        )
    )


@settings(max_examples=200, deadline=None, derandomize=True)
@given(dims(), dims(), st.integers(0, 9), st.integers(0, 9))
def test_proofs_agree_with_values(a: Expr, b: Expr, m: int, n: int) -> None:
    values = {M: as_expr(m), N: as_expr(n)}
    x, y = substitute_dim(a, values), substitute_dim(b, values)
    assert static_value(fold_dim(a)) in (None, static_value(x))
    assert static_value(substitute_dim(fold_dim(a), values)) == static_value(x)
    if dim_equal(a, b):
        assert static_value(x) == static_value(y)
    quotient = divide(a, b)
    if quotient is not None and static_value(y) != 0:
        assert static_value(substitute_dim(quotient, values) * y) == static_value(x)


def test_broadcasting_is_numpys() -> None:
    shape = broadcast_shapes((M, as_expr(1), as_expr(3)), (as_expr(4), as_expr(1)))
    assert print_shape(shape) == "(m, 4, 3)"
    assert broadcast_shapes((), (M,)) == (M,)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ("m", "n", "dims m and n (the 1. from the right) are not proved equal"),
        ("m", "3", "dims m and 3 (the 1. from the right) are not proved equal"),
        ("2", "3", "dims 2 and 3 (the 1. from the right) differ and neither is 1"),
    ],
)
def test_dims_that_do_not_broadcast_are_named(a: str, b: str, message: str) -> None:
    with pytest.raises(DimError) as caught:
        broadcast_shapes((dim(a),), (dim(b),))
    assert message == caught.value.message


def test_products_keep_the_number_last() -> None:
    assert print_dim(product((as_expr(28), M, as_expr(28)))) == "m * 784"
    assert static_value(product(())) == 1
    assert static_value(product((M, as_expr(0)))) == 0


def test_static_shapes() -> None:
    assert static_shape((as_expr(2), dim("m - m + 3"))) == (2, 3)
    assert static_shape((M,)) is None
    assert shape_equal((M,), (dim("m + 0"),))
    assert not shape_equal((M,), (M, M))


def test_dims_are_solved_by_matching() -> None:
    k = Var("k")
    found = solve_dims((k * 2, k, as_expr(4)), (dim("m * 2"), M, as_expr(4)))
    assert found[k] is M
    assert print_dim(solve_dims((k * 2 + 1,), (dim("(m + n) * 2 + 1"),))[k]) == "m + n"


def test_sums_are_solved_however_they_are_nested() -> None:
    k, p, q = Var("k"), Var("p"), Var("q")
    found = solve_dims((k + (p + q),), (dim("m + 1 + n * 2"),))
    assert [print_dim(found[v]) for v in (k, p, q)] == ["m", "1", "n * 2"]


@pytest.mark.parametrize(
    ("pattern", "actual", "message"),
    [
        (("k", "k"), ("m", "n"), "symbolic dim k would be both m and n"),
        (("3",), ("m",), "dim m does not fit the parameter's dim 3"),
        (("k", "k * 2"), ("m", "n"), "dim n does not fit the parameter's dim k * 2"),
    ],
)
def test_dims_that_do_not_fit(
    pattern: tuple[str, ...], actual: tuple[str, ...], message: str
) -> None:
    names = {**VARS, "k": Var("k")}
    patterns = [parse_dim(p, names.__getitem__) for p in pattern]
    with pytest.raises(DimError) as caught:
        solve_dims(patterns, [dim(a) for a in actual])
    assert caught.value.message == message


def test_substitution_without_a_change_is_the_same_object() -> None:
    whole = dim("m * 2 + 1")
    assert substitute_dim(whole, {N: IntImm(3)}) is whole


def test_own_dims_are_one_var_a_dim() -> None:
    own = OwnDims()
    fresh = own(M)
    assert fresh is not M
    assert own(dim("m + 0")) is fresh
    compound = own(dim("m * n"))
    assert isinstance(compound, Var)
    assert own(dim("n * m")) is compound
    assert compound is not fresh
    assert static_value(own(as_expr(4))) == 4


def test_chains_of_sums_are_folded() -> None:
    """As convolutions make them, one behind another."""
    n = Var("n")
    made = fold_dim((n - 1) // 2 + 1 - 1 + 1 - 1 + 1)
    assert print_dim(made) == "(n + 1) // 2"
    kept = n + 1
    assert fold_dim(kept) is kept

"""Construction of expressions: literals, folding, dtypes, and what the operators refuse."""

from __future__ import annotations

import math

import pytest

from burnish.support.dtype import DType
from burnish.support.errors import DTypeError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.expr import (
    BOOL,
    EQ,
    FLOAT32,
    INDEX,
    NE,
    Add,
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    Var,
    all_of,
    as_expr,
    cast,
    const,
    int_limits,
    is_const,
    logical_and,
    logical_not,
    logical_or,
    max_value,
    maximum,
    min_value,
    minimum,
    wrap_integer,
)
from burnish.tensorir.text.printer import print_expr

K, J = Var("i"), Var("j")
X = Var("x", FLOAT32)


@pytest.mark.parametrize(
    ("expr", "kind", "dtype"),
    [
        (K + J, Add, "int64"),
        (1 - K, Sub, "int64"),
        (2 * X, Mul, "float32"),
        (X / 2, Div, "float32"),
        (K // 4, FloorDiv, "int64"),
        (K % 4, FloorMod, "int64"),
        (maximum(X, 0), Max, "float32"),
        (-X, Call, "float32"),
        (X.astype("float64"), Cast, "float64"),
    ],
)
def test_operators_build_nodes(expr: Expr, kind: type[Expr], dtype: str) -> None:
    assert type(expr) is kind
    assert expr.dtype == dtype


def test_a_literal_takes_the_dtype_of_the_other_operand() -> None:
    product = 2 * X
    assert isinstance(product, Mul)
    assert isinstance(product.a, FloatImm)
    assert product.a.dtype == "float32"
    small = Var("s", DType("int8")) + 1
    assert isinstance(small, Add)
    assert small.b.dtype == "int8"


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (IntImm(7) + 5, 12),
        (IntImm(7) - 5, 2),
        (IntImm(7) * 5, 35),
        (IntImm(-7) // 2, -4),
        (IntImm(-7) % 4, 1),
        (minimum(IntImm(3), 2), 2),
        (maximum(IntImm(3), 2), 3),
        (K * 0, 0),
        (K % 1, 0),
        (-IntImm(4), -4),
    ],
)
def test_integer_constants_are_folded(expr: Expr, value: int) -> None:
    assert is_const(expr, value)
    assert isinstance(expr, IntImm)


def test_neutral_elements_of_integers_are_dropped() -> None:
    assert K + 0 is K
    assert 0 + K is K
    assert K - 0 is K
    assert K * 1 is K
    assert 1 * K is K
    assert K // 1 is K


def test_floats_are_not_folded() -> None:
    assert isinstance(X + 0.0, Add)
    assert isinstance(X * 1.0, Mul)
    assert isinstance(FloatImm(1.0) + FloatImm(2.0), Add)


def test_division_by_a_zero_constant_is_left_alone() -> None:
    assert isinstance(K // 0, FloorDiv)
    assert isinstance(IntImm(1) % 0, FloorMod)


def test_negation_flips_the_sign_bit() -> None:
    negated = -FloatImm(0.0)
    assert isinstance(negated, FloatImm)
    assert math.copysign(1.0, negated.value) == -1.0


def test_scalars_broadcast_and_int32_widens() -> None:
    lanes = Ramp(K, IntImm(1), 8)
    total = lanes + J
    assert isinstance(total, Add)
    assert isinstance(total.b, Broadcast)
    assert total.dtype == "int64x8"
    narrow = Var("n", DType("int32"))
    assert (narrow + K).dtype == "int64"
    assert (lanes < J).dtype == "boolx8"


def test_an_integer_beside_a_float_becomes_one() -> None:
    for total, cast_side in ((X + K, "b"), (K + X, "a")):
        assert total.dtype == "float32"
        assert print_expr(getattr(total, cast_side)) == f'T.Cast("float32", {K.name})'
    assert (X < K).dtype == "bool"
    assert (X * Ramp(K, IntImm(1), 8)).dtype == "float32x8"


@pytest.mark.parametrize(
    ("value", "dtype", "limits"),
    [
        (300, "int8", "from -128 to 127 for int8; found 300"),
        (-1, "uint16", "from 0 to 65535 for uint16; found -1"),
        (2**40, "int32", "from -2147483648 to 2147483647"),
        (2**63, "int64", "from -9223372036854775808 to"),
    ],
)
def test_constants_are_numbers_of_their_dtype(value: int, dtype: str, limits: str) -> None:
    with pytest.raises(DTypeError, match=limits):
        const(value, dtype)


def test_the_ends_of_a_dtype_are_constants_of_it() -> None:
    for dtype in ("int8", "uint8", "int64", "uint64"):
        least, most = int_limits(DType(dtype))
        assert const(least, dtype).value == least  # type: ignore[attr-defined]
        assert const(most, dtype).value == most  # type: ignore[attr-defined]


def test_other_dtypes_do_not_mix() -> None:
    mixed = r"two operands of one dtype .* for Add; found float32 and"
    with pytest.raises(DTypeError, match=mixed):
        X + Var("y", DType("float64"))
    with pytest.raises(DTypeError, match=mixed):
        X + Var("p", BOOL)
    with pytest.raises(DTypeError, match="an integer literal"):
        const(1.5, "int32")
    with pytest.raises(DTypeError, match="a value"):
        as_expr("x")  # type: ignore[arg-type]


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match="no truth value"):
        bool(K < J)
    assert Var("x", FLOAT32) != X


def test_logic_folds_constants() -> None:
    p, true, false = K < J, IntImm(1, BOOL), IntImm(0, BOOL)
    assert logical_and(true, p) is p
    assert logical_and(p, false) is false
    assert logical_or(p, false) is p
    assert logical_or(true, p) is true
    assert is_const(logical_not(true), 0)
    assert isinstance(logical_not(p), Not)
    assert isinstance(logical_or(p, p), Or)
    assert is_const(all_of([]), 1)
    assert all_of([true, p]) is p


def test_casts() -> None:
    assert cast(X, "float32") is X
    assert is_const(cast(IntImm(300), "int8"), 44)
    assert is_const(cast(IntImm(3), "float32"), 3.0)
    assert isinstance(cast(X, "int32"), Cast)


@pytest.mark.parametrize(
    ("value", "dtype", "wrapped"),
    [(128, "int8", -128), (-129, "int8", 127), (256, "uint8", 0), (-1, "uint16", 65535)],
)
def test_wrap_integer(value: int, dtype: str, wrapped: int) -> None:
    assert wrap_integer(value, DType(dtype)) == wrapped


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("float32", -math.inf, math.inf),
        ("int8", -128, 127),
        ("uint8", 0, 255),
        ("bool", 0, 1),
        ("int64", -(2**63), 2**63 - 1),
    ],
)
def test_identities_of_max_and_min(dtype: str, low: float, high: float) -> None:
    assert is_const(min_value(DType(dtype)), low)
    assert is_const(max_value(DType(dtype)), high)


def test_python_numbers_have_a_default_dtype() -> None:
    assert as_expr(True).dtype == BOOL
    assert as_expr(3).dtype == INDEX
    assert as_expr(0.5).dtype == FLOAT32
    assert as_expr(3, "uint8").dtype == "uint8"
    assert const(1.0, "float32x4").dtype == "float32x4"


def test_select_takes_two_values_of_one_dtype() -> None:
    assert Select(K < J, X, X).dtype == "float32"
    with pytest.raises(DTypeError, match="for Select"):
        Select(K < J, X, K)


def test_equality_is_a_comparison_or_a_truth() -> None:
    n, eight = Var("n"), IntImm(8)
    assert eight == IntImm(8)
    assert (eight, n) == (8, n)
    assert eight != 9
    assert eight != n
    assert n not in (Var("n"), 8)
    assert hash(n) != hash(Var("n"))
    same, other = as_expr(n == 0), as_expr(n != eight)
    assert_structural_equal(same, EQ(n, IntImm(0)))
    assert_structural_equal(other, NE(n, eight))
    assert_structural_equal(
        as_expr(n + (n == 0).astype("int64")), n + Cast(INDEX, EQ(n, IntImm(0)))
    )
    assert repr(n == 0) == "n == 0"
    with pytest.raises(DTypeError, match="Expected a value"):
        as_expr(n == "eight")


@pytest.mark.parametrize(("a", "b"), [(IntImm(7), 2), (7, IntImm(2)), (Var("n"), Var("m"))])
def test_integers_have_no_quotient_of_one_meaning(a: Expr, b: Expr) -> None:
    with pytest.raises(DTypeError, match=r"te\.floordiv.*te\.truncdiv.*te\.cast.*int64 / int64"):
        a / b


def test_an_integer_beside_a_float_has_a_quotient() -> None:
    assert (Var("n") / 2.0).dtype == "float32"
    assert (1 / X).dtype == X.dtype

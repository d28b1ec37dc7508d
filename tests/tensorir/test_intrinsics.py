"""The table of intrinsics: literal conversion, result dtypes, and what is refused."""

from __future__ import annotations

import pytest

from burnish.support.dtype import DType
from burnish.support.errors import DTypeError
from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import BOOL, INDEX, Broadcast, Call, Cast, Expr, FloatImm, IntImm, Var
from burnish.tensorir.intrinsics import INTRINSICS, UNARY_FLOAT, call_intrin, is_pure, result_dtype

F16 = Var("h", DType("float16"))
F32 = Var("x", DType("float32"))
F32X4 = Var("v", DType("float32x4"))
I32 = Var("n", DType("int32"))
I64 = Var("i")
FLAG = Var("p", BOOL)


def call(name: str, *args: Expr | float, dtype: str | None = None) -> Call:
    made = call_intrin(name, *args, dtype=dtype)
    assert isinstance(made, Call)
    return made


@pytest.mark.parametrize("name", UNARY_FLOAT)
def test_unary_functions_keep_the_dtype(name: str) -> None:
    for x in (F16, F32, F32X4):
        assert call(name, x).dtype is x.dtype
    assert call(name, 1).dtype == "float32"


def test_every_row_says_what_it_is() -> None:
    for name, row in INTRINSICS.items():
        assert row.name == name
        assert row.doc
        assert row.result in ("same", "bool", "given", "none")


def test_numbers_take_the_dtype_of_the_other_operand() -> None:
    made = call("pow", F16, 2)
    exponent = made.args[1]
    assert isinstance(exponent, FloatImm)
    assert exponent.dtype == "float16"
    mask = call("bitwise_and", I32, 15).args[1]
    assert isinstance(mask, IntImm)
    assert mask.dtype == "int32"
    assert all(a.dtype == "float32" for a in call("fma", F32, 2, 1.5).args)


def test_scalars_are_broadcast_and_int32_widens() -> None:
    assert isinstance(call("pow", F32X4, F32).args[1], Broadcast)
    assert isinstance(call("bitwise_or", I64, I32).args[1], Cast)
    assert isinstance(call("bitwise_or", I32, I64).args[0], Cast)


def test_predicates_give_a_bool_for_each_lane() -> None:
    assert call("isnan", F32).dtype is BOOL
    assert call("isinf", F32X4).dtype == "boolx4"


def test_if_then_else_pairs_its_values() -> None:
    made = call("if_then_else", FLAG, F16, 0)
    assert made.dtype == "float16"
    assert made.args[2].dtype == "float16"


def test_reinterpret_wants_a_dtype_of_the_same_width() -> None:
    assert call("reinterpret", F32, dtype="int32").dtype == "int32"
    with pytest.raises(DTypeError, match="same width"):
        call("reinterpret", F32, dtype="int64")
    with pytest.raises(DTypeError, match="the dtype that comes out"):
        call("reinterpret", F32)


def test_prefetch_is_not_pure_and_takes_an_element() -> None:
    made = call("prefetch", make_buffer("A", [4])[I64])
    assert not is_pure(made)
    assert is_pure(call("exp", F32))
    with pytest.raises(DTypeError, match="a buffer's element"):
        call("prefetch", F32)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("expp", (F32,), "Expected an intrinsic"),
        ("exp", (F32, F32), "found 2 operands"),
        ("exp", (I32,), "an operand of the intrinsic exp"),
        ("popcount", (F32,), "an operand of the intrinsic popcount"),
        ("pow", (F32, F16), "operands of one dtype"),
        ("if_then_else", (I64, F32, F32), "the condition of if_then_else"),
        ("likely", (I64,), "an operand of the intrinsic likely"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, args: tuple[Expr, ...], message: str) -> None:
    with pytest.raises(DTypeError) as caught:
        call_intrin(name, *args)
    assert message in caught.value.message


def test_a_dtype_that_does_not_come_out_is_refused() -> None:
    with pytest.raises(DTypeError, match="for the result of the intrinsic exp"):
        result_dtype("exp", (F32,), "int32")
    assert result_dtype("abs", (I64,)) is INDEX

"""What patterns say, and what their errors say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burnish import graph
from burnish.graphir.patterns.pattern import (
    Pattern,
    PatternError,
    is_call_dps,
    is_call_dps_packed,
    is_const,
    is_op,
    is_param,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    leaves,
    wildcard,
)


def test_text() -> None:
    x = wildcard()
    pattern = (is_op("linear")(x, is_const(), ...) | is_op("matmul")).has_dtype("float32")
    assert repr(is_op("softmax")(pattern).has_attr(axis=-1)) == (
        "is_op('softmax')((is_op('linear')(wildcard(), is_const(), ...) | is_op('matmul'))"
        ".has_dtype('float32')).has_attr({'axis': -1})"
    )
    assert repr(~is_var("x") & is_param().used_once()) == (
        "(~is_var('x') & is_param().used_once())"
    )
    assert repr(is_tuple_get_item(is_tuple([x, is_shape()]), 0)) == (
        "is_tuple_get_item(is_tuple([wildcard(), is_shape()]), 0)"
    )
    assert repr(is_call_dps("f")(x)) == "is_call_dps('f')(wildcard())"
    assert repr(is_call_dps_packed()) == "is_call_dps_packed()"
    assert repr(x.dominates(is_op("relu"))) == ("wildcard().dominates(is_op('relu'), wildcard())")
    assert repr(is_const(2.0).where(bool)) == "is_const(2.0).where(...)"


def test_arithmetic_is_of_operators() -> None:
    x, y = is_var("x"), is_var("y")
    assert repr(x + y) == "is_op('add')(is_var('x'), is_var('y'))"
    assert repr(x - y) == "is_op('subtract')(is_var('x'), is_var('y'))"
    assert repr(x * y / x) == (
        "is_op('divide')(is_op('multiply')(is_var('x'), is_var('y')), is_var('x'))"
    )
    assert repr(-(x @ y)) == "is_op('negative')(is_op('matmul')(is_var('x'), is_var('y')))"


def test_leaves_are_listed_in_order_and_once() -> None:
    x, w, b = wildcard(), is_const(), wildcard().has_ndim(1)
    product = is_op("matmul")(x, w).has_ndim(2)
    assert leaves(is_op("add")(product, is_op("add")(x, b))) == [x, w, b]


def test_operator_names_of_tvm() -> None:
    assert is_op("relax.nn.relu").op is graph.all_ops()["relu"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: is_op("matmull"), "there is no operator 'matmull'. Did you mean 'matmul'?"),
        (lambda: is_op("relu")(wildcard(), wildcard()), "takes 1 operands (x); found 2"),
        (lambda: is_op("linear")(wildcard()), "takes 2 to 3 operands (x, w, bias); found 1"),
        (lambda: is_op("relu")(2.0), "expected a pattern, as wildcard() makes one; found 2.0"),
        (lambda: is_op("add")(..., wildcard()), "... stands behind the last operand"),
        (lambda: is_op("softmax").has_attr(axes=1), "no attribute 'axes'; there are axis"),
        (lambda: is_op("softmax").has_attr(), "has_attr takes attributes"),
        (lambda: wildcard().has_shape(3), "has_shape takes a tuple of sizes"),  # type: ignore[arg-type]
        (lambda: wildcard() | 1, "|: expected a pattern"),
        (lambda: wildcard().where(3), "where takes a function"),  # type: ignore[arg-type]
        (lambda: wildcard() >> wildcard(), "outside of a PatternContext"),
        (lambda: is_op("relu").has_ndim(2)(wildcard()), "operands come before constraints"),
    ],
)
def test_errors(make: Callable[[], Pattern], said: str) -> None:
    with pytest.raises(PatternError) as error:
        make()
    assert said in str(error.value)

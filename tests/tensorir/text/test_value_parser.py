"""Names, literals, operators and accesses of the text form."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from burnish.support.dtype import DType
from burnish.support.errors import ParseError
from burnish.support.source import Source
from burnish.tensorir.buffer import make_buffer
from burnish.tensorir.expr import BOOL, Call, Expr, Var
from burnish.tensorir.text.expr_parser import ExprParser
from burnish.tensorir.text.printer import print_expr
from burnish.tensorir.text.text_values import Word

VARIABLES = (Var("i"), Var("n", DType("int32")), Var("x", DType("float32")), Var("p", BOOL))
A = make_buffer("A", [8, 4])


def parser(text: str, **env: object) -> tuple[ExprParser, ast.expr]:
    made = ExprParser(Source("<test>", text), env)
    for v in VARIABLES:
        made.define(v.name, v)
    made.define("A", A)
    return made, ast.parse(text, mode="eval").body


def value(text: str, **env: object) -> Any:
    made, node = parser(text, **env)
    return made.value(node)


def expr(text: str, **env: object) -> Expr:
    made, node = parser(text, **env)
    return made.expr(node)


def test_names_of_the_surroundings() -> None:
    assert value("N * 2", N=np.int32(4)) == 8
    assert value("shape[-1]", shape=(3, 5)) == 5
    assert value("dt", dt=np.dtype("float16")) == "float16"
    assert value("T.float32") == "float32"
    with pytest.raises(ParseError, match="The name 'm' is a module outside"):
        value("m", m=np)
    with pytest.raises(ParseError, match="Expected an index of a tuple of 2"):
        value("shape[2]", shape=(3, 5))


def test_buffers_have_shape_dtype_and_data() -> None:
    assert value("A.shape[1]") is A.shape[1]
    assert value("A.dtype") == "float32"
    assert value("A.data") is A
    assert value("A.strides")[1] == 1
    with pytest.raises(ParseError, match="not 'stride'"):
        value("A.stride")


def test_indices_become_int64() -> None:
    made, node = parser("A[n, i]")
    load = made.expr(node)
    assert print_expr(load) == 'A[T.Cast("int64", n), i]'


def test_operators_of_python() -> None:
    assert print_expr(expr("p & (i > 2) | ~p")) == "p and i > 2 or T.bitwise_not(p)"
    assert print_expr(expr("i & 3")) == "T.bitwise_and(i, 3)"
    made = expr("x ** 2")
    assert isinstance(made, Call)
    assert made.op == "pow"
    assert print_expr(expr("0 < i < 4")) == "0 < i and i < 4"
    assert print_expr(expr("0 < 1 <= i < n + 3 != 4")).startswith("1 <= i and i < ")
    assert value("0 < 3 < 2") is False
    with pytest.raises(ParseError, match="Matrices are not multiplied"):
        expr("x @ x")
    with pytest.raises(ParseError, match="Expected a bool, found int64"):
        expr("i and p")


def test_positions_count_characters() -> None:
    text = "é_1 + missing"
    with pytest.raises(ParseError) as caught:
        value(text, é_1=1)
    assert caught.value.span is not None
    assert text[caught.value.span.column : caught.value.span.end_column] == "missing"


def test_python_values_are_folded() -> None:
    assert value("2 ** 10 // 3") == 341
    assert value("-4") == -4
    assert value("7 / 2") == 3.5
    assert value("8 / 2") == 4
    assert isinstance(value("8 / 2"), int)
    assert value("not True") is False
    assert value("(1, 'a', 2.5)") == (1, "a", 2.5)
    assert value("float('inf')") == float("inf")


def test_a_slice_is_a_vector_of_elements() -> None:
    assert print_expr(expr("A[i, 0:4]")) == "A[i, T.Ramp(0, 1, 4)]"
    assert print_expr(expr("A[i, i * 2:i * 2 + 4]")) == "A[i, T.Ramp(i * 2, 1, 4)]"
    assert print_expr(expr("A[i, i + 1:i + 9:2]")) == "A[i, T.Ramp(i + 1, 2, 4)]"
    with pytest.raises(ParseError, match=r"A slice stands only in T\.reads"):
        expr("A[0:2, i]")
    with pytest.raises(ParseError, match="a constant number of lanes"):
        expr("A[i, 0:i]")


def test_vector_dtypes_are_words() -> None:
    assert value("T.float32x8") == "float32x8"
    assert value("T.float32xy") == Word("T.float32xy")

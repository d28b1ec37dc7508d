"""Expressions of the text form: values known while parsing, dtypes, dims, and errors."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.dtype import DType
from burnish.support.errors import ParseError
from burnish.support.source import Source
from burnish.support.structural import first_difference
from burnish.tensorir.buffer import Buffer, make_buffer
from burnish.tensorir.expr import BOOL, INDEX, Call, Expr, IntImm, Var
from burnish.tensorir.expr_parser import (
    BufferDecl,
    ExprParser,
    FreshVar,
    Word,
    describe,
    ravel,
    unravel,
)
from burnish.tensorir.printer import print_expr
from burnish.tests.strategies.exprs import exprs

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


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data(), st.sampled_from(["int64", "int32", "float32", "float16", "bool", "uint8"]))
def test_round_trip(data: st.DataObject, dtype: str) -> None:
    e = data.draw(exprs(dtype, VARIABLES, (A,)))
    made, node = parser(print_expr(e))
    assert first_difference(made.expr(node), e, map_free_vars=False) is None


def test_python_values_are_folded() -> None:
    assert value("2 ** 10 // 3") == 341
    assert value("-4") == -4
    assert value("7 / 2") == 3.5
    assert value("8 / 2") == 4
    assert isinstance(value("8 / 2"), int)
    assert value("not True") is False
    assert value("(1, 'a', 2.5)") == (1, "a", 2.5)
    assert value("float('inf')") == float("inf")


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
    with pytest.raises(ParseError, match="not 'strides'"):
        value("A.strides")


def test_declarations() -> None:
    decl = value('T.Buffer((n, "m * 2", 4), "float16", scope="local", align=64)')
    assert isinstance(decl, BufferDecl)
    made = decl.make("B")
    assert isinstance(made, Buffer)
    assert (made.dtype, made.scope, made.alignment) == ("float16", "local", 64)
    assert [print_expr(d) for d in made.shape] == ['T.Cast("int64", n)', "m * 2", "4"]
    assert isinstance(value('T.Buffer[(4,), "int32"]'), BufferDecl)
    with pytest.raises(ParseError, match="A buffer has no option 'color'"):
        value("T.Buffer((4,), color=1)")
    with pytest.raises(ParseError, match=r"The dimension '4 \+' is not an expression"):
        value('T.Buffer(("4 +",))')
    with pytest.raises(
        ParseError, match="Expected a dimension, found an expression of dtype float32"
    ):
        value("T.Buffer((x,))")


def test_typed_literals_casts_and_fresh_variables() -> None:
    made = expr("T.int8(5)")
    assert isinstance(made, IntImm)
    assert made.dtype == "int8"
    assert expr("T.int64(i)") is VARIABLES[0]
    assert print_expr(expr("T.float16(x)")) == 'T.Cast("float16", x)'
    assert value("T.int32()") == FreshVar(DType("int32"))


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
    with pytest.raises(ParseError, match="Write a chain of comparisons"):
        expr("0 < i < 4")
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


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_unravel_inverts_ravel(shape: list[int], data: st.DataObject) -> None:
    at = tuple([data.draw(st.integers(0, s - 1)) for s in shape])
    dims = tuple([IntImm(s) for s in shape])
    flat = ravel(tuple([IntImm(i) for i in at]), dims)
    assert isinstance(flat, IntImm)
    assert flat.value == np.ravel_multi_index(at, shape)
    found = unravel(flat, dims)
    assert tuple([i.value for i in found if isinstance(i, IntImm)]) == at


def test_values_are_described_in_a_few_words() -> None:
    assert describe(A) == "the buffer 'A'"
    assert describe(Word("T.grid")) == "the word T.grid"
    assert describe(IntImm(3)) == "an expression of dtype int64"
    assert describe("x") == "the string 'x'"
    assert describe(INDEX) == "the dtype int64"
    assert describe([1]) == "a list"

"""Expressions of the text form: values known while parsing, dtypes, dims, and errors."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.dtype import DType
from burnish.support.errors import ParseError
from burnish.support.source import Source
from burnish.support.structural import first_difference
from burnish.tensorir.buffer import Buffer, make_buffer
from burnish.tensorir.expr import BOOL, Expr, IntImm, Var
from burnish.tensorir.text.expr_parser import ExprParser
from burnish.tensorir.text.printer import print_expr
from burnish.tensorir.text.text_values import BufferDecl, FreshVar
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("T.ceildiv(i, 3)", "(i + 2) // 3"),
        ("T.ceildiv(i, n)", 'T.Cast("int64", n)'),
        ("T.truncmod(i, 3)", "i - T.truncdiv(i, 3) * 3"),
        ("T.truncmod(x, 3.0)", "T.fmod(x, T.float32(3))"),
        ("T.indexdiv(i, 3)", "i // 3"),
        ("T.indexmod(i, 3)", "i % 3"),
        ("T.div(i, 3)", "T.truncdiv(i, 3)"),
        ("T.Add(T.Mul(i, 2), T.Sub(i, 1))", "i * 2 + (i - 1)"),
        ("T.any(p, i < 2, i > 5)", "p or i < 2 or i > 5"),
        ("T.all(p, i < 2)", "p and i < 2"),
        ("T.all(p)", "p"),
        ("T.LT(i, 2)", "i < 2"),
        ("T.Min(i, T.Max(i, 3))", "T.min(i, T.max(i, 3))"),
        ("T.int32x4(7)", "T.Broadcast(T.int32(7), 4)"),
        ("T.Not(T.And(p, T.Or(p, p)))", "not (p and (p or p))"),
        ("T.ramp(i, 2, 4)", "T.Ramp(i, 2, 4)"),
        ("T.cast(x, dtype='float16')", 'T.Cast("float16", x)'),
        ("T.Cast(value=x, dtype='float16')", 'T.Cast("float16", x)'),
        ("(x + 1.0).astype('float16')", 'T.Cast("float16", x + T.float32(1))'),
        ("x * i", 'x * T.Cast("float32", i)'),
        ("T.exp(x, dtype='float32')", "T.exp(x)"),
        ("T.max(x, 1.0, dtype='float32')", "T.max(x, T.float32(1))"),
        ("T.broadcast(x, 4)", "T.Broadcast(x, 4)"),
    ],
)
def test_words_that_are_other_words(text: str, expected: str) -> None:
    made = print_expr(expr(text))
    assert expected in made if "Cast" in expected else made == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("T.any()", "Expected one condition, or several"),
        ("T.all(x)", "Expected a bool, found float32"),
        ("T.ceildiv(i)", "Expected 2 arguments, found 1"),
        ("T.exp(x, fast=True)", "There is no option 'fast' here"),
        ("T.exp(x, dtype='float64')", "T.exp gives float32 here"),
        (
            "T.call_packed('f', x)",
            "T.call_packed is not part of PrimFuncs. A PrimFunc calls functions of C",
        ),
        ("T.Ramp(i, 1, i)", "Expected an integer known while parsing"),
        ("T.cast(x, 'float33')", "float33"),
        ("T.cast(x, kind='float32')", "There is no option 'kind' here"),
        ("x.astype()", "Expected 1 argument, found 0"),
        ("T.Let(x, where=3)", "Expected T.Let(body, where={name: value})"),
        ("A.vload(3)", "Expected a list of indices"),
    ],
)
def test_mistakes_in_words(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        value(text)
    assert message in caught.value.message
    assert caught.value.span is not None

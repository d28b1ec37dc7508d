"""Types, dims and attributes as text, read on their own."""

from __future__ import annotations

import ast
import math

import pytest

from burnish.graphir.text.printer import format_type
from burnish.graphir.text.type_parser import TypeParser, literal, span_of
from burnish.graphir.type import TensorType
from burnish.support.errors import ParseError
from burnish.support.source import Source

ENV = {"N": 7, "SHAPE": (2, 3), "DTYPE": "int8", "other": object()}


def parser(text: str) -> tuple[TypeParser, ast.expr]:
    return TypeParser(Source("<text>", text), ENV), ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("R.Tensor((1, 'm * 2'))", 'R.Tensor((1, "m * 2"), dtype="float32")'),
        ("R.Tensor([N], DTYPE)", 'R.Tensor((7,), dtype="int8")'),
        ("R.Tensor(shape=(N + 0,), dtype='bool')", 'R.Tensor((7,), dtype="bool")'),
        ("R.Tensor(SHAPE)", 'R.Tensor((2, 3), dtype="float32")'),
        ("R.Tensor(())", 'R.Tensor((), dtype="float32")'),
        ("R.Tuple(R.Tensor((1,)), R.Shape(['k']))", None),
        ("[R.Tensor((1,))]", 'R.Tuple(R.Tensor((1,), dtype="float32"))'),
    ],
)
def test_types(text: str, printed: str | None) -> None:
    reader, node = parser(text)
    found = format_type(reader.type(node))
    assert found == (printed or 'R.Tuple(R.Tensor((1,), dtype="float32"), R.Shape(["k"]))')


def test_one_name_is_one_var() -> None:
    reader, node = parser("R.Tensor(('m', 'm'))")
    kind = reader.type(node)
    assert isinstance(kind, TensorType)
    assert kind.shape[0] is kind.shape[1] is reader.dims["m"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, (2.5, None)]", [1, (2.5, None)]),
        ("-inf", -math.inf),
        ("float('inf')", math.inf),
        ("N", 7),
        ("{'a': True}", {"a": True}),
    ],
)
def test_attributes(text: str, value: object) -> None:
    reader, node = parser(text)
    assert reader.attribute(node) == value


def test_nan_is_an_attribute() -> None:
    reader, node = parser("nan")
    assert math.isnan(reader.attribute(node))


@pytest.mark.parametrize("text", ["other", "f()", "x.y"])
def test_what_is_no_attribute_is_refused(text: str) -> None:
    reader, node = parser(text)
    with pytest.raises(ParseError, match="Expected a literal"):
        reader.attribute(node)
    with pytest.raises(ParseError, match="Expected a literal"):
        literal(node, reader.source)


def test_a_span_is_where_the_node_stands() -> None:
    reader, node = parser("R.Tensor((1,))")
    span = span_of(node, reader.source)
    assert (span.line, span.column, span.end_column) == (1, 0, 14)

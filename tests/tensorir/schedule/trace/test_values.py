from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import TraceError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.arith import IndexMap
from burnish.tensorir.expr import Expr, FloatImm, Var, maximum, minimum
from burnish.tensorir.schedule.trace.handles import BlockHandle, LoopHandle
from burnish.tensorir.schedule.trace.values import (
    decode,
    encode,
    index_map_text,
    map_value,
    parse_index_map,
    value_text,
    variables_of,
)

V = Var("v")
M = Var("m")
NAMES = {id(V): "v0"}


class Dims:
    """What has the dimension m."""

    def get_shape_var(self, name: str) -> Var:
        assert name == "m"
        return M


def exprs() -> st.SearchStrategy[Expr]:
    def extend(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        two = st.tuples(inner, inner)
        return st.one_of(
            two.map(lambda t: t[0] + t[1]),
            two.map(lambda t: t[0] - t[1]),
            two.map(lambda t: t[0] * t[1]),
            two.map(lambda t: minimum(*t)),
            two.map(lambda t: maximum(*t)),
            st.tuples(inner, st.integers(1, 9)).map(lambda t: t[0] // t[1]),
            st.tuples(inner, st.integers(1, 9)).map(lambda t: t[0] % t[1]),
        )

    leaves: st.SearchStrategy[Expr] = st.sampled_from([V, M, V + 3])
    return st.recursive(leaves, extend, max_leaves=6)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(exprs())
def test_expressions_come_back_from_json(e: Expr) -> None:
    back = decode(encode(e, NAMES), {"v0": V}, {"m": M})
    assert_structural_equal(back, e)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (V * 2 + M, 'v0 * 2 + sch.get_shape_var("m")'),
        ((V + 1) * 2, "(v0 + 1) * 2"),
        (minimum(V, 4), "te.min(v0, 4)"),
        ([None, V, True], "[None, v0, True]"),
        (float("inf"), 'float("inf")'),
        ('a "b"', r'"a \"b\""'),
        (FloatImm(0.5, "float32"), "0.5"),
    ],
)
def test_text(value: Any, text: str) -> None:
    assert value_text(value, NAMES) == text


def test_index_maps_with_outer_variables() -> None:
    i, j = Var("i"), Var("i")
    m = IndexMap((i, j), (i // V, j + M))
    text = index_map_text(m, NAMES)
    assert text == 'lambda i, i_: (i // v0, i_ + sch.get_shape_var("m"))'
    back = parse_index_map(text, {"v0": V}, {"m": M})
    assert index_map_text(back, NAMES) == text
    assert set(variables_of(m)) == {V, M}
    other = Var("w")
    mapped = map_value(m, {id(V): other}, Dims())
    assert set(variables_of(mapped)) == {other, M}
    plain = IndexMap((i, j), (j, i))
    assert map_value(plain, {}, Dims()) is plain


def test_handles_map_and_encode() -> None:
    block, loop = BlockHandle("B", "main"), LoopHandle(Var("i"), "main")
    assert map_value([block, loop], {id(block): loop}, Dims()) == [loop, loop]
    assert encode([block], {id(block): "b3"}) == [{"rv": "b3"}]
    with pytest.raises(TraceError, match=r"No instruction of the trace gives LoopRV\('i'\)"):
        encode(loop, {})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"rv": "b1"}, "no instruction before gives 'b1'"),
        ({"expr": "b1 + 1"}, "no instruction before gives 'b1'"),
        ({"rv": "b1", "expr": "1"}, "expected one tag"),
        ({"index_map": "lambda i: i"}, "is not a lambda that gives a tuple"),
        ({"expr": "open('f')"}, "unknown expression"),
        ({"float": "much"}, "could not convert string to float"),
    ],
)
def test_what_is_no_value_is_refused(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(value, {}, {})


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 0.1])
def test_floats_travel_as_json_that_every_reader_takes(value: float) -> None:
    text = json.dumps(encode([value], {}), allow_nan=False)
    (again,) = decode(json.loads(text), {}, {})
    assert type(again) is float
    assert again == value or (math.isnan(again) and math.isnan(value))


def test_what_cannot_be_recorded() -> None:
    with pytest.raises(TraceError, match="something of type set"):
        encode({1}, {})
    with pytest.raises(TraceError, match="with Cast"):
        encode(V.astype("int32"), NAMES)

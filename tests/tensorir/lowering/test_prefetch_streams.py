"""Loads as streams of cache lines."""

from __future__ import annotations

import pytest

from burnish.support.node import walk
from burnish.support.target import Target
from burnish.tensorir.lowering import lower_func
from burnish.tensorir.lowering.prefetch_streams import Stream, per_line, streams
from burnish.tensorir.lowering.scope import Scope
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.stmt import For
from burnish.tensorir.text.parser import parse_func

ROWS = """
@T.prim_func
def f(X: T.Buffer((24, 64), "{dtype}"), P: T.Buffer((8,), "int64"), Y: T.Buffer((8, 64), "{dtype}")):
    for p, q in T.grid(8, 64):
        with T.block("Y"):
            vp, vq = T.axis.remap("SS", [p, q])
            Y[vp, vq] = {value}
"""  # noqa: E501


def found(value: str, dtype: str = "float32", *, lookups: bool = False) -> list[Stream]:
    """The streams of the loop over vectors of 16."""
    sch = Schedule(parse_func(ROWS.format(value=value, dtype=dtype)))
    _, lanes = sch.split(sch.get_loops("Y")[1], [None, 16])
    sch.vectorize(lanes)
    func = lower_func(sch.func, Target("llvm -mcpu=skylake-avx512")).func
    loop = [n for n in walk(func.body) if isinstance(n, For)][-1]
    scope = Scope()
    with scope.loop(loop.var, loop.min, loop.extent):
        return streams(loop, loop.body, scope, lookups=lookups)


def test_loads_a_constant_apart_are_one_stream() -> None:
    (stream,) = found("X[vp * 2, vq] + X[vp * 2 + 1, vq]")
    assert (stream.step, sorted(stream.touched), stream.is_looked_up) == (16, [0, 64], False)
    assert stream.lines(16) == [16, 80]


@pytest.mark.parametrize(("dtype", "lines"), [("float32", 1), ("float64", 2), ("int8", 1)])
def test_lines_are_of_64_bytes(dtype: str, lines: int) -> None:
    (stream,) = found("X[vp, vq] + X[vp, vq]", dtype)
    assert len(stream.lines(0)) == lines
    assert per_line(stream.buffer) == 64 // stream.buffer.dtype.itemsize


def test_the_span_of_a_loop() -> None:
    (stream,) = found("X[vp * 2, vq] + X[vp * 2 + 1, vq]")
    assert stream.span(4) == (0, 8)
    assert stream.span(3) == (0, 7)  # a line of seven is not touched
    assert stream.span(2) is None  # four of six are, and those between are not
    assert stream.span(1 << 20) is None


def test_lookups_are_streams_where_they_are_wanted_and_certain() -> None:
    assert found("X[P[vp], vq]") == []
    (stream,) = found("X[P[vp], vq]", lookups=True)
    assert stream.is_looked_up
    assert found("T.if_then_else(vp < 7, X[P[vp], vq], T.float32(0))", lookups=True) == []
    assert len(found("T.exp(X[P[vp], vq])", lookups=True)) == 1


def test_what_does_not_move_with_the_loop_is_no_stream() -> None:
    assert found("X[vp, 0]") == []
    assert len(found("X[vp, vq] * X[vp, 3]")) == 1

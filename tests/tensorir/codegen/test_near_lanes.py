"""Which vector indices are read by few vectors, and which lanes they are then."""

from __future__ import annotations

import pytest

from burnish.support.structural import structural_equal
from burnish.tensorir.arith.analyzer import Analyzer
from burnish.tensorir.arith.linear import render
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.codegen.near_lanes import lane_of, near_lanes
from burnish.tensorir.expr import (
    INDEX,
    Add,
    Broadcast,
    BufferLoad,
    Expr,
    FloorDiv,
    IntImm,
    Mul,
    Ramp,
    Var,
    floordiv,
)
from burnish.tensorir.lowering.scope import Scope

AT = Var("i", INDEX)


def ramp(base: Expr | int, stride: int, lanes: int = 8) -> Ramp:
    base = IntImm(base, INDEX) if isinstance(base, int) else base
    return Ramp(base, IntImm(stride, INDEX), lanes)


def by(n: int, lanes: int = 8) -> Broadcast:
    return Broadcast(IntImm(n, INDEX), lanes)


ODD = Add(Mul(FloorDiv(ramp(AT * 8, 1), by(2)), by(2)), by(1))
"""Of each pair the second, twice."""


@pytest.mark.parametrize(
    ("index", "starts", "width"),
    [
        (ramp(AT, 2), [0, 7], 8),
        (ramp(AT, 1), [0], 8),
        (ramp(AT, -1), [0], 8),
        (ramp(AT * 7, 3), [0, 8, 14], 8),
        (FloorDiv(ramp(AT * 8, 1), by(2)), [0], 4),
        (FloorDiv(ramp(AT * 8, 1), by(16)), [0], 1),
        (FloorDiv(ramp(AT * 4, 1), by(16)), None, 0),  # one element or two
        (FloorDiv(ramp(0, 1), by(8)), [0], 1),
        (ramp(AT, 16), None, 0),
        (ramp(AT, 1 << 40), None, 0),  # vectors of all between would fill the memory
        (Mul(ramp(AT, 1), Broadcast(AT, 8)), None, 0),
        (Var("t", INDEX.with_lanes(8)), None, 0),
        (Add(Var("t", INDEX.with_lanes(8)), by(1)), None, 0),
        (BufferLoad(Buffer("t", (IntImm(9, INDEX),), INDEX), (ramp(0, 1),)), None, 0),
    ],
)
def test_near_lanes(index: Expr, starts: list[int] | None, width: int) -> None:
    found = near_lanes(index, Scope().linear)
    if starts is None:
        assert found is None
        return
    assert found is not None
    assert (found.starts, found.width) == (starts, width)
    analyzer = Analyzer()
    for lane, (n, at) in enumerate(found.places):
        assert 0 <= at < width
        place = render(found.first) + (starts[n] + at)
        wanted = analyzer.simplify(lane_of(index, lane))
        assert structural_equal(analyzer.simplify(place), wanted)


def test_lane_of() -> None:
    analyzer = Analyzer()
    assert lane_of(AT, 3) is AT
    found = analyzer.simplify(lane_of(FloorDiv(ramp(AT, 3), by(2)), 2))
    assert structural_equal(found, analyzer.simplify(floordiv(AT + 6, 2)))


@pytest.mark.parametrize(
    ("index", "places"),
    [
        (ODD, [1, 1, 3, 3, 5, 5, 7, 7]),  # seven elements: a vector from the one before them
        (Add(ODD, by(1)), None),  # up to the first element of the next vector
        (FloorDiv(ramp(AT * 8, 1), by(2)), None),  # four are one load
        (ramp(AT, 2), None),  # two vectors
    ],
)
def test_lanes_of_a_whole_vector(index: Expr, places: list[int] | None) -> None:
    near = near_lanes(index, Scope().linear)
    assert near is not None
    filled = near.filling(8)
    assert (filled and [lane for _, lane in filled.places]) == places
    if filled is not None:
        assert (filled.starts, filled.width, near.first.const - filled.first.const) == ([0], 8, 1)

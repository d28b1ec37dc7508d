"""Movements of indices are those that running the loops shows, where the docstring says exact."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from burnish.support.dtype import DType
from burnish.tensorir.arith.evaluate import evaluate
from burnish.tensorir.arith.movement import Movement, movement
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.expr import INDEX, BufferLoad, Expr, Var, cast, const

OUTER, INNER = Var("i", INDEX), Var("j", INDEX)


def seen(e: Expr, extents: dict[Var, int]) -> Movement:
    """What running each loop alone shows, the other one at 0."""
    found: Movement = {}
    for position, (var, extent) in enumerate(extents.items()):
        values = []
        for turn in range(extent):
            at = {v: turn if v is var else 0 for v in extents}
            values.append(evaluate(e, lambda leaf, at=at: at[leaf]))
        distinct = sorted(set(values))
        if len(distinct) > 1:
            found[position] = (len(distinct), values[-1] - values[0])
    return found


def told(e: Expr, extents: dict[Var, int]) -> Movement:
    env = {v: {i: (n, 1)} for i, (v, n) in enumerate(extents.items())}
    return {i: (n, step * (n - 1)) for i, (n, step) in movement(e, env).items() if n > 1}


@given(
    outer=st.integers(2, 6),
    inner=st.sampled_from([2, 4, 8, 16]),
    scale=st.integers(-5, 5).filter(bool),
    divisor=st.sampled_from([1, 2, 4, 8, 16]),
)
def test_sums_and_even_splits_are_exact(outer: int, inner: int, scale: int, divisor: int) -> None:
    extents = {OUTER: outer, INNER: inner}
    whole = OUTER * inner + INNER
    for e in (whole, whole * scale, OUTER * 7 - INNER * scale):
        assert told(e, extents) == seen(e, extents)
    assert told(cast(whole, "int32"), extents) == told(whole, extents)
    if divisor <= inner:
        for e in (whole // divisor, whole % divisor):
            assert told(e, extents) == seen(e, extents)


def test_a_constant_does_not_move() -> None:
    assert movement(const(3), {OUTER: {0: (4, 1)}}) == {}
    assert movement(OUTER - OUTER, {OUTER: {0: (4, 1)}}) == {}


def test_a_value_of_memory_moves_as_its_place_does() -> None:
    table = Buffer("table", (const(64),), DType("int64"))
    assert movement(BufferLoad(table, (OUTER * 2,)), {OUTER: {0: (4, 1)}}) == {0: (4, 2)}

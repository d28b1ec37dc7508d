from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.expr import Expr, Var
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, matmul
from burnish.tests.tensorir.schedule.replaying import assert_replays


def drawn(
    extent: int | Var, n: int, position: int, factor: int, seed: int = 0, **given: list[int]
) -> list[int]:
    sch = Schedule(matmul(extent, 4, 4), seed=seed)
    tile: list[Expr] = list(
        sch.sample_partitioned_tile(sch.get_loops("C")[0], n, position, factor, **given)
    )
    return [sch.get(v) for v in tile]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 64), st.integers(1, 4), st.integers(0, 3), st.integers(1, 16), st.integers())
def test_the_inner_part_is_a_multiple(
    times: int, n: int, position: int, factor: int, seed: int
) -> None:
    position = min(position, n - 1)
    tile = drawn(times * factor, n, position, factor, seed)
    assert len(tile) == n
    assert prod(tile) == times * factor
    assert prod(tile[position:]) % factor == 0


def test_all_tiles_are_drawn() -> None:
    tiles = {tuple(drawn(8, 2, 1, 2, seed)) for seed in range(60)}
    assert tiles == {(1, 8), (2, 4), (4, 2)}


def test_the_defaults_are_a_plain_tile() -> None:
    assert prod(drawn(24, 3, 0, 1)) == 24
    assert drawn(24, 1, 0, 1) == [24]
    assert drawn(24, 2, 2, 1)[1] >= 1


def test_many_primes_that_must_be_inside() -> None:
    tile = drawn(2**20, 8, 7, 2**20)
    assert tile == [1] * 7 + [2**20]


def test_extents_without_such_tiles() -> None:
    assert drawn(10, 3, 1, 4) == [10, 1, 1]
    assert drawn(Var("m"), 3, 1, 4) == [-1, 1, 1]
    assert drawn(10, 3, 1, 4, decision=[5, 1, 2]) == [5, 1, 2]


def test_the_trace_has_the_decision() -> None:
    func = matmul(32, 4, 4)
    sch = Schedule(func, seed=3)
    i = sch.get_loops("C")[0]
    _i0, i1 = sch.split(i, sch.sample_partitioned_tile(i, 2, 1, 8))
    assert sch.get(i1).extent.value % 8 == 0  # type: ignore[attr-defined]
    sch.vectorize(i1)
    assert_same(func, sch.func)
    assert_replays(func, sch)
    ((index, decision),) = sch.trace.decisions.items()
    assert prod(decision) == 32
    other = Schedule(func, seed=3)
    sch.trace.with_decision(index, [1, 32]).apply_to(other)
    assert other.trace.decisions == {index: [1, 32]}
    resampled = Schedule(func, seed=9)
    sch.trace.with_decision(index, None).apply_to(resampled)
    assert resampled.trace.decisions[index][1] % 8 == 0


@pytest.mark.parametrize(
    ("n", "position", "factor", "message"),
    [
        (0, 0, 1, "n must be at least 1; found 0"),
        (2, 3, 1, "partition_pos must be from 0 to n = 2; found 3"),
        (2, 1, 0, "innerpart_factor must be at least 1; found 0"),
        (2, 2, 4, "With partition_pos = n = 2 there is no inner part"),
    ],
)
def test_numbers_that_make_no_sense(n: int, position: int, factor: int, message: str) -> None:
    with pytest.raises(ScheduleValueError, match=message):
        drawn(8, n, position, factor)


@pytest.mark.parametrize("decision", [[8], [4, 4], [-2, -4]])
def test_a_decision_that_is_no_tile(decision: list[int]) -> None:
    with pytest.raises(ScheduleValueError, match="Expected 2 factors with the product 8"):
        drawn(8, 2, 1, 4, decision=decision)
    with pytest.raises(ScheduleValueError, match=r"from place 1 on is a multiple of 4; found \[4"):
        drawn(8, 2, 1, 4, decision=[4, 2])

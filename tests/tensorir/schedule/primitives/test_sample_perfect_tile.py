from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.expr import Var
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.primitives.sample_perfect_tile import prime_factors
from burnish.tests.tensorir.schedule.programs import body, chain, matmul


@given(st.integers(1, 5000))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_prime_factors(n: int) -> None:
    factors = prime_factors(n)
    assert math.prod(factors) == n
    assert all(p > 1 and all(p % q for q in range(2, p)) for p in factors)


@given(st.integers(1, 96), st.integers(1, 4), st.integers(1, 16), st.integers(0, 99))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_tiles_are_perfect(extent: int, n: int, limit: int, seed: int) -> None:
    sch = Schedule(chain(extent, 2), seed=seed)
    factors = [sch.get(v) for v in sch.sample_perfect_tile(sch.get_loops("B")[0], n, limit)]
    assert len(factors) == n
    assert math.prod(factors) == extent
    assert n == 1 or factors[-1] <= limit


def test_all_tiles_are_drawn() -> None:
    sch = Schedule(matmul(8, 8, 8), seed=0)
    j = sch.get_loops("C")[1]
    drawn = {tuple(sch.get(v) for v in sch.sample_perfect_tile(j, 2)) for _ in range(60)}
    assert drawn == {(1, 8), (2, 4), (4, 2), (8, 1)}


def test_a_sampled_factor_is_a_var() -> None:
    sch = Schedule(matmul(8, 8, 8), seed=0)
    factors = sch.sample_perfect_tile(sch.get_loops("C")[1], n=2)
    assert type(factors[0]) is Var
    assert sch.get(factors[0] * factors[1]) == 8


def test_a_symbolic_loop_has_one_tile() -> None:
    sch = Schedule(chain(Var("m"), 4), seed=0)
    i = sch.get_loops("B")[0]
    factors = sch.sample_perfect_tile(i, 2)
    assert [sch.get(f) for f in factors] == [-1, 1]
    sch.split(i, factors)
    assert "for i_0, i_1, j in T.grid(m, 1, 4)" in body(sch.func)


def test_decisions_are_checked() -> None:
    sch = Schedule(matmul(8, 8, 8), seed=0)
    i = sch.get_loops("C")[0]
    with pytest.raises(ScheduleValueError, match=r"2 factors with the product 8.*\[3, 4\]"):
        sch.sample_perfect_tile(i, 2, decision=[3, 4])
    with pytest.raises(ScheduleValueError, match="Expected a decision below 2; found 2"):
        sch.sample_categorical([1, 2], [0.5, 0.5], decision=2)
    with pytest.raises(ScheduleValueError, match="as many probabilities as candidates"):
        sch.sample_categorical([1, 2], [1.0])
    with pytest.raises(ScheduleValueError, match="n must be at least 1"):
        sch.sample_perfect_tile(i, 0)
    with pytest.raises(ScheduleValueError, match="max_innermost_factor must be at least 1"):
        sch.sample_perfect_tile(i, 2, 0)


def test_a_loop_that_never_runs_is_tiled_by_ones() -> None:
    sch = Schedule(chain(4, 6), seed=0)
    empty = sch.loop_partition(sch.get_loops("B")[1], [6, None])[1]
    assert [sch.get(v) for v in sch.sample_perfect_tile(empty, 2, decision=[1, 1])] == [1, 1]
    assert [sch.get(v) for v in sch.sample_perfect_tile(empty, 2)] == [1, 1]


def test_the_limit_that_holds_by_default_stands_in_the_trace() -> None:
    sch = Schedule(matmul(8, 64, 8), seed=0)
    sch.innermost_factor = 64
    j = sch.get_loops("C")[1]
    drawn = {sch.get(sch.sample_perfect_tile(j, 2)[1]) for _ in range(60)}
    assert 64 in drawn
    assert "max_innermost_factor=64" in str(sch.trace)

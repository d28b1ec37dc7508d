from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.expr import Var
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.schedule.primitives.sampling import categorical, prime_factors
from burnish.tests.tensorir.schedule.programs import assert_same, blur, body, chain, matmul


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


def test_categories_follow_their_weights() -> None:
    rng = random.Random(0)
    drawn = [categorical(rng, [10, 20, 30], [0.0, 1.0, 3.0], None) for _ in range(400)]
    assert drawn.count(0) == 0
    assert 60 < drawn.count(1) < 140


@pytest.mark.parametrize(
    ("decision", "expected"),
    [(-2, "C[v_i] = A["), (-1, "for i in range(18)"), (0, "for ax0 in range(3)")],
)
def test_compute_locations(decision: int, expected: str) -> None:
    func = blur(16)
    sch = Schedule(func, seed=0)
    b = sch.get_block("B")
    sch.compute_at(b, sch.sample_compute_location(b, decision=decision))
    assert expected in body(sch.func)
    assert sch.trace.decisions == {1: decision}
    assert_same(func, sch.func)
    other = Schedule(func, seed=3)
    sch.trace.apply_to(other)
    assert body(other.func) == body(sch.func)


def test_an_output_stays_where_it_is() -> None:
    sch = Schedule(blur(16), seed=0)
    with pytest.raises(
        ScheduleValueError, match=r"cannot be computed at place 0; legal are \[-1\]"
    ):
        sch.sample_compute_location("C", decision=0)


def test_a_loop_that_never_runs_is_tiled_by_ones() -> None:
    sch = Schedule(chain(4, 6), seed=0)
    empty = sch.loop_partition(sch.get_loops("B")[1], [6, None])[1]
    assert [sch.get(v) for v in sch.sample_perfect_tile(empty, 2, decision=[1, 1])] == [1, 1]
    assert [sch.get(v) for v in sch.sample_perfect_tile(empty, 2)] == [1, 1]


def test_decisions_and_weights_must_make_sense() -> None:
    sch = Schedule(matmul(), seed=0)
    i = sch.get_loops("C")[0]
    with pytest.raises(ScheduleValueError, match=r"all positive; found \[-2, -4\]"):
        sch.sample_perfect_tile(i, 2, decision=[-2, -4])
    for weights in ([0.0, 0.0], [1.5, -0.5]):
        with pytest.raises(ScheduleValueError, match="none is negative and one is positive; found"):
            sch.sample_categorical([1, 2], weights)
    with pytest.raises(ScheduleValueError, match="sample_compute_location: The block 'root' is"):
        sch.sample_compute_location("root")
    assert [inst.kind for inst in sch.trace] == ["get_block", "get_loops"]

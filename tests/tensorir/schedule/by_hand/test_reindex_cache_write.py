from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import LayoutError
from burnish.tensorir.expr import Expr
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, body, matmul
from burnish.tests.tensorir.schedule.replaying import assert_replays, finish


def test_a_tiled_accumulator() -> None:
    func = matmul(4, 8, 3)
    sch = Schedule(func, seed=0)
    copy = sch.reindex_cache_write("C", 0, "global", lambda i, j, k: (j // 4, i, j % 4))
    text = body(sch.func)
    assert "C_global = T.alloc_buffer((2, 4, 4))" in text
    assert "C_global[v_j // 4, v_i, v_j % 4] = T.float32(0)" in text
    assert "C[v_i, v_j] = C_global[v_j // 4, v_i, v_j % 4]" in text
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(j0, i, k, j1)
    sch.vectorize(j1)
    sch.parallel(sch.get_loops(copy)[0])
    finish(func, sch)


def test_a_transposed_accumulator_moves_under_a_loop() -> None:
    func = matmul(4, 8, 3)
    sch = Schedule(func, seed=0)
    copy = sch.reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i))
    i, j, k = sch.get_loops("C")
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(j0, i, k, j1)
    sch.reverse_compute_at(copy, j0)
    sch.decompose_reduction("C", k)
    finish(func, sch)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.permutations([0, 1]), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_any_tiling_keeps_the_values(order: list[int], a: int, b: int, split: bool) -> None:
    func = matmul(4, 6, 3)
    sch = Schedule(func, seed=0)
    if split:
        sch.split(sch.get_loops("C")[0], [None, 3])

    def tiled(i: Expr, j: Expr, k: Expr) -> tuple[Expr, ...]:
        x = [i, j]
        first, second = x[order[0]], x[order[1]]
        return (first // a, second // b, first % a, second % b)

    sch.reindex_cache_write("C", 0, "global", tiled)
    assert_same(func, sch.func)
    assert_replays(func, sch)


def test_maps_that_lose_or_multiply_elements() -> None:
    sch = Schedule(matmul(), seed=0)
    with pytest.raises(LayoutError, match="does not give each element that is accessed a place"):
        sch.reindex_cache_write("C", 0, "global", lambda i, j, k: (i,))
    with pytest.raises(LayoutError, match="uses the reduce axis 'v_k', over which 'C' combines"):
        sch.reindex_cache_write("C", 0, "global", lambda i, j, k: (i, j, k))

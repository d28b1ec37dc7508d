from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.support.errors import (
    DependenceError,
    LayoutError,
    LoopKindError,
    NonAffineError,
    ScheduleValueError,
)
from burnish.tensorir.expr import Expr, Var
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.native import call_native
from burnish.tests.tensorir.schedule.programs import assert_same, body, chain, matmul, program
from burnish.tests.tensorir.schedule.replaying import assert_replays


def test_tiles_become_axes() -> None:
    func = matmul(8, 6, 12)
    sch = Schedule(func, seed=0)
    sch.transform_block_layout("C", lambda i, j, k: (i // 4, j, k // 3, i % 4, k % 3))
    text = body(sch.func)
    assert 'T.axis.remap("SSRSR", [ax0, ax1, ax2, ax3, ax4])' in text
    assert "T.writes(C[v0 * 4 + v3, v1])" in text
    assert_same(func, verify_func(sch.func))
    assert_replays(func, sch)


def test_loops_that_were_split_unevenly_are_whole_again() -> None:
    func = chain(6, 10)
    sch = Schedule(func, seed=0)
    _, j = sch.get_loops("B")
    sch.split(j, [None, 4])
    sch.transform_block_layout("B", lambda i, j: (j, i))
    assert "T.where" not in body(sch.func)
    assert_same(func, verify_func(sch.func))


def test_symbolic_sizes() -> None:
    func = chain(Var("m"), 8)
    sch = Schedule(func, seed=0)
    sch.transform_block_layout("C", lambda i, j: (j // 4, i, j % 4))
    assert "T.grid(2, m, 4)" in body(sch.func)
    assert_same(func, sch.func, 5)


def test_then_vectorized_natively() -> None:
    func = matmul(12, 32, 20)
    sch = Schedule(func, seed=0)
    sch.transform_block_layout("C", lambda i, j, k: (i // 4, j // 16, k, i % 4, j % 16))
    loops = sch.get_loops("C")
    sch.vectorize(loops[-1])
    sch.parallel(loops[0])
    sch.decompose_reduction("C", loops[2])
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype("float32") for s in ((12, 20), (20, 32)))
    c = np.full((12, 32), np.nan, "float32")
    call_native(sch.func, a, b, c, threads=2)
    np.testing.assert_array_equal(c, a @ b)


def test_refusals() -> None:
    sch = Schedule(matmul(8, 6, 12), seed=0)
    before = sch.func
    with pytest.raises(LayoutError, match=r"no affine bijection .* \(8 x 6 x 12\) of 'C'"):
        sch.transform_block_layout("C", lambda i, j, k: (i // 3, i % 3, j, k))
    with pytest.raises(LayoutError, match="no affine bijection"):
        sch.transform_block_layout("C", lambda i, j, k: (i + j, k))
    with pytest.raises(LayoutError, match="no affine bijection"):
        sch.transform_block_layout("C", lambda i, j, k: (i, j))
    with pytest.raises(DependenceError, match="Output 0 of the map mixes spatial and reduce"):
        sch.transform_block_layout("C", lambda i, j, k: (i * 12 + k, j))
    with pytest.raises(ScheduleValueError, match="Expected an index map of the 3 axes of 'C'"):
        sch.transform_block_layout("C", lambda i, j: (j, i))
    assert sch.func is before
    sch.parallel(sch.get_loops("C")[0])
    with pytest.raises(LoopKindError, match="'i' is parallel"):
        sch.transform_block_layout("C", lambda i, j, k: (j, i, k))


def test_loops_shared_with_another_block_stay() -> None:
    sch = Schedule(chain(6, 10), seed=0)
    sch.compute_at("B", sch.get_loops("C")[0])
    with pytest.raises(NonAffineError, match="also holds other statements"):
        sch.transform_block_layout("C", lambda i, j: (j, i))


def test_repeated_instances_are_not_made_one() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for r, i in T.grid(3, 4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = B[vi] + A[vi]
""")
    with pytest.raises(NonAffineError, match="The loop 'r' repeats instances of 'B'"):
        Schedule(func, seed=0).transform_block_layout("B", lambda i: (i // 2, i % 2))


def test_an_order_that_matters_is_kept() -> None:
    func = parse_func("""
@T.prim_func
def main(B: T.Buffer((5,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.opaque(4, i)
            B[vi + 1] = B[vi] + B[vi + 1]
""")
    with pytest.raises(DependenceError, match="The axis 'vi' is opaque"):
        Schedule(func, seed=0).transform_block_layout("B", lambda i: (i // 2, i % 2))


@given(st.sampled_from([1, 2, 3, 4, 6]), st.sampled_from([1, 2, 5]), st.permutations(range(4)))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_any_tiling_and_order_keeps_results(a: int, b: int, order: list[int]) -> None:
    func = chain(12, 10)

    def tiled(i: Expr, j: Expr) -> list[Expr]:
        parts = [i // a, i % a, j // b, j % b]
        return [parts[k] for k in order]

    sch = Schedule(func, seed=0)
    sch.transform_block_layout("B", tiled)
    assert_same(func, verify_func(sch.func))


def test_instances_that_write_one_element_keep_their_order() -> None:
    text = """
for i, j in T.grid(4, 4):
    with T.block("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi + vj] = A[vi, vj]
"""
    sch = Schedule(program(text, A="(4, 4)", B="(7,)"), seed=0)
    with pytest.raises(DependenceError, match="Several instances of the block 'B' write the same"):
        sch.transform_block_layout("B", lambda i, j: (j, i))

from __future__ import annotations

import pytest

from burnish.support.errors import (
    DependenceError,
    NotAncestorError,
    NotReductionBlockError,
    ScheduleValueError,
)
from burnish.tensorir import compute as te
from burnish.tensorir.expr import Var
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, body, chain, matmul, row_sum


def test_decompose() -> None:
    func = matmul(4, 8, 3)
    sch = Schedule(func, seed=0)
    c = sch.get_block("C")
    i, j, k = sch.get_loops(c)
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i, j0, k, j1)
    init = sch.decompose_reduction(c, k)
    assert (sch.get(init).name, sch.get(c).name) == ("C_init", "C_update")
    assert (
        body(sch.func)
        == """\
for i, j_0 in T.grid(4, 2):
    for j_1_init in range(4):
        with T.block("C_init"):
            v_i = T.axis.spatial(4, i)
            v_j = T.axis.spatial(8, j_0 * 4 + j_1_init)
            T.reads()
            T.writes(C[v_i, v_j])
            C[v_i, v_j] = T.float32(0)
    for k, j_1 in T.grid(3, 4):
        with T.block("C_update"):
            v_i = T.axis.spatial(4, i)
            v_j = T.axis.spatial(8, j_0 * 4 + j_1)
            v_k = T.axis.reduce(3, k)
            T.reads(C[v_i, v_j], A[v_i, v_k], B[v_k, v_j])
            T.writes(C[v_i, v_j])
            C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]"""
    )
    assert_same(func, sch.func)


def test_decompose_keeps_kinds_and_predicates_of_spatial_loops() -> None:
    func = matmul(4, 6, 5)
    sch = Schedule(func, seed=0)
    c = sch.get_block("C")
    _, j, k = sch.get_loops(c)
    _, j1 = sch.split(j, [None, 4])
    k0, k1 = sch.split(k, [None, 2])
    sch.reorder(k0, k1, j1)
    sch.vectorize(j1)
    init = sch.decompose_reduction(c, k0)
    assert sch.get(sch.get_loops(init)[-1]).kind == "vectorized"
    text = body(sch.func)
    assert "T.where(j_0 * 4 + j_1_init < 6)" in text
    assert "T.where(j_0 * 4 + j_1 < 6 and k_0 * 2 + k_1 < 5)" in text
    assert_same(func, sch.func)


def test_decompose_below_a_reduce_loop_is_refused() -> None:
    sch = Schedule(matmul(), seed=0)
    c = sch.get_block("C")
    i, j, k = sch.get_loops(c)
    sch.reorder(k, i, j)
    with pytest.raises(DependenceError, match="'k' runs over a reduce axis and stands outside of"):
        sch.decompose_reduction(c, i)
    sch.decompose_reduction(c, k)


def test_decompose_refusals() -> None:
    sch = Schedule(chain(), seed=0)
    i, _ = sch.get_loops("B")
    with pytest.raises(NotReductionBlockError, match="'B' is not: it has no init"):
        sch.decompose_reduction("B", i)
    sch = Schedule(te.create_prim_func(_two_sums()), seed=0)
    other = sch.get_loops("S")[0]
    with pytest.raises(NotAncestorError, match="'i' does not stand around the block 'R'"):
        sch.decompose_reduction("R", other)


def _two_sums() -> list[te.Tensor]:
    a = te.placeholder((4, 4), name="A")
    k, n = te.reduce_axis((0, 4), "k"), te.reduce_axis((0, 4), "n")
    r = te.compute((4,), lambda i: te.sum(a[i, k], axis=[k]), name="R")
    s = te.compute((4,), lambda i: te.sum(a[n, i], axis=[n]), name="S")
    return [a, r, s]


def test_rfactor() -> None:
    func = row_sum(4, 12)
    sch = Schedule(func, seed=0)
    j0, j1 = sch.split(sch.get_loops("B")[1], [None, 4])
    partial = sch.rfactor(j1, 0)
    assert sch.get(partial).name == "B_rf"
    assert (
        body(sch.func)
        == """\
B_rf = T.alloc_buffer((4, 4))
for i, j_0, j_1 in T.grid(4, 3, 4):
    with T.block("B_rf"):
        v_i, vj_1, vj_0 = T.axis.remap("SSR", [i, j_1, j_0])
        T.reads(A[v_i, vj_0 * 4 + vj_1])
        T.writes(B_rf[vj_1, v_i])
        with T.init():
            B_rf[vj_1, v_i] = T.float32(0)
        B_rf[vj_1, v_i] = B_rf[vj_1, v_i] + A[v_i, vj_0 * 4 + vj_1]
for i, j_1 in T.grid(4, 4):
    with T.block("B"):
        v_i, vj_1 = T.axis.remap("SR", [i, j_1])
        T.reads(B_rf[vj_1, v_i])
        T.writes(B[v_i])
        with T.init():
            B[v_i] = T.float32(0)
        B[v_i] = B[v_i] + B_rf[vj_1, v_i]"""
    )
    sch.reorder(j0, j1)
    sch.vectorize(j1)
    assert_same(func, sch.func)


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_rfactor_axis_and_uneven_factors(axis: int) -> None:
    func = row_sum(3, 10)
    sch = Schedule(func, seed=0)
    _, j1 = sch.split(sch.get_loops("B")[1], [None, 4])
    sch.rfactor(j1, axis)
    assert_same(func, sch.func)


def test_rfactor_of_max_and_of_a_symbolic_loop() -> None:
    a = te.placeholder((Var("n"),), name="A")
    k = te.reduce_axis((0, a.shape[0]), "k")
    b = te.compute((1,), lambda i: te.max(a[k], axis=[k]), name="B")
    func = te.create_prim_func([a, b])
    sch = Schedule(func, seed=0)
    k0, _ = sch.split(sch.get_loops("B")[1], [None, 4])
    sch.rfactor(k0, 0)
    assert_same(func, sch.func, 11)


def test_rfactor_refusals() -> None:
    sch = Schedule(row_sum(), seed=0)
    i, j = sch.get_loops("B")
    with pytest.raises(DependenceError, match="'i' runs over a spatial axis"):
        sch.rfactor(i, 0)
    with pytest.raises(ScheduleValueError, match="factor_axis must be from -2 to 1; found 5"):
        sch.rfactor(j, 5)
    _, j1 = sch.split(j, [None, 32])
    with pytest.raises(DependenceError, match="might have no term at all"):
        sch.rfactor(j1, 0)


def test_rfactor_beside_another_user_is_refused() -> None:
    sch = Schedule(row_sum(4, 12), seed=0)
    _, j = sch.get_loops("B")
    first, _ = sch.loop_partition(j, [8, None])
    with pytest.raises(DependenceError, match="'B_1' uses 'B' inside the nest of 'B'"):
        sch.rfactor(first, 0)


def repeated_sum() -> Schedule:
    """A row sum that compute_at runs again for each element of the row."""
    a = te.placeholder((3, 4), name="A")
    k = te.reduce_axis((0, 4), "k")
    s = te.compute((3,), lambda i: te.sum(a[i, k], axis=[k]), name="S")
    d = te.compute((3, 4), lambda i, j: a[i, j] - s[i], name="D")
    sch = Schedule(te.create_prim_func([a, d]), seed=0)
    sch.compute_at("S", sch.get_loops("D")[1])
    return sch


def test_no_loop_between_init_and_update_repeats_the_sum() -> None:
    sch = repeated_sum()
    func = sch.func
    i, _, k = sch.get_loops("S")
    with pytest.raises(DependenceError, match="The loop 'j' runs 'S' several times for the same"):
        sch.decompose_reduction("S", i)
    with pytest.raises(DependenceError, match="The loop 'j' runs 'S' several times for the same"):
        sch.rfactor(k, 0)
    sch.decompose_reduction("S", k)
    assert_same(func, sch.func)

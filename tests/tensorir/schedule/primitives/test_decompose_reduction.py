from __future__ import annotations

import numpy as np
import pytest

from burnish.support.errors import DependenceError, NotAncestorError, NotReductionBlockError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule, Trace
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import call_native
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    body,
    chain,
    matmul,
    program,
    row_sum,
    summed,
)


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


def test_a_handle_keeps_its_block_when_another_takes_its_old_name() -> None:
    func = row_sum(4, 24)
    sch = Schedule(func, seed=0)
    _, j1 = sch.split(sch.get_loops("B")[1], [None, 4])
    first = sch.rfactor(j1, 0)
    sch.decompose_reduction(first, sch.get_loops(first)[1])
    assert sch.get(first).name == "B_rf_update"
    _, j1 = sch.split(sch.get_loops("B")[1], [None, 2])
    second = sch.rfactor(j1, 0)
    assert sch.get(second).name == "B_rf"
    assert sch.get(first).name == "B_rf_update"
    assert sch.get(sch.get_block("B_rf")).name == "B_rf"
    fork = sch.copy()
    init = fork.decompose_reduction(second, fork.get_loops(second)[1])
    names = [fork.get(b).name for b in (first, second, init)]
    assert names == ["B_rf_update", "B_rf_update_1", "B_rf_init_1"]
    assert sch.get(second).name == "B_rf"
    for trace in (fork.trace, Trace.from_json(fork.trace.as_json())):
        again = Schedule(func, seed=1)
        trace.apply_to(again)
        assert_structural_equal(fork.func, again.func, names=True)
    assert_same(func, fork.func)


def test_a_predicate_that_joins_loops_is_not_decomposed() -> None:
    sch = Schedule(summed("for i, k in T.grid(4, 4):", "i + k < 6"), seed=0)
    with pytest.raises(DependenceError, match="predicate of 'B' joins spatial and reduce loops"):
        sch.decompose_reduction("B", sch.get_loops("B")[0])


def test_a_loop_that_repeats_instances_is_not_decomposed() -> None:
    sch = Schedule(summed("for i, r, k in T.grid(4, 2, 4):"), seed=0)
    with pytest.raises(DependenceError, match="loop 'r' runs 'B' several times for the same elem"):
        sch.decompose_reduction("B", sch.get_loops("B")[1])


def test_a_loop_over_both_kinds_of_axes_is_not_taken_apart() -> None:
    sch = Schedule(row_sum(), seed=0)
    fused = sch.fuse(*sch.get_loops("B"))
    with pytest.raises(DependenceError, match="runs over a spatial and a reduce axis of 'B' at on"):
        sch.decompose_reduction("B", fused)
    func = program(
        """
for f, k in T.grid(16, 2):
    with T.block("B"):
        vi = T.axis.spatial(4, f // 4)
        vk = T.axis.reduce(8, f % 4 * 2 + k)
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]
""",
        A="(4, 8)",
        B="(4,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="'f' runs over a spatial and a reduce axis at once"):
        sch.rfactor(sch.get_loops("B")[1], 0)


def test_bindings_that_are_not_affine_are_not_decomposed() -> None:
    func = program(
        """
for i, k in T.grid(4, 4):
    with T.block("B"):
        vi = T.axis.spatial(4, i)
        vk = T.axis.reduce(10, k * k)
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]
""",
        A="(4, 10)",
        B="(4,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="cannot be proved that the loops run each instance"):
        sch.decompose_reduction("B", sch.get_loops("B")[1])


def test_an_init_never_runs_where_its_update_does_not() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((13, 6), "float32"), C: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 13):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vk, vi]
"""
    sch = Schedule(parse_func(text), seed=0)
    unit = sch.add_unit_loop(sch.get_loops("C")[0])
    sch.split(unit, [2, 1])
    _, inner, *_ = sch.get_loops("C")
    with pytest.raises(DependenceError, match="so that the init might run without it"):
        sch.decompose_reduction("C", inner)


def test_an_init_may_stand_before_guarded_steps_of_which_the_first_always_runs() -> None:
    """The parts of a sum that its length does not divide into: the last is shorter."""
    text = """
@T.prim_func
def main(A: T.Buffer((6, 13), "float32"), C: T.Buffer((6,), "float32")):
    for i, k in T.grid(6, 13):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 0.0
            C[vi] = C[vi] + A[vi, vk]
"""
    sch = Schedule(parse_func(text), seed=0)
    parts, _ = sch.split(sch.get_loops("C")[1], [3, None])
    partial = sch.rfactor(parts, 0)
    steps = sch.get_loops(partial)[-1]
    sch.decompose_reduction(partial, steps)
    a = np.random.default_rng(0).standard_normal((6, 13)).astype(np.float32)
    found = np.zeros(6, np.float32)
    call_native(sch.func, a, found)
    np.testing.assert_allclose(found, a.sum(1), rtol=1e-5)


UNDER_ONE_LOOP = """
for i in range(8):
    with T.block("F"):
        vi = T.axis.remap("S", [i])
        C[vi] = A[vi, 0]
for i in range(8):
    with T.block("D"):
        vi = T.axis.remap("S", [i])
        D[vi] = {read}
    for k in range(4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = {first}
            C[vi] = C[vi] + A[vi, vk]
    with T.block("E"):
        vi = T.axis.remap("S", [i])
        E[vi] = {after}
"""


def under_one_loop(read: str, first: str, after: str) -> PrimFunc:
    text = UNDER_ONE_LOOP.format(read=read, first=first, after=after)
    return program(text, A="(8, 4)", C="(8,)", D="(8,)", E="(8,)")


@pytest.mark.parametrize(
    ("read", "first", "after", "guilty"),
    [
        ("C[vi]", "T.float32(0)", "A[vi, 1]", "'D' uses 'C'"),
        ("A[vi, 1]", "D[vi]", "A[vi, 1]", "'D' uses 'D'"),
        ("A[vi, 1]", "T.float32(0)", "C[7 - vi]", "'E' uses 'C'"),
    ],
)
def test_an_init_does_not_overtake_others(read: str, first: str, after: str, guilty: str) -> None:
    sch = Schedule(under_one_loop(read, first, after), seed=0)
    i, _ = sch.get_loops("C")
    with pytest.raises(DependenceError, match=f"{guilty} below the loop 'i'"):
        sch.decompose_reduction("C", i)


def test_an_init_passes_who_reads_finished_elements() -> None:
    func = under_one_loop("A[vi, 1]", "A[vi, 2]", "C[vi]")
    sch = Schedule(func, seed=0)
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    assert_same(func, sch.func)
    # Directly before the reduce loop nobody is overtaken at all.
    func = under_one_loop("C[vi]", "D[vi]", "C[vi]")
    sch = Schedule(func, seed=0)
    sch.decompose_reduction("C", sch.get_loops("C")[1])
    assert_same(func, sch.func)


PERMUTED = """
@T.prim_func
def main(A: T.Buffer((8, 8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    for i, j, k in T.grid(8, 8, 8):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vj, vi] = C[vj, vi] + A[vi, vj, vk]
"""


def test_an_update_of_other_elements_than_the_init_is_no_reduction() -> None:
    sch = Schedule(parse_func(PERMUTED), seed=0)
    for loop in sch.get_loops("C"):
        with pytest.raises(NotReductionBlockError, match="other elements than its init begins"):
            sch.decompose_reduction("C", loop)

from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, LayoutError, ScheduleValueError
from burnish.tensorir.expr import Expr, Var, const, logical_and
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.intrinsics import call_intrin
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    body,
    chain,
    linear_relu,
    matmul,
    program,
)
from burnish.tests.tensorir.schedule.replaying import finish


def convolution(n: int = 6, f: int = 3) -> PrimFunc:
    """``C[i, o] = sum_r A[i + r] * W[o, r]``."""
    a, w = te.placeholder((n + f - 1,), name="A"), te.placeholder((4, f), name="W")
    r = te.reduce_axis((0, f), "r")
    c = te.compute((n, 4), lambda i, o: te.sum(a[i + r] * w[o, r], axis=[r]), name="C")
    return te.create_prim_func([a, w, c])


def transpose(m: int | Var = 6, n: int | Var = 4) -> PrimFunc:
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[j, i] * 2.0, name="C")
    return te.create_prim_func([a, c])


def test_windows_are_written_out() -> None:
    func = convolution()
    sch = Schedule(func, seed=0)
    copy = sch.reindex("C", ("read", 0))
    assert sch.get(copy).name == "A_reindex"
    text = body(sch.func)
    assert "A_reindex = T.alloc_buffer((6, 3))" in text
    assert "A_reindex[v_i, v_r] = A[v_i + v_r]" in text
    assert "C[v_i, v_o] + A_reindex[v_i, v_r] * W[v_o, v_r]" in text
    finish(func, sch)


def test_a_written_buffer_is_copied_back() -> None:
    func = transpose()
    sch = Schedule(func, seed=0)
    sch.compute_inline("B")
    inlined = sch.func
    sch.reindex("C", ("write", 0))
    sch.reindex("C", "A")
    i, j = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 2])
    sch.reorder(j, i0, i1)
    sch.reverse_compute_at("C_reindex", j)
    sch.compute_at("A_reindex", j)
    sch.vectorize(sch.get_loops("A_reindex")[-1])
    assert_same(inlined, sch.func)
    finish(func, sch)


def test_the_sum_is_taken_in_the_copy() -> None:
    func = matmul(4, 6, 5)
    sch = Schedule(func, seed=0)
    sch.split(sch.get_loops("C")[1], [None, 4])
    copy = sch.reindex("C", "C")
    text = body(sch.func)
    assert "C_reindex = T.alloc_buffer((4, 6))" in text
    assert "C_reindex[v_i, v_j] = T.float32(0)" in text
    assert "C[v_i, v_j] = C_reindex[v_i, v_j]" in text
    sch.reverse_compute_at(copy, sch.get_loops("C")[0])
    sch.decompose_reduction("C", sch.get_loops("C")[-1])
    finish(func, sch)


def test_an_intermediate_is_copied_behind_its_producer() -> None:
    func = transpose()
    sch = Schedule(func, seed=0)
    copy = sch.reindex("C", ("read", 0))
    names = [sch.get(b).name for b in sch.get_child_blocks("root")]
    assert names == ["B", "B_reindex", "C"]
    sch.compute_at(copy, sch.get_loops("C")[0])
    sch.compute_at("B", sch.get_loops(copy)[0])
    finish(func, sch)


@pytest.mark.parametrize("size", [0, 1, 5])
def test_symbolic_sizes(size: int) -> None:
    func = transpose(Var("m"), 3)
    sch = Schedule(func, seed=0)
    sch.reindex("C", ("read", 0))
    sch.reindex("B", ("write", 0))
    finish(func, sch, size)


def test_a_guarded_load_is_copied_where_it_is_inside() -> None:
    a = te.placeholder((5,), name="A")
    zero = const(0.0, "float32")

    def padded(i: Expr) -> Expr:
        inside = logical_and(i >= 1, i < 6)
        return call_intrin("if_then_else", inside, a[i - 1], zero)

    func = te.create_prim_func([a, te.compute((7,), padded, name="B")])
    sch = Schedule(func, seed=0)
    sch.reindex("B", ("read", 0))
    assert "if_then_else(v_i - 1 >= 0 and v_i - 1 < 5, A[v_i - 1]" in body(sch.func)
    finish(func, sch)


def test_an_update_and_a_second_writer() -> None:
    sch = Schedule(matmul(), seed=0)
    sch.decompose_reduction("C", sch.get_loops("C")[2])
    with pytest.raises(DependenceError, match="'C_update' updates 'C', which has its first value"):
        sch.reindex("C_update", ("write", 0))
    with pytest.raises(DependenceError, match="'C_update' writes 'C' too"):
        sch.reindex("C_init", ("write", 0))
    with pytest.raises(ScheduleValueError, match="'C_update' reads and writes 'C'; say"):
        sch.reindex("C_update", "C")


def test_users_in_the_same_loops() -> None:
    sch = Schedule(chain(), seed=0)
    sch.compute_at("B", sch.get_loops("C")[0])
    with pytest.raises(DependenceError, match="'C' reads 'B' in the same loops, before the copy"):
        sch.reindex("B", ("write", 0))
    with pytest.raises(DependenceError, match="'B' writes 'B' in the same loops; one copy before"):
        sch.reindex("C", ("read", 0))


def test_a_block_that_runs_for_a_part_only() -> None:
    sch = Schedule(linear_relu(4, 6, 3), seed=0)
    first, _ = sch.loop_partition(sch.get_loops("Z")[0], [2, None])
    assert first
    with pytest.raises(DependenceError, match="'Z_1' writes 'Z' too"):
        sch.reindex("Z", ("write", 0))
    partial = Schedule(half_written(), seed=0)
    with pytest.raises(DependenceError, match="cannot be proved that 'B' writes all that the copy"):
        partial.reindex("B", ("write", 0))


HOLES = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i, j in T.grid(3, 2):
        with T.block("B"):
            vi = T.axis.spatial(8, BINDING)
            B[vi] = A[vi]
"""


UNIT_LOOP = """
@T.prim_func
def main(A: T.Buffer((3, 2), "float32"), B: T.Buffer((3, 2), "float32")):
    for u, i, j in T.grid(1, 3, 2):
        with T.block("B"):
            vi = T.axis.spatial(3, i + u)
            vj = T.axis.spatial(2, j + u)
            B[vi, vj] = A[vi, vj]
"""


@pytest.mark.parametrize("binding", ["i * 3 + j", "i * i + j"])
def test_a_block_that_leaves_elements_out(binding: str) -> None:
    """The values of i * 3 + j are 0, 1, 3, 4, 6 and 7."""
    sch = Schedule(parse_func(HOLES.replace("BINDING", binding)), seed=0)
    with pytest.raises(DependenceError):
        sch.reindex("B", ("write", 0))


def test_a_loop_of_one_iteration_in_two_axes() -> None:
    func = parse_func(UNIT_LOOP)
    sch = Schedule(func, seed=0)
    sch.reindex("B", ("write", 0))
    assert_same(func, sch.func)


def half_written() -> PrimFunc:
    from_text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            T.where(i < 4)
            B[vi] = A[vi]
"""
    return parse_func(from_text)


def test_indices_that_are_loaded() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), K: T.Buffer((4,), "int64"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            B[vi] = A[K[vi]]
""")
    with pytest.raises(LayoutError, match=r"(loads the indices|does not read exactly one element)"):
        Schedule(func, seed=0).reindex("B", "A")


def test_what_an_init_reads_is_copied_too() -> None:
    x, b = te.placeholder((4, 5), name="X"), te.placeholder((4,), name="bias")
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((4,), lambda i: te.sum(x[i, k], axis=[k]), name="C")
    d = te.compute((4,), lambda i: c[i] + b[i], name="D")
    func = te.create_prim_func([x, b, d])
    sch = Schedule(func, seed=0)
    sch.fuse_reduction_epilogue("C", "D")
    sch.reindex("C", "bias")
    assert "D[v_i] = bias_reindex[v_i]" in body(sch.func)
    finish(func, sch)


TRIANGLE = """
for i in range(8):
    for k in range(i + 1):
        with T.block("Y"):
            vi = T.axis.spatial(8, i)
            vk = T.axis.spatial(i + 1, k)
            Y[vi, vk] = X[vk] + T.float32(1)
"""


def test_a_copy_is_not_put_around_the_loop_that_its_extents_depend_on() -> None:
    sch = Schedule(program(TRIANGLE, X="(8,)", Y="(8, 8)"), seed=0)
    before = sch.func
    with pytest.raises(DependenceError, match="uses 'i', which is bound further in"):
        sch.reindex("Y", ("read", 0))
    assert sch.func is before

from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.expr import Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.te import compute as te
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    body,
    chain,
    linear_relu,
    matmul,
    program,
)


@pytest.mark.parametrize("scope", ["global", "local"])
def test_cache_write_and_its_tile(scope: str) -> None:
    func = matmul(8, 6, 3)
    sch = Schedule(func, seed=0)
    c = sch.get_block("C")
    i, j, k = sch.get_loops(c)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 4])
    sch.reorder(i0, j0, k, i1, j1)
    copy = sch.cache_write(c, 0, scope)
    assert sch.get(copy).name == f"C_{scope}"
    sch.reverse_compute_at(copy, j0, preserve_unit_loops=True)
    sch.decompose_reduction(c, k)
    assert "T.where(j_0 * 4 + ax1 < 6)" in body(sch.func)
    assert_same(func, sch.func)


def test_cache_write_is_stored_before_the_next_user() -> None:
    func = matmul(4, 6, 5)
    sch = Schedule(func, seed=0)
    c = sch.get_block("C")
    init = sch.decompose_reduction(c, sch.get_loops(c)[1])
    copy = sch.cache_write(init, 0, "local")
    assert [sch.get(x).var.name for x in sch.get_loops(copy)] == ["i", "ax0", "ax1"]
    assert_same(func, sch.func)


def test_cache_write_of_an_intermediate() -> None:
    func = chain()
    sch = Schedule(func, seed=0)
    sch.cache_write("B", 0, "local")
    assert_same(func, sch.func)


def test_cache_write_of_a_piece_that_never_runs() -> None:
    """Its copy would overwrite what the other piece wrote."""
    func = te.placeholder((4, 3), name="A")
    sch = Schedule(te.create_prim_func([func, te.compute((4, 3), lambda i, j: func[i, j], "B")]))
    unit = sch.add_unit_loop("B")
    sch.loop_partition(unit, [1, None])
    before = sch.func
    with pytest.raises(DependenceError, match="'B_1' never runs: the loop 'u_p1' has no"):
        sch.cache_write("B_1", 0, "global")
    assert sch.func is before


def test_cache_write_with_a_symbolic_size() -> None:
    func = matmul(Var("m"), 4, 3)
    sch = Schedule(func, seed=0)
    i0, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.reverse_compute_at(sch.cache_write("C", 0, "local"), i0)
    for size in (0, 3, 8, 9):
        assert_same(func, sch.func, size)


def test_a_partial_sum_is_not_written_back() -> None:
    sch = Schedule(linear_relu(4, 4, 4), seed=0)
    sch.compute_inline("T")
    i, j, k = sch.get_loops("Y")
    sch.reorder(k, i, j)
    unchecked = Schedule(sch.func, seed=0, enable_checks=False)
    unchecked.reverse_compute_at("Z", unchecked.get_loops("Y")[0])
    with pytest.raises(DependenceError, match="inside the reduce loop 'k' of 'Y'"):
        unchecked.cache_write("Y", 0, "local")


def fork() -> PrimFunc:
    a = te.placeholder((4, 3), name="A")
    b = te.compute((4, 3), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((4, 3), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((4, 3), lambda i, j: b[i, j] * c[i, j], name="D")
    return te.create_prim_func([a, c, d])


def test_consumers_that_are_named_read_the_new_buffer() -> None:
    func = fork()
    sch = Schedule(func, seed=0)
    sch.cache_write("B", 0, "local", consumer_blocks=["C"])
    assert "C[v_i, v_j] = B_local[v_i, v_j] * T.float32(2)" in body(sch.func)
    assert "D[v_i, v_j] = B[v_i, v_j] * C[v_i, v_j]" in body(sch.func)
    assert_same(func, sch.func)
    again = Schedule(func, seed=0)
    type(sch.trace).from_json(sch.trace.as_json()).apply_to(again)
    assert_structural_equal(again.func, sch.func)
    output = Schedule(func, seed=0)
    output.cache_write("C", 0, "global", consumer_blocks=["D"])
    assert "D[v_i, v_j] = B[v_i, v_j] * C_global[v_i, v_j]" in body(output.func)
    assert_same(func, output.func)


def test_consumers_read_what_the_block_alone_wrote() -> None:
    func = fork()
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="'B' does not read 'C' after 'C'"):
        sch.cache_write("C", 0, "global", consumer_blocks=["B"])
    sch.loop_partition(sch.get_loops("C")[0], [3, None])
    with pytest.raises(DependenceError, match="'C' is written by 'C_1' too; 'D' would read"):
        sch.cache_write("C", 0, "global", consumer_blocks=["D"])
    assert_same(func, sch.func)
    part = program(
        """
for i in range(4):
    with T.block("B"):
        vi = T.axis.spatial(4, i)
        B[vi] = A[vi] + T.float32(1)
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi]
""",
        A="(8,)",
        B="(8,)",
        C="(8,)",
    )
    with pytest.raises(DependenceError, match="'B' writes a part of 'B', which 'C' may read bey"):
        Schedule(part, seed=0).cache_write("B", 0, "global", consumer_blocks=["C"])

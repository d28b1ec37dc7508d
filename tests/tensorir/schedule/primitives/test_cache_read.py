from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import (
    assert_same,
    blur,
    body,
    linear_relu,
    matmul,
    program,
)


def test_cache_read_of_an_input() -> None:
    func = matmul(4, 3, 2)
    sch = Schedule(func, seed=0)
    copy = sch.cache_read("C", 1, "global")
    assert sch.get(copy).name == "B_global"
    assert (
        body(sch.func)
        == """\
B_global = T.alloc_buffer((2, 3))
for ax0, ax1 in T.grid(2, 3):
    with T.block("B_global"):
        v0, v1 = T.axis.remap("SS", [ax0, ax1])
        T.reads(B[v0, v1])
        T.writes(B_global[v0, v1])
        B_global[v0, v1] = B[v0, v1]
for i, j, k in T.grid(4, 3, 2):
    with T.block("C"):
        v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
        T.reads(A[v_i, v_k], B_global[v_k, v_j])
        T.writes(C[v_i, v_j])
        with T.init():
            C[v_i, v_j] = T.float32(0)
        C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B_global[v_k, v_j]"""
    )
    assert_same(func, sch.func)


def test_cache_read_then_compute_at_takes_a_tile() -> None:
    func = matmul(8, 8, 8)
    sch = Schedule(func, seed=0)
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [2, 4])
    k0, k1 = sch.split(k, [2, 4])
    sch.reorder(i0, k0, i1, j, k1)
    sch.compute_at(sch.cache_read("C", 0, "local"), k0)
    assert "v0 = T.axis.spatial(8, i_0 * 4 + ax0)" in body(sch.func)
    assert "v1 = T.axis.spatial(8, k_0 * 4 + ax1)" in body(sch.func)
    assert_same(func, sch.func)


def test_cache_read_by_name_and_for_some_consumers() -> None:
    func = linear_relu(4, 4, 4)
    sch = Schedule(func, seed=0)
    sch.cache_read("T", "Y", "local", consumer_blocks=["T"])
    assert "Y_local[v_i, v_j] + B[v_j]" in body(sch.func)
    with pytest.raises(DependenceError, match="'Z' does not read 'Y'"):
        sch.cache_read("Y_local", "Y", "local", consumer_blocks=["Z"])
    assert_same(func, sch.func)


def test_cache_read_inside_shared_loops() -> None:
    func = blur(16)
    sch = Schedule(func, seed=0)
    c0, _ = sch.split(sch.get_loops("C")[0], [4, 4])
    sch.compute_at("B", c0)
    copy = sch.cache_read("C", "B", "local")
    assert [sch.get(x).var.name for x in sch.get_loops(copy)] == ["i_0", "ax0"]
    assert_same(func, sch.func)


def test_a_copy_stands_after_the_last_writer() -> None:
    func = program(
        """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi]
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi]
for i in range(8):
    with T.block("B_again"):
        vi = T.axis.spatial(8, i)
        B[vi] = T.float32(0)
""",
        A="(8,)",
        C="(8,)",
    )
    sch = Schedule(func, seed=0)
    sch.cache_read("C", "B", "local")
    assert [sch.get(sch.get_block(n)).reads[0].buffer.name for n in ("B_local", "C")] == [
        "B",
        "B_local",
    ]
    assert_same(func, sch.func)


BETWEEN = """
B = T.alloc_buffer((8,))
for i in range(8):
    with T.block("first"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi]
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        C[vi] = B[vi]
for i in range(8):
    with T.block("D"):
        vi = T.axis.spatial(8, i)
        D[vi] = B[7 - vi]
for i in range(8):
    with T.block("second"):
        vi = T.axis.spatial(8, i)
        B[vi] = B[vi] + T.float32(1)
for i in range(8):
    with T.block("E"):
        vi = T.axis.spatial(8, i)
        E[vi] = B[vi]
"""


def between() -> PrimFunc:
    return program(BETWEEN, A="(8,)", C="(8,)", D="(8,)", E="(8,)")


@pytest.mark.parametrize(
    ("block", "consumers", "users"),
    [("C", [], "CD"), ("D", [], "CD"), ("D", ["D"], "D"), ("C", ["D"], "D"), ("E", [], "E")],
)
def test_a_copy_between_writers(block: str, consumers: list[str], users: str) -> None:
    sch = Schedule(between(), seed=0)
    sch.cache_read(block, "B", "global", consumers)
    found = [n for n in "CDE" if sch.get(sch.get_block(n)).reads[0].buffer.name == "B_global"]
    assert "".join(found) == users
    assert_same(between(), sch.func)


def test_a_copy_between_writers_is_for_readers_that_no_writer_parts() -> None:
    with pytest.raises(DependenceError, match="A writer of the buffer stands between its readers"):
        Schedule(between(), seed=0).cache_read("C", "B", "global", ["D", "E"])


def test_a_copy_between_writers_within_a_loop() -> None:
    func = program(
        """
B = T.alloc_buffer((4, 8))
for i in range(4):
    for j in range(8):
        with T.block("first"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for j in range(8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, 7 - vj]
    for j in range(8):
        with T.block("second"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.float32(2)
for i, j in T.grid(4, 8):
    with T.block("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = B[vi, vj]
""",
        A="(4, 8)",
        C="(4, 8)",
        D="(4, 8)",
    )
    sch = Schedule(func, seed=0)
    sch.cache_read("C", "B", "global")
    assert [loop.var.name for loop in sch.get_loops("B_global")] == ["i", "ax0", "ax1"]
    assert sch.get_loops("B_global")[0].var is sch.get_loops("C")[0].var
    assert_same(func, sch.func)


def test_a_copy_before_its_table_is_there_takes_all() -> None:
    func = parse_func(
        """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6, 8), "float32")):
    B = T.alloc_buffer((6, 8))
    J = T.alloc_buffer((6,), "int64")
    for i in range(6):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        with T.block("J"):
            vi = T.axis.spatial(6, i)
            J[vi] = T.Select(vi < 6, vi, 0)
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[J[vi], vj]
"""
    )
    sch = Schedule(func, seed=0)
    copy = sch.cache_read("C", "B", "global")
    assert [sch.get(loop).extent.value for loop in sch.get_loops(copy)[1:]] == [6, 8]
    assert_same(func, sch.func)

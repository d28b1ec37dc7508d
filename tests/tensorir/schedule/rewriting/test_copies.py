from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import assert_same, chain, matmul, program


def test_unknown_buffers_and_scopes() -> None:
    sch = Schedule(matmul(), seed=0)
    with pytest.raises(
        ScheduleValueError, match=r"2 read buffers \('A', 'B'\); asked for number 2"
    ):
        sch.cache_read("C", 2, "global")
    with pytest.raises(ScheduleValueError, match="touches no buffer 'D'; it touches 'A', 'B', 'C'"):
        sch.cache_read("C", "D", "global")
    with pytest.raises(ScheduleValueError, match="writes no buffer 'A'; it writes 'C'"):
        sch.cache_write("C", "A", "global")
    with pytest.raises(ScheduleValueError, match="'B' only writes 'B'; name a block that reads it"):
        Schedule(chain(), seed=0).cache_read("B", "B", "global")
    with pytest.raises(ScheduleValueError, match="Expected a storage scope"):
        sch.cache_write("C", 0, "stack")


def test_an_update_is_cached_in_place_only() -> None:
    sch = Schedule(matmul(), seed=0)
    c = sch.get_block("C")
    with pytest.raises(DependenceError, match="'C' does not update 'C'"):
        sch.cache_inplace(c, 0, "local")
    sch.decompose_reduction(c, sch.get_loops(c)[2])
    with pytest.raises(DependenceError, match="use cache_inplace"):
        sch.cache_write(c, 0, "local")
    with pytest.raises(DependenceError, match="use cache_inplace"):
        sch.cache_read(c, 0, "local")


@pytest.mark.parametrize("primitive", ["cache_read", "cache_write", "cache_inplace"])
def test_the_root_has_no_copies(primitive: str) -> None:
    with pytest.raises(ScheduleValueError, match=f"{primitive}: The block 'root' is the root of"):
        getattr(Schedule(chain(), seed=0), primitive)("root", 0, "local")


LOOK_UP = """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), C: T.Buffer((6, 8), "float32")):
    B = T.alloc_buffer((6, 8))
    J = T.alloc_buffer((6,), "int64")
    for i, j in T.grid(6, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i in range(6):
        with T.block("J"):
            vi = T.axis.spatial(6, i)
            J[vi] = 5 - vi
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[J[vi], vj]
"""


def test_a_producer_moves_behind_the_table_that_says_what_is_needed() -> None:
    func = parse_func(LOOK_UP)
    sch = Schedule(func, seed=0)
    i = sch.get_loops("C")[0]
    with pytest.raises(ScheduleValueError, match="index must be -1, -2 or from 1 to 1"):
        sch.compute_at("B", i, index=0)
    sch.compute_at("B", i)
    assert_same(func, sch.func)


UPDATE = """
for i in range(4):
    with T.LetStmt(i * 8) as z:
        for j in range(8):
            with T.block("C"):
                v = T.axis.spatial(32, z + j)
                C[v] = C[v] + A[v]
"""


WINDOWS = """
B = T.alloc_buffer((32,))
for i in range(4):
    for j in range(8):
        with T.block("B"):
            v = T.axis.spatial(32, i * 8 + j)
            B[v] = A[v] * T.float32(2)
    with T.LetStmt(i * 8) as z:
        for j in range(8):
            with T.block("C"):
                v = T.axis.spatial(32, z + j)
                C[v] = B[v] + T.float32(1)
"""


def test_a_copy_is_not_put_outside_of_the_let_that_it_needs() -> None:
    refused = "uses 'z', which is bound further in"
    sch = Schedule(program(WINDOWS, A="(32,)", C="(32,)"), seed=0)
    before = sch.func
    with pytest.raises(DependenceError, match=f"that of 'B_global' {refused}"):
        sch.cache_read("C", "B", "global")
    with pytest.raises(DependenceError, match=f"that of 'B_global' {refused}"):
        sch.pack("C", "B", None, lambda v: (v // 4, v % 4))
    assert sch.func is before
    assert len(sch.trace) == 0
    sch = Schedule(program(UPDATE, A="(32,)", C="(32,)"), seed=0)
    before = sch.func
    with pytest.raises(DependenceError, match=f"that of 'C_local_1' {refused}"):
        sch.cache_inplace("C", "C", "local")
    with pytest.raises(DependenceError, match=f"that of 'C_local_1' {refused}"):
        sch.cache_inplace("C", "C", "local", sch.get_loops("C")[0])
    assert sch.func is before
    sch = Schedule(program(WINDOWS, A="(32,)", C="(32,)"), seed=0)
    before = sch.func
    with pytest.raises(DependenceError, match=f"that of 'C_local' {refused}"):
        sch.cache_write("C", 0, "local")
    assert sch.func is before


def test_a_copy_of_all_does_not_need_the_let() -> None:
    func = program(WINDOWS, A="(32,)", C="(32,)")
    sch = Schedule(func, seed=0)
    sch.cache_read("B", "A", "global")
    assert_same(func, sch.func)

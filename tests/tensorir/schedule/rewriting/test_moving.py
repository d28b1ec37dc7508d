from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import assert_same, chain, program


@pytest.mark.parametrize("primitive", ["compute_at", "reverse_compute_at"])
def test_the_root_does_not_move(primitive: str) -> None:
    sch = Schedule(chain(), seed=0)
    with pytest.raises(ScheduleValueError, match=f"{primitive}: The block 'root' is the root of"):
        getattr(sch, primitive)("root", sch.get_loops("C")[0])


CARRIED = """
@T.prim_func
def main(A: T.Buffer((6, 4), "float32"), C: T.Buffer((6, 4), "float32")):
    B = T.alloc_buffer((6, 4), "float32")
    D = T.alloc_buffer((6, 4), "float32")
    for i in range(6):
        for j in range(4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else(0 < vi, D[vi - 1, vj], T.float32(0))
        for j in range(4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = A[vi, vj] + T.float32(1)
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + A[vi, vj]
"""


def test_what_passes_from_one_iteration_to_the_next_does_not_move() -> None:
    sch = Schedule(parse_func(CARRIED), seed=0)
    with pytest.raises(DependenceError, match="'B' does not stand after its producers under 'j'"):
        sch.reverse_compute_at("B", sch.get_loops("D")[1])
    with pytest.raises(DependenceError, match="'D' does not stand before its consumers under 'j'"):
        sch.compute_at("D", sch.get_loops("B")[1])


def test_a_block_does_not_leave_its_condition_behind() -> None:
    sch = Schedule(
        parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        if A[0] > T.float32(0):
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                C[vi] = B[vi]
"""),
        seed=0,
    )
    with pytest.raises(DependenceError, match="under a condition"):
        sch.reverse_compute_at("C", sch.get_loops("B")[0])
    sch.compute_at("B", sch.get_loops("C")[0])


OVERWRITTEN = """
S = T.alloc_buffer((4,))
for i in range(3):
    for t in range(4):
        with T.block("S"):
            vt, vi = T.axis.remap("SS", [t, i])
            S[vt] = A[vi, vt]
    for t in range(4):
        with T.block("C"):
            vi, vt = T.axis.remap("SS", [i, t])
            C[vi, vt] = S[vt] * T.float32(2)
"""


def test_rows_that_overwrite_one_another_stay_in_their_iterations() -> None:
    func = program(OVERWRITTEN, A="(3, 4)", C="(3, 4)")
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="'S' writes the same elements in several iterations"):
        sch.compute_at("S", sch.get_loops("C")[1])
    assert sch.func is func
    sch.reverse_compute_at("C", sch.get_loops("S")[1])
    assert_same(func, sch.func)

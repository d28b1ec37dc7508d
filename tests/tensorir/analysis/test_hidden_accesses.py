from __future__ import annotations

from collections.abc import Callable

import pytest

from burnish.support.errors import DependenceError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, program

LENGTHS = """
P = T.alloc_buffer((4,), "int64")
for i in range(4):
    with T.block("P"):
        vi = T.axis.spatial(4, i)
        P[vi] = vi + T.int64(1)
"""
ROWS = """
for i in range(4):
    for j in range(P[i]):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.reduce(4, j)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vj]
for i in range(4):
    with T.block("D"):
        vi = T.axis.spatial(4, i)
        D[vi] = T.Cast("float32", P[vi])
"""


def ragged() -> PrimFunc:
    """The lengths of rows are computed, and are the extents of loops."""
    return program(LENGTHS + ROWS, A="(4,)", C="(4,)", D="(4,)")


def partly_bare() -> PrimFunc:
    """A statement stands in no block."""
    text = """
for i in range(8):
    with T.block("B"):
        vi = T.axis.spatial(8, i)
        B[vi] = A[vi]
    C[0] = B[i]
for i in range(8):
    with T.block("D"):
        vi = T.axis.spatial(8, i)
        D[vi] = C[0]
"""
    return program(text, A="(8,)", B="(8,)", C="(1,)", D="(8,)")


def viewed() -> PrimFunc:
    """A block uses a buffer and a view of it."""
    text = """
for i in range(8):
    with T.block("C"):
        vi = T.axis.spatial(8, i)
        T.reads(A[vi, 0:4])
        T.writes(C[vi, 0:4])
        B = T.alloc_buffer((4,))
        V = T.match_buffer(C[vi, 0:4], (4,), "float32", strides=[1], offset_factor=1)
        for j in range(4):
            with T.block("Z"):
                vj = T.axis.spatial(4, j)
                C[vi, vj] = A[vi, vj]
        for j in range(4):
            with T.block("B"):
                vj = T.axis.spatial(4, j)
                B[vj] = C[vi, 3 - vj]
        for j in range(4):
            with T.block("Y"):
                vj = T.axis.spatial(4, j)
                V[vj] = B[vj] + T.float32(1)
"""
    return program(text, A="(8, 4)", C="(8, 4)")


CASES: dict[str, tuple[Callable[[], PrimFunc], Callable[[Schedule], object], str]] = {
    "inline": (ragged, lambda s: s.compute_inline("P"), "'P' is read outside of every block"),
    "compute_at": (
        ragged,
        lambda s: s.compute_at("P", s.get_loops("D")[0]),
        "'P' is read outside of every block",
    ),
    "cache_write": (
        ragged,
        lambda s: s.cache_write("P", 0, "global"),
        "'P' is read outside of every block",
    ),
    "partition": (
        ragged,
        lambda s: s.loop_partition(s.get_loops("P")[0], [2, None]),
        "'P' is read outside of every block",
    ),
    "parallel": (
        partly_bare,
        lambda s: s.parallel(s.get_loops("B")[0]),
        "'C' is written by a statement that stands in no block",
    ),
    "merge": (
        partly_bare,
        lambda s: s.merge(s.get_loops("B")[0], s.get_loops("D")[0]),
        "'C' is written by a statement that stands in no block",
    ),
    "cache_read": (
        partly_bare,
        lambda s: s.cache_read("D", 0, "global"),
        "'C' is written by a statement that stands in no block",
    ),
    "inline a view": (viewed, lambda s: s.compute_inline("B"), "are views of one buffer"),
    "merge views": (
        viewed,
        lambda s: s.merge(s.get_loops("Z")[-1], s.get_loops("B")[-1], s.get_loops("Y")[-1]),
        "are views of one buffer",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_no_region_declares_is_not_overlooked(case: str) -> None:
    func, act, message = CASES[case]
    sch = Schedule(func(), seed=0)
    before = sch.func
    with pytest.raises(DependenceError, match=message):
        act(sch)
    assert sch.func is before


def test_extents_that_nobody_writes_are_in_nobodys_way() -> None:
    text = """
B = T.alloc_buffer((4,))
for i in range(4):
    with T.block("B"):
        vi = T.axis.spatial(4, i)
        B[vi] = A[vi] * T.float32(2)
for i in range(4):
    for j in range(T.Cast("int64", T.min(T.max(N[i], 1.0), 4.0))):
        with T.block("C"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.reduce(4, j)
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vj]
"""
    func = program(text, A="(4,)", N="(4,)", C="(4,)")
    sch = Schedule(func, seed=0)
    sch.cache_read("B", 0, "global")
    sch.compute_inline("B")
    assert_same(func, sch.func)


def test_a_block_with_views_moves_as_a_whole() -> None:
    func = viewed()
    sch = Schedule(func, seed=0)
    sch.parallel(sch.get_loops("C")[0])
    assert_same(func, sch.func)


def test_a_call_with_a_pointer_is_a_store_outside_of_blocks() -> None:
    text = """
with T.block("O"):
    T.reads(A[0:8])
    T.writes(D[0:8])
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    T.evaluate(T.call_extern("void", "f", C.access_ptr("w"), B.access_ptr("r")))
    for i in range(8):
        with T.block("D"):
            vi = T.axis.spatial(8, i)
            D[vi] = C[vi] + B[vi]
"""
    sch = Schedule(program(text, A="(8,)", D="(8,)"), seed=0)
    with pytest.raises(DependenceError, match="'C' is written by a statement that stands in no"):
        sch.compute_at("B", sch.get_loops("D")[0])

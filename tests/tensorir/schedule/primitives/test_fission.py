"""fission: a nest for each statement below a loop, the opposite of merge."""

from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, LoopKindError, NotAncestorError
from burnish.tensorir.schedule import LoopRV, Schedule
from burnish.tests.tensorir.schedule.programs import assert_same, blur, body, chain, program


def merged(m: int | str = 8) -> tuple[Schedule, LoopRV]:
    """The blocks of a chain under one loop over rows."""
    sch = Schedule(chain(m, 6), seed=0)
    return sch, sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])


def test_what_was_merged_comes_apart() -> None:
    sch, rows = merged()
    first, second = sch.fission(rows)
    assert [sch.get(x).var.name for x in (first, second)] == ["i_m_0", "i_m_1"]
    assert sch.get_loops("B")[0].var is first.var
    assert sch.get_loops("C")[0].var is second.var
    assert_same(chain(8, 6), sch.func)
    assert sch.get(sch.merge(first, second)).var.name == "i_m_0_m"


def test_a_tile_of_rows_moves_into_the_nests() -> None:
    func = chain(8, 6)
    sch, rows = merged()
    _, inner = sch.split(rows, [None, 2])
    for row in sch.fission(inner):
        block = sch.get_child_blocks(row)[0]
        sch.reorder(sch.get_loops(block)[-1], row)
        sch.unroll(row)
    text = body(sch.func)
    assert (
        "for i_m_0 in range(4):\n    for j in range(6):\n        for i_m_1_0 in T.unroll(2):"
        in text
    )
    assert_same(func, sch.func)
    other = Schedule(func, seed=1)
    sch.trace.apply_to(other)
    assert body(other.func) == text


def test_what_another_iteration_writes_stays_behind_it() -> None:
    func = program(
        """
        B = T.alloc_buffer((1,))
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi])
                T.writes(B[0])
                B[0] = A[vi]
            with T.block("C"):
                vi = T.axis.spatial(8, i)
                T.reads(B[0])
                T.writes(C[vi])
                C[vi] = B[0]
        """,
        A="(8,)",
        C="(8,)",
    )
    sch = Schedule(func, seed=0)
    with pytest.raises(DependenceError, match="'B' would come first"):
        sch.fission(sch.get_loops("C")[0])
    assert sch.func is func


def test_one_statement_and_loops_that_are_not_serial() -> None:
    sch = Schedule(blur(16), seed=0)
    with pytest.raises(NotAncestorError, match="There is one statement below 'i'"):
        sch.fission(sch.get_loops("B")[0])
    sch, rows = merged()
    sch.parallel(rows)
    with pytest.raises(LoopKindError):
        sch.fission(rows)

from __future__ import annotations

import pytest

from burnish.support.errors import DependenceError, LayoutError, ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import ROWS, blur, matmul, program


def test_names_and_sides() -> None:
    sch = Schedule(matmul(), seed=0)
    before = sch.func
    with pytest.raises(ScheduleValueError, match=r"Expected \('read', i\), \('write', i\) or a"):
        sch.reindex("C", ("in", 0))
    with pytest.raises(ScheduleValueError, match="touches no buffer 'X'; it touches 'A', 'B', 'C'"):
        sch.reindex("C", "X")
    with pytest.raises(ScheduleValueError, match=r"has 1 write buffers .'C'.; asked for number 1"):
        sch.reindex("C", ("write", 1))
    with pytest.raises(ScheduleValueError, match="Expected a storage scope"):
        sch.reindex_cache_write("C", 0, "stack", lambda i, j, k: (i, j))
    with pytest.raises(LayoutError, match="'C' does not read exactly one element of 'B'"):
        Schedule(blur(8), seed=0).reindex("C", ("read", 0))
    assert sch.func is before


LET_INSIDE = """
for i in range(8):
    with T.block("rows"):
        vi = T.axis.spatial(8, i)
        T.reads(X[vi * 4:vi * 4 + vi % 3 + 2])
        T.writes(Y[vi * 4:vi * 4 + vi % 3 + 2])
        with T.LetStmt(vi % 3 + 2) as z:
            for k in range(z):
                with T.block("Y"):
                    vk = T.axis.spatial(z, k)
                    Y[vi * 4 + vk] = X[vi * 4 + vk] + T.float32(1)
"""


def test_a_copy_is_not_put_in_front_of_the_let_that_it_needs() -> None:
    sch = Schedule(program(LET_INSIDE, X="(32,)", Y="(32,)"), seed=0)
    before = sch.func
    refused = "that of '{}' uses 'z', which is bound further in"
    with pytest.raises(DependenceError, match=refused.format("X_global")):
        sch.reindex_cache_read("Y", 0, "global", lambda k: (k // 2, k % 2))
    with pytest.raises(DependenceError, match=refused.format("Y_global")):
        sch.reindex_cache_write("Y", 0, "global", lambda k: (k,))
    with pytest.raises(DependenceError, match=refused.format("X_reindex")):
        sch.reindex("Y", ("read", 0))
    with pytest.raises(DependenceError, match=refused.format("Y_reindex")):
        sch.reindex("Y", ("write", 0))
    assert sch.func is before
    assert len(sch.trace) == 0


def test_a_copy_over_an_axis_without_a_greatest_extent() -> None:
    sch = Schedule(parse_func(ROWS), seed=0)
    before = sch.func
    with pytest.raises(LayoutError, match="The axis 'vk' of 'Y' has no known greatest extent"):
        sch.reindex_cache_read("Y", "X", "global", lambda k: (k,))
    with pytest.raises(LayoutError, match="The axis 'vk' of 'Y' has no known greatest extent"):
        sch.reindex("Y", ("read", 0))
    assert sch.func is before

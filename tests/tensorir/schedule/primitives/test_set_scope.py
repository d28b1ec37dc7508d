from __future__ import annotations

import pytest

from burnish.support.errors import ScheduleValueError
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.text.parser import parse_func
from burnish.tests.tensorir.schedule.programs import assert_same, body, chain


def test_set_scope() -> None:
    func = chain()
    sch = Schedule(func, seed=0)
    sch.set_scope("B", 0, "register")
    assert 'B = T.alloc_buffer((8, 6), scope="register")' in body(sch.func)
    with pytest.raises(ScheduleValueError, match="'C' is a parameter"):
        sch.set_scope("C", 0, "local")
    with pytest.raises(ScheduleValueError, match=r"Expected a storage scope, one of .*'stack'"):
        sch.set_scope("B", 0, "stack")
    with pytest.raises(ScheduleValueError, match=r"'B' has 1 write buffers \('B'\)"):
        sch.set_scope("B", 1, "local")
    assert_same(func, sch.func)


def test_a_view_has_the_scope_of_its_source() -> None:
    sch = Schedule(
        parse_func("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):
    for i in range(8):
        with T.block("row"):
            vi = T.axis.spatial(8, i)
            M = T.match_buffer(B[vi, 0:4], (4,))
            for j in range(4):
                with T.block("B"):
                    vj = T.axis.spatial(4, j)
                    M[vj] = A[vi, vj]
"""),
        seed=0,
    )
    with pytest.raises(ScheduleValueError, match="'M' is a view of another buffer"):
        sch.set_scope("B", 0, "local")
    with pytest.raises(ScheduleValueError, match="'B' is a parameter"):
        sch.set_scope("row", 0, "local")

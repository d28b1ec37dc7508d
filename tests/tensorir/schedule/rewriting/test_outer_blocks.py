from __future__ import annotations

import pytest

from burnish.support.errors import NonAffineError
from burnish.tensorir.schedule import Schedule
from burnish.tests.tensorir.schedule.programs import body, matmul


def test_an_axis_is_what_loops_above_and_below_contribute() -> None:
    sch = Schedule(matmul(8, 8, 8), seed=0)
    _, inner = sch.split(sch.get_loops("C")[2], [None, 4])
    block = sch.blockize(inner)
    assert [it.kind for it in sch.get(block).iter_vars] == ["spatial", "spatial", "reduce"]
    assert [it.dom.extent.value for it in sch.get(block).iter_vars] == [8, 8, 2]
    assert "T.reads(A[v_i_o, v_k_o * 4:v_k_o * 4 + 4]" in body(sch.func)


def test_a_tile_that_is_not_whole_is_no_block() -> None:
    sch = Schedule(matmul(8, 8, 8), seed=0)
    i, j, _ = sch.get_loops("C")
    _, inner = sch.split(sch.fuse(i, j), [None, 6])
    with pytest.raises(NonAffineError):
        sch.blockize(inner)
